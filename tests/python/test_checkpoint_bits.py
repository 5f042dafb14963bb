"""Every truncation and every flipped byte of a checkpoint, in both formats: refused with the right kind, or the same values."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from runtime_samples import digits, filled, leaf
from safetensors.torch import save_file

import shapescript
from shapescript.runtime.checkpoint import load_checkpoint, read_checkpoint, save_checkpoint
from shapescript.runtime.errors import CheckpointError
from shapescript.runtime.layout import Layout
from shapescript.runtime.mode import Train
from shapescript.runtime.optimiser import Sgd
from shapescript.runtime.requests import ModelType, OptimiserType, ScalarType
from shapescript.runtime.restore import restore
from shapescript.runtime.sinks import MemorySink
from shapescript.runtime.trees import same_tree

LAYOUT = Layout("M", [leaf("w", "D", 2)])
FORMATS = ["a.pt", "a.safetensors"]


def saved(path: Path) -> bytes:
    """A checkpoint as a training run saves it: model, optimiser, mode, log, dataset, and plain values."""
    model = filled(LAYOUT)
    opt, mode, sink = Sgd(model, momentum=0.5), Train(seed=3), MemorySink()
    opt.step = mode.draws = 7
    sink.write("Log", {"step": 7})
    save_checkpoint(path, m=model, opt=opt, mode=mode, sink=sink, data=digits(), epochs=3, note="ü")
    return path.read_bytes()


@contextmanager
def damaged(path: Path, place: int, flip: int, whole: bytes) -> Iterator[None]:
    with path.open("r+b", buffering=0) as file:
        os.pwrite(file.fileno(), bytes([whole[place] ^ flip]), place)
        try:
            yield
        finally:
            os.pwrite(file.fileno(), whole[place : place + 1], place)


def refused(path: Path) -> CheckpointError:
    with pytest.raises(CheckpointError) as raised:
        load_checkpoint(path)
    error = raised.value
    assert str(path) in error.message and "\n" not in error.message and len(error.message) < 1000
    return error


@pytest.mark.parametrize("name", FORMATS)
def test_every_truncation_is_called_one(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    whole = saved(path)
    for length in range(len(whole) - 1, -1, -1):
        os.truncate(path, length)
        error = refused(path)
        assert (error.code, error.kind) == ("R1302", "truncated"), length


@pytest.mark.parametrize("name", FORMATS)
def test_every_flipped_byte_is_refused_or_means_nothing(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    whole = saved(path)
    wanted, harmless = read_checkpoint(path), 0
    for place in range(len(whole)):
        for bit in range(8) if name == "a.safetensors" else (place % 8, (place + 3) % 8):
            with damaged(path, place, 1 << bit, whole):
                try:
                    found = read_checkpoint(path)
                except CheckpointError as error:
                    assert (error.code, error.kind) == ("R1302", "corrupt"), place
                else:
                    harmless += 1
                    assert same_tree(dict(found.entries), dict(wanted.entries)) and found.facts == wanted.facts, place
    assert path.read_bytes() == whole and (name == "a.pt" or not harmless)


@pytest.mark.parametrize("name", FORMATS)
def test_no_restore_of_a_damaged_file_changes_anything(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    whole = saved(path)
    for place in range(0, len(whole), 3):
        mode, sink, data = Train(seed=3), MemorySink(), digits()
        requests = {"mode": mode, "sink": sink, "data": data, "m": ModelType(LAYOUT), "opt": OptimiserType(Sgd, LAYOUT)}
        with damaged(path, place, 1 + place % 255, whole):
            try:
                m, opt, epochs = restore(path, {**requests, "epochs": ScalarType("int")})
            except CheckpointError as error:
                assert (error.code, error.kind, mode.draws) == ("R1302", "corrupt", 0)
            else:
                assert (mode.draws, opt.step, epochs) == (7, 7, 3) and m.w.tobytes() == filled(LAYOUT).w.tobytes()


@pytest.mark.parametrize("name", FORMATS)
def test_bytes_behind_the_end_or_before_the_beginning_are_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    whole = saved(path)
    for other in (whole + b"\0", whole + whole, b"\0" + whole, b"hello, here", b"\0" * 100, b"\xff" * 100, b"{}" * 50):
        path.write_bytes(other)
        assert refused(path).kind in ("corrupt", "truncated")
    for other in (whole + b"\0", whole + whole, b"\0" * 100, b"\xff" * 100):
        path.write_bytes(other)
        assert refused(path).kind == "corrupt"


@pytest.mark.parametrize("name", FORMATS)
def test_two_parts_that_change_places_are_refused(tmp_path: Path, name: str) -> None:
    """Bytes that are all there, in another order, as after a torn write."""
    path = tmp_path / name
    whole = saved(path)
    for size in (1, 8, 64, 512):
        for start in range(0, len(whole) - 2 * size, max(size, 37)):
            one, other = whole[start : start + size], whole[start + size : start + 2 * size]
            if one != other:
                path.write_bytes(whole[:start] + other + one + whole[start + 2 * size :])
                try:
                    found = load_checkpoint(path)
                except CheckpointError as error:
                    assert error.code == "R1302"
                else:
                    assert found["epochs"] == 3 and found["m"]["w"].tobytes() == filled(LAYOUT).w.tobytes(), (start, size)


@pytest.mark.parametrize("name", ["t.pt", "t.safetensors"])
def test_damage_to_files_of_others_is_never_a_traceback(tmp_path: Path, name: str) -> None:
    """A `.safetensors` file of others has no checksum: a changed number can't be seen, all else is refused."""
    path, state = tmp_path / name, {"w": torch.arange(3.0), "b": torch.tensor([True, False])}
    if name == "t.pt":
        torch.save(state, path)
    else:
        save_file(state, path)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert refused(path).kind == "truncated", length
    path.write_bytes(whole)
    for place in range(len(whole)):
        for flip in (1 << place % 8, 0xFF)[: 1 if name == "t.pt" else 2]:
            with damaged(path, place, flip, whole):
                try:
                    found = load_checkpoint(path)
                except CheckpointError as error:
                    assert error.code in ("R1302", "R1303")
                else:
                    assert name == "t.safetensors" or (found["w"].tolist() == [0, 1, 2] and len(found) == 2)


PROGRAM = """
dim D = 2

model Net:
    w: [D] = ones

fn store(path: str, m: Net, opt: Sgd[Net], epochs: int):
    save(path, m=m, opt=opt, epochs=epochs)

fn fetch(path: str) -> (Net, Sgd[Net], int):
    m, opt, epochs = load(path, m=Net, opt=Sgd[Net], epochs=int)
    return m, opt, epochs
"""


@pytest.mark.parametrize("name", FORMATS)
def test_a_program_that_loads_a_damaged_file_gets_a_coded_error(
    program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    m = program.Net(seed=1)
    m.w = np.array([1.5, -2.0], np.float32)
    program.store(name, m, shapescript.Sgd(m), 3)
    path = Path(name)
    whole = path.read_bytes()
    for place in range(0, len(whole), 11):
        with damaged(path, place, 1 << place % 8, whole):
            try:
                found, _, epochs = program.fetch(name)
            except CheckpointError as error:
                assert (error.code, error.kind) == ("R1302", "corrupt") and error.span is not None
            else:
                assert found.w.tolist() == [1.5, -2.0] and epochs == 3
    for length in range(0, len(whole), 11):
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError) as raised:
            program.fetch(name)
        assert (raised.value.code, raised.value.kind) == ("R1302", "truncated")
