"""The pool of worker threads, how many there are, and the same bytes with any number of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import copy_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llvmlite import ir
from test_programs import CASES, Case, batches

import shapescript
from shapescript.compiler.codegen import jit, thread_count, workers
from shapescript.compiler.codegen.emit import I64, at
from shapescript.compiler.codegen.pool import LINE, SHARE, WORKER_LINES, Place, Worker
from shapescript.compiler.codegen.target import host
from shapescript.compiler.codegen.thread_count import asked_for, default_threads, quota_cores
from shapescript.compiler.codegen.workers import Pool

PATIENCE = 30.0  # seconds until something that should happen is taken not to


@pytest.fixture(params=["futex", "pipe"])
def pool(request: pytest.FixtureRequest) -> Iterator[Pool]:
    made = Pool(host(), uses_futex=None if request.param == "futex" else False)
    yield made
    made.stop()
    assert not made.threads


@pytest.fixture(scope="module")
def counting() -> Any:
    """A job that adds 1 to number `share` of the I64 numbers that its context is."""
    module = ir.Module("counting")
    b = ir.IRBuilder(ir.Function(module, ir.FunctionType(*SHARE), "count").append_basic_block("entry"))
    b.atomic_rmw("add", at(b, b.function.args[0], b.function.args[1], I64), I64(1), "seq_cst")
    b.ret_void()
    return jit.compile_module(str(module), host())


def forks(pool: Pool, job: int) -> Callable[[Any, int], None]:
    return lambda counts, shares: pool.fork(job, counts.ctypes.data, shares)


def eventually(what: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE
    while not what() and time.monotonic() < end:
        time.sleep(0.001)
    return what()


def asleep(pool: Pool) -> bool:
    """Whether all workers are."""
    return all(pool.block[Place.WORKERS + number * WORKER_LINES * LINE + Worker.ASLEEP] == 1 for number in range(1, len(pool.threads) + 1))


# ---- the pool


def test_each_share_is_done_once(pool: Pool, counting: Any) -> None:
    fork = forks(pool, counting.address("count"))
    assert pool.ensure(5) == 5
    for shares in range(1, 9):  # more than there are threads, too
        counts = np.zeros(shares, np.int64)
        for turn in range(1, 301):
            fork(counts, shares)
            assert (counts == turn).all(), (shares, turn)


def test_workers_sleep_when_there_is_nothing_to_do(pool: Pool, counting: Any) -> None:
    fork, counts = forks(pool, counting.address("count")), np.zeros(3, np.int64)
    pool.ensure(3)
    for turn in range(1, 6):
        assert eventually(lambda: asleep(pool))
        fork(counts, 3)
        assert (counts == turn).all()


def test_a_worker_that_starts_late_does_no_old_job(pool: Pool, counting: Any) -> None:
    fork, counts = forks(pool, counting.address("count")), np.zeros(4, np.int64)
    fork(counts, 4)  # before there is any worker
    pool.ensure(4)
    assert eventually(lambda: asleep(pool))
    assert counts.tolist() == [1] * 4
    fork(counts, 2)  # those beyond the second sleep on
    assert counts.tolist() == [2, 2, 1, 1]


def test_a_waked_worker_helps(pool: Pool) -> None:
    """Two shares that wait for each other end: they run at the same time."""
    module = ir.Module("meeting")
    b = ir.IRBuilder(ir.Function(module, ir.FunctionType(*SHARE), "meet").append_basic_block("entry"))
    cell = b.function.args[0]
    b.atomic_rmw("add", cell, I64(1), "seq_cst")
    look, over = b.append_basic_block("look"), b.append_basic_block("over")
    b.branch(look)
    b.position_at_end(look)
    b.cbranch(b.icmp_signed(">=", b.load_atomic(cell, "seq_cst", 8, typ=I64), I64(2)), over, look)
    b.position_at_end(over)
    b.ret_void()
    code = jit.compile_module(str(module), host())
    pool.ensure(2)
    assert eventually(lambda: asleep(pool))
    forks(pool, code.address("meet"))(np.zeros(1, np.int64), 2)


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
    forks(pool, counting.address("count"))(counts, 3)
    assert counts.tolist() == [1, 1, 1]


# ---- calls

PROGRAM = Path(__file__).parent / "programs" / "threads" / "wide.ss"


@pytest.fixture(scope="module")
def wide() -> Any:
    return shapescript.load(PROGRAM).wide


def numbers(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def test_calls_from_several_threads_share_one_pool(wide: Any) -> None:
    x, y = numbers(65, 40), numbers(40, 33)
    with asked_for(1):
        wanted = wide(x, y).tobytes()
    found: list[bytes] = []

    def work() -> None:
        with asked_for(3, grain=1):
            found.extend(wide(x, y).tobytes() for _ in range(50))

    callers = [threading.Thread(target=work) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(PATIENCE)
    assert found == [wanted] * 200


def test_small_work_starts_no_thread() -> None:
    code = """
import threading, numpy as np, shapescript, sys
f = shapescript.load(sys.argv[1]).wide
x = np.ones((4, 4), np.float32)
with shapescript.threads(4):
    f(x, x)
    print(threading.active_count())
    large = np.ones((512, 512), np.float32)
    f(large, large)
    print(threading.active_count())
with shapescript.threads(1):
    f(large, large)
"""
    assert run_alone(code).split() == ["1", "4"]


def run_alone(code: str, **environment: str) -> str:
    """What a process of its own prints, which must end by itself."""
    command = [sys.executable, "-c", code, os.fspath(PROGRAM)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_child_of_a_fork_has_workers_of_its_own() -> None:
    code = """
import os, sys, threading, numpy as np, shapescript
from shapescript.compiler.codegen.thread_count import asked_for
f = shapescript.load(sys.argv[1]).wide
x = np.arange(256 * 256, dtype=np.float32).reshape(256, 256) / 65536
with asked_for(3, grain=1):
    wanted = f(x, x).tobytes()
    child = os.fork()
    same = all(f(x, x).tobytes() == wanted for _ in range(20))
    if child == 0:
        os._exit(0 if same and threading.active_count() == 3 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0 and same
"""
    run_alone(code)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_same_bytes_with_any_number_of_threads(case: Case, tmp_path: Path) -> None:
    """Every kernel is shared out, however small."""
    program = case.load(tmp_path)

    def trained() -> Any:
        m, mode = getattr(program, case.model)(seed=1), shapescript.Train(seed=3)
        opt = shapescript.AdamW(m, decay=case.decay)
        losses = [program.one_step(m, opt, batch, mode) for batch in batches(case, program, 6)]
        return losses, {name: array.tobytes() for name, array in m.state_dict().items()}

    with asked_for(1):
        wanted = trained()
    for count in (2, 3, 8):
        with asked_for(count, grain=1):
            assert trained() == wanted, count


# ---- how many


def test_threads_holds_for_the_calls_within() -> None:
    with shapescript.threads(3):
        assert thread_count.threads_now()[0] == 3
        with shapescript.threads(2):
            assert thread_count.threads_now()[0] == 2
        assert thread_count.threads_now()[0] == 3
        assert copy_context().run(thread_count.threads_now)[0] == 3


@pytest.mark.parametrize("count", [0, -1, 257, 1.5, "2", None])
def test_a_number_of_threads_that_cannot_be(count: Any) -> None:
    wanted = "R1007: threads: expected a whole number from 1 to 256"
    with pytest.raises(shapescript.ArgumentError, match=wanted) as raised, shapescript.threads(count):
        pass
    assert isinstance(raised.value, ValueError)


def test_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHAPESCRIPT_THREADS", " 5 ")
    assert default_threads.__wrapped__() == 5
    for text in ("none", "0", "257", "-2", "1.5"):
        monkeypatch.setenv("SHAPESCRIPT_THREADS", text)
        with pytest.raises(ValueError, match=f"SHAPESCRIPT_THREADS: expected a whole number from 1 to 256, got '?{text}"):
            default_threads.__wrapped__()
    code = "import sys, numpy as np, shapescript\ntry: shapescript.load(sys.argv[1]).wide(np.ones((1, 1), 'f4'), np.ones((1, 1), 'f4'))\n"
    code += "except shapescript.ArgumentError as error: print(error.code)"
    assert run_alone(code, SHAPESCRIPT_THREADS="many").strip() == "R1007"


def test_without_the_variable_it_is_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHAPESCRIPT_THREADS", raising=False)
    monkeypatch.setattr(thread_count, "usable_cores", lambda: 6)
    for quota, wanted in ((None, 6), (4, 4), (9, 6)):
        monkeypatch.setattr(thread_count, "quota_cores", lambda quota=quota: quota)
        assert default_threads.__wrapped__() == wanted


VERSION_1 = "cpu,cpuacct/x/cpu.cfs"


@pytest.mark.parametrize(
    ("groups", "files", "wanted"),
    [
        ("0::/a/b\n", {"a/b/cpu.max": "150000 100000\n", "a/cpu.max": "400000 100000\n"}, 1),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "400000 100000\n"}, 4),
        ("0::/\n", {"cpu.max": "50000 100000\n"}, 1),
        ("0::/\n", {}, None),
        ("4:memory:/x\n3:cpu,cpuacct:/x\n", {f"{VERSION_1}_quota_us": "300000\n", f"{VERSION_1}_period_us": "100000\n"}, 3),
        ("3:cpu,cpuacct:/x\n", {f"{VERSION_1}_quota_us": "-1\n", f"{VERSION_1}_period_us": "100000\n"}, None),
        ("nonsense\n", {"cpu.max": "what is this\n"}, None),
    ],
)
def test_quotas_of_control_groups(tmp_path: Path, groups: str, files: dict[str, str], wanted: int | None) -> None:
    own, root = tmp_path / "cgroup", tmp_path / "fs"
    own.write_text(groups)
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    assert quota_cores(root, own) == wanted


def test_a_process_ends_while_workers_sleep_or_look() -> None:
    code = """
import sys, numpy as np, shapescript
f = shapescript.load(sys.argv[1]).wide
x = np.ones((512, 512), np.float32)
with shapescript.threads(4):
    f(x, x)
"""
    run_alone(code)
    run_alone(code + "import time; time.sleep(0.05)\n")


def test_a_system_that_is_not_posix_has_calls_on_one_thread(wide: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = numbers(65, 40), numbers(40, 33)
    with asked_for(1):
        wanted = wide(x, y).tobytes()
    monkeypatch.setattr(workers.PROCESS, "ready", lambda count: 0)
    monkeypatch.setattr(workers.os, "name", "nt")
    with asked_for(3, grain=1):
        assert wide(x, y).tobytes() == wanted


def test_the_pool_of_a_process_is_one() -> None:
    assert workers.PROCESS.started(host(), 2) is workers.PROCESS.started(host(), 3)
    assert workers.PROCESS.ready(3) and not workers.PROCESS.ready(256)


def test_a_pool_that_a_call_has_is_not_stopped(counting: Any) -> None:
    pool = Pool(host())
    pool.ensure(2)
    assert pool.take() and not pool.take()
    pool.stop()
    assert pool.threads[0].is_alive()
    pool.block[Place.TAKEN] = 0
    pool.stop()
    assert not pool.threads


def test_a_process_ends_while_another_thread_of_its_runs_a_call() -> None:
    code = """
import sys, threading, numpy as np, shapescript
from shapescript.compiler.codegen.thread_count import asked_for
f = shapescript.load(sys.argv[1]).wide
x = np.ones((300, 300), np.float32)
begun = threading.Event()

def work():
    with asked_for(3, grain=1):
        while True:
            f(x, x)
            begun.set()

threading.Thread(target=work, daemon=True).start()
begun.wait()
"""
    for _ in range(3):
        run_alone(code)
