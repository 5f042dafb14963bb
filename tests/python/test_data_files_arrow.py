"""Parquet and Arrow files, against pyarrow's own reading: groups on demand, types that fit exactly, nulls, damage, no pyarrow."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet
import pytest
from fed_data import own_threads
from runtime_samples import DIGIT, digit_arrays

from shapescript.runtime import extras
from shapescript.runtime.arrow_rows import ArrowFile, ParquetFile
from shapescript.runtime.data_files import load_file
from shapescript.runtime.dataset import Dataset
from shapescript.runtime.errors import DataError, DataFileMissing, DataRowError, PackageMissing
from shapescript.runtime.record import Field, RecordType

POINT = RecordType("Point", (Field("x", "f32", ("D",), (2,)), Field("n", "i64")))
Writer = Callable[[Path, Any, int], None]


def write_parquet(path: Path, table: Any, rows: int) -> None:
    pyarrow.parquet.write_table(table, path, row_group_size=rows)


def write_arrow(path: Path, table: Any, rows: int) -> None:
    with pa.ipc.new_file(path, table.schema) as file:
        file.write_table(table, max_chunksize=rows)


def write_feather(path: Path, table: Any, rows: int) -> None:
    pyarrow.feather.write_feather(table, path, chunksize=rows, compression="lz4")


WRITERS: dict[str, Writer] = {"parquet": write_parquet, "arrow": write_arrow, "feather": write_feather}


def table_of(arrays: Mapping[str, Any], **more: Any) -> Any:
    """Fields with an axis as lists of a fixed size."""
    columns = {}
    for name, array in arrays.items():
        column = pa.array(array.reshape(-1))
        for size in reversed(array.shape[1:]):
            column = pa.FixedSizeListArray.from_arrays(column, size)
        columns[name] = column
    return pa.table({**columns, **more})


def written(folder: Path, kind: str, table: Any, rows: int = 7) -> Path:
    path = folder / f"rows.{kind}"
    WRITERS[kind](path, table, rows)
    return path


def refused(record: RecordType, path: Path, *words: str) -> None:
    with pytest.raises(DataError) as raised:
        load_file(record, path)
    assert raised.value.code == "R1202" and str(path) in raised.value.message and "\n" not in raised.value.message
    assert all(word in raised.value.message for word in words), raised.value.message


# ---- what is read


@pytest.mark.parametrize("kind", WRITERS)
def test_a_file_gives_what_the_arrays_give(tmp_path: Path, kind: str) -> None:
    arrays: dict[str, Any] = digit_arrays(100)
    path = written(tmp_path, kind, table_of(arrays, name=pa.array([f"name {i}" for i in range(100)])))
    data, held = load_file(DIGIT, path), Dataset(DIGIT, arrays)
    assert len(data) == 100 and data.fed and data.fingerprint() == held.fingerprint()
    rows = np.array([7, 8, 9, 3, 3, 99, 0, 6, 13])
    for name in arrays:
        assert data.source.read(rows)[name].tobytes() == arrays[name][rows].tobytes()
        assert data.source.column(name, 5, 17).tobytes() == arrays[name][5:17].tobytes()
    assert data.source.read(np.arange(0))["pixels"].shape == (0, 4)
    for mine, wanted in zip(data.shuffle(3).batches(7), held.shuffle(3).batches(7), strict=True):
        assert mine.pixels.tobytes() == wanted.pixels.tobytes() and mine.label.tobytes() == wanted.label.tobytes()


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("element", ["f32", "f64", "i64", "bool"])
def test_every_type_and_shape_of_a_field(tmp_path: Path, kind: str, element: Any) -> None:
    dtype = {"f32": "f4", "f64": "f8", "i64": "i8", "bool": "?"}[element]
    for shape in ((), (3,), (2, 2), (1,)):
        record = RecordType("One", (Field("x", element, tuple("ab"[: len(shape)]), shape),))
        for count in (0, 1, 20):
            array = np.random.default_rng(1).integers(0, 2, (count, *shape)).astype(dtype)
            data = load_file(record, written(tmp_path, kind, table_of({"x": array})))
            assert len(data) == count and data.all.x.dtype == array.dtype and data.all.x.tobytes() == array.tobytes()


@pytest.mark.parametrize("kind", WRITERS)
def test_lists_of_equal_lengths_and_tensors_serve_fields_with_axes(tmp_path: Path, kind: str) -> None:
    record = RecordType("M", (Field("x", "f32", ("a", "b"), (2, 3)),))
    array = np.arange(60, dtype="f4").reshape(10, 2, 3)
    wanted = array.tobytes()
    for form in (pa.list_(pa.list_(pa.float32())), pa.large_list(pa.list_(pa.float32(), 3)), pa.list_(pa.large_list(pa.float32()), 2)):
        path = written(tmp_path, kind, pa.table({"x": pa.array(array.tolist(), form)}))
        assert load_file(record, path).all.x.tobytes() == wanted
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(array)
    assert load_file(record, written(tmp_path, kind, pa.table({"x": tensors}))).all.x.tobytes() == wanted


@pytest.mark.parametrize("kind", WRITERS)
def test_float32_serves_bf16_where_it_is_represented(tmp_path: Path, kind: str) -> None:
    record = RecordType("Half", (Field("x", "bf16", ("D",), (2,)),))
    array = np.array([[1.0, 2.5], [np.inf, np.nan], [0.1, 1.0], [3.0, 4.0]], "f4")
    data = load_file(record, written(tmp_path, kind, table_of({"x": array})))
    assert data.part(0, 2).all.x.tobytes() == array[:2].tobytes() and data.part(3, 4).all.x.tolist() == [[3.0, 4.0]]
    with pytest.raises(DataRowError, match=r"row 2 .*bfloat16"):
        data.source.read(np.array([0, 3, 2]))


@pytest.mark.parametrize("kind", WRITERS)
def test_groups_are_read_when_they_are_needed_and_the_last_are_kept(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = load_file(DIGIT, written(tmp_path, kind, table_of(digit_arrays(100)), rows=10)).source
    reader: Any = ParquetFile if kind == "parquet" else ArrowFile
    asked: list[tuple[int, str]] = []
    real = reader._read_group
    monkeypatch.setattr(reader, "_read_group", lambda self, group, name: asked.append((group, name)) or real(self, group, name))
    source.read(np.array([3, 4, 95, 5]), ("label",))
    source.read(np.arange(10), ("label",))
    assert asked == [(0, "label"), (9, "label")]
    monkeypatch.setattr("shapescript.runtime.arrow_rows.KEPT_BYTES", 200)
    asked.clear()
    for row in (15, 25, 15, 35, 15, 25):
        source.read(np.array([row]), ("label",))
    assert asked == [(1, "label"), (2, "label"), (3, "label"), (2, "label")]
    monkeypatch.setattr("shapescript.runtime.arrow_rows.KEPT_BYTES", 0)
    assert source.read(np.arange(100))["label"].tolist() == list(range(100))


def test_several_threads_may_read_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shapescript.runtime.arrow_rows.KEPT_BYTES", 300)
    source = load_file(DIGIT, written(tmp_path, "arrow", table_of(digit_arrays(100)), rows=10)).source
    found: list[bool] = []

    def work(seed: int) -> None:
        rows = np.random.default_rng(seed).integers(0, 100, 50)
        found.append(all(source.read(rows)["label"].tolist() == rows.tolist() for _ in range(20)))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 4


# ---- what doesn't fit


@pytest.mark.parametrize("kind", WRITERS)
def test_columns_that_do_not_fit_are_named_with_both_types_and_the_conversion(tmp_path: Path, kind: str) -> None:
    def point(x: Any, n: Any = None) -> Path:
        return written(tmp_path, kind, pa.table({"x": x, "n": pa.array([1, 2]) if n is None else n}))

    pair = pa.list_(pa.float32(), 2)
    good = pa.array([[1, 2], [3, 4]], pair)
    assert len(load_file(POINT, point(good))) == 2
    refused(POINT, point(pa.array([[1, 2]] * 2, pa.list_(pa.float64(), 2))), "Point.x", "float32", "double", ".cast(pyarrow.float32())")
    refused(POINT, point(good, pa.array([1, 2], pa.int32())), "Point.n", "int64", "int32", ".cast(pyarrow.int64())")
    refused(POINT, point(good, pa.array(["1", "2"])), "int64", "string")
    refused(POINT, point(pa.array([1.0, 2.0], pa.float32())), "(2,)", "float", "()")
    refused(POINT, point(pa.array([[1, 2, 3]] * 2, pa.list_(pa.float32(), 3))), "(2,)", "(3,)")
    refused(POINT, point(pa.array([[[1, 2]]] * 2, pa.list_(pa.list_(pa.float32())))), "(2,)", "(any, any)")
    refused(POINT, written(tmp_path, kind, pa.table({"x": good, "m": pa.array([1, 2])})), "no column 'n'", "it holds x, m")


def test_two_columns_of_one_name(tmp_path: Path) -> None:
    record = RecordType("N", (Field("n", "i64"),))
    table = pa.table([pa.array([1]), pa.array([2])], names=["n", "n"])
    refused(record, written(tmp_path, "arrow", table), "2 columns are called 'n'")


NULLS: dict[str, tuple[Any, str]] = {
    "a null number": (pa.array([[1, 2], [3, None], [5, 6]], pa.list_(pa.float32(), 2)), "a null"),
    "a null list of a fixed size": (pa.array([[1, 2], None, [5, 6]], pa.list_(pa.float32(), 2)), "a null"),
    "a null list": (pa.array([[1, 2], None, [5, 6]], pa.list_(pa.float32())), "a null"),
    "a null in a list": (pa.array([[1, 2], [None, 4], [5, 6]], pa.list_(pa.float32())), "a null"),
    "a shorter list": (pa.array([[1, 2], [3], [5, 6]], pa.list_(pa.float32())), "a list of 1 values, expected 2"),
    "an empty list": (pa.array([[1, 2], [], [5, 6]], pa.large_list(pa.float32())), "a list of 0 values, expected 2"),
    "a longer list": (pa.array([[1, 2], [3, 4, 5], [5, 6]], pa.list_(pa.float32())), "a list of 3 values, expected 2"),
}


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("what", NULLS)
def test_a_row_that_can_not_be_used_is_named_where_it_is_needed(tmp_path: Path, kind: str, what: str) -> None:
    column, words = NULLS[what]
    for rows in (1, 2, 3):
        data = load_file(POINT, written(tmp_path, kind, pa.table({"x": column, "n": pa.array([1, 2, 3])}), rows))
        assert data.source.read(np.array([2, 0]))["x"].tolist() == [[5, 6], [1, 2]]
        for wanted in ([1], [0, 2, 1], [1, 2]):
            with pytest.raises(DataRowError, match=f"row 1 can't be used: column 'x': found {words}") as raised:
                data.source.read(np.array(wanted))
            assert raised.value.row == 1 and raised.value.filename == str(data.source._path)  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", WRITERS)
def test_nulls_deep_within_rows(tmp_path: Path, kind: str) -> None:
    record = RecordType("M", (Field("x", "i64", ("a", "b"), (2, 2)),))
    good = [[1, 2], [3, 4]]
    rows = [good, [None, [1, 2]], good, [[1, None], [3, 4]], None, [[1, 2], [3]], good, [[1, 2]]]
    for form in (pa.list_(pa.list_(pa.int64())), pa.large_list(pa.large_list(pa.int64()))):
        data = load_file(record, written(tmp_path, kind, pa.table({"x": pa.array(rows, form)}), 3))
        assert data.source.read(np.array([0, 2, 6]))["x"].tolist() == [good] * 3
        for row in (1, 3, 4, 5, 7):
            with pytest.raises(DataRowError, match=f"row {row} can't be used"):
                data.source.read(np.array([0, row]))


@pytest.mark.parametrize("kind", WRITERS)
def test_null_scalars_and_bools(tmp_path: Path, kind: str) -> None:
    record = RecordType("Two", (Field("on", "bool"), Field("y", "f64")))
    table = pa.table({"on": pa.array([True, None, False]), "y": pa.array([1.0, 2.0, None])})
    data = load_file(record, written(tmp_path, kind, table))
    assert data.take(1).all.on.tolist() == [True]
    for row, name in ((1, "on"), (2, "y")):
        with pytest.raises(DataRowError, match=f"row {row} can't be used: column '{name}': found a null"):
            data.source.read(np.array([row]))


@pytest.mark.parametrize("kind", WRITERS)
def test_a_row_in_the_middle_comes_up_at_its_batch(tmp_path: Path, kind: str) -> None:
    numbers: list[int | None] = list(range(100))
    numbers[37] = None
    table = pa.table({"x": pa.array([[i, i] for i in range(100)], pa.list_(pa.float32(), 2)), "n": pa.array(numbers)})
    before, given = own_threads(), []
    with pytest.raises(DataRowError, match="row 37"):
        for batch in load_file(POINT, written(tmp_path, kind, table, 50)).batches(4, prefetch=4):
            given.append(batch.n.tolist())
    assert given == [list(range(start, start + 4)) for start in range(0, 36, 4)] and own_threads() == before


# ---- files that are none, and damage


@pytest.mark.parametrize("kind", WRITERS)
def test_files_of_another_kind(tmp_path: Path, kind: str) -> None:
    with pytest.raises(DataFileMissing, match="R1201"):
        load_file(POINT, tmp_path / f"none.{kind}")
    (tmp_path / f"folder.{kind}").mkdir()
    refused(POINT, tmp_path / f"folder.{kind}", "directory")
    path = tmp_path / f"text.{kind}"
    for content in (b"", b"x,n\n1,2\n", b"PAR1" * 20, b"ARROW1\0\0" * 20):
        path.write_bytes(content)
        refused(POINT, path, "damaged, or no ")


def read_all(record: RecordType, path: Path) -> dict[str, Any] | None:
    """What a file holds; None where it is refused as files or rows are."""
    try:
        source = load_file(record, path).source
        return source.read(np.arange(len(source)))
    except DataError as error:
        assert error.code in ("R1202", "R1204") and str(path) in error.message and "\n" not in error.message
        return None


@pytest.mark.parametrize("kind", WRITERS)
def test_every_truncation_is_refused(tmp_path: Path, kind: str) -> None:
    whole = written(tmp_path, kind, table_of(digit_arrays(5)), 3).read_bytes()
    path = tmp_path / f"cut.{kind}"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert read_all(DIGIT, path) is None, length


@pytest.mark.parametrize("kind", WRITERS)
def test_every_flipped_byte_is_refused_or_reads_as_rows(tmp_path: Path, kind: str) -> None:
    """No format has a checksum of all its bytes, so a value may be another; nothing else may happen."""
    whole = written(tmp_path, kind, table_of(digit_arrays(5)), 3).read_bytes()
    path, refusals = tmp_path / f"changed.{kind}", 0
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x41]) + whole[place + 1 :])
        found = read_all(DIGIT, path)
        refusals += found is None
        assert found is None or all(len(found[name]) == len(found["label"]) for name in DIGIT.field_names)
    assert refusals > 100


@pytest.mark.parametrize("kind", WRITERS)
def test_a_file_that_is_cut_short_while_it_is_read_names_a_row(tmp_path: Path, kind: str) -> None:
    arrays = digit_arrays(60)
    path = written(tmp_path, kind, table_of(arrays), 20)
    data = load_file(DIGIT, path)
    assert data.source.read(np.arange(20))["label"].tolist() == list(range(20))
    os.truncate(path, 200)
    assert data.source.read(np.arange(20))["label"].tolist() == list(range(20))  # it is kept
    with pytest.raises(DataRowError, match=r"row 40 can't be read"):
        data.source.read(np.array([3, 45]))


# ---- no pyarrow


def test_without_pyarrow_the_message_has_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.parquet").touch()
    (tmp_path / "x.arrow").touch()

    def blocked(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name="pyarrow")

    monkeypatch.setattr(extras, "import_module", blocked)
    for kind in ("parquet", "arrow"):
        with pytest.raises(ImportError, match=r"R1502: reading \w+ files needs .*pip install 'shapescript\[data\]'") as raised:
            load_file(POINT, tmp_path / f"x.{kind}")
        assert isinstance(raised.value, PackageMissing) and raised.value.name == "pyarrow"
    assert set(extras.EXTRAS) == {"pyarrow", "safetensors", "tensorboard"}


def test_a_package_that_can_not_be_loaded_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> Any:
        raise ImportError("libarrow.so: cannot open shared object file")

    monkeypatch.setattr(extras, "import_module", broken)
    with pytest.raises(PackageMissing, match=r"can't be imported \(libarrow\.so"):
        extras.optional_module("pyarrow.parquet", "reading Parquet files")
