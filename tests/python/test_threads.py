"""Calls by several threads: the same bytes with any number of them, in forked and ending processes too; and how many there are."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from contextvars import copy_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_programs import CASES, Case, batches

import shapescript
from shapescript.compiler.codegen import thread_count, workers
from shapescript.compiler.codegen.pool import CLOCK
from shapescript.compiler.codegen.pool_block import Place
from shapescript.compiler.codegen.target import host
from shapescript.compiler.codegen.thread_count import asked_for, default_threads, quota_cores

PATIENCE = 30.0  # seconds until something that should happen is taken not to


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


def test_a_call_beside_one_that_has_the_pool_works_alone(wide: Any) -> None:
    x, y = numbers(65, 40), numbers(40, 33)
    pool = workers.PROCESS.started(host(), 3)
    assert pool is not None
    with asked_for(3, grain=1):
        wanted, before = wide(x, y).tobytes(), int(pool.block[Place.EPOCH])
        assert wide(x, y).tobytes() == wanted
        between = int(pool.block[Place.EPOCH])
        assert pool.take()
        try:
            assert wide(x, y).tobytes() == wanted
        finally:
            pool.block[Place.TAKEN] = 0
    assert int(pool.block[Place.EPOCH]) == between > before


def test_callers_that_rest_work_alone(wide: Any) -> None:
    x, y = numbers(300, 200), numbers(200, 300)
    pool = workers.PROCESS.started(host(), 3)
    assert pool is not None

    def jobs() -> int:
        before = int(pool.block[Place.EPOCH])
        with asked_for(3, grain=1000):
            found.append(wide(x, y).tobytes())
        return int(pool.block[Place.EPOCH]) - before

    found: list[bytes] = []
    pool.block[Place.REST] = 0  # whatever calls before this one have met
    assert jobs() > 0
    spin = int(pool.block[Place.SPIN])
    pool.block[Place.SPIN] = 1 << 50  # so long a rest may be
    pool.block[Place.REST] = pool._code.function(CLOCK, [], ctypes.c_int64)() + (1 << 50)
    try:
        assert jobs() == 0
    finally:
        pool.block[Place.SPIN], pool.block[Place.REST] = spin, 0
    assert jobs() > 0
    assert len(set(found)) == 1


def test_a_product_of_few_columns_is_shared_out_by_rows(tmp_path: Path) -> None:
    """A weight that each share packs; its columns are one panel, or three."""
    source = tmp_path / "rows.ss"
    source.write_text("dim Out = 40\n\nfn rows(x: [m k], w: [Out k]) -> [m Out]:\n    return einsum(x, w: m k, Out k -> m Out)\n")
    rows, x, w = shapescript.load(source).rows, numbers(400, 24), numbers(40, 24)
    pool = workers.PROCESS.started(host(), 8)
    assert pool is not None
    with asked_for(1):
        wanted = rows(x, w).tobytes()
    for count in (2, 3, 8):
        with asked_for(count, grain=1):
            assert rows(x, w).tobytes() == wanted
        assert pool.block[Place.SHARES] == count


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
