"""Hostile and damaged files: nothing in them runs, each is refused with a kind, and none asks for more memory than its size."""

from __future__ import annotations

import io
import pickle
import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from runtime_samples import digits, mlp_layout

from shapescript.runtime.checkpoint import load_checkpoint, save_checkpoint
from shapescript.runtime.errors import CheckpointError
from shapescript.runtime.file_errors import DamagedFileError, TruncatedFileError
from shapescript.runtime.layout import Layout, Leaf, Start
from shapescript.runtime.mode import Train
from shapescript.runtime.optimiser import AdamW, Sgd
from shapescript.runtime.restore import ModelType, OptimiserType, Request, ScalarType, restore
from shapescript.runtime.sinks import MemorySink
from shapescript.runtime.zip_reader import ZipReader
from shapescript.runtime.zip_writer import ZipWriter

PROTOCOL = b"\x80\x02"
TENSOR = b"ctorch._utils\n_rebuild_tensor_v2\n"


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def storage(key: str = "0", kind: str = "FloatStorage", count: int = 4) -> bytes:
    return b"(" + text("storage") + f"ctorch\n{kind}\n".encode() + text(key) + text("cpu") + b"J" + struct.pack("<i", count) + b"tQ"


def numbers(*values: int) -> bytes:
    return b"(" + b"".join(b"\x8a\x08" + struct.pack("<q", value) for value in values) + b"t"


def tensor(shape: bytes, strides: bytes, offset: int = 0, source: bytes | None = None) -> bytes:
    where = storage() if source is None else source
    return TENSOR + b"(" + where + numbers(offset)[1:-1] + shape + strides + b"\x89ccollections\nOrderedDict\n)RtR"


def archive(path: Path, body: bytes, **members: bytes) -> Path:
    """A `.pt` file around a pickle that holds {"x": …}, or around a whole one."""
    whole = body if body.startswith(b"\x80") or not body else PROTOCOL + b"}" + text("x") + body + b"s."
    with path.open("wb") as file:
        writer = ZipWriter(file)
        for name, data in {"data.pkl": whole, "data/0": np.arange(4, dtype="f4").tobytes(), "version": b"3\n", **members}.items():
            writer.add(f"archive/{name}", data)
        writer.finish()
    return path


def refused(path: Path, kind: str = "corrupt") -> CheckpointError:
    with pytest.raises(CheckpointError) as raised:
        load_checkpoint(path)
    error = raised.value
    assert error.kind == kind and str(path) in error.message and "\n" not in error.message
    assert error.code == ("R1303" if kind == "dtype" else "R1302")
    return error


def test_the_builder_of_this_file_makes_files_that_load(tmp_path: Path) -> None:
    found = load_checkpoint(archive(tmp_path / "a.pt", tensor(numbers(2, 2), numbers(2, 1))))
    assert found["x"].tolist() == [[0, 1], [2, 3]]


class Runs:
    """A pickle of it calls what it is given."""

    def __init__(self, function: Callable[..., Any], *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return self.call


def ran(_: object) -> None:
    raise AssertionError("a pickle has run")


@pytest.mark.parametrize("protocol", range(6))
def test_nothing_in_a_pickle_runs(tmp_path: Path, protocol: int) -> None:
    marker = tmp_path / "ran"
    for hostile in (Runs(ran, 1), Runs(eval, f"open({str(marker)!r}, 'w')"), Runs(getattr, "", "join"), Runs(io.BytesIO, b"")):
        refused(archive(tmp_path / "a.pt", pickle.dumps({"x": hostile}, protocol)), "corrupt" if protocol in (0, 1, 2) else "version")
    assert not marker.exists()


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"cos\nsystem\n" + text("true") + b"\x85R", id="os.system"),
        pytest.param(b"cbuiltins\neval\n" + text("1") + b"\x85R", id="eval"),
        pytest.param(b"ctorch.serialization\n_get_layout\n" + text("x") + b"\x85R", id="another function of torch"),
        pytest.param(b"ctorch\nload\n" + text("x") + b"\x85R", id="torch.load"),
        pytest.param(b"ccollections\nOrderedDict\n(ccollections\nOrderedDict\ntR", id="OrderedDict of something"),
        pytest.param(b"ccollections\nOrderedDict\n", id="a class as a value"),
        pytest.param(b"ccollections\nOrderedDict\n\x85", id="a class inside a tuple"),
        pytest.param(b"](ccollections\nOrderedDict\ne", id="a class inside a list"),
        pytest.param(storage(), id="a storage as a value"),
        pytest.param(b"]}b", id="a state for a list"),
        pytest.param(b"ccollections\nOrderedDict\n)\x81", id="NEWOBJ"),
        pytest.param(b"\x93", id="STACK_GLOBAL"),
        pytest.param(b"\x82\x01", id="an extension"),
        pytest.param(b"Pname\n", id="PERSID"),
        pytest.param(b"I1\n", id="INT in text"),
        pytest.param(b"U\x01a", id="SHORT_BINSTRING"),
        pytest.param(b"\x8b\xff\xff\xff\x7f", id="LONG4"),
        pytest.param(b"\x8a\xff" + b"\x01" * 255, id="an int of 255 bytes"),
        pytest.param(b"X\xff\xff\xff\xff", id="a string of 4 GiB"),
        pytest.param(b"X\x01\x00\x00\x00\xff", id="a string that is no UTF-8"),
        pytest.param(b"cnothing", id="a name without an end"),
        pytest.param(b"h\x09", id="a memo that isn't there"),
        pytest.param(b"R", id="a call of nothing"),
        pytest.param(b"u", id="items without a mark"),
        pytest.param(b"\x87", id="a tuple of too few"),
        pytest.param(b"}(K\x01u", id="a key without a value"),
        pytest.param(b"}(G" + bytes(8) + b"Nu", id="a float as a key"),
        pytest.param(b"}()Nu", id="a tuple as a key"),
        pytest.param(b"}(]Nu", id="a list as a key"),
        pytest.param(b"}(\x8a\x09" + b"\xff" * 8 + b"\x00Nu", id="a huge key"),
        pytest.param(b"(N", id="an open mark"),
        pytest.param(b"N0", id="POP"),
        pytest.param(b"NN", id="too many values"),
    ],
)
def test_a_pickle_that_is_not_plain_data_is_refused(tmp_path: Path, body: bytes) -> None:
    refused(archive(tmp_path / "a.pt", body))


@pytest.mark.parametrize("whole", [b"", b"\x80", PROTOCOL, PROTOCOL + b".", PROTOCOL + b"}.}", PROTOCOL + b"N.", PROTOCOL + b"}", b"}."])
def test_a_pickle_without_a_beginning_or_an_end_is_refused(tmp_path: Path, whole: bytes) -> None:
    with (tmp_path / "a.pt").open("wb") as file:
        writer = ZipWriter(file)
        writer.add("archive/data.pkl", whole)
        writer.add("archive/version", b"3\n")
        writer.finish()
    refused(tmp_path / "a.pt")


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(tensor(numbers(5), numbers(1)), id="more elements than the storage"),
        pytest.param(tensor(numbers(2, 2), numbers(3, 1)), id="a stride too large"),
        pytest.param(tensor(numbers(4), numbers(1), offset=1), id="an offset too large"),
        pytest.param(tensor(numbers(4), numbers(1), offset=-1), id="an offset below 0"),
        pytest.param(tensor(numbers(2), numbers(-1), offset=3), id="a stride below 0"),
        pytest.param(tensor(numbers(-1), numbers(1)), id="a size below 0"),
        pytest.param(tensor(numbers(2, 2), numbers(1)), id="a stride is missing"),
        pytest.param(tensor(numbers(2**62, 2**62), numbers(0, 0)), id="a size that overflows"),
        pytest.param(tensor(numbers(2**62), numbers(2**62)), id="a stride that overflows"),
        pytest.param(tensor(b"(\x88t", b"(\x88t"), id="bools as sizes"),
        pytest.param(tensor(b"]", numbers()), id="a list as sizes"),
        pytest.param(tensor(numbers(*[1] * 70), numbers(*[1] * 70)), id="seventy axes"),
        pytest.param(tensor(numbers(4), numbers(1), source=storage(count=3)), id="a storage said to be smaller"),
        pytest.param(tensor(numbers(4), numbers(1), source=storage(count=5)), id="a storage said to be larger"),
        pytest.param(tensor(numbers(4), numbers(1), source=storage(key="7")), id="a storage that is missing"),
        pytest.param(tensor(numbers(4), numbers(1), source=storage(key="../data.pkl")), id="a storage outside"),
        pytest.param(tensor(numbers(4), numbers(1), source=storage(kind="BoolStorage", count=16)), id="bools of other bytes"),
        pytest.param(tensor(numbers(4), numbers(1), source=b"N"), id="no storage"),
        pytest.param(b"(" + text("storage") + b"NNNNtQ", id="a reference that is none"),
        pytest.param(TENSOR + b"(NtR", id="too few arguments"),
        pytest.param(b"ctorch._utils\n_rebuild_parameter\n(N\x88NtR", id="a parameter of nothing"),
    ],
)
def test_a_tensor_that_does_not_fit_its_storage_is_refused(tmp_path: Path, body: bytes) -> None:
    refused(archive(tmp_path / "a.pt", body))


def test_an_element_type_that_is_not_supported_is_named(tmp_path: Path) -> None:
    assert "QInt8Storage" in refused(archive(tmp_path / "a.pt", storage(kind="QInt8Storage")), "dtype").message


def test_a_small_file_cannot_ask_for_much_memory(tmp_path: Path) -> None:
    """A thousand tensors of ten million elements, all in one storage of four."""
    large = tensor(numbers(10_000, 1_000), numbers(0, 0))
    path = archive(tmp_path / "a.pt", b"](" + large * 1000 + b"e")
    tracemalloc.start()
    try:
        found = load_checkpoint(path)
        assert len(found["x"]) == 1000 and found["x"][999].shape == (10_000, 1_000)
        assert tracemalloc.get_traced_memory()[1] < 40 * path.stat().st_size
    finally:
        tracemalloc.stop()


def test_deep_nesting_does_not_exhaust_the_stack(tmp_path: Path) -> None:
    found = load_checkpoint(archive(tmp_path / "a.pt", b"]" * 100_000 + b"a" * 99_999))
    assert type(found["x"]) is list
    del found


def test_dicts_may_be_nested_deep_or_in_a_circle(tmp_path: Path) -> None:
    deep = load_checkpoint(archive(tmp_path / "a.pt", (b"}" + text("x")) * 100_000 + b"N" + b"s" * 100_000))
    assert type(deep["x"]) is dict
    while deep is not None:
        deep = deep["x"]
    circle = load_checkpoint(archive(tmp_path / "a.pt", b"}q\x00" + text("x") + b"h\x00s"))
    assert circle["x"]["x"] is circle["x"]


def test_many_views_of_one_bf16_storage_are_widened_once(tmp_path: Path) -> None:
    view = tensor(numbers(10_000, 1_000), numbers(0, 1), source=storage(kind="BFloat16Storage", count=1000))
    views = b"".join(text(f"w{place}") + view for place in range(1000))
    path = archive(tmp_path / "a.pt", b"}(" + views + b"u", **{"data/0": b"\x80?" * 1000})
    tracemalloc.start()
    try:
        found = load_checkpoint(path)["x"]
        assert len(found) == 1000 and found["w999"].shape == (10_000, 1_000)
        assert found["w999"].dtype == np.float32 and found["w999"][7, 7] == 1.0 and not found["w999"].flags.writeable
        assert tracemalloc.get_traced_memory()[1] < 40 * path.stat().st_size
    finally:
        tracemalloc.stop()


def mapping(**entries: bytes) -> bytes:
    return b"}(" + b"".join(text(name) + value for name, value in entries.items()) + b"u"


ONE = b"K\x01"
REQUESTS: list[tuple[Request, dict[str, bytes]]] = [
    (Train(seed=1), {"kind": text("Train"), "seed": ONE, "draws": ONE}),
    (MemorySink(), {"kind": text("memory"), "bytes": ONE, "records": ONE, "hash": ONE}),
    (digits(), {"kind": text("Dataset"), "examples": ONE, "fingerprint": ONE}),
    (
        OptimiserType(AdamW, mlp_layout()),
        {"kind": text("AdamW"), "step": ONE, "betas": ONE, "eps": ONE, "decay": ONE, "amsgrad": ONE, "first": ONE, "second": ONE},
    ),
    (OptimiserType(Sgd, mlp_layout()), {"kind": text("Sgd"), **dict.fromkeys(("step", "momentum", "nesterov", "decay", "dampening"), ONE)}),
    (OptimiserType(AdamW, mlp_layout()), {"state": ONE, "param_groups": ONE}),
    (ModelType(mlp_layout()), {leaf.name: ONE for leaf in mlp_layout()}),
]


@pytest.mark.parametrize(
    "value", [pytest.param(b"]" * 10_000 + b"a" * 9_999, id="deep"), pytest.param(b"\x8a\x0a" + b"\x7f" * 10, id="large")]
)
def test_values_that_no_entry_has_are_refused_before_anything_changes(tmp_path: Path, value: bytes) -> None:
    mode, path = Train(seed=5), tmp_path / "a.pt"
    first = {"mode": mapping(kind=text("Train"), seed=b"K\x05", draws=b"K\x07")}
    cases = [(request, mapping(**{**entry, name: value})) for request, entry in REQUESTS for name in entry]
    cases += [(request, value) for request in (ScalarType("int"), ScalarType("str"), 3, *(request for request, _ in REQUESTS))]
    for request, entry in cases:
        archive(path, PROTOCOL + mapping(**first, x=entry) + b".")
        with pytest.raises(CheckpointError) as raised:
            restore(path, {"mode": mode, "x": request})
        assert mode.draws == 0 and len(raised.value.message) < 1000


def test_facts_that_say_nothing_are_refused_or_passed_over(tmp_path: Path) -> None:
    layout = Layout("M", [Leaf("w", ("H", "I"), (2, 2), "f32", "parameter", Start("zeros"))])
    model = mapping(w=tensor(numbers(2, 2), numbers(2, 1)))
    deep = b"]" * 10_000 + b"a" * 9_999
    for axes in (deep, ONE, numbers(1, 2), b"(" + text("I") + ONE + b"t", mapping(w=deep), mapping(w=b"(" + text("I") + ONE + b"t")):
        facts = mapping(version=ONE, entries=mapping(m=mapping(axes=axes)))
        archive(tmp_path / "a.pt", PROTOCOL + mapping(m=model, shapescript=facts) + b".")
        assert restore(tmp_path / "a.pt", {"m": ModelType(layout)})[0].w.tolist() == [[0, 1], [2, 3]]
    refused(archive(tmp_path / "a.pt", PROTOCOL + mapping(shapescript=mapping(version=deep)) + b"."), "version")


def test_other_versions_and_byte_orders_are_refused(tmp_path: Path) -> None:
    for name, data in (("version", b"99\n"), ("version", b"x"), ("version", b"0"), ("byteorder", b"big"), ("constants.pkl", b"")):
        refused(archive(tmp_path / "a.pt", b"N", **{name: data}), "version")


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("ours") / "a.pt"
    save_checkpoint(path, w=np.arange(3, dtype=np.float32), epochs=3)
    return path.read_bytes()


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("theirs") / "t.pt"
    torch.save({"w": torch.arange(3.0), "epochs": 3}, path)
    return path.read_bytes()


def test_every_truncation_of_ours_is_called_one(tmp_path: Path, ours: bytes) -> None:
    path = tmp_path / "a.pt"
    for length in range(len(ours)):
        path.write_bytes(ours[:length])
        refused(path, "truncated")


def test_every_truncation_of_pytorchs_is_refused(tmp_path: Path, theirs: bytes) -> None:
    path = tmp_path / "a.pt"
    for length in range(len(theirs)):
        path.write_bytes(theirs[:length])
        refused(path, "truncated")


@pytest.mark.parametrize("whose", ["ours", "theirs"])
def test_every_flipped_byte_is_refused_or_means_nothing(tmp_path: Path, whose: str, request: pytest.FixtureRequest) -> None:
    whole: bytes = request.getfixturevalue(whose)
    path, kinds = tmp_path / "a.pt", set()
    for place in range(len(whole)):
        for flip in (0x01, 0x80, 0xFF):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ flip]) + whole[place + 1 :])
            try:
                found = load_checkpoint(path)
            except CheckpointError as error:
                assert error.code == "R1302"
                kinds.add(error.kind)
            else:
                assert found["epochs"] == 3 and found["w"].tobytes() == np.arange(3, dtype=np.float32).tobytes() and len(found) == 2
    assert kinds == ({"corrupt"} if whose == "ours" else {"corrupt", "truncated"})


def test_bytes_behind_the_end_or_before_the_beginning_are_refused(tmp_path: Path, ours: bytes) -> None:
    for damaged in (ours + b"\0", ours + ours, b"\0" + ours, b"hello", b"PKzip", b"\0" * 100):
        (tmp_path / "a.pt").write_bytes(damaged)
        refused(tmp_path / "a.pt")


def zipped(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(f"archive/{name}", data)
    return path


def test_other_zip_archives_are_refused(tmp_path: Path) -> None:
    refused(zipped(tmp_path / "a.pt", {"other": b""}))
    refused(zipped(tmp_path / "a.pt", {"data.pkl": b"\0" * 10_000, "version": b"3\n"}, zipfile.ZIP_DEFLATED))
    refused(zipped(tmp_path / "a.pt", {"data.pkl": PROTOCOL + b"}."}))
    with zipfile.ZipFile(tmp_path / "a.pt", "a") as archive:
        archive.writestr("archive/version", b"3\n")
        archive.writestr("second/data.pkl", b"")
    refused(tmp_path / "a.pt")
    np.savez(tmp_path / "b.npz", w=np.zeros(3))
    refused(tmp_path / "b.npz")


def test_members_that_overlap_or_share_a_name_are_refused(tmp_path: Path, ours: bytes) -> None:
    stream = io.BytesIO()
    writer = ZipWriter(stream)
    writer.add("a", b"12")
    writer._members.append(writer._members[0]._replace(name="b"))
    writer.finish()
    double = io.BytesIO()
    twice = ZipWriter(double)
    twice.add("a", b"1")
    twice.add("a", b"2")
    twice.finish()
    for damaged in (stream, double):
        (tmp_path / "a.zip").write_bytes(damaged.getvalue())
        with (tmp_path / "a.zip").open("rb") as file, pytest.raises(DamagedFileError):
            ZipReader(file)


def test_more_members_than_16_bits_can_count_are_written_and_read(tmp_path: Path) -> None:
    path = tmp_path / "many.zip"
    with path.open("wb") as file:
        writer = ZipWriter(file)
        for number in range(66_000):
            writer.add(str(number), b"")
        writer.finish()
    with path.open("rb") as file:
        assert len(ZipReader(file).members) == 66_000
    with zipfile.ZipFile(path) as archive:
        assert len(archive.namelist()) == 66_000
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    with path.open("rb") as file, pytest.raises(TruncatedFileError):
        ZipReader(file)


def test_members_above_4_gib_use_zip64_fields(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the limit lowered to 100 bytes the same code runs on a small file."""
    monkeypatch.setattr("shapescript.runtime.zip_format.FULL32", 100)
    stream = io.BytesIO()
    writer = ZipWriter(stream)
    for name in ("a", "b"):
        writer.add(name, name.encode() * 150)
    writer.finish()
    raw = stream.getvalue()
    assert struct.pack("<2H2Q", 1, 16, 150, 150) in raw and raw.count(b"PK\x06\x06") == raw.count(b"PK\x06\x07") == 1
    (tmp_path / "a.zip").write_bytes(raw)
    with (tmp_path / "a.zip").open("rb") as file:
        reader = ZipReader(file)
        assert reader.read("b") == b"b" * 150 and zlib.crc32(b"b" * 150) == reader.members["b"].crc
