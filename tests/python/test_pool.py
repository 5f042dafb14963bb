"""The pool of worker threads: each share of a job is done once, by whoever comes; who sleeps is waked; who stops has stopped."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from kernel_harness import CONTROL_WORDS, control_function
from llvmlite import ir

from shapescript.compiler.codegen import emit, jit
from shapescript.compiler.codegen.emit import F32, I64, at
from shapescript.compiler.codegen.machine import clock
from shapescript.compiler.codegen.pool import CLOCK, NOTHING, SHARE
from shapescript.compiler.codegen.pool_block import LINE, WORKER_LINES, Place, Worker
from shapescript.compiler.codegen.pool_rest import LONGEST_REST
from shapescript.compiler.codegen.target import host
from shapescript.compiler.codegen.workers import Pool

PATIENCE = 30.0  # seconds until something that should happen is taken not to
AWAKE = 1 << 62  # ticks that a worker looks for work: it sleeps no more


@pytest.fixture(params=["futex", "pipe"])
def pool(request: pytest.FixtureRequest) -> Iterator[Pool]:
    made = Pool(host(), uses_futex=None if request.param == "futex" else False)
    yield made
    threads = list(made.threads)
    made.stop()
    assert not made.threads and not any(thread.is_alive() for thread in threads)


@pytest.fixture(scope="module")
def counting() -> Any:
    """A job that adds 1 to number `share` of the I64 numbers that its context is."""
    return job(lambda b, numbers, share: b.atomic_rmw("add", at(b, numbers, share, I64), I64(1), "seq_cst"))


def job(body: Callable[[Any, Any, Any], object]) -> Any:
    """A module whose function `job` is what `body(builder, context, share)` emits."""
    module = ir.Module("job")
    b = ir.IRBuilder(ir.Function(module, ir.FunctionType(*SHARE), "job").append_basic_block("entry"))
    body(b, *b.function.args)
    b.ret_void()
    return jit.compile_module(str(module), host())


def meet(b: Any, arrived: Any, shares: int) -> None:
    """Wait until so many shares of a job have come here: they run at the same time. `arrived` counts them through all jobs."""
    number = b.atomic_rmw("add", arrived, I64(1), "seq_cst")
    wanted = b.mul(b.add(b.sdiv(number, I64(shares)), I64(1)), I64(shares))
    look, over = b.append_basic_block("look"), b.append_basic_block("over")
    b.branch(look)
    b.position_at_end(look)
    b.cbranch(b.icmp_signed(">=", b.load_atomic(arrived, "seq_cst", 8, typ=I64), wanted), over, look)
    b.position_at_end(over)


def pool_clock(pool: Pool) -> Callable[[], int]:
    """The clock that the pool's callers read."""
    found: Callable[[], int] = pool._code.function(CLOCK, [], ctypes.c_int64)
    return found


def forks(pool: Pool, job: int) -> Callable[[Any, int], None]:
    return lambda counts, shares: pool.fork(job, counts.ctypes.data, shares)


def eventually(what: Callable[[], bool]) -> bool:
    """Whether it's seen to hold, once: a worker that has just been waked is no longer what it was a moment before."""
    end = time.monotonic() + PATIENCE
    while not (holds := what()) and time.monotonic() < end:
        time.sleep(0.001)
    return holds


def asleep(pool: Pool) -> bool:
    """Whether all workers are."""
    return all(pool.block[Place.WORKERS + number * WORKER_LINES * LINE + Worker.ASLEEP] == 1 for number in range(1, len(pool.threads) + 1))


# ---- the pool


def test_each_share_is_done_once(pool: Pool, counting: Any) -> None:
    fork = forks(pool, counting.address("job"))
    assert pool.ensure(5) == 5
    for shares in range(1, 9):  # more than there are threads, too
        counts = np.zeros(shares, np.int64)
        for turn in range(1, 301):
            fork(counts, shares)
            assert (counts == turn).all(), (shares, turn)


def test_workers_sleep_when_there_is_nothing_to_do(pool: Pool, counting: Any) -> None:
    fork, counts = forks(pool, counting.address("job")), np.zeros(3, np.int64)
    pool.ensure(3)
    for turn in range(1, 6):
        assert eventually(lambda: asleep(pool))
        fork(counts, 3)
        assert (counts == turn).all()


def test_a_worker_that_starts_late_does_no_old_job(pool: Pool, counting: Any) -> None:
    fork, counts = forks(pool, counting.address("job")), np.zeros(4, np.int64)
    fork(counts, 4)  # before there is any worker
    pool.ensure(4)
    assert eventually(lambda: asleep(pool))
    assert counts.tolist() == [1] * 4
    fork(counts, 2)  # those beyond the second sleep on
    assert counts.tolist() == [2, 2, 1, 1]


def test_a_waked_worker_helps(pool: Pool) -> None:
    """Two shares that wait for each other end. Who is awake need not be waked."""
    code = job(lambda b, arrived, share: meet(b, arrived, 2))
    pool.ensure(2)
    assert eventually(lambda: asleep(pool))
    pool.block[Place.SPIN] = AWAKE
    forks(pool, code.address("job"))(np.zeros(1, np.int64), 2)
    assert eventually(lambda: not asleep(pool))


def test_each_thread_begins_with_the_share_of_its_number(pool: Pool) -> None:
    """So what a share works on stays in its core's caches. Each share tells the stack that it runs on, then waits for all others."""
    threads, rounds, near = 4, 12, 1 << 16  # bytes of a stack

    def tell(b: Any, context: Any, share: Any) -> None:
        stack = b.ptrtoint(emit.stack(b, I64, 1), I64)
        emit.store(b, stack, at(b, context, b.add(share, I64(1)), I64))
        meet(b, context, threads)

    code, seen = job(tell), np.zeros((rounds, threads + 1), np.int64)
    assert pool.ensure(threads) == threads
    pool.block[Place.SPIN] = AWAKE
    for numbers in seen:
        pool.fork(code.address("job"), numbers.ctypes.data, threads)
    stacks = seen[:, 1:]
    assert (stacks == stacks[0]).all()
    assert (np.diff(np.sort(stacks[0])) > near).all()


def call(pool: Pool, number: int) -> None:
    """A worker, which doesn't sleep, as a caller does; gives it time to come."""
    pool.block[Place.WORKERS + number * WORKER_LINES * LINE + Worker.TICKET] += 1
    time.sleep(0.02)


def test_a_late_worker_takes_no_share_of_another_job(pool: Pool, counting: Any) -> None:
    """One that was called for a job of four comes when there is one of two; or when the next one is being written."""
    fork, counts = forks(pool, counting.address("job")), np.zeros(4, np.int64)
    pool.ensure(4)
    pool.block[Place.SPIN] = AWAKE
    fork(counts, 4)
    fork(counts, 2)
    call(pool, 3)
    assert counts.tolist() == [2, 2, 1, 1]
    pool.block[Place.EPOCH] += 1
    call(pool, 1)
    pool.block[Place.EPOCH] -= 1
    assert counts.tolist() == [2, 2, 1, 1]
    fork(counts, 4)
    assert counts.tolist() == [3, 3, 2, 2]


ALONE = 500  # times SPIN: some 0.1 s


@pytest.mark.parametrize(
    ("last", "first_takes", "times", "more", "rests"),
    [
        pytest.param(1, 0, 20, ALONE, True, id="a worker takes far longer"),
        pytest.param(1, ALONE // 3, 2, 0, False, id="a worker takes three times as long"),  # the caller alone: twice
        pytest.param(0, 0, 20, ALONE, False, id="the caller takes far longer"),
    ],
)
def test_callers_rest_when_the_caller_had_been_done_much_sooner_alone(
    pool: Pool, last: int, first_takes: int, times: int, more: int, rests: bool
) -> None:
    """Two shares meet; one goes on for `first_takes`, the other so many times as long as the first has taken, and `more`."""
    arrived, begun, ended, first_ticks, more_ticks = range(5)

    def work(b: Any, context: Any, share: Any) -> None:
        def word(place: int) -> Any:
            return at(b, context, place, I64)

        def wait(until: Callable[[], Any]) -> None:
            look, over = b.append_basic_block("look"), b.append_basic_block("over")
            b.branch(look)
            b.position_at_end(look)
            b.cbranch(until(), over, look)
            b.position_at_end(over)

        def wait_for(since: Any, ticks: Any) -> None:
            wait(lambda: b.icmp_signed(">", b.sub(clock(b, host()), since), ticks))

        with b.if_then(b.icmp_signed("==", share, I64(0))):
            b.atomic_rmw("xchg", word(begun), clock(b, host()), "seq_cst")
        meet(b, word(arrived), 2)
        with b.if_else(b.icmp_signed("!=", share, I64(last))) as (first, other):
            with first:
                wait_for(clock(b, host()), emit.load(b, word(first_ticks), I64))
                b.atomic_rmw("xchg", word(ended), clock(b, host()), "seq_cst")
            with other:
                wait(lambda: b.icmp_signed("!=", b.load_atomic(word(ended), "seq_cst", 8, typ=I64), I64(0)))
                since, over = (emit.load(b, word(place), I64) for place in (begun, ended))
                wait_for(over, b.add(b.mul(b.sub(over, since), I64(times)), emit.load(b, word(more_ticks), I64)))

    code, read, words, spin = job(work), pool_clock(pool), np.zeros(5, np.int64), int(pool.block[Place.SPIN])
    words[first_ticks], words[more_ticks] = first_takes * spin, more * spin
    assert pool.ensure(2) == 2
    forks(pool, code.address("job"))(words, 2)
    rest, now = int(pool.block[Place.REST]), read()
    assert bool(rest) == rests
    assert rest <= now + LONGEST_REST * spin
    if rests:
        assert rest >= words[ended] + words[more_ticks] + LONGEST_REST * spin
        forks(pool, pool._code.address(NOTHING))(words, 2)  # a job's start ends it
        assert not pool.block[Place.REST]


@pytest.mark.parametrize("starter", CONTROL_WORDS[1:], ids=["flush", "toward zero"])
def test_workers_have_an_environment_of_their_own(pool: Pool, starter: int) -> None:
    """A thread inherits rounding and flushing from the one that starts it, which may have been given others by any library."""

    def work(b: Any, context: Any, share: Any) -> None:
        place = b.gep(context, [b.add(b.shl(share, I64(1)), I64(1))], inbounds=True, source_etype=I64)
        tiny, third = (at(b, place, number, F32) for number in range(2))
        emit.store(b, b.fmul(emit.load(b, tiny, F32), emit.constant(0.5, F32)), tiny)
        emit.store(b, b.fdiv(emit.load(b, third, F32), emit.constant(3.0, F32)), third)
        meet(b, context, 2)

    code, read, write = job(work), control_function(False), control_function(True)
    numbers = np.zeros(5, np.int64)
    numbers[1:].view(np.float32)[::4], numbers[1:].view(np.float32)[1::4] = 2.0**-126, 2.0
    before, during = np.zeros(1, np.int64), np.array([starter])
    read(before.ctypes.data)
    try:
        write(during.ctypes.data)
        pool.ensure(2)
    finally:
        write(before.ctypes.data)
    forks(pool, code.address("job"))(numbers, 2)
    found = numbers[1:].view(np.float32).reshape(2, 4)[:, :2]
    assert (found == [np.float32(2.0**-127), np.float32(2.0) / np.float32(3.0)]).all()


def test_workers_take_no_signals(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    masks: list[Any] = []
    monkeypatch.setattr(pool, "_work", lambda *_: masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, [])))
    pool.ensure(2)
    assert eventually(lambda: bool(masks))
    assert {signal.SIGINT, signal.SIGTERM} <= masks[0]


def test_a_system_without_threads_does_the_work_alone(pool: Pool, counting: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert pool.ensure(4) == 1
    counts = np.zeros(3, np.int64)
    forks(pool, counting.address("job"))(counts, 3)
    assert counts.tolist() == [1, 1, 1]


def test_a_start_that_fails_leaves_nothing_behind(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise OSError("too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pipe", refuse)
        assert pool.ensure(3) == (3 if pool.block[Place.FUTEX] else 1)
    opened: list[int] = []
    monkeypatch.setattr(os, "pipe", lambda make=os.pipe: opened.append(1) or make())
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", lambda _: (_ for _ in ()).throw(RuntimeError("can't start new thread")))
        for _ in range(5):
            pool.ensure(4)
    assert pool.ensure(4) == 4
    assert len(opened) == (0 if pool.block[Place.FUTEX] else 3)


def test_a_pool_that_a_call_has_is_not_stopped(counting: Any) -> None:
    pool = Pool(host())
    pool.ensure(2)
    assert pool.take() and not pool.take()
    pool.stop()
    assert pool.threads[0].is_alive()
    pool.block[Place.TAKEN] = 0
    pool.stop()
    assert not pool.threads
