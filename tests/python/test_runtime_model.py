"""Models: one flat, aligned buffer in the order of names; views that can't be written; assignments that are checked and copied."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from runtime_samples import encoder_layout, filled, leaf, mlp_layout, same_bytes

from shapescript.runtime.errors import ArgumentError, CheckpointError, ShapeScriptError
from shapescript.runtime.layout import Layout, Leaf, Start, aligned
from shapescript.runtime.model import Model, initialise

Change = Callable[[dict[str, Any]], object]


def test_leaves_lie_in_the_bytewise_order_of_their_names_at_multiples_of_64() -> None:
    layout = encoder_layout()
    assert list(layout.names) == sorted(layout.names, key=str.encode)
    assert [name for name in layout.names if name.startswith("encoder")][:3] == [
        "encoder.blocks.0.inner.weight",
        "encoder.blocks.1.inner.weight",
        "encoder.blocks.10.inner.weight",
    ]
    ends = [0, *(offset + each.nbytes for each, offset in zip(layout.leaves, layout.offsets, strict=True))]
    for offset, end in zip(layout.offsets, ends, strict=False):
        assert offset % 64 == 0 and end <= offset < end + 64
    assert layout.nbytes % 64 == 0 and layout.nbytes >= ends[-1]


def test_names_beyond_ascii_are_ordered_by_their_utf8_bytes() -> None:
    names = ["z", "\uff5e", "\U0001f600", "é", "Z"]
    assert list(Layout("M", [leaf(name, "") for name in names]).names) == ["Z", "z", "é", "\uff5e", "\U0001f600"]


def test_two_leaves_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="one name"):
        Layout("M", [leaf("w", ""), leaf("w", "D", 2)])


@pytest.mark.parametrize("size", [0, 1, 63, 64, 1000])
def test_aligned_memory_is_zero_and_at_a_multiple_of_64(size: int) -> None:
    memory = aligned(size)
    assert memory.shape == (size,) and not memory.any() and (size == 0 or memory.ctypes.data % 64 == 0)


def test_a_buffer_that_native_code_cannot_use_is_refused() -> None:
    layout = mlp_layout()
    good = aligned(layout.nbytes)
    read_only = aligned(layout.nbytes)
    read_only.flags.writeable = False
    for bad in (aligned(layout.nbytes - 64), aligned(layout.nbytes + 64)[1:-63], good.view(np.int8), read_only):
        with pytest.raises(ValueError, match="64"):
            Model(layout, bad)  # type: ignore[arg-type]
    model = Model(layout, good)
    assert model.buffer is good and model.address == good.ctypes.data


def test_attributes_are_views_of_the_buffer_by_name_and_by_place_in_a_list() -> None:
    model = filled(encoder_layout())
    blocks = model.encoder.blocks
    assert len(blocks) == 11
    for i in range(11):
        expected = model[f"encoder.blocks.{i}.inner.weight"]
        for view in (list(blocks)[i].inner.weight, blocks[i].inner.weight, blocks[i - 11].inner.weight):
            assert view.tobytes() == expected.tobytes() and np.shares_memory(view, model.buffer)
    with pytest.raises(IndexError):
        blocks[11]
    assert model.scale.shape == () and model.empty.shape == (0, 2) and model.mask.dtype == np.bool_


def test_views_cannot_be_written_and_follow_the_buffer() -> None:
    model = filled(mlp_layout())
    view = model.hidden.weight
    with pytest.raises(ValueError, match="read-only"):
        view[0, 0] = 1
    with pytest.raises(ValueError, match="read-only"):
        model.hidden.weight += 1
    model.layout.view(model.buffer, "hidden.weight")[...] = 7
    assert (view == 7).all()


def test_assignment_copies_in_and_leaves_the_padding_zero() -> None:
    model = Model(mlp_layout())
    array = np.arange(24, dtype=np.float32).reshape(6, 4)
    model.hidden.weight = array
    array[:] = -1
    assert model.hidden.weight.tolist() == np.arange(24).reshape(6, 4).tolist()
    model["hidden.bias"] = np.ones(6, np.float32)
    model.hidden.weight = torch.ones(4, 6).T
    for each, offset in zip(model.layout.leaves, model.layout.offsets, strict=True):
        assert not model.buffer[offset + each.nbytes : offset + -(-each.nbytes // 64) * 64].any()


@pytest.mark.parametrize(
    ("value", "code", "words"),
    [
        (np.zeros((6, 4)), "R1001", ["hidden.weight", "float32", "float64", "astype(numpy.float32)"]),
        (np.zeros((6, 4), np.int64), "R1001", ["float32", "int64"]),
        (np.zeros((4, 6), np.float32), "R1002", ["[Hidden In]", "(6, 4)", "(4, 6)"]),
        (np.zeros(6, np.float32), "R1002", ["2 axes", "[Hidden In]", "(6,)"]),
        (np.zeros((6, 4), ">f4"), "R1006", ["order", "newbyteorder"]),
        (np.ma.masked_array(np.zeros((6, 4), np.float32), False), "R1006", ["mask"]),
        ([[0.0] * 4] * 6, "R1004", ["list"]),
        (torch.zeros(6, 4, requires_grad=True), "R1006", ["detach"]),
        (torch.zeros(6, 4, dtype=torch.bfloat16), "R1001", ["float32", "bfloat16"]),
        (None, "R1004", ["NoneType"]),
    ],
)
def test_assigning_what_does_not_fit_names_both_and_changes_nothing(value: object, code: str, words: list[str]) -> None:
    model = filled(mlp_layout())
    before = model.buffer.tobytes()
    with pytest.raises(ArgumentError) as raised:
        model.hidden.weight = value
    assert raised.value.code == code and str(raised.value).startswith(f"{code}: ")
    assert isinstance(raised.value, TypeError if code in ("R1001", "R1004") else ValueError)
    assert all(word in raised.value.message for word in words)
    assert model.buffer.tobytes() == before


def test_names_that_do_not_exist_are_refused_with_a_near_one() -> None:
    model = Model(mlp_layout())
    with pytest.raises(AttributeError, match="Mlp has no parameter 'hiden'; did you mean 'hidden'"):
        _ = model.hiden
    with pytest.raises(AttributeError, match="did you mean 'weight'"):
        model.hidden.weigth = np.zeros((6, 4), np.float32)
    with pytest.raises(AttributeError, match="sub-model"):
        model.hidden = np.zeros((6, 4), np.float32)
    with pytest.raises(KeyError, match=r"hidden\.weight"):
        _ = model["hidden.wieght"]
    assert not hasattr(model, "_repr_html_") and "hidden" in dir(model) and "weight" in dir(model.hidden)


def test_a_parameter_named_like_a_method_is_reached_by_its_name() -> None:
    model = Model(Layout("M", [leaf("copy", "D", 2)]))
    model["copy"] = np.ones(2, np.float32)
    assert model["copy"].tolist() == [1, 1] and model.copy()["copy"].tolist() == [1, 1]


def test_a_state_dict_is_a_copy_and_loads_again() -> None:
    model = filled(encoder_layout())
    state = model.state_dict()
    assert tuple(state) == model.layout.names
    twin = Model(model.layout)
    twin.load_state_dict(state)
    assert same_bytes(twin, model)
    state["scale"][...] = 99
    state["mask"][:] = True
    assert same_bytes(twin, model)


def test_a_state_dict_of_pytorch_goes_in_and_ours_goes_out() -> None:
    net = torch.nn.ModuleDict({"hidden": torch.nn.Linear(4, 6), "output": torch.nn.Linear(6, 3)})
    model = Model(mlp_layout())
    model.load_state_dict(net.state_dict())
    for name, tensor in net.state_dict().items():
        assert model[name].tobytes() == tensor.numpy().tobytes()
    other = filled(mlp_layout())
    net.load_state_dict({name: torch.from_numpy(array) for name, array in other.state_dict().items()})
    assert net["hidden"].weight.detach().numpy().tobytes() == other.hidden.weight.tobytes()


def test_a_nan_in_a_state_dict_is_the_canonical_one() -> None:
    model = Model(mlp_layout())
    model.layout.view(model.buffer, "hidden.bias").view(np.uint32)[:] = 0xFFC12345
    assert model.state_dict()["hidden.bias"].view(np.uint32).tolist() == [0x7FC00000] * 6


@pytest.mark.parametrize(
    ("change", "kind", "name", "words"),
    [
        (lambda s: s.pop("hidden.bias"), "missing", "hidden.bias", ["missing hidden.bias"]),
        (lambda s: s.update(extra=np.zeros(1)), "unexpected", "extra", ["unexpected extra"]),
        (
            lambda s: s.update({"hidden.bais": s.pop("hidden.bias")}),
            "missing",
            "hidden.bias",
            ["missing hidden.bias", "unexpected hidden.bais", "did you mean 'hidden.bias'"],
        ),
        (lambda s: s.update({"output.bias": np.zeros(4, np.float32)}), "shape", "output.bias", ["[Classes]", "(3,)", "(4,)"]),
        (lambda s: s.update({"output.bias": np.zeros(3)}), "dtype", "output.bias", ["float32", "float64"]),
        (lambda s: s.update({"output.bias": [0.0] * 3}), "dtype", "output.bias", ["list"]),
    ],
)
def test_a_state_dict_that_does_not_fit_changes_nothing(change: Change, kind: str, name: str, words: list[str]) -> None:
    model = filled(mlp_layout())
    state = filled(mlp_layout(), seed=9).state_dict()
    change(state)
    before = model.buffer.tobytes()
    with pytest.raises(CheckpointError) as raised:
        model.load_state_dict(state)
    assert (raised.value.code, raised.value.kind, raised.value.name) == ("R1303", kind, name)
    assert all(word in raised.value.message for word in words)
    assert model.buffer.tobytes() == before


def test_what_is_no_state_dict_is_refused() -> None:
    with pytest.raises(ArgumentError, match="R1004: load_state_dict: expected a mapping"):
        Model(mlp_layout()).load_state_dict([1])  # type: ignore[arg-type]


def test_two_parameters_of_a_model_can_be_exchanged_through_its_own_views() -> None:
    model = filled(Layout("M", [leaf("a", "D", 5), leaf("b", "D", 5)]))
    a, b = model.a.copy(), model.b.copy()
    model.load_state_dict({"a": model.b, "b": model.a})
    assert model.a.tolist() == b.tolist() and model.b.tolist() == a.tolist()


def test_a_copy_has_its_own_memory() -> None:
    model = filled(mlp_layout())
    for twin in (model.copy(), copy.copy(model), copy.deepcopy(model)):
        assert same_bytes(twin, model) and not np.shares_memory(twin.buffer, model.buffer)
        assert twin.address == twin.buffer.ctypes.data != model.address
    with pytest.raises(TypeError, match="save_checkpoint"):
        pickle.dumps(model)


def test_a_model_says_what_it_holds() -> None:
    text = repr(Model(mlp_layout()))
    assert "Mlp, 51 parameters" in text and "hidden.weight: [Hidden In] (6, 4)" in text
    assert "hidden of Mlp" in repr(Model(mlp_layout()).hidden)
    assert "list of 11 sub-models encoder.blocks" in repr(Model(encoder_layout()).encoder.blocks)


def test_errors_carry_code_and_message() -> None:
    error = ShapeScriptError("R1104", "the loss is NaN", step=7)
    assert str(error) == "R1104: the loss is NaN"
    assert (error.code, error.message, error.step, error.span) == ("R1104", "the loss is NaN", 7, None)
    again = pickle.loads(pickle.dumps(CheckpointError("R1303", "m: missing w", kind="missing", name="w")))
    assert (again.kind, again.name, str(again)) == ("missing", "w", "R1303: m: missing w")


def test_a_model_without_parameters_is_a_model() -> None:
    model = Model(Layout("Nothing", []))
    assert model.state_dict() == {} and model.copy().buffer.size == 0


def test_a_start_depends_on_seed_and_name_alone() -> None:
    uniform, normal = Start("uniform", -0.5, 0.5), Start("normal", 1.0, 0.25)
    first = Leaf("hidden.weight", ("O", "I"), (30, 40), "f32", "parameter", uniform)
    wide = Leaf("wide", ("N",), (5000,), "f64", "parameter", normal)
    small = initialise(Layout("A", [first]), 7)
    large = initialise(Layout("B", [first, wide, Leaf("a.first", ("N",), (9,), "f32", "parameter", normal)]), 7)
    assert small.hidden.weight.tobytes() == large.hidden.weight.tobytes()
    assert initialise(Layout("A", [first]), 8).hidden.weight.tobytes() != small.hidden.weight.tobytes()
    weight = small.hidden.weight
    assert -0.5 <= weight.min() < -0.49 and 0.49 < weight.max() < 0.5 and abs(weight.mean()) < 0.02
    assert large.wide.dtype == np.float64 and abs(large.wide.mean() - 1) < 0.02 and abs(large.wide.std() - 0.25) < 0.01


def test_fixed_starts() -> None:
    kinds = {"z": Start("zeros"), "o": Start("ones"), "c": Start("constant", -2.5)}
    model = initialise(Layout("M", [Leaf(n, ("D",), (3,), "f32", "parameter", start) for n, start in kinds.items()]), 0)
    assert (model.z.tolist(), model.o.tolist(), model.c.tolist()) == ([0.0] * 3, [1.0] * 3, [-2.5] * 3)
    flags = initialise(Layout("M", [Leaf("on", ("D",), (2,), "bool", "buffer", Start("ones"))]), 0)
    assert flags.on.tolist() == [True, True]


@pytest.mark.parametrize("start", [Start("uniform", 1.0, -1.0), Start("normal", 0.0, -1.0), Start("uniform", 0.0, float("inf"))])
def test_a_start_that_cannot_be_is_refused_with_the_parameters_name(start: Start) -> None:
    with pytest.raises(ArgumentError, match=r"R1004: M\.w: it can't start with"):
        initialise(Layout("M", [Leaf("w", ("D",), (3,), "f32", "parameter", start)]), 0)
    with pytest.raises(ArgumentError, match="R1004: seed"):
        initialise(Layout("M", []), -1)
