"""What breaks elsewhere when runs are saved and go on, and what must hold here. Each test is named after what must hold; both engines."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, get_args

import numpy as np
import pytest
import torch
from checkpoint_samples import folder_hash, notices, state_hash

import shapescript
from shapescript.compiler.check.checker import check_source
from shapescript.engines import EngineName
from shapescript.runtime import saving
from shapescript.runtime.files import replace_file
from shapescript.runtime.sinks import MemorySink

RUN = """
data Row:
    id: int
    x: [2]

data Line:
    step: int
    first: int
    rate: float

model Net:
    FIRST: [2] = uniform(-1, 1)
    SECOND: [2] = uniform(-1, 1)

fn loss(m: Net, batch: Row[b]) -> []:
    return sum(sum(batch.x * m.w, over=b) * m.v, over=2)

fn first(ids: int[b]) -> int:
    return int(ids[b=0])

fn train(mut m: Net, mut opt: AdamW[Net], rows: Dataset[Row], sink: LogSink, begin: int, until: int, size: int, total: int, path: str):
    for batch in rows |> shuffle(0) |> part(begin, until) |> batches(size):
        rate = 0.1 * float(total - opt.step) / float(total)
        l, g = value_and_grad(loss(m, batch), wrt=m)
        update(mut m, mut opt, g, lr=rate)
        write(sink, Line(step=opt.step, first=first(batch.id), rate=rate))
    save(path, m=m, opt=opt, row=until, size=size, total=total, data=rows, sink=sink, keep=1)

fn resume(rows: Dataset[Row], sink: LogSink, until: int, size: int, total: int, force: bool, path: str) -> (Net, AdamW[Net]):
    newest = latest("a/*.pt")
    mut m, mut opt, row = load(newest, m=Net, opt=AdamW[Net], row=int, size=size, total=total, data=rows, sink=sink, force=force)
    train(mut m, mut opt, rows, sink, row, until, size, total, path)
    return m, opt
"""
ROWS, TOTAL = 64, 400


def text(first: str = "v", second: str = "w", rename: str = "") -> str:
    body = RUN.replace("FIRST", first).replace("SECOND", second)
    for name in (first, second):
        if name not in ("v", "w"):
            body = body.replace("m.v", f"m.{name}")
    return body.replace("force=force)", f"force=force{rename})")


class Runs:
    """One program, in one engine, and its runs in a folder."""

    def __init__(self, engine: EngineName, program_text: str) -> None:
        path = Path("program.ss")
        path.write_text(program_text)
        self.program: Any = shapescript.load(path, engine=engine)
        self.sink = MemorySink()
        Path("a").mkdir(exist_ok=True)

    def rows(self, count: int = ROWS, order: Any = None, change: float = 0.0) -> Any:
        ids = np.arange(count)
        x = np.random.default_rng(1).standard_normal((count, 2)).astype(np.float32)
        x[3, 1] += np.float32(change)
        order = ids if order is None else order
        return self.program.Row.dataset(id=ids[order], x=x[order])

    def start(self, until: int, path: str = "a/run.{step}.pt") -> tuple[Any, Any]:
        m = self.program.Net(seed=1)
        opt = shapescript.AdamW(m)
        self.program.train(m, opt, self.rows(), self.sink, 0, until, 4, TOTAL, path)
        return m, opt

    def resume(self, until: int, size: int = 4, total: int = TOTAL, force: bool = False, rows: Any = None, into: str = "a") -> Any:
        given = self.rows() if rows is None else rows
        return self.program.resume(given, self.sink, until, size, total, force, into + "/run.{step}.pt")

    def refused(self, *words: str, **changed: Any) -> shapescript.CheckpointError:
        """A resumed run that is refused: nothing on the disk or in the log has changed."""
        before, records = folder_hash(Path()), list(self.sink.records)
        with pytest.raises(shapescript.CheckpointError) as raised:
            self.resume(**{"until": ROWS, **changed})
        assert folder_hash(Path()) == before and self.sink.records == records
        assert all(word in raised.value.message for word in words), raised.value.message
        return raised.value

    @property
    def notes(self) -> list[str]:
        return [record.text for record in self.sink.records if "note" in dir(record)]


@pytest.fixture(params=get_args(EngineName))
def engine(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EngineName:
    monkeypatch.chdir(tmp_path)
    name: EngineName = request.param
    return name


def whole_run(engine: EngineName) -> tuple[str, list[Any]]:
    """The state and the log of a run that nothing stops, which has the same bytes in both engines."""
    runs = Runs(engine, text())
    m, opt = runs.start(ROWS, "whole.{step}.pt")
    Path("whole.16.pt").unlink()
    return state_hash(m, opt), runs.sink.records


# ---- 15. the length of a schedule that differs is refused, and told where it is forced


def test_another_schedule_length_is_refused_or_both_values_are_in_the_log(engine: EngineName) -> None:
    runs = Runs(engine, text())
    runs.start(20)
    error = runs.refused("total", "400 in the checkpoint, 800 in the program", "force=true", total=800)
    assert (error.kind, error.name, error.expected, error.found) == ("value", "total", 800, 400)
    with notices() as told:
        runs.resume(24, total=800, force=True)
    assert told == ["a/run.5.pt: forced: total: 400 in the checkpoint, 800 in the program"]
    assert runs.notes == ["total: 400 in the checkpoint, 800 in the program"]


# ---- 16. moments follow names, whatever the order of the declarations


def test_swapped_declarations_change_no_bit_and_a_renamed_one_is_named(engine: EngineName) -> None:
    wanted, log = whole_run(engine)
    runs = Runs(engine, text())
    runs.start(20)
    swapped = Runs(engine, text("w", "v"))
    swapped.sink = runs.sink
    with notices() as told:
        found = swapped.resume(ROWS)
    assert state_hash(*found) == wanted and swapped.sink.records == log
    assert told == ["a/run.5.pt: another program has saved it, or this one before it was changed"]
    renamed = Runs(engine, text("u", "w"))
    renamed.sink = runs.sink
    error = renamed.refused("missing u", "unexpected v")
    assert (error.kind, error.expected, error.found) == ("missing", ("u",), ("v",))


# ---- 17. nothing of an optimiser's state is silently absent


def test_the_first_update_after_a_resume_is_that_of_a_whole_run(engine: EngineName) -> None:
    whole = Runs(engine, text()).start(24, "whole.{step}.pt")
    runs = Runs(engine, text())
    runs.start(20)
    assert state_hash(*runs.resume(24)) == state_hash(*whole)


@pytest.mark.parametrize("part", ["step", "first", "second", "first.v"])
def test_a_missing_step_or_moment_is_refused(engine: EngineName, part: str) -> None:
    runs = Runs(engine, text())
    runs.start(20)
    tree = torch.load("a/run.5.pt", weights_only=True)
    entry, name = (tree["opt"]["first"], "v") if part == "first.v" else (tree["opt"], part)
    del entry[name]
    torch.save(tree, "a/run.5.pt")
    assert runs.refused(name).kind == "missing"


# ---- 20. the place in the data is counted in rows


def test_another_batch_size_is_refused_or_goes_on_at_the_same_row(engine: EngineName) -> None:
    runs = Runs(engine, text())
    runs.start(20)
    runs.refused("size", "4 in the checkpoint, 8 in the program", size=8)
    with notices():
        runs.resume(36, size=8, force=True)
    order = runs.rows().shuffle(0).batches(1)
    ids = [int(batch.id[0]) for batch in order]
    firsts = [record.first for record in runs.sink.records if "first" in dir(record)]
    assert firsts == [ids[row] for row in (0, 4, 8, 12, 16, 20, 28)]
    assert runs.notes == ["size: 4 in the checkpoint, 8 in the program"]


# ---- 22. an old checkpoint goes when the new one is safe, and not before


def test_a_disk_that_fills_leaves_the_old_checkpoint_with_keep_1(engine: EngineName, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Runs(engine, text())
    runs.start(20)
    before = folder_hash(Path())

    def full(path: Path, write: Callable[[BinaryIO], None]) -> None:
        def half(file: BinaryIO) -> None:
            file.write(b"half of it")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        replace_file(path, half)

    monkeypatch.setattr(saving, "replace_file", full)
    with pytest.raises(shapescript.CheckpointUnwritable, match=r"R1304: a/run.6.pt: .*No space left"):
        runs.resume(24)
    assert folder_hash(Path()) == before
    monkeypatch.setattr(saving, "replace_file", replace_file)
    runs.sink = MemorySink()
    with notices():
        runs.resume(24, force=True)
    assert os.listdir("a") == ["run.6.pt"]


def test_keep_0_does_not_compile() -> None:
    (found,) = check_source('fn f(step: int):\n    save("a.{step}.pt", step=step, keep=0)\n').diagnostics
    assert (found.code, found.span.text if found.span else "") == ("E0503", "0")


# ---- 23. the newest checkpoint is one that is whole


def damaged(whole: bytes) -> list[bytes]:
    cut = [whole[: len(whole) * part // 16] for part in range(16)]
    return [*cut, whole[:100] + bytes([whole[100] ^ 1]) + whole[101:]]


def test_a_damaged_newest_one_is_told_and_the_newest_whole_one_taken(engine: EngineName) -> None:
    runs = Runs(engine, text())
    runs.start(20)
    Path("b").mkdir()
    runs.resume(24, into="b")
    whole = Path("b/run.6.pt").read_bytes()
    for content in damaged(whole):
        Path("a/run.6.pt").write_bytes(content)
        with notices() as told:
            assert shapescript.latest_checkpoint("a/*.pt") == "a/run.5.pt"
        assert len(told) == 1 and told[0].startswith("a/run.6.pt: ") and "passed over" in told[0]
        with pytest.raises(shapescript.CheckpointError) as raised:
            shapescript.load_checkpoint("a/run.6.pt")
        assert (raised.value.code, raised.value.kind in ("truncated", "corrupt")) == ("R1302", True)
    runs.sink = MemorySink()
    with notices() as told:
        runs.resume(24, force=True, into="b")
    assert any(text.startswith("a/run.6.pt: ") for text in told) and Path("b/run.6.pt").exists()


# ---- 24. a save beside training writes the state at the call


def test_what_is_written_has_the_hash_of_the_state_at_the_call(engine: EngineName, monkeypatch: pytest.MonkeyPatch) -> None:
    program = Path("program.ss")
    program.write_text(
        "model Net:\n    w: [1000] = uniform(-1, 1)\n\n"
        "data Line:\n    step: int\n\n"
        "fn run(mut m: Net, mut opt: AdamW[Net], sink: LogSink, steps: int):\n"
        '    save("a.pt", m=m, opt=opt)\n'
        "    for i in 0..steps:\n"
        "        l, g = value_and_grad(sum(m.w * m.w, over=1000), wrt=m)\n"
        "        update(mut m, mut opt, g, lr=0.1)\n"
        "        write(sink, Line(step=i))\n"
    )
    free = threading.Event()

    class Freeing(MemorySink):
        def write(self, record_name: str, fields: Any) -> None:
            super().write(record_name, fields)
            if len(self.records) == 50:
                free.set()

    def slow(path: Path, write: Callable[[BinaryIO], None]) -> None:
        assert free.wait(60)
        replace_file(path, write)

    monkeypatch.setattr(saving, "replace_file", slow)
    loaded: Any = shapescript.load(program, engine=engine)
    m = loaded.Net(seed=1)
    opt = shapescript.AdamW(m)
    before = state_hash(m)
    loaded.run(m, opt, Freeing(), 50)
    found = shapescript.load_checkpoint("a.pt")
    fresh = loaded.Net(seed=2)
    fresh.load_state_dict(found["m"])
    assert state_hash(fresh) == before != state_hash(m) and (found["opt"]["step"], opt.step) == (0, 50)


# ---- 25. a run that goes on elsewhere leaves the folder that it came from


def test_resuming_into_another_folder_leaves_the_first_as_it_is(engine: EngineName) -> None:
    runs = Runs(engine, text())
    runs.start(20)
    before = folder_hash(Path("a"))
    Path("b").mkdir()
    for until in (24, 28):
        runs.sink = MemorySink()
        with notices():
            runs.resume(until, into="b", force=True)
    assert folder_hash(Path("a")) == before and os.listdir("b") == ["run.7.pt"]


# ---- 26. a lenient load says what it leaves


def test_a_missing_name_is_an_error_unless_it_is_partial_and_then_it_is_told(engine: EngineName) -> None:
    Path("p.ss").write_text(
        "model Old:\n    body: [2] = ones\n    haed: [2] = ones\n\n"
        "model Net:\n    body: [2] = zeros\n    head: [2] = zeros\n\n"
        "model Other:\n    tail: [2] = zeros\n\n"
        'fn save_it(m: Old):\n    save("a.pt", m=m)\n\n'
        'fn exact() -> Net:\n    return load("a.pt", m=Net)\n\n'
        'fn part(m: Net) -> Net:\n    return load("a.pt", m=m, partial=true)\n\n'
        'fn other(m: Other) -> Other:\n    return load("a.pt", m=m, partial=true)\n'
    )
    program: Any = shapescript.load("p.ss", engine=engine)
    program.save_it(program.Old(seed=1))
    with pytest.raises(shapescript.CheckpointError, match="missing head; unexpected haed; did you mean 'head'"):
        program.exact()
    with notices() as told:
        found = program.part(program.Net(seed=1))
    assert (found.body.tolist(), found.head.tolist()) == ([1, 1], [0, 0])
    assert told == [
        "a.pt: m: 1 of 2 parameters loaded: body; 1 missing in the file, and left as they were: head; "
        "1 unexpected in the file, and left out: haed (did you mean 'head'?)"
    ]
    with pytest.raises(shapescript.CheckpointError, match="nothing in the file") as raised:
        program.other(program.Other(seed=1))
    assert raised.value.kind == "missing"


# ---- 27. data that has changed is noticed


@pytest.mark.parametrize("change", ["row", "order", "value"])
def test_changed_data_is_refused_with_both_fingerprints_or_forced_and_noted(engine: EngineName, change: str) -> None:
    runs = Runs(engine, text())
    runs.start(20)
    rows = {
        "row": lambda: runs.rows(ROWS + 1),
        "order": lambda: runs.rows(order=np.arange(ROWS)[::-1]),
        "value": lambda: runs.rows(change=1e-3),
    }[change]()
    old, new = runs.rows().fingerprint(), rows.fingerprint()
    error = runs.refused(old, new, rows=rows)
    assert (error.name, error.kind) == ("data", "value")
    with notices() as told:
        runs.resume(24, rows=rows, force=True)
    assert len(told) == len(runs.notes) == 1 and old in runs.notes[0] and new in runs.notes[0]


# ---- 31. a renamed layer keeps its old checkpoints


def test_a_map_of_names_moves_parameters_and_moments(engine: EngineName) -> None:
    wanted, _ = whole_run(engine)
    runs = Runs(engine, text())
    runs.start(20)
    renamed = Runs(engine, text("x", "w", ', rename={"v": "x"}'))
    renamed.sink = runs.sink
    with notices():
        m, opt = renamed.resume(ROWS)
    back = Runs(engine, text()).program.Net(seed=9)
    back.load_state_dict(m.state_dict(), rename={"x": "v"})
    whole = Runs(engine, text()).start(ROWS, "whole.{step}.pt")
    assert state_hash(back) == state_hash(whole[0]) and state_hash(*whole) == wanted
    for slot in ("first", "second"):
        assert opt.moment(slot, "x").tobytes() == whole[1].moment(slot, "v").tobytes()
        assert opt.moment(slot, "w").tobytes() == whole[1].moment(slot, "w").tobytes()


def test_a_map_of_names_that_matches_nothing_is_refused(engine: EngineName) -> None:
    runs = Runs(engine, text())
    runs.start(20)
    renamed = Runs(engine, text("x", "w", ', rename={"vv": "x"}'))
    renamed.sink = runs.sink
    assert renamed.refused("rename", "'vv' renames nothing").kind == "missing"
