"""Checkpoints as `.safetensors`: the package opens ours, we open others', and what is saved is found again bit for bit."""

from __future__ import annotations

import hashlib
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from runtime_samples import digits, encoder_layout, filled, leaf, mlp_layout, same_bytes
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from shapescript.runtime.arrays import BF16
from shapescript.runtime.checkpoint import load_checkpoint, read_checkpoint, save_checkpoint
from shapescript.runtime.entries import Tensor
from shapescript.runtime.errors import ArgumentError, CheckpointError, PackageMissing
from shapescript.runtime.layout import Layout
from shapescript.runtime.mode import Eval, Train
from shapescript.runtime.model import Model
from shapescript.runtime.optimiser import AdamW
from shapescript.runtime.requests import ModelType, OptimiserType, ScalarType, TensorType
from shapescript.runtime.restore import restore
from shapescript.runtime.sinks import MemorySink
from shapescript.runtime.trees import same_tree


def sample(layout: Layout | None = None) -> dict[str, Any]:
    """One value of each kind."""
    model = filled(layout or encoder_layout())
    opt = AdamW(model, betas=(0.8, 0.99))
    opt.step = 17
    sink = MemorySink()
    sink.write("Log", {"step": 1})
    numbers = {"rate": 0.1, "tiny": 5e-324, "nan": math.nan, "up": math.inf, "down": -math.inf, "zero": -0.0, "whole": 1.0}
    ints = {"large": 2**63 - 1, "small": -(2**63), "yes": True, "one": 1, "text": 'a\0"\\\n€😀', "dollar": "$tensor", "empty": ""}
    arrays = {"w": Tensor(np.arange(6.0).reshape(2, 3), ("V", "D")), "none": np.zeros((2, 0), np.int32), "half": np.ones(3, np.float16)}
    handles = {"mode": Train(seed=5), "eval": Eval, "sink": sink, "data": digits()}
    return {"m": model, "opt": opt, **numbers, **ints, **arrays, **handles}


def test_both_formats_give_the_same_values_and_facts(tmp_path: Path) -> None:
    for name in ("a.pt", "a.safetensors"):
        save_checkpoint(tmp_path / name, **sample())
    one, other = (read_checkpoint(tmp_path / name) for name in ("a.pt", "a.safetensors"))
    assert same_tree(dict(one.entries), dict(other.entries)) and tuple(one.entries) == tuple(other.entries)
    assert one.facts == other.facts and other.tensor_axes("w") == ("V", "D")
    assert same_tree(load_checkpoint(tmp_path / "a.pt"), load_checkpoint(tmp_path / "a.safetensors"))


def test_models_and_optimisers_are_restored_bit_for_bit(tmp_path: Path) -> None:
    values = sample()
    save_checkpoint(tmp_path / "a.safetensors", **values)
    layout = values["m"].layout
    m, opt, rate = restore(
        tmp_path / "a.safetensors", {"m": ModelType(layout), "opt": OptimiserType(AdamW, layout), "rate": ScalarType("float")}
    )
    assert same_bytes(m, values["m"]) and (opt.step, opt.betas, rate) == (17, (0.8, 0.99), 0.1)
    save_checkpoint(tmp_path / "b.safetensors", **{**values, "m": m, "opt": opt})
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


def test_a_file_with_one_model_has_its_bare_names(tmp_path: Path) -> None:
    model = filled(mlp_layout())
    for values in ({"m": model}, {"m": model, "epochs": 3, "mode": Train(seed=1), "data": digits()}):
        save_checkpoint(tmp_path / "m.safetensors", **values)
        found = load_file(tmp_path / "m.safetensors")
        assert {name: tensor.numpy().tobytes() for name, tensor in found.items()} == {n: a.tobytes() for n, a in model.state_dict().items()}
        net = torch.nn.ModuleDict({"hidden": torch.nn.Linear(4, 6), "output": torch.nn.Linear(6, 3)})
        net.load_state_dict(found)
        with safe_open(tmp_path / "m.safetensors", "np") as file:
            assert file.metadata()["format"] == "pt" and set(file.metadata()) == {"format", "shapescript"}
        (restored,) = restore(tmp_path / "m.safetensors", {"m": ModelType(mlp_layout())})
        assert same_bytes(restored, model)


def test_tensors_of_several_entries_have_their_entries_names(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "a.safetensors", m=filled(mlp_layout()), opt=AdamW(filled(mlp_layout())), w=np.zeros(2))
    names = set(load_file(tmp_path / "a.safetensors"))
    assert {"m.hidden.weight", "opt.first.hidden.weight", "opt.second.output.bias", "w"} <= names and len(names) == 13
    save_checkpoint(tmp_path / "b.safetensors", a=filled(mlp_layout()), b=filled(mlp_layout(), 2))
    assert set(load_file(tmp_path / "b.safetensors")) == {f"{m}.{name}" for m in "ab" for name in mlp_layout().names}


def test_names_that_would_be_the_same_are_told_apart(tmp_path: Path) -> None:
    ones, twos = np.ones(1), np.full(1, 2.0)
    values = {"a": {"b.c": ones, "$x": twos, "": ones}, "a.b": {"c": twos}, "__metadata__": ones}
    save_checkpoint(tmp_path / "a.safetensors", **values)
    assert same_tree(load_checkpoint(tmp_path / "a.safetensors"), values)
    save_checkpoint(tmp_path / "b.safetensors", m={"__metadata__": ones, "shapescript": twos})
    assert load_checkpoint(tmp_path / "b.safetensors")["m"]["__metadata__"].tolist() == [1]


def test_the_same_state_gives_the_same_bytes_in_another_process(tmp_path: Path) -> None:
    """The package writes metadata in an order of chance, which differs between processes."""
    code = """
import numpy as np, sys
from shapescript.runtime.checkpoint import save_checkpoint
save_checkpoint(sys.argv[1], m={"b": np.arange(3.0), "a": np.ones(2, np.float32)}, epochs=3, note="x")
"""
    written = set()
    for turn in range(3):
        path = tmp_path / f"{turn}.safetensors"
        subprocess.run([sys.executable, "-c", code, path], check=True, timeout=60)
        written.add(path.read_bytes())
    assert len(written) == 1


def test_golden_bytes(tmp_path: Path) -> None:
    """A change here is a change of the format: files of one program, data and seed would differ between releases."""
    save_checkpoint(tmp_path / "a.safetensors", w=np.arange(3, dtype=np.float32), epochs=3, mode=Train(seed=1), sink=MemorySink())
    found = (tmp_path / "a.safetensors").read_bytes()
    assert hashlib.blake2b(found, digest_size=16).hexdigest() == "af994da647533849d82385eeeb8be056"


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64"])
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (5,), (2, 3)])
def test_each_element_type_and_shape_goes_both_ways(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    array = np.asarray(np.random.default_rng(1).standard_normal(shape) * 9).astype(dtype)
    theirs = torch.from_numpy(array.copy())
    save_checkpoint(tmp_path / "a.safetensors", m={"x": array, "turned": array.T})
    found = load_file(tmp_path / "a.safetensors")
    assert found["x"].dtype == theirs.dtype and torch.equal(found["x"], theirs)
    assert found["turned"].numpy().tobytes() == array.T.tobytes() and found["turned"].shape == array.T.shape
    save_file({"x": theirs}, tmp_path / "b.safetensors")
    ours = load_checkpoint(tmp_path / "b.safetensors")["x"]
    assert (ours.dtype, ours.shape, ours.tobytes()) == (array.dtype, shape, array.tobytes()) and not ours.flags.writeable


def test_bf16_goes_both_ways(tmp_path: Path) -> None:
    layout = Layout("M", [leaf("w", "D", 4, dtype="bf16")])
    theirs = torch.tensor([1.0, -2.5, 3e38, 1e-40]).to(torch.bfloat16)
    save_file({"w": theirs}, tmp_path / "t.safetensors")
    (model,) = restore(tmp_path / "t.safetensors", {"m": ModelType(layout)})
    save_checkpoint(tmp_path / "a.safetensors", m=model)
    assert torch.equal(load_file(tmp_path / "a.safetensors")["w"].view(torch.int16), theirs.view(torch.int16))
    found = load_checkpoint(tmp_path / "a.safetensors")["m"]["w"]
    assert found.dtype == np.float32 and found.tobytes() == theirs.float().numpy().tobytes()
    assert read_checkpoint(tmp_path / "a.safetensors").entries["m"]["w"].dtype == BF16


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "uint64"])
def test_unsigned_numbers_of_others_are_read(tmp_path: Path, dtype: str) -> None:
    save_file({"x": torch.tensor([0, 1, 65535]).to(getattr(torch, dtype))}, tmp_path / "t.safetensors")
    found = load_checkpoint(tmp_path / "t.safetensors")["x"]
    assert found.dtype == dtype and found.tolist() == [0, 1, 65535]


def test_a_file_of_others_is_one_state_dict(tmp_path: Path) -> None:
    net = torch.nn.ModuleDict({"hidden": torch.nn.Linear(4, 6), "output": torch.nn.Linear(6, 3)})
    for metadata in (None, {"format": "pt", "note": "x"}):
        save_file(net.state_dict(), tmp_path / "t.safetensors", metadata)
        (model,) = restore(tmp_path / "t.safetensors", {"anything": ModelType(mlp_layout())})
        assert {n: a.tobytes() for n, a in model.state_dict().items()} == {n: t.numpy().tobytes() for n, t in net.state_dict().items()}
        fresh = Model(mlp_layout())
        fresh.load_state_dict(load_checkpoint(tmp_path / "t.safetensors"))
        assert same_bytes(fresh, model)
    (bias,) = restore(tmp_path / "t.safetensors", {"output.bias": TensorType("f32", ("C",), (3,))})
    assert bias.tolist() == net["output"].bias.tolist()


def test_a_nan_is_saved_with_its_canonical_bits(tmp_path: Path) -> None:
    odd = np.array([0xFFC12345, 0x7F800001, 0x3F800000], np.uint32).view(np.float32)
    save_checkpoint(tmp_path / "a.safetensors", w=odd, x=math.copysign(math.nan, -1))
    found = load_checkpoint(tmp_path / "a.safetensors")
    assert found["w"].view(np.uint32).tolist() == [0x7FC00000, 0x7FC00000, 0x3F800000] and math.copysign(1, found["x"]) == 1


def test_what_the_format_cannot_hold_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    for values, code in (
        ({"x": np.zeros(2, np.complex128)}, "R1001"),
        ({"x": np.array(["a"])}, "R1001"),
        ({"x": None}, "R1004"),
        ({"x": "half \ud800"}, "R1004"),
    ):
        with pytest.raises(ArgumentError) as raised:
            save_checkpoint(tmp_path / "a.safetensors", **values)
        assert raised.value.code == code and not list(tmp_path.iterdir())


def test_a_header_that_would_be_too_long_to_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shapescript.runtime.safetensors_writer.LONGEST_HEADER", 4000)
    save_checkpoint(tmp_path / "a.safetensors", x="a" * 800)
    with pytest.raises(ArgumentError, match="longer than 1000 bytes") as raised:
        save_checkpoint(tmp_path / "a.safetensors", x="a" * 1000)
    assert raised.value.code == "R1004" and load_checkpoint(tmp_path / "a.safetensors") == {"x": "a" * 800}


def test_element_types_that_are_not_supported_are_named(tmp_path: Path) -> None:
    save_file({"x": torch.zeros(2).to(torch.float8_e4m3fn)}, tmp_path / "t.safetensors")
    with pytest.raises(CheckpointError, match="x of F8_E4M3") as raised:
        load_checkpoint(tmp_path / "t.safetensors")
    assert (raised.value.code, raised.value.kind) == ("R1303", "dtype")


def test_the_ending_decides_in_any_case_of_its_letters(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "a.SafeTensors", epochs=3)
    assert (tmp_path / "a.SafeTensors").read_bytes()[8:].startswith(b'{"__metadata__":{"format":"pt",')
    assert load_checkpoint(tmp_path / "a.SafeTensors") == {"epochs": 3}
    save_checkpoint(tmp_path / "a.pt", epochs=3)
    (tmp_path / "b.safetensors").write_bytes((tmp_path / "a.pt").read_bytes())
    (tmp_path / "b.pt").write_bytes((tmp_path / "a.SafeTensors").read_bytes())
    for name in ("b.safetensors", "b.pt"):
        with pytest.raises(CheckpointError) as raised:
            load_checkpoint(tmp_path / name)
        assert raised.value.kind == "corrupt"


def test_without_the_package_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_checkpoint(tmp_path / "a.safetensors", epochs=3)
    before = (tmp_path / "a.safetensors").read_bytes()
    monkeypatch.setitem(sys.modules, "safetensors", None)
    for act in (lambda: save_checkpoint(tmp_path / "a.safetensors", epochs=4), lambda: load_checkpoint(tmp_path / "a.safetensors")):
        with pytest.raises(PackageMissing, match=r"R1502.*pip install 'shapescript\[safetensors\]'"):
            act()
    assert (tmp_path / "a.safetensors").read_bytes() == before and len(list(tmp_path.iterdir())) == 1
    save_checkpoint(tmp_path / "a.pt", epochs=3)


def test_another_version_of_ours_is_refused_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shapescript.runtime.entries.VERSION", 2)
    save_checkpoint(tmp_path / "a.safetensors", epochs=3)
    with pytest.raises(CheckpointError) as raised:
        load_checkpoint(tmp_path / "a.safetensors")
    assert (raised.value.kind, raised.value.found) == ("version", 2)
