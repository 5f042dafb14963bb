"""Losses of labels beyond their comparison with PyTorch: rows that do not count, labels that are none, counts, steps that stop."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from both_engines import Both
from torch.nn import functional

import shapescript

REDUCTIONS = ("mean", "sum", "none")
CLASSES = 5


def grid(element: str) -> str:
    """A function for each choice of smoothing, weights and reduction, with a mask and without; and its gradient."""
    lines = [f"dim C = {CLASSES}"]
    for smoothing, weighted, reduction in itertools.product((0, 1), (0, 1), REDUCTIONS):
        name = f"{reduction}_{smoothing}{weighted}"
        kind = f"{element}[b]" if reduction == "none" else f"{element}[]"
        options = f'reduction="{reduction}"{", smoothing=0.1" * smoothing}{", weight=w" * weighted}'
        summed = "sum({}, over=b)" if reduction == "none" else "{}"
        for masked in (0, 1):
            whole = f"cross_entropy(x, label, {options}{', mask=mask' * masked})"
            parameters = f"x: {element}[b C], label: int[b], w: {element}[C]{', mask: bool[b]' * masked}"
            lines += [
                f"fn {name}{masked}({parameters}) -> ({kind}, {element}[b C]):",
                f"    l, g = value_and_grad({summed.format(whole)}, wrt=x)",
                f"    return {whole}, g",
            ]
    return "\n".join(lines) + "\n"


def rows(dtype: Any, count: int = 9) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((count, CLASSES)), rng.uniform(0.2, 2.0, CLASSES)
    return x.astype(dtype), rng.integers(0, CLASSES, count), w.astype(dtype)


@pytest.mark.parametrize("element", ["f32", "f64"])
def test_ignored_rows_are_as_rows_deleted(tmp_path: Path, element: str) -> None:
    path = tmp_path / "grid.ss"
    path.write_text(grid(element))
    program: Any = shapescript.load(path, engine="numpy")
    x, label, w = rows(np.float32 if element == "f32" else np.float64)
    mask = np.array([True, False, True, True, False, False, True, True, False])
    spoilt, wild = x.copy(), label.copy()
    spoilt[~mask] = np.array([[np.nan], [np.inf], [-np.inf], [1e38]]) * np.ones(CLASSES)
    wild[~mask] = -100, CLASSES, 2**31, -1
    for smoothing, weighted, reduction in itertools.product((0, 1), (0, 1), REDUCTIONS):
        name = f"{reduction}_{smoothing}{weighted}"
        few, few_gradient = getattr(program, f"{name}0")(x[mask], label[mask], w)
        found, gradient = getattr(program, f"{name}1")(spoilt, wild, w, mask)
        if reduction == "none":
            assert (found[~mask] == 0).all() and found[mask].tobytes() == few.tobytes()
        else:
            assert found == pytest.approx(few, rel=float(4 * np.finfo(x.dtype).eps))
        assert gradient[~mask].tobytes() == np.zeros_like(gradient[~mask]).tobytes(), "exactly 0, whatever stands there"
        np.testing.assert_allclose(gradient[mask], few_gradient, rtol=8 * np.finfo(x.dtype).eps)


PROGRAM = """
import shapescript.std.loss as loss
import shapescript.std.optim as optim

dim C = 5

model Net:
    w: [C C] = normal(0, 1)

fn all_hidden(x: [b C], label: int[b], mask: bool[b]) -> ([], int, [b C]):
    l, count, g = value_and_grad(loss.counted_cross_entropy(x, label, mask), wrt=x)
    return l, count, g

fn all_hidden(x: f64[b C], label: int[b], mask: bool[b]) -> (f64[], int, f64[b C]):
    l, count, g = value_and_grad(loss.counted_cross_entropy(x, label, mask), wrt=x)
    return l, count, g

fn all_ignored(x: [b C], label: int[b], skipped: int) -> ([], [b C]):
    l, g = value_and_grad(cross_entropy(x, label, ignore=skipped, smoothing=0.1), wrt=x)
    return l, g

fn without_weight(x: [b C], label: int[b]) -> ([], [b C]):
    l, g = value_and_grad(cross_entropy(x, label, weight=zeros[C]), wrt=x)
    return l, g

fn mean_of(x: [..s C], label: int[..s]) -> []:
    return cross_entropy(x, label)

fn weighted_mean(x: [..s C], label: int[..s]) -> []:
    return cross_entropy(x, label, weight=ones[C])

fn smooth_mean(x: [b C], label: int[b], smoothing: float) -> []:
    return cross_entropy(x, label, smoothing=smoothing)

fn sum_of(x: [..s C], label: int[..s]) -> []:
    return cross_entropy(x, label, reduction="sum")

fn each(x: [..s C], label: int[..s]) -> [..s]:
    return cross_entropy(x, label, reduction="none")

fn likelihoods(x: [b n C], label: int[b n]) -> [b n]:
    return nll(log_softmax(x, over=C), label, reduction="none")

fn turned(x: [C n b], label: int[b n]) -> [b n]:
    return cross_entropy(x, label, reduction="none")

fn where_zero(x: [b C], label: int[b]) -> []:
    return cross_entropy(x, label, ignore=0)

fn by_place(x: [b n C], label: int[b n], mask: bool[n]) -> []:
    return cross_entropy(x, label, mask=mask)

fn step(mut m: Net, mut opt: Sgd[Net], x: [b C], label: int[b], mask: bool[b]) -> int:
    l, count, g = value_and_grad(loss.counted_cross_entropy(x @ m.w, label, mask), wrt=m)
    update(mut m, mut opt, g, lr=0.1)
    return count

fn gradient(m: Net, x: [b C], label: int[b], mask: bool[b]) -> (Net, int):
    l, count, g = value_and_grad(loss.counted_cross_entropy(x @ m.w, label, mask), wrt=m)
    return g, count

fn in_two_parts(m: Net, x: [b C], label: int[b], mask: bool[b], other: bool[b]) -> (Net, int):
    mut so_far = optim.accumulated(m)
    g, count = gradient(m, x, label, mask)
    optim.add(mut so_far, g, count)
    h, more = gradient(m, x, label, other)
    optim.add(mut so_far, h, more)
    return optim.gradient(so_far), int(so_far.count)

fn hidden_in_bf16(x: [b C], label: int[b], mask: bool[b]) -> ([], int, [b C]):
    rounded = bf16(x)
    l, count, g = value_and_grad(loss.counted_cross_entropy(rounded, label, mask), wrt=rounded)
    return f32(l), count, f32(g)

fn share(x: [b C], label: int[b], mask: bool[b], skipped: int) -> float:
    return accuracy(x, label, mask=mask, ignore=skipped)

fn plain_share(x: [b C], label: int[b]) -> float:
    return accuracy(x, label)
"""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    return Both(tmp_path_factory.mktemp("losses"), PROGRAM)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("count", [0, 1, 4])
def test_loss_and_gradients_of_ignored_rows_alone_are_zero(both: Both, dtype: Any, count: int) -> None:
    x, label, _ = rows(dtype, count)
    value, counted, gradient = both.call("all_hidden", x * np.nan, label - 77, np.zeros(count, bool))
    assert (value, counted) == (0.0, 0) and gradient.tobytes() == np.zeros_like(x).tobytes()
    if dtype is np.float32:
        value, counted, gradient = both.call("hidden_in_bf16", x * np.nan, label - 77, np.zeros(count, bool))
        assert (value, counted) == (0.0, 0) and gradient.tobytes() == np.zeros_like(x).tobytes()
        value, gradient = both.call("all_ignored", x * np.nan, label * 0 - 100, -100)
        assert value == 0.0 and gradient.tobytes() == np.zeros_like(x).tobytes()


def test_weights_of_zero_give_zero(both: Both) -> None:
    x, label, _ = rows(np.float32)
    value, gradient = both.call("without_weight", x, label)
    assert value == 0.0 and not gradient.any()


@pytest.mark.parametrize("label", [CLASSES, -1, -4, 2**31])
@pytest.mark.parametrize("name", ["mean_of", "sum_of", "each", "weighted_mean"])
def test_a_label_that_is_none_is_an_error(both: Both, name: str, label: int) -> None:
    x, labels, _ = rows(np.float32)
    labels[6] = label
    for program in (both.native, both.reference):
        with pytest.raises(shapescript.ShapeScriptError) as caught:
            getattr(program, name)(x, labels)
        assert caught.value.code == "R1101"
        assert str(label) in str(caught.value) and "position 6" in str(caught.value) and "C has 5" in str(caught.value)
    labels[6] = 0
    both.call(name, x, labels)


def test_a_step_with_a_label_that_is_none_changes_nothing(both: Both) -> None:
    program = both.native
    m, (x, label, _) = program.Net(seed=1), rows(np.float32)
    opt, before = shapescript.Sgd(m, momentum=0.9), m.buffer.tobytes()
    mask = np.ones(9, bool)
    label[4] = CLASSES
    with pytest.raises(shapescript.ShapeScriptError):
        program.step(m, opt, x, label, mask)
    assert m.buffer.tobytes() == before and opt.step == 0
    mask[4] = False
    assert program.step(m, opt, x, label, mask) == 8
    assert m.buffer.tobytes() != before and opt.step == 1


def test_a_label_to_ignore_is_a_label_and_no_place(both: Both) -> None:
    """Rows whose label is 0 are left out; class 0 still takes its share of the other rows."""
    x, label, _ = rows(np.float32)
    label[2], label[5] = 0, 0
    wanted = functional.cross_entropy(torch.from_numpy(x), torch.from_numpy(label), ignore_index=0)
    assert both.call("where_zero", x, label) == pytest.approx(wanted.item(), rel=1e-6)
    assert both.call("where_zero", x, label) != pytest.approx(both.call("mean_of", x, label), rel=1e-3)


def test_a_mask_lies_along_the_labels_by_name(both: Both) -> None:
    x, label, _ = rows(np.float32, 12)
    x, label, mask = x.reshape(3, 4, CLASSES), label.reshape(3, 4), np.array([True, False, True, True])
    found = both.call("by_place", x, label, mask)
    assert found == pytest.approx(both.call("mean_of", x[:, mask].copy(), label[:, mask].copy()), rel=1e-6)


def test_any_number_of_leading_axes(both: Both) -> None:
    x, label, _ = rows(np.float32, 12)
    whole = both.call("each", x, label)
    for shape in ((12,), (3, 4), (2, 3, 2)):
        found = both.call("each", x.reshape(*shape, CLASSES), label.reshape(shape))
        assert found.shape == shape and found.tobytes() == whole.tobytes()
    assert both.call("sum_of", x[0], label[:1].reshape(())) == whole[0] == both.call("mean_of", x[0], label[:1].reshape(()))


def test_the_order_of_axes_changes_no_bit(both: Both) -> None:
    x, label, _ = rows(np.float32, 12)
    x, label = x.reshape(3, 4, CLASSES), label.reshape(3, 4)
    turned = np.ascontiguousarray(x.transpose(2, 1, 0))
    assert both.call("turned", turned, label).tobytes() == both.call("each", x, label).tobytes()
    assert both.call("likelihoods", x, label).tobytes() == both.call("each", x, label).tobytes()


def test_sums_of_nothing_are_zero_and_means_are_errors(both: Both) -> None:
    x, label, _ = rows(np.float32, 0)
    assert both.call("sum_of", x, label) == 0.0 and both.call("each", x, label).shape == (0,)
    for program, name in itertools.product((both.native, both.reference), ("mean_of", "weighted_mean")):
        with pytest.raises(shapescript.ShapeScriptError) as caught:
            getattr(program, name)(x, label)
        assert caught.value.code == "R1103"


def test_a_smoothing_that_a_run_computes(both: Both) -> None:
    x, label, _ = rows(np.float32)
    for smoothing in (0.0, 0.25, 1.0):
        wanted = functional.cross_entropy(torch.from_numpy(x), torch.from_numpy(label), label_smoothing=smoothing)
        assert both.call("smooth_mean", x, label, smoothing) == pytest.approx(wanted.item(), rel=1e-6)
    for program, smoothing in itertools.product((both.native, both.reference), (-0.1, 1.1, np.nan)):
        with pytest.raises(shapescript.ShapeScriptError) as caught:
            program.smooth_mean(x, label, float(smoothing))
        assert caught.value.code == "R1109"


@pytest.mark.parametrize("size", [1e4, 3e37])
def test_large_logits(both: Both, size: float) -> None:
    x = np.array([[size, -size, 0, 0, 0], [-size, size, size, 0, 0]], np.float32)
    label = np.array([0, 1])
    wanted = functional.cross_entropy(torch.from_numpy(x), torch.from_numpy(label), reduction="none")
    np.testing.assert_allclose(both.call("each", x, label), wanted, rtol=1e-6)
    assert both.call("each", x, np.array([1, 0])) == pytest.approx([2 * size, 2 * size + np.log(2)], rel=1e-6)


def test_counts_weigh_the_parts_of_a_mean(both: Both) -> None:
    """Samples of 11 and 101 tokens, some of them hidden, together and one by one; and a part that is all hidden."""
    m, (x, label, _) = both.native.Net(seed=2), rows(np.float32, 112)
    mask = np.random.default_rng(1).random(112) < 0.7
    mask[50:60] = False
    whole, counted = both.native.gradient(m, x, label, mask)
    parts = [slice(0, 11), slice(11, 50), slice(50, 60), slice(60, 112)]
    gradients = [both.call("gradient", m, x[part], label[part], mask[part]) for part in parts]
    assert counted == mask.sum() == sum(count for _, count in gradients)
    found = sum(gradient["w"] * count for gradient, count in gradients) / counted
    np.testing.assert_allclose(found, whole["w"], rtol=1e-5, atol=1e-7)


def test_parts_that_are_hidden_weigh_nothing(both: Both) -> None:
    m, (x, label, _) = both.native.Net(seed=2), rows(np.float32)
    mask, none = np.arange(9) % 2 == 0, np.zeros(9, bool)
    whole, counted = both.native.gradient(m, x, label, mask)
    found, count = both.call("in_two_parts", m, x, np.where(mask, label, -1), mask, none)
    assert count == counted == 5
    np.testing.assert_allclose(found["w"], whole["w"], rtol=1e-6)
    found, count = both.call("in_two_parts", m, x, label - 9, none, none)
    assert count == 0 and not found["w"].any()


def test_accuracy_of_the_rows_that_count(both: Both) -> None:
    x, label, _ = rows(np.float32)
    mask = np.array([True, False, True, True, False, True, True, True, False])
    counted = mask & (label != 2)
    assert both.call("share", x, np.where(mask, label, -9), mask, 2) == (x.argmax(1) == label)[counted].mean()
    for program in (both.native, both.reference):
        for arguments, code in (((x, label, mask & False, 2), "R1103"), ((x, label + 10, mask, 2), "R1101")):
            with pytest.raises(shapescript.ShapeScriptError) as caught:
                program.share(*arguments)
            assert caught.value.code == code
        with pytest.raises(shapescript.ShapeScriptError) as caught:
            program.plain_share(x, label - 1000)
        assert caught.value.code == "R1101"
