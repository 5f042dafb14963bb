"""Profiles from Python: that rows add up, what stays the same, what an ended call leaves, and which lines rows belong to."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from profile_programs import PROGRAM, counted, row, tensor
from waiting_records import NEVER, let_wait

import shapescript
from shapescript.compiler.check.checker import check_file
from shapescript.compiler.codegen.lower_function import lower_function
from shapescript.compiler.codegen.measurement import Column, Event, Measured
from shapescript.compiler.codegen.program import NativeFunction, compile_function, llvm_text
from shapescript.compiler.codegen.target import host
from shapescript.compiler.codegen.thread_count import asked_for
from shapescript.compiler.ir.nodes import Function
from shapescript.compiler.passes.pipeline import compile_entry
from shapescript.runtime.sinks import MemorySink


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("profile") / "program.ss"
    file.write_text(PROGRAM)
    return file


@pytest.fixture(scope="module")
def program(file: Path) -> Any:
    return shapescript.load(file)


# ---- adding up


class Records:
    """Calls of one function, as they are recorded."""

    def __init__(self, room: int = 1000) -> None:
        self.wanted, self.calls = room, list[Measured]()

    def room(self) -> int:
        return self.wanted

    def record(self, call: Measured) -> None:
        self.calls.append(call)


def final(file: Path, name: str) -> Function:
    program = check_file(file, {})
    assert program.module is not None
    return compile_entry(program.module, program.functions[name][0].key, {})


@pytest.fixture(scope="module")
def repeated(file: Path) -> NativeFunction:
    """Its rows: the function, a copy, the loop, the product."""
    return compile_function(final(file, "repeated"), host(), profile=True)


def test_rows_are_the_call_to_the_tick(repeated: NativeFunction) -> None:
    records = Records()
    for turns in (0, 1, 20):
        repeated.run([tensor(8, 8), turns], None, records)  # type: ignore[arg-type]
    for call, turns in zip(records.calls, (0, 1, 20), strict=True):
        assert call.table[:, Column.TICKS].sum() == call.ended - call.began > 0
        assert (call.table[:, Column.TICKS] >= 0).all() and call.table[:, Column.CALLS].tolist() == [1, 1, 1, turns]


def test_events_lie_in_the_call_and_in_each_other(repeated: NativeFunction) -> None:
    records = Records()
    repeated.run([tensor(8, 8), 20], None, records)  # type: ignore[arg-type]
    (call,) = records.calls
    copy, loop, *turns = call.events.tolist()
    assert [event[Event.ROW] for event in call.events.tolist()] == [1, 2, *[3] * 20]
    times = [time for turn in turns for time in turn[Event.BEGAN :]]
    assert (
        times == sorted(times)
        and call.began <= copy[Event.ENDED] <= loop[Event.BEGAN] <= times[0]
        and times[-1] <= loop[Event.ENDED] <= call.ended
    )
    spent = sum(turn[Event.ENDED] - turn[Event.BEGAN] for turn in turns)
    assert spent == call.table[3, Column.TICKS]


@pytest.mark.parametrize("room", [0, 1, 7])
def test_no_more_events_are_kept_than_there_is_room(repeated: NativeFunction, room: int) -> None:
    records = Records(room)
    repeated.run([tensor(8, 8), 20], None, records)  # type: ignore[arg-type]
    (call,) = records.calls
    assert len(call.events) == room and call.table[:, Column.CALLS].sum() == 23
    assert (call.events[:, Event.ENDED] > call.events[:, Event.BEGAN]).all()


def test_a_profile_adds_up_and_is_sorted(program: Any) -> None:
    with shapescript.profile() as p:
        program.repeated(tensor(8, 8), 50)
        program.product(tensor(64, 64), tensor(64, 64))
    rows = p.rows
    assert [one.seconds for one in rows] == sorted((one.seconds for one in rows), reverse=True)
    assert sum(one.seconds for one in rows) == pytest.approx(p.native_seconds)
    assert sum(p.outside.values()) + p.native_seconds == pytest.approx(p.seconds)
    assert {"Python"} <= set(p.outside) <= {"compiling", "Python"}


@pytest.mark.parametrize("threads", [1, 3])
def test_a_row_tells_how_many_threads_share_in_it(program: Any, threads: int) -> None:
    with asked_for(threads, grain=1), shapescript.profile() as p:
        program.product(tensor(600, 600), tensor(600, 600))
    assert (row(p.rows, "contraction").threads, row(p.rows, "product").threads) == (threads, 1)


def test_the_innermost_profile_measures(program: Any) -> None:
    with shapescript.profile() as outer:
        program.product(tensor(2, 3), tensor(3, 4))
        with shapescript.profile() as inner:
            program.product(tensor(2, 3), tensor(3, 4))
            program.product(tensor(2, 3), tensor(3, 4))
        program.product(tensor(2, 3), tensor(3, 4))
    program.product(tensor(2, 3), tensor(3, 4))
    assert (outer.calls, inner.calls) == (2, 2)


def test_profiles_may_end_in_any_order(program: Any) -> None:
    one, other = shapescript.profile(), shapescript.profile()
    one.__enter__(), other.__enter__()
    one.__exit__(None, None, None)
    program.product(tensor(2, 3), tensor(3, 4))
    other.__exit__(None, None, None)
    program.product(tensor(2, 3), tensor(3, 4))
    assert (one.calls, other.calls) == (0, 1)


def test_a_profile_measures_once(program: Any) -> None:
    """A second time would add its calls to those of a time that is over."""
    with shapescript.profile() as p:
        program.product(tensor(2, 3), tensor(3, 4))
    seconds = p.seconds
    with pytest.raises(RuntimeError, match=r"a profile measures once: make another with profile\(\)"), p:
        pass
    program.product(tensor(2, 3), tensor(3, 4))
    assert (p.calls, p.seconds) == (1, seconds)


@pytest.mark.parametrize("events", [-1, 10_000_001, 1.5, "many"])
def test_numbers_of_events_that_cannot_be_kept_are_refused(events: Any) -> None:
    with pytest.raises(ValueError, match="events: expected a whole number up to 10000000, got "):
        shapescript.profile(events=events)


# ---- what stays the same


def test_a_measured_call_has_the_same_bits(program: Any) -> None:
    def outcome(measured: bool) -> list[bytes]:
        m = program.Net(seed=1)
        rows = program.Row.dataset(x=tensor(37, 3), label=np.arange(37) % 4)
        with shapescript.profile() if measured else nullcontext():
            found = [program.activated(tensor(70, 50), tensor(50, 30), tensor(30)), program.chained(tensor(9, 33), tensor(33))]
            total = program.trained(m, shapescript.AdamW(m), rows)
        return [*(array.tobytes() for array in found), np.float64(total).tobytes(), m["weight"].tobytes()]

    assert outcome(True) == outcome(False)


def texts(function: Function) -> tuple[str, str]:
    """Without and with measuring."""
    return llvm_text(function, host()), str(lower_function(function, host(), profile=True).module)


def test_an_ordinary_function_reads_the_clock_only_to_poll_and_while_callers_rest(file: Path) -> None:
    """Once at the start, once in each loop, and where work is shared out; a measured one around each operation too."""
    ordinary, measured = texts(final(file, "trained"))
    clock, probe = r"call i64 @.*(?:cycle|steady)counter", r"call .*@.?profile\."
    assert len(re.findall(clock, ordinary)) == 3 and not re.search(probe, ordinary) and "profile" not in ordinary
    assert len(re.findall(clock, measured)) > 3 and len(re.findall(probe, measured)) > 10


# ---- calls that don't come to their end


class Interrupting(MemorySink):
    """A sink whose third record is a Ctrl-C."""

    def write(self, record: str, fields: Any) -> None:
        if len(self.records) == 2:
            raise KeyboardInterrupt
        super().write(record, fields)


def test_an_interrupted_call_tells_what_ran(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    let_wait(monkeypatch, NEVER)
    with pytest.raises(KeyboardInterrupt), shapescript.profile() as p:
        program.logged(tensor(8, 8), Interrupting(), 10)
    assert row(p.rows, "contraction").calls == row(p.rows, "write").calls == 3
    assert counted(p.rows, "contraction")[1] == 3 * 2 * 8**3
    assert sum(one.seconds for one in p.rows) == pytest.approx(p.native_seconds)
    (call,) = p.kept
    assert (call.events[:, Event.ENDED] >= call.events[:, Event.BEGAN]).all()
    assert (call.events[:, Event.ENDED] == call.ended).sum() == 2  # the loop and the record that it was left in


def test_a_failed_call_tells_what_ran_and_the_next_one_begins_anew(program: Any) -> None:
    rows, wrong = (program.Row.dataset(x=tensor(4, 3), label=np.array(labels)) for labels in ([0, 1, 2, 3], [0, 1, 2, 9]))
    with shapescript.profile() as failed, pytest.raises(shapescript.DataError, match="R1101"):
        program.trained(program.Net(seed=1), shapescript.AdamW(program.Net(seed=1)), wrong)
    assert failed.calls == 1 and row(failed.rows, "for_batches").calls == 1
    with shapescript.profile() as p:
        m = program.Net(seed=1)
        program.trained(m, shapescript.AdamW(m), rows)
    assert counted(p.rows, "update")[0] == 2 and "compiling" not in p.outside


def test_a_call_refused_before_it_begins_is_none(program: Any) -> None:
    with shapescript.profile() as p, pytest.raises(shapescript.ArgumentError):
        program.product(tensor(2, 3), tensor(4, 4))
    assert (p.calls, p.rows) == (0, [])


# ---- where rows come from


def test_a_fused_kernel_belongs_to_the_line_that_most_of_it_came_from(tmp_path: Path) -> None:
    text = "fn f(x: [n]) -> [n]:\n    y = x + 1.0\n    z = (y * y - x) * y\n    return z / 3.0\n"
    (tmp_path / "lines.ss").write_text(text)
    with shapescript.profile() as p:
        shapescript.load(tmp_path / "lines.ss").f(tensor(10))
    origin = row(p.rows, "kernel").origin
    assert (origin.line, origin.text, origin.others) == (3, "z = (y * y - x) * y", 2)
    assert str(origin).endswith("lines.ss:3 +2")


def test_the_reference_evaluator_is_not_measured(file: Path) -> None:
    program = shapescript.load(file, engine="numpy")
    with shapescript.profile() as p:
        program.product(tensor(2, 3), tensor(3, 4))
    assert p.calls == 0


def test_the_machine_has_a_peak() -> None:
    with shapescript.profile() as p:
        pass
    assert p.machine.flops > p.machine.flops_f64 > 0 and p.machine.bytes > 0
