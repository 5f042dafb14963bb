"""Programs that load files of each kind: the same numbers as from arrays, in both engines, and the same errors."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from both_engines import contents
from fed_data import own_threads

import shapescript
from shapescript.cli import main

COUNT, ROWS = 2, 200
PROGRAM = """
dim D = 2

data Point:
    x: [D]
    n: int

data Bare:
    x: [D]

data Seen:
    n: int

fn scan(points: Dataset[Point], k: int, prefetch: int) -> (float, int):
    mut total = 0.0
    mut mixed = 0
    for batch in points |> shuffle(k) |> batches(64, prefetch=prefetch):
        total = total * 0.5 + sum(sum(batch.x, over=D), over=batch)
        mixed = mixed * 31 + int(sum(batch.n, over=batch))
    return total, mixed

fn of_file(path: str) -> (float, int):
    return scan(load_data[Point](path), 3, 4)

fn of_fields(x: str, n: str) -> (float, int):
    return scan(load_data[Point](n=n, x=x), 3, 4)

fn of_one(path: str) -> float:
    mut total = 0.0
    for batch in load_data[Bare](path) |> shuffle(0) |> batches(64, prefetch=4):
        total = total + sum(sum(batch.x, over=D), over=batch)
    return total

fn seen(path: str, prefetch: int, sink: LogSink):
    for batch in load_data[Point](path) |> batches(4, prefetch=prefetch):
        write(sink, Seen(n=int(max(batch.n, over=batch))))

fn whole(path: str) -> (float, int):
    points = load_data[Point](path)
    return mean(mean(points.all.x, over=D), over=rows), points.count
"""
KINDS = ["a.npz", "a.csv", "a.parquet", "a.arrow", "a.feather"]


def arrays() -> dict[str, Any]:
    draw = np.random.default_rng(4)
    return {"x": draw.standard_normal((ROWS, COUNT)).astype(np.float32), "n": draw.integers(-(2**62), 2**62, ROWS)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, and the same examples in files of each kind beside it."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "program.ss").write_text(PROGRAM)
    held = arrays()
    np.savez(folder / "a.npz", **held)
    for name, array in held.items():
        np.save(folder / f"{name}.npy", array)
    with (folder / "a.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["n", "x.0", "x.1"])
        writer.writerows([n, *x] for n, x in zip(held["n"], held["x"], strict=True))
    table = pa.table({"x": pa.FixedSizeListArray.from_arrays(pa.array(held["x"].reshape(-1)), COUNT), "n": held["n"]})
    pyarrow.parquet.write_table(table, folder / "a.parquet", row_group_size=30)
    pyarrow.feather.write_feather(table, folder / "a.feather", chunksize=50)
    with pa.ipc.new_file(folder / "a.arrow", table.schema) as sink:
        sink.write_table(table, max_chunksize=17)
    return folder


@pytest.fixture(scope="module", params=["native", "numpy"])
def program(request: pytest.FixtureRequest, folder: Path) -> Any:
    return shapescript.load(folder / "program.ss", engine=request.param)


@pytest.fixture(scope="module")
def wanted(folder: Path) -> Any:
    """What the loop gives from arrays, in the reference evaluator."""
    reference = shapescript.load(folder / "program.ss", engine="numpy")
    return contents(reference.scan(reference.Point.dataset(**arrays()), 3, 0))


@pytest.mark.parametrize("name", KINDS)
def test_a_loop_over_a_file_is_one_over_its_arrays(program: Any, wanted: Any, name: str) -> None:
    before = own_threads()
    assert contents(program.of_file(name)) == wanted and own_threads() == before


def test_a_file_for_each_field(program: Any, wanted: Any) -> None:
    assert contents(program.of_fields("x.npy", "n.npy")) == wanted


def test_one_file_of_a_record_with_one_field(program: Any) -> None:
    given = program.of_one("x.npy")
    assert given == pytest.approx(float(arrays()["x"].astype(np.float64).sum()), abs=1e-3)


@pytest.mark.parametrize("name", KINDS)
def test_all_examples_at_once(program: Any, name: str) -> None:
    mean, count = program.whole(name)
    assert count == ROWS and mean == pytest.approx(float(arrays()["x"].astype(np.float64).mean()), abs=1e-6)


def test_python_loads_what_programs_load(program: Any, folder: Path, wanted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    held = program.Point.dataset(**arrays())
    for name in KINDS:
        loaded = program.Point.load(folder / name)
        assert loaded.fingerprint() == held.fingerprint() and contents(program.scan(loaded, 3, 2)) == wanted
    fields = program.Point.load(n=str(folder / "n.npy"), x=folder / "x.npy")
    assert fields.fingerprint() == held.fingerprint() and contents(program.scan(fields, 3, 0)) == wanted
    monkeypatch.chdir(folder)
    assert len(program.Bare.load("x.npy")) == ROWS


def test_python_says_which_arguments_are_wrong(program: Any, folder: Path) -> None:
    for call, code, words in (
        (program.Point.load, "R1005", "takes one file, or by name a file for each field"),
        (lambda: program.Point.load("a.npz", x="x.npy"), "R1005", "takes one file"),
        (lambda: program.Point.load(3), "R1004", "expected a path, got int"),
        (lambda: program.Point.load(x="x.npy", n=3), "R1004", "n: expected a path"),
        (lambda: program.Point.load(x="x.npy"), "R1005", "no file for its field n"),
        (lambda: program.Point.load(x="x.npy", m="n.npy"), "R1005", "no field 'm'"),
        (lambda: program.Point.load(folder / "none.npy"), "R1202", "holds one field, Point has 2"),
        (lambda: program.Point.load(folder / "none.csv"), "R1201", "no such data file"),
    ):
        with pytest.raises(shapescript.ShapeScriptError, match=words) as raised:
            call()
        assert raised.value.code == code


@pytest.mark.parametrize("prefetch", [0, 1, 4])
def test_a_malformed_row_stops_the_loop_at_its_batch(program: Any, folder: Path, prefetch: int) -> None:
    lines = ["n,x.0,x.1", *(f"{i},1,2" for i in range(100))]
    lines[38] = "oops,1,2"
    (folder / "wrong.csv").write_text("\n".join(lines))
    before, sink = own_threads(), shapescript.MemorySink()
    with pytest.raises(shapescript.DataRowError, match=r"row 37 \(line 39, column 'n'\): found 'oops', expected a whole number") as raised:
        program.seen("wrong.csv", prefetch, sink)
    assert raised.value.code == "R1204" and raised.value.row == 37 and raised.value.span is not None
    assert [record.n for record in sink.records if hasattr(record, "n")] == list(range(3, 36, 4)) and own_threads() == before


@pytest.mark.parametrize("name", ["none.csv", "none.npy", "none.parquet"])
def test_a_missing_file(program: Any, name: str) -> None:
    with pytest.raises(FileNotFoundError, match="R1201"):
        program.of_file(name)


def test_the_command_line_shows_the_place(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (
        "data Row:\n    n: int\n\nfn main():\n    for batch in load_data[Row]({}) |> batches(1):\n        print(max(batch.n, over=batch))\n"
    )
    (tmp_path / "rows.csv").write_text("n\n1\n2\nthree\n")
    (tmp_path / "rows.txt").write_text("n\n1\n")
    for name, code, shown in (("rows.csv", "R1204", "1\n2\n"), ("rows.txt", "R1202", ""), ("none.csv", "R1201", "")):
        for engine in ("native", "numpy"):
            (tmp_path / "program.ss").write_text(text.format(f'"{name}"'))
            assert main(["run", f"--engine={engine}", "program.ss"]) == 1
            out, err = capsys.readouterr()
            assert out == shown and f"error[{code}]" in err and name in err and "Traceback" not in err


def test_field_names_are_no_names_of_the_builtin(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(3))
    text = 'data Row:\n    path: int\n\nfn named() -> int:\n    return load_data[Row](path="a.npy").count\n\n'
    text += 'data Other:\n    n: int\n\nfn plain() -> int:\n    return load_data[Other](path="a.npy").count\n'
    (tmp_path / "program.ss").write_text(text)
    program: Any = shapescript.load(tmp_path / "program.ss")
    assert program.named() == 3 and program.plain() == 3
