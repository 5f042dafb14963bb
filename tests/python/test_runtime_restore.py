"""The language's `load`: types give results, handles are restored or compared, values must be equal, or nothing changes."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from runtime_samples import digits, encoder_layout, filled, leaf, mlp_layout, same_bytes

from shapescript.runtime.checkpoint import load_checkpoint, save_checkpoint
from shapescript.runtime.entries import Tensor
from shapescript.runtime.errors import CheckpointError, CheckpointMissing, LogError
from shapescript.runtime.jsonl import jsonl
from shapescript.runtime.layout import Layout
from shapescript.runtime.mode import Eval, Train
from shapescript.runtime.optimiser import Adam, AdamW
from shapescript.runtime.restore import ModelType, OptimiserType, Request, ScalarType, TensorType, restore
from shapescript.runtime.sinks import MemorySink


def trained(layout: Layout) -> AdamW:
    state = AdamW(filled(layout), betas=(0.8, 0.95), eps=1e-6, decay=0.125)
    state.step = 41
    for each in layout:
        if each.differentiable:
            layout.view(state.slot("first"), each.name)[...] = 0.5
            layout.view(state.slot("second"), each.name)[...] = 0.25
    return state


def refused(path: Path, kind: str, requests: dict[str, Request], *words: str) -> CheckpointError:
    with pytest.raises(CheckpointError) as raised:
        restore(path, requests)
    error = raised.value
    assert (error.kind, error.code) == (kind, "R1302" if kind == "corrupt" else "R1303") and str(path) in error.message
    assert all(word in error.message for word in words), error.message
    return error


@pytest.mark.parametrize("layout", [mlp_layout(), encoder_layout()])
def test_models_and_optimisers_come_back_bit_for_bit(tmp_path: Path, layout: Layout) -> None:
    model, state = filled(layout), trained(layout)
    save_checkpoint(tmp_path / "a.pt", m=model, opt=state, epochs=3)
    opt, m = restore(tmp_path / "a.pt", {"opt": OptimiserType(AdamW, layout), "m": ModelType(layout)})
    assert same_bytes(m, model) and m.layout is layout
    assert (opt.step, opt.betas, opt.eps, opt.decay) == (41, (0.8, 0.95), 1e-6, 0.125)
    assert all(opt.slot(name).tobytes() == state.slot(name).tobytes() for name in ("first", "second"))
    save_checkpoint(tmp_path / "b.pt", m=m, opt=opt, epochs=3)
    assert (tmp_path / "a.pt").read_bytes() == (tmp_path / "b.pt").read_bytes()


def test_host_scalars_and_tensors_come_back_in_the_order_asked(tmp_path: Path) -> None:
    tensor = np.arange(6, dtype=np.float32).reshape(2, 3)
    save_checkpoint(tmp_path / "a.pt", i=-3, f=0.1, b=False, s="é", w=Tensor(tensor, ("V", "D")), l=np.float64(math.nan))
    names: dict[str, Request] = {"s": ScalarType("str"), "b": ScalarType("bool"), "w": TensorType("f32", ("V", "D"), (2, 3))}
    names |= {"f": ScalarType("float"), "i": ScalarType("int"), "l": math.nan}
    s, b, w, f, i = restore(tmp_path / "a.pt", names)
    assert (s, b, f, i) == ("é", False, 0.1, -3) and w.tobytes() == tensor.tobytes() and w.ctypes.data % 64 == 0


def test_a_state_dict_of_pytorch_answers_for_one_model_under_any_name(tmp_path: Path) -> None:
    net = torch.nn.ModuleDict({"hidden": torch.nn.Linear(4, 6), "output": torch.nn.Linear(6, 3)})
    torch.save(net.state_dict(), tmp_path / "t.pt")
    (m,) = restore(tmp_path / "t.pt", {"m": ModelType(mlp_layout())})
    assert m.hidden.weight.tobytes() == net["hidden"].weight.detach().numpy().tobytes()
    refused(tmp_path / "t.pt", "missing", {"m": ModelType(mlp_layout()), "epochs": ScalarType("int")}, "no entry 'm'")
    torch.save({"net": net.state_dict(), "epoch": 3}, tmp_path / "n.pt")
    (named,) = restore(tmp_path / "n.pt", {"net": ModelType(mlp_layout())})
    assert same_bytes(named, m)


def test_a_mode_goes_on_where_it_was_and_must_be_the_same(tmp_path: Path) -> None:
    mode = Train(seed=3)
    mode.draws = 12
    save_checkpoint(tmp_path / "a.pt", mode=mode, test=Eval)
    resumed = Train(seed=3)
    assert restore(tmp_path / "a.pt", {"mode": resumed, "test": Eval}) == [] and resumed.draws == 12
    error = refused(tmp_path / "a.pt", "value", {"mode": Train(seed=4)}, "Train(seed=4)", "Train(seed=3)")
    assert (error.name, error.found) == ("mode", "Train(seed=3)")
    refused(tmp_path / "a.pt", "value", {"mode": Eval}, "Eval", "Train(seed=3)")
    refused(tmp_path / "a.pt", "value", {"test": Train(seed=3)})


def test_a_dataset_must_be_the_one_that_was_saved_with(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "a.pt", data=digits(10))
    assert restore(tmp_path / "a.pt", {"data": digits(10)}) == []
    for other in (digits(11), digits(10, seed=3)):
        error = refused(tmp_path / "a.pt", "value", {"data": other}, digits(10).fingerprint(), other.fingerprint())
        assert error.name == "data" and error.expected != error.found


def test_a_sink_goes_on_and_another_kind_is_refused(tmp_path: Path) -> None:
    sink = jsonl(tmp_path / "log.jsonl")
    sink.write("Log", {"step": 1})
    save_checkpoint(tmp_path / "a.pt", sink=sink)
    sink.write("Log", {"step": 2})
    sink.close()
    restore(tmp_path / "a.pt", {"sink": jsonl(tmp_path / "log.jsonl")})
    assert (tmp_path / "log.jsonl").read_text() == '{"step": 1}\n' and (tmp_path / "log.jsonl.tail.1").read_text() == '{"step": 2}\n'
    refused(tmp_path / "a.pt", "value", {"sink": MemorySink()}, "sink", "'jsonl'", "'memory'")


@pytest.mark.parametrize(
    ("wanted", "ok"), [(64, True), (32, False), (64.0, False), (True, False), ("64", False), (np.int64(64), True), (np.zeros(2), False)]
)
def test_another_value_must_equal_what_was_saved_in_type_too(tmp_path: Path, wanted: object, ok: bool) -> None:
    save_checkpoint(tmp_path / "a.pt", size=64)
    if ok:
        assert restore(tmp_path / "a.pt", {"size": wanted}) == []
    else:
        assert refused(tmp_path / "a.pt", "value", {"size": wanted}, "size", "64").found == 64


def test_models_tensors_and_floats_are_compared_bit_for_bit(tmp_path: Path) -> None:
    model, state = filled(mlp_layout()), trained(mlp_layout())
    save_checkpoint(tmp_path / "a.pt", m=model, opt=state, w=np.array([0.0, math.nan]), z=0.0)
    assert restore(tmp_path / "a.pt", {"m": model, "opt": state, "w": np.array([0.0, -math.nan]), "z": 0.0}) == []
    other = model.copy()
    other.hidden.bias = other.hidden.bias + np.float32(1)
    state.step = 42
    for name, wanted in {"m": other, "opt": state, "w": np.array([-0.0, math.nan]), "z": -0.0}.items():
        refused(tmp_path / "a.pt", "value", {name: wanted}, f"{name}: the value isn't the saved one")


@pytest.mark.parametrize(
    ("leaves", "kind", "name", "words"),
    [
        ([leaf("a", "V D", 4, 4), leaf("b", "D", 4), leaf("c", "D", 4)], "missing", "c", ["missing c"]),
        ([leaf("a", "V D", 4, 4)], "unexpected", "b", ["unexpected b"]),
        ([leaf("a", "V D", 4, 4), leaf("bb", "D", 4)], "missing", "bb", ["missing bb", "unexpected b"]),
        ([leaf("a", "V D", 4, 4), leaf("b", "D", 5)], "shape", "b", ["[D]", "(5,)", "(4,)"]),
        ([leaf("a", "V D", 4, 4), leaf("b", "D", 4, dtype="f64")], "dtype", "b", ["float64", "float32"]),
        ([leaf("a", "D V", 4, 4), leaf("b", "D", 4)], "shape", "a", ["[D V]", "[V D]", "another place"]),
        ([leaf("a", "D E", 4, 4), leaf("b", "D", 4)], "shape", "a", ["[D E]", "[V D]"]),
    ],
)
def test_a_model_that_does_not_fit_is_refused_with_the_parameters_name(
    tmp_path: Path, leaves: list[Any], kind: str, name: str, words: list[str]
) -> None:
    saved = Layout("M", [leaf("a", "V D", 4, 4), leaf("b", "D", 4)])
    save_checkpoint(tmp_path / "a.pt", m=filled(saved), opt=trained(saved))
    assert refused(tmp_path / "a.pt", kind, {"m": ModelType(Layout("M", leaves))}, "m: ", *words).name == name
    assert refused(tmp_path / "a.pt", kind, {"opt": OptimiserType(AdamW, Layout("M", leaves))}, "opt.first: ", *words).name == name


def test_a_tensor_that_must_equal_the_saved_one_has_its_axes_too(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "a.pt", w=Tensor(np.eye(3), ("V", "D")))
    assert restore(tmp_path / "a.pt", {"w": Tensor(np.eye(3), ("V", "D"))}) == []
    refused(tmp_path / "a.pt", "shape", {"w": Tensor(np.eye(3), ("D", "V"))}, "[D V]", "[V D]")
    refused(tmp_path / "a.pt", "value", {"w": Tensor(np.zeros((3, 3)), ("V", "D"))}, "isn't the saved one")


def test_an_axis_with_a_new_name_at_the_same_place_is_no_difference(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "a.pt", m=filled(Layout("M", [leaf("a", "V D", 4, 4)])))
    (m,) = restore(tmp_path / "a.pt", {"m": ModelType(Layout("Renamed", [leaf("a", "Words D", 4, 4)]))})
    assert m.a.shape == (4, 4)


def test_moments_follow_their_parameters_names_not_their_places(tmp_path: Path) -> None:
    """Two parameters of one shape, declared in another order or with another one before them."""
    saved = Layout("M", [leaf("a", "D", 4), leaf("b", "D", 4)])
    state = AdamW(filled(saved))
    saved.view(state.slot("first"), "a")[:], saved.view(state.slot("first"), "b")[:] = 1, 2
    save_checkpoint(tmp_path / "a.pt", opt=state)
    (opt,) = restore(tmp_path / "a.pt", {"opt": OptimiserType(AdamW, Layout("M", [leaf("b", "D", 4), leaf("a", "D", 4)]))})
    assert opt.moment("first", "a").tolist() == [1] * 4 and opt.moment("first", "b").tolist() == [2] * 4


def edited(path: Path, edit: Callable[[dict[str, Any]], object]) -> Path:
    """The checkpoint with a change, written by PyTorch."""
    tree = torch.load(path, weights_only=True)
    edit(tree)
    torch.save(tree, path)
    return path


@pytest.mark.parametrize("part", ["step", "betas", "eps", "decay", "first", "second"])
def test_a_missing_part_of_an_optimisers_state_is_never_a_default(tmp_path: Path, part: str) -> None:
    save_checkpoint(tmp_path / "a.pt", opt=trained(mlp_layout()))
    edited(tmp_path / "a.pt", lambda tree: tree["opt"].pop(part))
    assert refused(tmp_path / "a.pt", "missing", {"opt": OptimiserType(AdamW, mlp_layout())}, part).name == f"opt.{part}"


def test_a_missing_moment_is_named(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "a.pt", opt=trained(mlp_layout()))
    edited(tmp_path / "a.pt", lambda tree: tree["opt"]["second"].pop("hidden.bias"))
    error = refused(tmp_path / "a.pt", "missing", {"opt": OptimiserType(AdamW, mlp_layout())}, "opt.second: missing hidden.bias")
    assert error.name == "hidden.bias"


def test_another_optimisers_state_is_refused(tmp_path: Path) -> None:
    net = torch.nn.Linear(4, 6)
    states = {"sgd": torch.optim.SGD(net.parameters()).state_dict(), "adamw": torch.optim.AdamW(net.parameters()).state_dict()}
    torch.save({**states, "n": 3}, tmp_path / "t.pt")
    refused(tmp_path / "t.pt", "optimiser", {"sgd": OptimiserType(AdamW, mlp_layout())}, "AdamW", "another kind")
    refused(tmp_path / "t.pt", "optimiser", {"adamw": OptimiserType(Adam, mlp_layout())}, "Adam", "another kind")
    refused(tmp_path / "t.pt", "optimiser", {"adamw": OptimiserType(AdamW, mlp_layout())}, "by position")
    refused(tmp_path / "t.pt", "optimiser", {"n": OptimiserType(AdamW, mlp_layout())}, "AdamW", "int")


def test_what_is_not_of_the_type_asked_is_refused(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "a.pt", n=3, f=1.0, w=Tensor(np.zeros((4, 4), np.float32), ("V", "D")), mode=Eval)
    refused(tmp_path / "a.pt", "dtype", {"n": ScalarType("float")}, "expected a float, the checkpoint has an int")
    refused(tmp_path / "a.pt", "dtype", {"n": ScalarType("bool")}, "a bool", "an int")
    refused(tmp_path / "a.pt", "dtype", {"n": ModelType(mlp_layout())}, "the model Mlp", "int")
    refused(tmp_path / "a.pt", "dtype", {"n": TensorType("f32")}, "a tensor []", "int")
    refused(tmp_path / "a.pt", "dtype", {"w": TensorType("f64", ("V", "D"), (4, 4))}, "float64", "float32")
    refused(tmp_path / "a.pt", "shape", {"w": TensorType("f32", ("V",), (4,))}, "1 axis [V]", "(4, 4)")
    refused(tmp_path / "a.pt", "shape", {"w": TensorType("f32", ("D", "V"), (4, 4))}, "[D V]", "[V D]")
    refused(tmp_path / "a.pt", "value", {"n": Train(seed=1)}, "Train(seed=1)", "int")
    refused(tmp_path / "a.pt", "value", {"n": MemorySink()}, "sink", "int")
    refused(tmp_path / "a.pt", "value", {"n": digits()}, "fingerprint")
    refused(tmp_path / "a.pt", "missing", {"epoch": ScalarType("int"), "n": ScalarType("int")}, "no entry 'epoch'", "n, f, w, mode")
    assert "did you mean 'mode'" in refused(tmp_path / "a.pt", "missing", {"mod": Eval}).message


@pytest.mark.parametrize(
    "edit",
    [
        lambda tree: tree["opt"].update(step=-1),
        lambda tree: tree["opt"].update(step="3"),
        lambda tree: tree["opt"].update(betas=[1, 2, 3]),
        lambda tree: tree["opt"].update(betas=(0.9, torch.zeros(3))),
        lambda tree: tree["opt"].update(eps=None),
        lambda tree: tree["opt"].update(first=[1]),
        lambda tree: tree["mode"].update(draws=-1),
        lambda tree: tree["mode"].update(draws=torch.zeros(2)),
        lambda tree: tree["sink"].update(bytes=torch.zeros(2)),
    ],
)
def test_entries_that_nothing_of_ours_has_written_are_called_damaged(tmp_path: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    save_checkpoint(tmp_path / "a.pt", opt=trained(mlp_layout()), mode=Train(seed=1), sink=MemorySink())
    edited(tmp_path / "a.pt", edit)
    refused(tmp_path / "a.pt", "corrupt", {"opt": OptimiserType(AdamW, mlp_layout()), "mode": Train(seed=1), "sink": MemorySink()})


def test_kinds_that_are_tensors_do_not_confuse_the_checks(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "a.pt", mode=Train(seed=1), sink=MemorySink())
    for name, kind in (("mode", "value"), ("sink", "value")):
        edited(tmp_path / "a.pt", lambda tree, name=name: tree[name].update(kind=torch.zeros(2), seed=torch.zeros(2)))  # type: ignore[misc]
        refused(tmp_path / "a.pt", kind, {"mode": Train(seed=1)} if name == "mode" else {"sink": MemorySink()})


def test_one_thing_that_does_not_fit_changes_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    sink, memory, mode = jsonl(log), MemorySink(), Train(seed=1)
    save_checkpoint(tmp_path / "a.pt", mode=mode, sink=sink, memory=memory, epochs=1)
    for each in (sink, memory):
        each.write("Log", {"step": 1})
    mode.draws = 5
    wrong: list[tuple[str, Request]] = [("epochs", 2), ("data", digits()), ("epochs", ModelType(mlp_layout()))]
    for name, request in wrong:
        with pytest.raises(CheckpointError):
            restore(tmp_path / "a.pt", {"mode": mode, "sink": sink, "memory": memory, name: request})
        assert (mode.draws, len(memory.records), log.read_text()) == (5, 1, '{"step": 1}\n')
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.pt", "log.jsonl", "log.jsonl.lock"]
    restore(tmp_path / "a.pt", {"mode": mode, "sink": sink, "memory": memory, "epochs": 1})
    assert (mode.draws, memory.records, log.read_text()) == (0, [], "")


def test_a_log_that_cannot_be_cut_back_leaves_the_stream_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink, mode = jsonl(tmp_path / "log.jsonl"), Train(seed=1)
    save_checkpoint(tmp_path / "a.pt", mode=mode, sink=sink)
    sink.write("Log", {"step": 1})
    mode.draws = 5

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(LogError, match="No space left"):
        restore(tmp_path / "a.pt", {"mode": mode, "sink": sink})
    assert mode.draws == 5 and (tmp_path / "log.jsonl").read_text() == '{"step": 1}\n' and len(list(tmp_path.iterdir())) == 2


def test_fewer_names_than_were_saved_are_fine_and_a_missing_file_is_not(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "a.pt", a=1, b=2)
    assert restore(tmp_path / "a.pt", {"b": ScalarType("int")}) == [2] and restore(tmp_path / "a.pt", {}) == []
    with pytest.raises(CheckpointMissing, match="R1301"):
        restore(tmp_path / "none.pt", {})


def test_what_is_restored_shares_no_memory_with_anything(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "a.pt", m=filled(mlp_layout()))
    one, other = (restore(tmp_path / "a.pt", {"m": ModelType(mlp_layout())})[0] for _ in range(2))
    one.hidden.bias = np.zeros(6, np.float32)
    assert other.hidden.bias.any() and load_checkpoint(tmp_path / "a.pt")["m"]["hidden.bias"].any()
