"""Hostile files that look like checkpoints: nothing in them runs, and none takes more memory or time than its size warrants."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_runtime_damage import PROTOCOL, archive, mapping, numbers, storage, tensor, text

from shapescript.runtime.checkpoint import load_checkpoint, read_checkpoint, save_checkpoint
from shapescript.runtime.errors import CheckpointError, ShapeScriptError
from shapescript.runtime.inspection import inspect
from shapescript.runtime.inspection_texts import as_json, as_text
from shapescript.runtime.mode import Eval, Train
from shapescript.runtime.requests import ScalarType
from shapescript.runtime.restore import restore

FLOAT = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}


def safetensors(path: Path, header: object, data: bytes = b"", length: int | None = None) -> Path:
    encoded = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(encoded) if length is None else length) + encoded + data)
    return path


def ours(tree: str) -> dict[str, str]:
    """Metadata as ours, with a hash that nobody checks before the JSON is known to be damaged: the hash isn't right."""
    return {"shapescript": f"blake2b:{'0' * 32} {tree}"}


def looked_at(path: Path, bound: int) -> Exception | None:
    """Load the file and inspect it, within a bound of bytes; gives what it was refused by."""
    error: Exception | None = None
    tracemalloc.start()
    try:
        try:
            load_checkpoint(path)
        except CheckpointError as refused:
            error = refused
            assert len(refused.message) < 1000 and "\n" not in refused.message
        found = inspect(path)
        assert (found.error is None) == (error is None)
        for line in as_text(found).split("\n"):
            assert line.isprintable()
        json.loads(as_json(found))
        assert tracemalloc.get_traced_memory()[1] < bound
    finally:
        tracemalloc.stop()
    return error


DEEP = 20_000
HEADERS: list[tuple[str, Any, bytes]] = [
    ("no dict", [], b""),
    ("a list in the place of a tensor", {"a": []}, b""),
    ("a tensor without a type", {"a": {}}, b""),
    ("a huge shape", {"a": {"dtype": "F32", "shape": [2**62, 2**62], "data_offsets": [0, 4]}}, bytes(4)),
    ("a huge shape of nothing", {"a": {"dtype": "F32", "shape": [0, 2**62, 2**62], "data_offsets": [0, 0]}}, b""),
    ("seventy axes", {"a": {"dtype": "F32", "shape": [1] * 70, "data_offsets": [0, 4]}}, bytes(4)),
    ("a size below 0", {"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}, bytes(4)),
    ("offsets below 0", {"a": {"dtype": "F32", "shape": [1], "data_offsets": [-4, 0]}}, bytes(4)),
    ("offsets that end before they begin", {"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}}, bytes(4)),
    ("offsets of floats", {"a": {"dtype": "F32", "shape": [1], "data_offsets": [0.0, 4.0]}}, bytes(4)),
    ("offsets far behind the end", {"a": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}, bytes(4)),
    ("two tensors in one place", {"a": FLOAT, "b": FLOAT}, bytes(4)),
    ("a gap", {"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}, bytes(8)),
    ("bytes of nothing", {"a": FLOAT}, bytes(8)),
    ("bools of other bytes", {"a": {"dtype": "BOOL", "shape": [2], "data_offsets": [0, 2]}}, b"\x01\x02"),
    ("one tensor twice", b'{"a":%s,"a":%s}' % ((json.dumps(FLOAT).encode(),) * 2), bytes(4)),
    ("metadata twice", b'{"__metadata__":{},"__metadata__":{}}', b""),
    ("metadata of numbers", {"__metadata__": {"a": 1}}, b""),
    ("metadata that is a list", {"__metadata__": []}, b""),
    ("no JSON", b"{{{{", b""),
    ("no UTF-8", b'{"\xff":1}', b""),
    ("deep lists", b"[" * DEEP + b"]" * DEEP, b""),
    ("deep dicts", b'{"a":' * DEEP + b"1" + b"}" * DEEP, b""),
    ("a huge number", b'{"a":' + b"9" * 5000 + b"}", b""),
    ("an infinity", b'{"a":{"dtype":"F32","shape":[Infinity],"data_offsets":[0,4]}}', bytes(4)),
    ("a wrong hash", {"__metadata__": ours('{"a":{"$tensor":"a"}}'), "a": FLOAT}, bytes(4)),
    ("ours twice", {"__metadata__": {**ours("{}"), "b": ours("{}")["shapescript"]}, "a": FLOAT}, bytes(4)),
    ("ours, and no text of ours", {"__metadata__": {"shapescript": "{}"}, "a": FLOAT}, bytes(4)),
]


@pytest.mark.parametrize(("header", "data"), [pytest.param(header, data, id=name) for name, header, data in HEADERS])
def test_a_safetensors_header_that_does_not_fit_is_refused(tmp_path: Path, header: Any, data: bytes) -> None:
    path = safetensors(tmp_path / "a.safetensors", header, data)
    error = looked_at(path, 2_000_000 + 60 * path.stat().st_size)
    assert isinstance(error, CheckpointError) and error.code == "R1302"


@pytest.mark.parametrize("header", [b"", struct.pack("<Q", 2) + b"{}", struct.pack("<Q", 2**40) + b"{", struct.pack("<Q", 8) + b"{}      "])
def test_a_file_that_is_larger_than_it_says_is_not_read(tmp_path: Path, header: bytes) -> None:
    """A sparse file: it takes no room on the disk."""
    path = tmp_path / "a.safetensors"
    path.write_bytes(header)
    os.truncate(path, 2**40)
    error = looked_at(path, 2_000_000)
    assert isinstance(error, CheckpointError) and error.code == "R1302"


@pytest.mark.parametrize("kind", ["", "x" * 100_000, "\ud800"])
def test_a_kind_that_is_no_word_is_none(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.pt"
    torch.save({"m": {"kind": kind}}, path)
    for wanted in (ScalarType("int"), 3, np.zeros(3), Train(seed=1), Eval):
        for force in (False, True):
            with pytest.raises(CheckpointError) as raised:
                restore(path, {"m": wanted}, force=force)
            assert raised.value.code in ("R1302", "R1303") and len(raised.value.message) < 1000
    inspected = as_text(inspect(path))
    assert inspected.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    ("tree", "held"), [(torch.zeros(3), "a tensor"), ([1], "a list"), (3, "an int"), ({1: 2}, "a dict with other keys")]
)
def test_a_file_without_names_is_told_as_what_it_is(tmp_path: Path, tree: object, held: str) -> None:
    torch.save(tree, tmp_path / "a.pt")
    with pytest.raises(CheckpointError, match=f"R1302.*it holds {held}"):
        load_checkpoint(tmp_path / "a.pt")


@pytest.mark.parametrize("length", [0, 1, 7, 9, 100_000_001, 2**32, 2**63, 2**64 - 1])
def test_a_safetensors_header_of_another_length_is_refused(tmp_path: Path, length: int) -> None:
    path = safetensors(tmp_path / "a.safetensors", {"a": FLOAT}, bytes(4), length)
    assert isinstance(looked_at(path, 2_000_000), CheckpointError)


@pytest.mark.parametrize(
    "tree",
    [
        "[]",
        "1",
        '{"a":{"$tensor":"b"}}',
        '{"a":{"$tensor":["a"]}}',
        '{"a":{"$tensor":"a"},"b":{"$tensor":"a"}}',
        "{}",
        '{"a":{"$tuple":1}}',
        '{"a":{"$float":"1"}}',
        '{"a":{"$dict":[[[],1]]}}',
        '{"a":{"$dict":[1]}}',
        '{"a":{"$run":"x"}}',
        '{"a":NaN}',
        '{"a":1,"a":2}',
        '{"a":',
        '{"a":' + "[" * 5000 + "]" * 5000 + "}",
        '{"a":' * 5000 + "1" + "}" * 5000,
        '{"a":' + "9" * 5000 + "}",
    ],
)
def test_facts_of_ours_that_do_not_fit_are_refused_behind_a_right_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tree: str) -> None:
    monkeypatch.setattr("shapescript.runtime.safetensors_format.check_hash", lambda *_: None)
    path = safetensors(tmp_path / "a.safetensors", {"__metadata__": ours(tree), "a": FLOAT}, bytes(4))
    assert isinstance(looked_at(path, 3_000_000), CheckpointError)


def repeated(part: bytes, count: int) -> bytes:
    return b"](" + part * count + b"e"


def laughs() -> bytes:
    """Ten lists of ten, nine deep: a thousand million leaves in a few bytes."""
    body = b"K\x01q\x00"
    for level in range(9):
        body += b"](" + (b"h" + bytes([level])) * 10 + b"e" + b"q" + bytes([level + 1])
    return b"](" + body + b"e"


WIDE = tensor(numbers(10_000, 10_000), numbers(0, 0))
OVERLAPPING = tensor(numbers(3, 2), numbers(1, 1))


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(repeated(WIDE, 1000), id="views of 400 MB"),
        pytest.param(mapping(**{f"w{n}": WIDE for n in range(300)}), id="a model of views of 400 MB"),
        pytest.param(repeated(OVERLAPPING, 1000), id="many views"),
        pytest.param(b"]" * DEEP + b"a" * (DEEP - 1), id="deep lists"),
        pytest.param(b"N" + b"\x85" * DEEP, id="deep tuples"),
        pytest.param((b"}" + text("x")) * DEEP + b"N" + b"s" * DEEP, id="deep dicts"),
        pytest.param(b"]q\x00h\x00a", id="a list in itself"),
        pytest.param(b"}q\x00" + text("x") + b"h\x00s", id="a dict in itself"),
        pytest.param(b"]q\x00(h\x00h\x00te", id="a tuple of what it lies in"),
        pytest.param(laughs(), id="a thousand million leaves"),
        pytest.param(mapping(**{"\x1b[2J\n": b"K\x01"}), id="a name that a terminal obeys"),
        pytest.param(text("\x1b]0;title\x07" * 100), id="a text that a terminal obeys"),
    ],
)
def test_a_small_pickle_cannot_take_much(tmp_path: Path, body: bytes) -> None:
    path = archive(tmp_path / "a.pt", body)
    looked_at(path, 5_000_000 + 60 * path.stat().st_size)


def test_keys_of_a_pickle_that_stand_twice_are_one(tmp_path: Path) -> None:
    """As Python and PyTorch read them: the last one counts."""
    path = archive(tmp_path / "a.pt", PROTOCOL + b"}(" + text("x") + b"K\x01" + text("x") + b"K\x02u.")
    assert load_checkpoint(path) == {"x": 2} == torch.load(path, weights_only=True)


def test_a_storage_that_is_referred_to_often_is_read_and_checked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bools = tensor(numbers(2), numbers(1), source=storage(kind="BoolStorage", count=1000))
    path = archive(tmp_path / "a.pt", repeated(bools, 5000), **{"data/0": b"\x01" * 1000})
    looked: list[int] = []
    real: Callable[..., Any] = np.frombuffer
    monkeypatch.setattr("shapescript.runtime.pickle_tensors.np.frombuffer", lambda *given: looked.append(1) or real(*given))
    assert len(load_checkpoint(path)["x"]) == 5000 and len(looked) == 1


def test_a_storage_may_not_have_two_sizes(tmp_path: Path) -> None:
    body = b"](" + tensor(numbers(4), numbers(1)) + tensor(numbers(1), numbers(1), source=storage(count=3)) + b"e"
    assert isinstance(looked_at(archive(tmp_path / "a.pt", body), 2_000_000), CheckpointError)


def test_zip_bombs_are_refused_for_what_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("archive/data.pkl", bytes(50_000_000))
        bomb.writestr("archive/version", b"3\n")
    assert path.stat().st_size < 100_000 and isinstance(looked_at(path, 3_000_000), CheckpointError)
    os.rename(path, tmp_path / "a.npz")
    tracemalloc.start()
    try:
        found = inspect(tmp_path / "a.npz")
        assert isinstance(found.error, ShapeScriptError) and found.error.code == "R1202"
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


def test_an_npz_of_zeros_is_told_without_holding_it(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros(4_000_000))
    tracemalloc.start()
    try:
        found = inspect(tmp_path / "a.npz")
        assert found.error is None and found.entries[0].count == 4_000_000
        assert tracemalloc.get_traced_memory()[1] < 6_000_000
    finally:
        tracemalloc.stop()


def test_a_file_is_read_within_a_few_times_its_size(tmp_path: Path) -> None:
    """In a process that may have little more memory than that."""
    code = """
import resource, sys
import numpy as np
import safetensors
from shapescript.runtime.checkpoint import load_checkpoint
from shapescript.runtime.inspection import inspect
load_checkpoint("small" + sys.argv[1]), inspect("small" + sys.argv[1])
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
bound = used + 4 * 20_000_000
resource.setrlimit(resource.RLIMIT_AS, (bound, bound))
print(load_checkpoint("large" + sys.argv[1])["w"].shape, inspect("large" + sys.argv[1]).error)
"""
    for suffix in (".pt", ".safetensors"):
        save_checkpoint(tmp_path / f"small{suffix}", w=np.zeros(3))
        save_checkpoint(tmp_path / f"large{suffix}", w=np.zeros(2_500_000))
        done = subprocess.run([sys.executable, "-c", code, suffix], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
        assert done.stdout == "(2500000,) None\n"


def test_numbers_that_pytorch_negates_or_conjugates_when_it_reads_them_are_refused(tmp_path: Path) -> None:
    """Their storage holds other numbers than the tensor has: reading it as it is would be silent and wrong."""
    whole = torch.tensor([1 + 2j, 3 - 4j])
    for lazy in (whole.conj(), whole.conj().imag):
        torch.save({"x": lazy}, tmp_path / "a.pt")
        error = looked_at(tmp_path / "a.pt", 2_000_000)
        assert isinstance(error, CheckpointError) and (error.kind, error.code) == ("dtype", "R1303") and "resolve_conj" in error.message
    torch.save({"x": whole.conj().resolve_conj()}, tmp_path / "a.pt")
    assert read_checkpoint(tmp_path / "a.pt").entries["x"].tolist() == [1 - 2j, 3 + 4j]
