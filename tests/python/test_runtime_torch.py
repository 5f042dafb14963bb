"""Files of PyTorch's, beyond what training scripts save: every kind of value that is plain data, and ours in PyTorch."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from runtime_samples import digits, filled, leaf

from shapescript.runtime.arrays import BF16
from shapescript.runtime.checkpoint import load_checkpoint, read_checkpoint, save_checkpoint
from shapescript.runtime.errors import CheckpointError
from shapescript.runtime.layout import Layout
from shapescript.runtime.mode import Eval, Train
from shapescript.runtime.optimiser import Adam, AdamW, Sgd
from shapescript.runtime.requests import ModelType
from shapescript.runtime.restore import restore
from shapescript.runtime.sinks import MemorySink
from shapescript.runtime.trees import same_tree


def loaded(path: Path, value: object) -> dict[str, Any]:
    torch.save(value, path)
    return load_checkpoint(path)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"])
def test_whole_numbers_of_each_width_are_read(tmp_path: Path, dtype: str) -> None:
    info = np.iinfo(dtype)
    ends = np.array([[info.min, 0, 1], [info.max, 2, 3]], dtype)
    whole = torch.from_numpy(ends)
    found = loaded(tmp_path / "t.pt", {"x": whole, "turned": whole.T, "one": whole[1, 0], "empty": whole[:0], "part": whole[:, 1:]})
    assert all(array.dtype == dtype for array in found.values())
    assert found["x"].tobytes() == ends.tobytes() and found["turned"].tolist() == ends.T.tolist()
    assert found["one"] == info.max and found["empty"].shape == (0, 3) and found["part"].tolist() == [[0, 1], [2, 3]]


def test_bf16_is_read_wherever_it_stands(tmp_path: Path) -> None:
    whole = torch.arange(6.0).reshape(2, 3).to(torch.bfloat16)
    value = {"w": whole, "nested": {"l": [whole.T, (whole[0], {"x": whole[:, 1]})]}, "empty": whole[:0], "one": whole[1, 2]}
    found = loaded(tmp_path / "t.pt", value)
    (turned, (row, inner)) = found["nested"]["l"]
    for array, wanted in ((found["w"], whole), (turned, whole.T), (row, whole[0]), (inner["x"], whole[:, 1]), (found["one"], whole[1, 2])):
        assert array.dtype == np.float32 and array.tolist() == wanted.float().tolist() and not array.flags.writeable
    assert found["empty"].dtype == np.float32 and found["empty"].shape == (0, 3)
    assert read_checkpoint(tmp_path / "t.pt").entries["w"].dtype == BF16


def test_a_model_of_each_element_type_comes_from_pytorch_and_goes_back(tmp_path: Path) -> None:
    layout = Layout(
        "M",
        [
            leaf("a", "D", 2),
            leaf("b", "D", 2, dtype="f64"),
            leaf("c", "D", 2, dtype="bf16"),
            leaf("n", "", dtype="i64"),
            leaf("k", "D", 2, dtype="bool"),
        ],
    )
    state = {
        "a": torch.tensor([1.5, float("inf")]),
        "b": torch.tensor([0.1, -0.0], dtype=torch.float64),
        "c": torch.tensor([1.0, 3e38]).to(torch.bfloat16),
        "n": torch.tensor(2**62),
        "k": torch.tensor([True, False]),
    }
    torch.save(state, tmp_path / "t.pt")
    (model,) = restore(tmp_path / "t.pt", {"m": ModelType(layout)})
    save_checkpoint(tmp_path / "a.pt", m=model)
    back = torch.load(tmp_path / "a.pt", weights_only=True)["m"]
    for name, wanted in state.items():
        assert back[name].dtype == wanted.dtype and back[name].shape == wanted.shape and torch.equal(back[name], wanted)


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32", "uint16"])
def test_numbers_of_another_type_than_the_models_are_refused_and_never_converted(tmp_path: Path, dtype: str) -> None:
    torch.save({"a": torch.ones(2).to(getattr(torch, dtype))}, tmp_path / "t.pt")
    with pytest.raises(CheckpointError) as raised:
        restore(tmp_path / "t.pt", {"m": ModelType(Layout("M", [leaf("a", "D", 2)]))})
    assert (raised.value.code, raised.value.kind, raised.value.found) == ("R1303", "dtype", dtype)


def test_nested_values_of_every_plain_type(tmp_path: Path) -> None:
    value = {
        "dict": {"a": {"b": {1: "one", -2: [1, 2.5, None, True, "x", ()]}}},
        "ordered": OrderedDict([("z", 1), ("a", OrderedDict(y=torch.Size([2, 0])))]),
        "list": [[], {}, [torch.zeros(2)], (1, (2, (3,)))],
        "numbers": [0, 255, 256, 65535, 65536, -1, 2**31, -(2**31), 2**62, -(2**63), 1e-320, float("inf")],
        "text": "ü€😀\0",
    }
    found = loaded(tmp_path / "t.pt", value)
    wanted = {**value, "list": [[], {}, [np.zeros(2, np.float32)], (1, (2, (3,)))], "ordered": {"z": 1, "a": {"y": (2, 0)}}}
    assert same_tree(wanted, found) and tuple(found["ordered"]) == ("z", "a")


def test_parameters_with_whatever_they_carry(tmp_path: Path) -> None:
    plain, marked = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.zeros(3), requires_grad=False)
    marked.tag = {"lr": 0.5}  # type: ignore[attr-defined]
    net = torch.nn.Linear(2, 3)
    found = loaded(
        tmp_path / "t.pt", {"plain": plain, "marked": marked, "net": net.state_dict(keep_vars=True), "list": list(net.parameters())}
    )
    assert found["plain"].tolist() == [1, 1] and found["marked"].tolist() == [0, 0, 0]
    assert found["net"]["weight"].tobytes() == found["list"][0].tobytes() == net.weight.detach().numpy().tobytes()


def test_views_of_one_storage_share_it_and_are_what_they_are(tmp_path: Path) -> None:
    whole = torch.arange(24.0)
    views = {
        "whole": whole,
        "window": whole.unfold(0, 6, 3),
        "turned": whole.reshape(2, 3, 4).permute(2, 0, 1),
        "stepped": whole[5::7],
        "wide": whole[3].expand(4, 5),
        "scalar": whole[23],
        "empty": whole[24:],
        "none": whole[:0].reshape(0, 3, 2),
    }
    found = loaded(tmp_path / "t.pt", views)
    for name, wanted in views.items():
        assert found[name].shape == tuple(wanted.shape) and found[name].tobytes() == wanted.numpy().tobytes(), name
    assert np.shares_memory(found["whole"], found["turned"]) and (tmp_path / "t.pt").stat().st_size < 4000


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.LBFGS])
def test_states_of_optimisers_are_read_whole(tmp_path: Path, kind: Any) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    options = {torch.optim.SGD: {"lr": 0.1, "momentum": 0.9}, torch.optim.AdamW: {"amsgrad": True}}.get(kind, {})
    optimiser = kind(net.parameters(), **options)

    def closure() -> Any:
        optimiser.zero_grad()
        loss = net(torch.ones(4, 2)).square().sum()
        loss.backward()
        return loss

    optimiser.step(closure)
    schedule = torch.optim.lr_scheduler.StepLR(optimiser, 3)
    found = loaded(
        tmp_path / "t.pt", {"o": optimiser.state_dict(), "s": schedule.state_dict(), "scaler": torch.amp.GradScaler("cpu").state_dict()}
    )

    def plain(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.detach().numpy()
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        return type(value)(map(plain, value)) if isinstance(value, list | tuple) else value

    assert same_tree(plain(optimiser.state_dict()), found["o"]) and found["s"]["step_size"] == 3


def test_pytorch_opens_everything_that_is_written(tmp_path: Path) -> None:
    """With `weights_only`, in memory and mapped."""
    layout = Layout("M", [leaf("w", "D E", 3, 2), leaf("h", "D", 2, dtype="bf16"), leaf("none", "N", 0), leaf("one", "")])
    model = filled(layout)
    values: dict[str, Any] = {
        f"{kind.__name__}{n}": kind(model, **options) for kind in (Adam, AdamW) for n, options in enumerate(({}, {"amsgrad": True}))
    }
    values |= {"sgd": Sgd(model), "moved": Sgd(model, momentum=0.9, nesterov=True)}
    for dtype in ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool", "complex64", "complex128"):
        values[dtype] = np.arange(6).reshape(3, 2).astype(dtype).T
    values |= {
        "m": model,
        "mode": Train(seed=2**63 - 1),
        "eval": Eval,
        "sink": MemorySink(),
        "data": digits(),
        "text": "ü\0",
        "inf": float("-inf"),
    }
    save_checkpoint(tmp_path / "a.pt", **values)
    ours = read_checkpoint(tmp_path / "a.pt").entries
    for mapped in (False, True):
        theirs = torch.load(tmp_path / "a.pt", weights_only=True, mmap=mapped)
        assert set(theirs) == {*values, "shapescript"}
        for name, array in ours.items():
            if isinstance(array, np.ndarray):
                assert theirs[name].numpy().tobytes() == array.tobytes() and str(theirs[name].dtype) == f"torch.{name}"
        assert theirs["m"]["h"].dtype == torch.bfloat16 and theirs["m"]["none"].shape == (0,) and theirs["m"]["one"].shape == ()
        assert theirs["AdamW1"]["largest"]["h"].dtype == torch.float32 and theirs["inf"] == float("-inf")
    torch.save(torch.load(tmp_path / "a.pt", weights_only=True), tmp_path / "b.pt")
    assert same_tree(dict(ours), dict(read_checkpoint(tmp_path / "b.pt").entries))
