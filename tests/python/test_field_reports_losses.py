"""What breaks elsewhere in losses, masks and dropout, and what must hold here (reports 32 to 36, 41, 43): both engines byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from both_engines import Both
from torch.nn import functional

import shapescript

PROGRAM = """
import shapescript.std.optim as optim

dim V = 5
dim H = 4

data Row:
    x: [V]
    y: int

model Net:
    w: [V V] = normal(0, 1)

model Two:
    first: [H H] = normal(0, 1)
    second: [H H] = normal(0, 1)

fn counted(y: int[b]) -> int:
    return int(sum(int(y != -100), over=b))

fn plain(x: [b V], y: int[b]) -> []:
    return cross_entropy(x, y, ignore=-100)

fn written_out(x: [b V], y: int[b]) -> []:
    counts = y != -100
    rows = -(where(repeat(counts: b -> b V), x, 0.0) |> log_softmax(over=V) |> pick(where(counts, y, 0), over=V))
    total = sum(where(counts, rows, 0.0), over=b)
    return total / maximum(f32(sum(int(counts), over=b)), 1.0)

fn ignored(x: [b V], y: int[b]) -> (float, [b V], int):
    l, g = value_and_grad(plain(x, y), wrt=x)
    return l, g, counted(y)

fn ignored_written_out(x: [b V], y: int[b]) -> (float, [b V], int):
    l, g = value_and_grad(written_out(x, y), wrt=x)
    return l, g, counted(y)

fn ignored_in_bf16(x: [b V], y: int[b]) -> (float, [b V], int):
    l, g = value_and_grad(cross_entropy(bf16(x), y, ignore=-100), wrt=x)
    return l, g, counted(y)

fn total(m: Net, x: [b V], y: int[b]) -> ([], int):
    return cross_entropy(x @ m.w, y, ignore=-100, reduction="sum"), counted(y)

fn whole(m: Net, x: [b V], y: int[b]) -> (float, Net):
    l, g = value_and_grad(cross_entropy(x @ m.w, y, ignore=-100), wrt=m)
    return l, g

fn accumulated(m: Net, x: [n k V], y: int[n k]) -> (float, Net):
    mut grown = zeros_like(m)
    mut loss = 0.0
    mut count = 0
    for i in 0..n:
        l, c, g = value_and_grad(total(m, x[n=i], y[n=i]), wrt=m)
        grown = grown + g
        loss = loss + l
        count = count + c
    if count == 0:
        return 0.0, grown
    return loss / count, grown / count

fn smoothed(x: [b V], y: int[b], w: [V], s: float, keep: bool[b]) -> ([b V], [b V], [b V], [b V]):
    l0, mean_plain = value_and_grad(cross_entropy(x, y, smoothing=s, mask=keep), wrt=x)
    l1, sum_plain = value_and_grad(cross_entropy(x, y, smoothing=s, mask=keep, reduction="sum"), wrt=x)
    l2, mean_weighted = value_and_grad(cross_entropy(x, y, weight=w, smoothing=s, mask=keep), wrt=x)
    l3, sum_weighted = value_and_grad(cross_entropy(x, y, weight=w, smoothing=s, mask=keep, reduction="sum"), wrt=x)
    return mean_plain, sum_plain, mean_weighted, sum_weighted

fn smoothed_losses(x: [b V], y: int[b], w: [V], s: float, keep: bool[b]) -> (float, float, float, float):
    a = cross_entropy(x, y, smoothing=s, mask=keep)
    b = cross_entropy(x, y, smoothing=s, mask=keep, reduction="sum")
    c = cross_entropy(x, y, weight=w, smoothing=s, mask=keep)
    return a, b, c, cross_entropy(x, y, weight=w, smoothing=s, mask=keep, reduction="sum")

fn by_mean(mut m: Net, mut opt: AdamW[Net], x: [b V], y: int[b]):
    l, g = value_and_grad(cross_entropy(x @ m.w, y), wrt=m)
    update(mut m, mut opt, g, lr=0.1)

fn by_sum(mut m: Net, mut opt: AdamW[Net], x: [b V], y: int[b]):
    l, g = value_and_grad(cross_entropy(x @ m.w, y, reduction="sum"), wrt=m)
    update(mut m, mut opt, g, lr=0.1)

fn by_rows(mut m: Net, mut opt: AdamW[Net], x: [b V], y: int[b]):
    l, g = value_and_grad(sum(cross_entropy(x @ m.w, y, reduction="none"), over=b), wrt=m)
    update(mut m, mut opt, g, lr=0.1)

fn without_zero(x: [b V], y: int[b]) -> []:
    return cross_entropy(x, y, ignore=0)

fn by_mask(x: [b n V], y: int[b n], there: bool[b]) -> []:
    return cross_entropy(x, y, mask=there)

fn attended(m: Two, x: [n H], keep: bool[n k]) -> [n H]:
    scores = einsum(x @ m.first, (x @ m.second)[n=0..k]: n H, k H -> n k)
    return einsum(softmax(where(keep, scores, -1e38 * 10.0), over=k), x[n=0..k]: n k, k H -> n H)

fn attention(m: Two, x: [n H], keep: bool[n k]) -> ([n H], Two):
    l, g = value_and_grad(sum(attended(m, x, keep) ** 2, over=(n, H)), wrt=m)
    return attended(m, x, keep), g

fn masked_rows(x: [n k]) -> ([n k], [n k]):
    l, g = value_and_grad(sum(softmax(x, over=k) ** 2, over=(n, k)), wrt=x)
    return softmax(x, over=k), g

fn dropped(x: [b H], mode: Mode) -> ([b H], [b H]):
    first = dropout(x, 0.5, mode)
    return first, dropout(x, 0.5, mode)

fn slope(x: [b H], mode: Mode) -> ([b H], [b H]):
    mut y = x
    l, g = value_and_grad(kept(mut y, x, mode), wrt=x)
    return y, g

fn kept(mut y: [b H], x: [b H], mode: Mode) -> []:
    y = dropout(x, 0.5, mode)
    return sum(y * 3.0, over=(b, H))
"""

V, H = 5, 4


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    return Both(tmp_path_factory.mktemp("losses"), PROGRAM)


def rows(count: int, seed: int = 1) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((count, V)).astype(np.float32), rng.integers(0, V, count)


# ---- 32. a loss of ignored rows alone is 0, and so are its gradients


@pytest.mark.parametrize("name", ["ignored", "ignored_written_out", "ignored_in_bf16"])
def test_a_loss_of_ignored_rows_alone_is_zero_with_a_count_of_zero(both: Both, name: str) -> None:
    x, _ = rows(4)
    loss, gradient, count = both.call(name, x, np.full(4, -100))
    assert (loss, count) == (0.0, 0) and gradient.tobytes() == np.zeros_like(x).tobytes()


def test_a_micro_batch_of_ignored_rows_adds_nothing(both: Both) -> None:
    m, (x, y) = both.native.Net(seed=1), rows(12)
    y[4:8] = -100
    loss, gradient = both.call("accumulated", m, x.reshape(3, 4, V), y.reshape(3, 4))
    rest = np.r_[0:4, 8:12]
    wanted, whole = both.call("whole", m, x[rest], y[rest])
    assert loss == pytest.approx(wanted, rel=1e-6)
    np.testing.assert_allclose(gradient.w, whole.w, rtol=1e-5, atol=1e-7)
    loss, gradient = both.call("accumulated", m, x.reshape(3, 4, V), np.full((3, 4), -100))
    assert loss == 0.0 and not gradient.w.any()


# ---- 33. rows that don't count leak into nothing


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_ignored_rows_are_as_if_deleted_with_smoothing_and_weights(both: Both, smoothing: float) -> None:
    x, y = rows(9)
    keep, w = np.arange(9) % 3 != 1, np.random.default_rng(2).uniform(0.2, 2.0, V).astype(np.float32)
    spoilt, wild = x.copy(), y.copy()
    spoilt[~keep], wild[~keep] = [[np.nan], [np.inf], [-np.inf]], [-100, 2**31, -1]
    found = both.call("smoothed_losses", spoilt, wild, w, smoothing, keep)
    gradients = both.call("smoothed", spoilt, wild, w, smoothing, keep)
    for place, (weight, reduction) in enumerate([(None, "mean"), (None, "sum"), (w, "mean"), (w, "sum")]):
        theirs = torch.from_numpy(x[keep].astype(np.float64)).requires_grad_()
        given = None if weight is None else torch.from_numpy(w.astype(np.float64))
        loss = functional.cross_entropy(theirs, torch.from_numpy(y[keep]), weight=given, label_smoothing=smoothing, reduction=reduction)
        loss.backward()
        assert found[place] == pytest.approx(loss.item(), rel=1e-6)
        assert theirs.grad is not None
        np.testing.assert_allclose(gradients[place][keep], theirs.grad, rtol=1e-5, atol=1e-7)
        assert gradients[place][~keep].tobytes() == bytes(gradients[place][~keep].nbytes)


# ---- 34. a target that is no class


@pytest.mark.parametrize("label", [V, -1, -4, 2**31])
@pytest.mark.parametrize("name", ["by_mean", "by_sum", "by_rows"])
def test_a_target_that_is_no_class_stops_the_step_with_its_place(both: Both, name: str, label: int) -> None:
    x, y = rows(7)
    y[3] = label
    for program in (both.native, both.reference):
        m = program.Net(seed=1)
        opt, before = shapescript.AdamW(m), m.buffer.tobytes()
        with pytest.raises(shapescript.ShapeScriptError) as caught:
            getattr(program, name)(m, opt, x, y)
        assert caught.value.code == "R1101" and caught.value.span is not None
        assert all(part in caught.value.message for part in (f"label {label} at position 3", "axis V has 5"))
        assert m.buffer.tobytes() == before and opt.step == 0
        y_good = np.where(y == label, 0, y)
        getattr(program, name)(m, opt, x, y_good)
        assert opt.step == 1


# ---- 35. what is ignored is a value, and a mask lies on the targets' own axes


def test_ignoring_zero_skips_rows_whose_target_is_zero_alone(both: Both) -> None:
    x, y = rows(9)
    y[[2, 8]] = 0
    wanted = functional.cross_entropy(torch.from_numpy(x).double(), torch.from_numpy(y), ignore_index=0)
    assert both.call("without_zero", x, y) == pytest.approx(wanted.item(), rel=1e-6)


def test_a_mask_of_some_of_the_targets_axes(both: Both) -> None:
    x, y = rows(12)
    there = np.array([True, False, True])
    rest = np.repeat(there, 4)
    wanted = functional.cross_entropy(torch.from_numpy(x[rest]).double(), torch.from_numpy(y[rest]))
    assert both.call("by_mask", x.reshape(3, 4, V), y.reshape(3, 4), there) == pytest.approx(wanted.item(), rel=1e-6)


# ---- 36. a row that is masked as a whole


def test_a_fully_masked_row_is_zero_and_poisons_no_weight(both: Both) -> None:
    m, rng = both.native.Two(seed=1), np.random.default_rng(3)
    x, keep = rng.standard_normal((6, H)).astype(np.float32), rng.random((6, 3)) < 0.6
    keep[:, 0], keep[2] = True, False
    found, gradient = both.call("attention", m, x, keep)
    assert found[2].tobytes() == bytes(4 * H)
    tensors = {name: torch.from_numpy(m[name].astype(np.float64)).requires_grad_() for name in ("first", "second")}
    theirs, rest = torch.from_numpy(x.astype(np.float64)), [0, 1, 3, 4, 5]
    scores = (theirs @ tensors["first"]) @ (theirs @ tensors["second"])[:3].T
    weights = scores.masked_fill(~torch.from_numpy(keep), -torch.inf)[rest].softmax(1)
    ((weights @ theirs[:3]) ** 2).sum().backward()
    for name, tensor in tensors.items():
        assert np.isfinite(gradient[name]).all()
        np.testing.assert_allclose(gradient[name], tensor.grad, rtol=1e-4, atol=1e-5)


def test_a_row_of_minus_infinity_has_no_gradient(both: Both) -> None:
    x = np.random.default_rng(4).standard_normal((3, 7)).astype(np.float32)
    alone, slope = both.call("masked_rows", x[[0, 2]])
    x[1] = -np.inf
    found, gradient = both.call("masked_rows", x)
    assert found[1].tobytes() == bytes(28) and not gradient[1].any() and np.isfinite(gradient).all()
    assert found[[0, 2]].tobytes() == alone.tobytes() and gradient[[0, 2]].tobytes() == slope.tobytes()


# ---- 41. means over tokens, not means of means


def test_samples_of_11_and_101_tokens_count_by_their_tokens(both: Both) -> None:
    m, (x, y) = both.native.Net(seed=2), rows(202, seed=5)
    x, y = x.reshape(2, 101, V), y.reshape(2, 101)
    y[0, 11:], y[1, ::7] = -100, -100
    together, whole = both.call("whole", m, x.reshape(-1, V), y.reshape(-1))
    loss, gradient = both.call("accumulated", m, x, y)
    assert loss == pytest.approx(together, rel=1e-6)
    np.testing.assert_allclose(gradient.w, whole.w, rtol=1e-5, atol=1e-6)
    padded_x, padded_y = np.concatenate([x, x * 0]), np.concatenate([y, np.full_like(y, -100)])  # the last window is not full
    loss, gradient = both.call("accumulated", m, padded_x, padded_y)
    assert loss == pytest.approx(together, rel=1e-6)
    np.testing.assert_allclose(gradient.w, whole.w, rtol=1e-5, atol=1e-6)
    mean_of_means = np.mean([both.call("whole", m, x[place], y[place])[0] for place in (0, 1)])
    assert abs(mean_of_means - together) > 1e-3


# ---- 43. masks of dropout


def test_masks_differ_between_steps_layers_and_rows(both: Both) -> None:
    x, mode = np.ones((64, H), np.float32), shapescript.Train(7)
    masks = [mask for _ in range(3) for mask in both.call("dropped", x, mode)]
    assert len({mask.tobytes() for mask in masks}) == 6
    assert all(len({row.tobytes() for row in mask}) > 8 for mask in masks)
    again = shapescript.Train(7)
    assert [mask.tobytes() for _ in range(3) for mask in both.call("dropped", x, again)] == [mask.tobytes() for mask in masks]
    assert all(set(np.unique(mask)) == {0.0, 2.0} for mask in masks)


def test_the_gradient_has_the_forward_mask(both: Both) -> None:
    x = np.random.default_rng(6).uniform(1, 2, (64, H)).astype(np.float32)
    y, gradient = both.call("slope", x, shapescript.Train(3))
    assert gradient.tobytes() == (3.0 * y / x).round().astype(np.float32).tobytes() and 0 < (y == 0).mean() < 1


def test_masks_depend_on_neither_threads_nor_batches_before(both: Both, tmp_path: Path) -> None:
    """A mask's row is that of its place: of a batch with more rows the first ones are the same."""
    small, _ = both.call("dropped", np.ones((10, H), np.float32), shapescript.Train(9))
    large, _ = both.call("dropped", np.ones((200, H), np.float32), shapescript.Train(9))
    assert large[:10].tobytes() == small.tobytes()


def test_two_layers_of_one_shape_start_with_different_weights(both: Both) -> None:
    m = both.native.Two(seed=1)
    assert (m.first != m.second).all()
    assert m.first.tobytes() == both.reference.Two(seed=1).first.tobytes()
