"""The block of 64-bit words through which the pool's workers and callers know of each other.

A cache line (LINE words) for each thing that is written often:

    EPOCH      the job's number, odd while a job is being written; its function, context and shares lie in the line behind
    FINISHED   how many shares of the job are done
    TAKEN      1 while a caller has the pool: a second caller, or a nested one, works alone
    REST       the clock's reading up to which work isn't shared out, behind TAKEN; 0 for none
    fixed      STOP, addresses and numbers that Python fills in once (Place)
    then for each worker, the caller being number 0, two lines: its ticket, which says that there is a job for it, and whether it sleeps;
               and the last job whose share of this number has been claimed
"""

from __future__ import annotations

from enum import IntEnum

LINE = 8  # words of a cache line
WORKER_LINES = 2


class Place(IntEnum):
    """Words of the block."""

    EPOCH = 0
    FUNCTION = LINE
    CONTEXT = LINE + 1
    SHARES = LINE + 2
    FINISHED = 2 * LINE
    TAKEN = 3 * LINE
    REST = 3 * LINE + 1
    STOP = 4 * LINE
    SPIN = 4 * LINE + 1  # clock ticks that a worker looks for a job before it sleeps
    FUTEX = 4 * LINE + 2  # the number of the system call, 0 where there is none and pipes are used
    SYSCALL = 4 * LINE + 3  # addresses
    READ = 4 * LINE + 4
    WRITE = 4 * LINE + 5
    YIELD = 4 * LINE + 6
    FORK = 4 * LINE + 7  # of this module's function
    WORKERS = 5 * LINE


class Worker(IntEnum):
    """Words of a worker, from its first on."""

    TICKET = 0
    ASLEEP = 1
    READ_END = 2  # of its pipe
    WRITE_END = 3
    CLAIMED = LINE


def block_words(workers: int) -> int:
    """Words of the block of a pool with so many workers, the caller counted."""
    return Place.WORKERS + workers * WORKER_LINES * LINE
