"""The process's pool of worker threads: started when a job first wants them, asleep between jobs, gone after a fork of the process.

A worker is a Python thread that stays in native code (pool.py) and holds no GIL. It takes no signals, which are for the main thread, and
is a daemon: what ends it is STOP, set when the interpreter leaves.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from shapescript.compiler.codegen.loading import NativeCode, load_object
from shapescript.compiler.codegen.memory import aligned
from shapescript.compiler.codegen.pool import CLOCK, FORK, NOTHING, TAKE, WORKER, pool_module
from shapescript.compiler.codegen.pool_block import LINE, WORKER_LINES, Place, Worker, block_words
from shapescript.compiler.codegen.target import Target
from shapescript.compiler.codegen.thread_count import MOST_THREADS

SPIN_SECONDS = 200e-6  # a step's pieces of serial work are shorter; from sleep a worker needs some 5 to 60 µs
FUTEX_CALLS = {"x86_64": 202, "aarch64": 98}  # Linux's numbers of the system call


def pool_object(target: Target, lowered: Callable[[], None] = lambda: None) -> bytes:
    """The pool's machine code, for `load_object`. `lowered` is called when LLVM's part begins."""
    from shapescript.compiler.codegen.jit import emit_loadable  # LLVM: what a cache gives does without

    text = str(pool_module(target))
    lowered()
    return emit_loadable(text, target)


def compiled_pool(target: Target) -> NativeCode:
    return load_object(pool_object(target), target)


class Pool:
    """The block that native code knows, and the threads; `uses_futex` is given by tests alone."""

    def __init__(self, target: Target, uses_futex: bool | None = None, code: Callable[[Target], NativeCode] = compiled_pool) -> None:
        self.block: Any = aligned(8 * block_words(MOST_THREADS)).view(np.int64)
        self.block[:] = 0
        self.address: int = self.block.ctypes.data
        self.threads: list[threading.Thread] = []
        self._code = code(target)
        self._work = self._code.function(WORKER, [ctypes.c_void_p, ctypes.c_int64])
        self._fork = self._code.function(FORK, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64])
        self._take = self._code.function(TAKE, [ctypes.c_void_p], ctypes.c_int64)
        self._pipes: list[int] = []
        self._starting = threading.Lock()
        self._fill(target, uses_futex)

    def _fill(self, target: Target, uses_futex: bool | None) -> None:
        library = ctypes.CDLL(None)
        number = FUTEX_CALLS.get(os.uname().machine, 0) if sys.platform == "linux" else 0
        self.block[Place.FUTEX] = 0 if uses_futex is False else number
        for place, name in ((Place.SYSCALL, "syscall"), (Place.READ, "read"), (Place.WRITE, "write"), (Place.YIELD, "sched_yield")):
            self.block[place] = ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
        self.block[Place.FORK] = self._code.address(FORK)
        self.block[Place.SPIN] = int(SPIN_SECONDS * self._ticks_a_second())

    def _ticks_a_second(self) -> float:
        """Of the clock that workers read, measured in a millisecond."""
        read = self._code.function(CLOCK, [], ctypes.c_int64)
        begun, first = time.perf_counter(), read()
        while (elapsed := time.perf_counter() - begun) < 1e-3:
            pass
        ticks: int = read() - first
        return ticks / elapsed

    def ensure(self, count: int) -> int:
        """Have threads enough for `count`, the caller counted; gives how many there are, which is fewer where the system gives none."""
        with self._starting:
            while len(self.threads) + 1 < min(count, MOST_THREADS):
                if not self._start(len(self.threads) + 1):
                    break
            return len(self.threads) + 1

    def _start(self, number: int) -> bool:
        thread = threading.Thread(target=self._run, args=(number,), name=f"shapescript worker {number}", daemon=True)
        try:
            if not self.block[Place.FUTEX] and len(self._pipes) < 2 * number:  # else it's there from a start that failed
                self._make_pipe(number)
            thread.start()
        except (OSError, RuntimeError):  # no more files, no more threads
            return False
        self.threads.append(thread)
        return True

    def _make_pipe(self, number: int) -> None:
        ends = os.pipe()
        os.set_blocking(ends[1], False)  # a worker that has been waked often and hasn't come yet
        self._pipes += ends
        first = Place.WORKERS + number * WORKER_LINES * LINE
        self.block[first + Worker.READ_END], self.block[first + Worker.WRITE_END] = ends

    def _run(self, number: int) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        self._work(self.address, number)

    def fork(self, job: int, context: int, shares: int) -> None:
        """Do all shares of a job, a function at this address; its caller must have the pool to itself."""
        self._fork(self.address, job, context, shares)

    def take(self) -> bool:
        """Whether no call had the pool; then nobody else gets it any more."""
        return bool(self._take(self.address))

    def stop(self) -> None:
        """Ends the workers. Where a call still has the pool, in a thread that nobody waits for, they are left to the end of the process."""
        if not self.take():
            return
        self.block[Place.STOP] = 1
        self.fork(self._code.address(NOTHING), 0, len(self.threads) + 1)  # a job wakes them
        for thread in self.threads:
            thread.join(timeout=1.0)
        for end in self._pipes:
            os.close(end)
        self.threads, self._pipes = [], []


class _Process:
    """The pool of this process, made when a job first wants it. `code` gives its machine code: who has a cache puts it in front."""

    def __init__(self) -> None:
        self.code: Callable[[Target], NativeCode] = compiled_pool
        self.making = threading.Lock()
        self.pool: Pool | None = None
        self.lost: list[Pool] = []  # those of the processes that this one was forked from

    def started(self, target: Target, count: int) -> Pool | None:
        """With threads for `count`, or as many as the system gives; None where it isn't POSIX: calls stay on one thread there."""
        if os.name != "posix":
            return None
        with self.making:
            if self.pool is None:
                self.pool = Pool(target, code=self.code)
                atexit.register(self.stop)
            self.pool.ensure(count)
            return self.pool

    def ready(self, count: int) -> int:
        """The address of the pool's block where it has threads for `count`, else 0."""
        pool = self.pool
        return pool.address if pool is not None and len(pool.threads) + 1 >= count else 0

    def stop(self) -> None:
        if self.pool is not None:
            self.pool.stop()
            self.pool = None

    def forget(self) -> None:
        """In a child no thread of its parent's runs: it makes its own pool when it needs one. A call that goes on in the child keeps to
        the old block, whose jobs it does alone."""
        self.making = threading.Lock()
        if self.pool is not None:
            self.lost.append(self.pool)
            atexit.unregister(self.stop)
            self.pool = None


PROCESS = _Process()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=PROCESS.forget)
