"""`.npy` files: rows read by their place, against `np.load`; headers that lie, damage, and files that change while they are read."""

from __future__ import annotations

import io
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runtime_samples import DIGIT, digit_arrays

from shapescript.runtime.data_files import load_file, load_files
from shapescript.runtime.dataset import Dataset
from shapescript.runtime.errors import ArgumentError, DataError, DataFileMissing, DataRowError
from shapescript.runtime.opened_file import OpenedFile
from shapescript.runtime.record import Field, RecordType

ROWS = RecordType("Rows", (Field("x", "f32", ("D",), (3,)),))
KINDS: dict[str, Any] = {"f32": "f4", "f64": "f8", "i64": "i8", "bool": "?"}


def saved(folder: Path, arrays: Mapping[str, Any]) -> dict[str, Path]:
    paths = {name: folder / f"{name}.npy" for name in arrays}
    for name, array in arrays.items():
        np.save(paths[name], array)
    return paths


def refused(path: Path, *words: str, record: RecordType = ROWS) -> None:
    with pytest.raises(DataError) as raised:
        load_file(record, path)
    assert raised.value.code == "R1202" and not isinstance(raised.value, FileNotFoundError)
    assert str(path) in raised.value.message and "\n" not in raised.value.message
    assert all(word in raised.value.message for word in words), raised.value.message


def header(shape: object, descr: object = "<f4", order: object = False, version: tuple[int, int] = (1, 0)) -> bytes:
    return raw_header(repr({"descr": descr, "fortran_order": order, "shape": shape}).encode(), version)


def raw_header(text: bytes, version: tuple[int, int] = (1, 0)) -> bytes:
    return b"\x93NUMPY" + bytes(version) + len(text).to_bytes(2 if version == (1, 0) else 4, "little") + text


# ---- what is read


def test_a_file_for_each_field_gives_what_the_arrays_give(tmp_path: Path) -> None:
    arrays = digit_arrays(100)
    data, held = load_files(DIGIT, saved(tmp_path, arrays)), Dataset(DIGIT, arrays)
    assert len(data) == 100 and data.fed and not held.fed
    assert data.fingerprint() == held.fingerprint()
    rows = np.array([7, 8, 9, 3, 3, 99, 0, 1, 98, 99])
    for name in arrays:
        assert data.source.read(rows)[name].tobytes() == arrays[name][rows].tobytes()
        assert data.source.column(name, 5, 17).tobytes() == arrays[name][5:17].tobytes()
        assert data.all[name].tobytes() == np.load(tmp_path / f"{name}.npy").tobytes()
    assert list(data.source.read(rows, ("label",))) == ["label"]
    for mine, wanted in zip(data.shuffle(3).batches(7), held.shuffle(3).batches(7), strict=True):
        assert mine.pixels.tobytes() == wanted.pixels.tobytes() and mine.label.tobytes() == wanted.label.tobytes()


def test_more_examples_than_64_bits_count_are_not_joined(tmp_path: Path) -> None:
    """Examples of no bytes may be as many as a header says."""
    (tmp_path / "many.npy").write_bytes(header((2**63 - 1, 0)))
    data = load_file(RecordType("Empty", (Field("x", "f32", ("In",), (0,)),)), tmp_path / "many.npy")
    assert len(data.take(2**62).concat(data.skip(2**62))) == 2**63 - 1
    with pytest.raises(ArgumentError, match="R1004: concat: 9223372036854775808 examples"):
        data.concat(data.take(1))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(), (3,), (2, 2), (0,), (1, 1, 5)])
def test_every_type_and_shape_of_a_field(tmp_path: Path, kind: Any, shape: tuple[int, ...]) -> None:
    record = RecordType("One", (Field("x", kind, tuple("abc"[: len(shape)]), shape),))
    for count in (0, 1, 9):
        array = np.random.default_rng(1).integers(0, 2, (count, *shape)).astype(KINDS[kind])
        data = load_file(record, saved(tmp_path, {"x": array})["x"])
        rows = np.arange(count)[::-1].copy()
        read = data.source.read(rows)["x"]
        assert len(data) == count and read.shape == array.shape and read.tobytes() == array[::-1].tobytes()
        assert read.ctypes.data % 64 == 0 or not read.size


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_the_versions_of_the_format(tmp_path: Path, version: tuple[int, int]) -> None:
    array = np.arange(12, dtype="f4").reshape(4, 3)
    with (tmp_path / "x.npy").open("wb") as file:
        np.lib.format.write_array(file, array, version=version)
    assert load_file(ROWS, tmp_path / "x.npy").all.x.tolist() == array.tolist()
    np.savez(tmp_path / "x.npz", x=array)
    assert load_file(ROWS, tmp_path / "x.npz").all.x.tolist() == array.tolist()


def test_one_axis_in_fortran_order_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(header((4,), "<i8", True) + np.arange(4).tobytes())
    assert load_file(RecordType("N", (Field("n", "i64"),)), tmp_path / "x.npy").all.n.tolist() == [0, 1, 2, 3]


def test_float32_serves_bf16_where_it_is_represented(tmp_path: Path) -> None:
    record = RecordType("Half", (Field("x", "bf16", ("D",), (2,)),))
    array = np.array([[1.0, 2.5], [np.inf, np.nan], [0.1, 1.0], [3.0, 4.0]], "f4")
    data = load_file(record, saved(tmp_path, {"x": array})["x"])
    assert data.part(0, 2).all.x.tobytes() == array[:2].tobytes() and data.part(3, 4).all.x.tolist() == [[3.0, 4.0]]
    with pytest.raises(DataRowError, match=r"row 2 .*bfloat16") as raised:
        data.source.read(np.array([0, 3, 2]))
    assert raised.value.row == 2


def test_a_byte_that_is_no_bool_names_its_row(tmp_path: Path) -> None:
    record = RecordType("Flags", (Field("on", "bool", ("D",), (2,)),))
    (tmp_path / "x.npy").write_bytes(header((3, 2), "|b1") + bytes([0, 1, 1, 1, 0, 2]))
    data = load_file(record, tmp_path / "x.npy")
    assert data.part(0, 2).all.on.tolist() == [[False, True], [True, True]]
    with pytest.raises(DataRowError, match="row 2 can't be used: the byte 2 is no bool"):
        data.source.read(np.array([0, 2]))


def test_files_without_positioned_reads_are_read_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pread")
    arrays = digit_arrays(10)
    assert load_files(DIGIT, saved(tmp_path, arrays)).all.pixels.tobytes() == arrays["pixels"].tobytes()


# ---- what doesn't fit


def test_files_that_do_not_fit_are_named_with_both_types_and_the_conversion(tmp_path: Path) -> None:
    def one(array: Any) -> Path:
        return saved(tmp_path, {"x": array})["x"]

    refused(one(np.zeros((4, 3))), "Rows.x", "float32", "float64", ".astype(numpy.float32)")
    refused(one(np.zeros((4, 3), "i4")), "float32", "int32", ".astype(numpy.float32)")
    refused(one(np.zeros((4, 3), ">f4")), "other order", "newbyteorder")
    refused(one(np.zeros((4, 2), "f4")), "expected [b D], that is shape (any, 3)", "(4, 2)")
    refused(one(np.zeros((4,), "f4")), "expected 2 axes [b D]", "(4,)")
    refused(one(np.float32(0)), "expected 2 axes", "()")
    refused(one(np.asfortranarray(np.zeros((4, 3), "f4"))), "Fortran order", "ascontiguousarray")
    refused(one(np.array([{}, []], object)), "Python objects")
    refused(one(np.zeros((4, 3), "M8[s]")), "datetime64")
    refused(one(np.zeros(4, [("a", "f4"), ("b", "f4")])), "float32")


def test_fields_that_do_not_fit_each_other_or_the_record(tmp_path: Path) -> None:
    arrays = digit_arrays(10)
    paths = saved(tmp_path, {**arrays, "label": arrays["label"][1:]})
    with pytest.raises(DataError, match=r"R1202.*10 in .*pixels\.npy, 9 in .*label\.npy"):
        load_files(DIGIT, paths)
    with pytest.raises(ArgumentError, match="no file for its field label"):
        load_files(DIGIT, {"pixels": paths["pixels"]})
    with pytest.raises(ArgumentError, match="no field 'labels'; did you mean 'label'"):
        load_files(DIGIT, {"pixels": paths["pixels"], "labels": paths["label"]})
    with pytest.raises(DataError, match=r"Digit\.label, is a \.npy file"):
        load_files(DIGIT, {"pixels": paths["pixels"], "label": tmp_path / "label.csv"})
    refused(paths["pixels"], "holds one field, Digit has 2", 'pixels="pixels.npy", label="label.npy"', record=DIGIT)


def test_a_name_that_no_reader_knows_lists_those_known(tmp_path: Path) -> None:
    for name in ("x.txt", "x", "x.npy.gz"):
        refused(tmp_path / name, ".npz, .npy, .csv, .parquet, .arrow, .feather")
    np.save(tmp_path / "x", np.zeros((1, 3), "f4"))
    (tmp_path / "x.npy").rename(tmp_path / "x.NPY")
    assert len(load_file(ROWS, tmp_path / "x.NPY")) == 1


def test_a_missing_file_and_what_is_no_plain_file(tmp_path: Path) -> None:
    with pytest.raises(DataFileMissing, match="R1201"):
        load_file(ROWS, tmp_path / "none.npy")
    (tmp_path / "folder.npy").mkdir()
    refused(tmp_path / "folder.npy", "directory")
    os.mkfifo(tmp_path / "pipe.npy")
    refused(tmp_path / "pipe.npy", "not a regular file")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(tmp_path / "socket.npy"))
    refused(tmp_path / "socket.npy", "not a regular file")
    refused(Path("a\0.npy"), "U+0000")


# ---- damage

HOSTILE: dict[str, bytes] = {
    "a huge shape": header((10**15, 3)),
    "a shape beyond all numbers": header((10**40, 3)),
    "many rows of nothing": header((2**63, 0)),
    "a shape below zero": header((-4, 3)),
    "two sizes below zero": header((-4, -3)),
    "objects": header((4, 3), "|O"),
    "an expression": raw_header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (__import__('os').system('echo'), 3)}"),
    "a call as the header": raw_header(b"exit()"),
    "an unknown type": header((4, 3), "<q9"),
    "a type of a huge size": header((4, 3), "(99999999999,)f4"),
    "a list as the type": header((4, 3), [("a", "f4", (10**9, 10**9))]),
    "another key": raw_header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (4, 3), 'x': 1}"),
    "a number as the order": header((4, 3), order=1),
    "no tuple": header([4, 3]),
    "deep brackets": raw_header(b"(" * 9000),
    "deep signs": raw_header(b"-" * 9000 + b"1"),
    "an escape that Python warns of": raw_header(b"{'descr': '\\d', 'fortran_order': False, 'shape': (4, 3)}"),
    "a longer header than the file": b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}",
    "a long header": raw_header(b" " * 20000),
    "version 4": header((4, 3), version=(4, 0)),
    "no text": raw_header("{'descr': '\u4e00', 'fortran_order': False, 'shape': (4, 3)}".encode(), (3, 0)),
    "bytes that are no UTF-8": raw_header(b"\xff\xfe", (3, 0)),
    "zeros": bytes(64),
    "nothing": b"",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_headers_that_lie_run_nothing_and_allocate_nothing(tmp_path: Path, what: str) -> None:
    (tmp_path / "x.npy").write_bytes(HOSTILE[what] + bytes(48) * bool(HOSTILE[what]))
    refused(tmp_path / "x.npy")


def test_every_truncation_and_every_flipped_byte_of_the_header(tmp_path: Path) -> None:
    array = np.arange(12, dtype="f4").reshape(4, 3)
    stream = io.BytesIO()
    np.save(stream, array)
    whole, path = stream.getvalue(), tmp_path / "x.npy"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        refused(path)
    path.write_bytes(whole + b"\0")
    refused(path, "has 177")
    for place in range(len(whole) - array.nbytes):
        for flip in (0x01, 0x41, 0x80):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ flip]) + whole[place + 1 :])
            try:
                data = load_file(ROWS, path)
            except DataError as error:
                assert error.code == "R1202" and "\n" not in error.message
            else:
                assert data.all.x.tobytes() == array.tobytes()


def test_a_file_that_is_cut_short_while_it_is_read_names_the_row(tmp_path: Path) -> None:
    arrays = digit_arrays(100)
    paths = saved(tmp_path, arrays)
    data = load_files(DIGIT, paths)
    whole = paths["pixels"].read_bytes()
    os.truncate(paths["pixels"], len(whole) - 16 * 40 - 3)  # row 59 lacks 3 bytes
    assert data.source.read(np.arange(59))["label"].tolist() == list(range(59))
    for rows in (np.arange(50, 70), np.array([3, 59]), np.array([59])):
        with pytest.raises(DataRowError, match=r"row 59 isn't there any more") as raised:
            data.source.read(rows)
        assert raised.value.code == "R1204" and raised.value.row == 59 and raised.value.filename == str(paths["pixels"])
    with pytest.raises(DataRowError, match="row 99"):
        data.source.read(np.array([99]))
    given = []
    with pytest.raises(DataRowError, match="row 59"):
        for batch in data.batches(8, prefetch=4):
            given.append(batch.label.tolist())
    assert given == [list(range(start, start + 8)) for start in range(0, 56, 8)]
    assert data.source.read(np.array([99]), ("label",))["label"].tolist() == [99]


def test_a_file_that_is_replaced_goes_on_as_it_was(tmp_path: Path) -> None:
    array = np.arange(12, dtype="f4").reshape(4, 3)
    path = saved(tmp_path, {"x": array})["x"]
    data = load_file(ROWS, path)
    np.save(tmp_path / "other.npy", -array)
    os.replace(tmp_path / "other.npy", path)
    assert data.all.x.tolist() == array.tolist()


def test_what_is_read_is_put_together_from_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shapescript.runtime.opened_file.MOST_AT_ONCE", 7)
    path = tmp_path / "file"
    path.write_bytes(bytes(range(100)))
    file = OpenedFile(path)
    assert file.read(3, 50) == bytes(range(3, 53)) and file.read(90, 50) == bytes(range(90, 100)) and file.read(200, 5) == b""
