"""How many shares a kernel's work is cut into: by the threads of the call, the units, and the work; and when the workers are started."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from kernel_harness import native

from shapescript.compiler.codegen.context import HEADER_WORDS, Word
from shapescript.compiler.codegen.emit import I64, PTR
from shapescript.compiler.codegen.lowering import HOST_FAILED, START_WORKERS
from shapescript.compiler.codegen.machine import clock
from shapescript.compiler.codegen.pool_block import Place, block_words
from shapescript.compiler.codegen.pool_rest import LONGEST_REST
from shapescript.compiler.codegen.split import shares_of
from shapescript.compiler.codegen.target import host

LEFT = -7
BLOCK = np.zeros(block_words(1), np.int64)  # of a pool without workers
A_POOL = BLOCK.ctypes.data

Answer = Callable[[Any], None]  # what Python does to the context's words when it is asked for workers


@pytest.fixture(scope="module")
def compiled() -> Any:
    """shares_of(units, work) for the words of a context, LEFT where the function is left."""

    def body(b: Any, given: Any) -> Any:
        context, units, work = given

        def leave(site: int) -> None:
            assert site == HOST_FAILED
            b.ret(I64(LEFT))

        low = SimpleNamespace(module=b.module, target=host(), b=b, context=context, probes=None, leave=leave)
        return shares_of(low, units, work)  # type: ignore[arg-type]

    return native(host(), [PTR, I64, I64], body, I64)


def shares(
    compiled: Any, threads: int, units: int, work: int, answer: Answer | None = None, pool: int = 0, grain: int = 1000
) -> tuple[int, int]:
    """And how often Python was asked for workers."""
    words, asked = np.zeros(HEADER_WORDS, np.int64), []

    @ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    def callback(request: int) -> int:
        asked.append(request)
        assert answer is not None
        answer(words)
        return 0

    words[Word.THREADS], words[Word.GRAIN], words[Word.POOL] = threads, grain, pool
    words[Word.CALLBACK] = ctypes.cast(callback, ctypes.c_void_p).value or 0
    found = int(compiled(words, units, work))
    assert set(asked) <= {START_WORKERS}
    return found, len(asked)


CASES = [
    (1, 100, 50_000, 1),
    (4, 0, 50_000, 1),
    (4, 1, 50_000, 1),
    (4, 100, 0, 1),
    (4, 100, 1999, 1),
    (4, 100, 2000, 2),
    (4, 100, 3999, 3),
    (4, 3, 50_000, 3),
    (4, 100, 50_000, 4),
    (256, 1 << 40, 1 << 62, 256),
]


def started(threads: int) -> Answer:
    def answer(words: Any) -> None:
        words[Word.ANSWERED], words[Word.POOL], words[Word.THREADS] = 1, A_POOL, threads

    return answer


@pytest.mark.parametrize(("threads", "units", "work", "wanted"), CASES)
def test_no_more_than_threads_units_and_work_allow(compiled: Any, threads: int, units: int, work: int, wanted: int) -> None:
    assert shares(compiled, threads, units, work, pool=A_POOL) == (wanted, 0)
    assert shares(compiled, threads, units, work, started(threads)) == (wanted, int(wanted > 1))


LONG = 1 << 40  # ticks: some minutes


@pytest.mark.parametrize(
    ("left", "grain", "wanted"), [(LONG, 1000, 1), (LONG, 1, 4), (-LONG, 1000, 4), (LONG << 20, 1000, 4), (None, 1000, 4)]
)
def test_callers_that_rest_share_nothing(compiled: Any, left: int | None, grain: int, wanted: int) -> None:
    """But where each kernel is to be shared out, as in tests; and not for longer than any rest: then the clock has gone back."""
    block, now = np.zeros(block_words(1), np.int64), native(host(), [], lambda b, _: clock(b, host()), I64)
    block[Place.SPIN] = LONG // LONGEST_REST + 1
    block[Place.REST] = 0 if left is None else now() + left
    assert shares(compiled, 4, 100, 50_000, pool=block.ctypes.data, grain=grain) == (wanted, 0)


def test_a_system_that_gives_fewer_threads(compiled: Any) -> None:
    assert shares(compiled, 4, 100, 50_000, started(2)) == (2, 1)
    assert shares(compiled, 4, 100, 50_000, started(1)) == (1, 1)


def test_a_system_without_a_pool(compiled: Any) -> None:
    def answer(words: Any) -> None:
        words[Word.ANSWERED], words[Word.THREADS] = 1, 1

    assert shares(compiled, 4, 100, 50_000, answer) == (1, 1)


def test_a_start_that_fails_ends_the_call(compiled: Any) -> None:
    assert shares(compiled, 4, 100, 50_000, lambda words: None) == (LEFT, 1)
