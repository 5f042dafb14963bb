"""gather and scatter_rows: beside NumPy and PyTorch, native code beside the reference evaluator, and indices out of range."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from evaluating import apply, function_of, tensor
from native_harness import assert_same, check, finished

import shapescript
from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ir.sizes import fresh, number, of
from shapescript.compiler.ir.types import Element, TensorType
from shapescript.compiler.numerics.bfloat16_arrays import bits_of
from shapescript.compiler.ops.build import Builder
from shapescript.compiler.ops.protocol import ExecutionError
from shapescript.engines import EngineName

F32, F64, I64, BOOLS = Element.F32, Element.F64, Element.I64, Element.BOOL
DTYPES: dict[Element, Any] = {F32: np.float32, F64: np.float64, I64: np.int64, BOOLS: np.bool_}

# rows, the other axes, the index's axes
SHAPES: list[tuple[int, tuple[int, ...], tuple[int, ...]]] = [
    (5, (3,), (4,)),
    (7, (), (20,)),
    (1, (1,), (1,)),
    (3, (16,), (2, 5)),
    (9, (37,), (2, 1, 3)),
    (4, (2, 19), (6,)),
    (4, (5, 0), (6,)),
    (4, (3,), (0,)),
    (4, (3,), (2, 0)),
    (0, (3,), (0,)),
    (6, (4,), ()),
    (300, (129,), (33,)),
]


def values(element: Element, *shape: int, seed: int = 0) -> np.ndarray:
    found = np.random.default_rng(seed).standard_normal(shape) * 4
    return bits_of(found.astype(np.float32)) if element is Element.BF16 else found.astype(DTYPES[element])


def indices(rows: int, shape: Sequence[int], seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, max(rows, 1), shape)


def added_in_order(rows: np.ndarray, index: np.ndarray, size: int) -> np.ndarray:
    """Each element by itself, position after position."""
    found = np.zeros((size, *rows.shape[index.ndim :]), rows.dtype)
    for position in np.ndindex(index.shape):
        found[index[position]] = found[index[position]] + rows[position]
    return found


# ---- one operation


@pytest.mark.parametrize(("rows", "rest", "index"), SHAPES)
@pytest.mark.parametrize("element", Element)
def test_gather_takes_rows(element: Element, rows: int, rest: tuple[int, ...], index: tuple[int, ...]) -> None:
    x, i = values(element, rows, *rest), indices(rows, index)
    found = apply("gather", x, i)
    np.testing.assert_array_equal(found, x[i])
    assert found.dtype == x.dtype and found.shape == (*index, *rest)


@pytest.mark.parametrize(("rows", "rest", "index"), SHAPES)
@pytest.mark.parametrize("element", [F32, F64])
def test_scatter_rows_adds_in_the_order_of_the_index(element: Element, rows: int, rest: tuple[int, ...], index: tuple[int, ...]) -> None:
    x, i = values(element, *index, *rest), indices(rows, index)
    found = apply("scatter_rows", x, i, size=number(rows))
    assert found.tobytes() == added_in_order(x, i, rows).tobytes()


def test_a_sum_of_rows_begins_at_plus_zero() -> None:
    found = apply("scatter_rows", np.float32([-0.0, 1e8, 1.0, -1e8]), np.array([0, 2, 2, 2]), size=number(3))
    assert found.tobytes() == np.float32([0.0, 0.0, 0.0]).tobytes()  # (1e8 + 1) - 1e8 rounds to 0: another order would give 1


@pytest.mark.parametrize("element", Element)
def test_native_gather(element: Element) -> None:
    for rank in range(3):
        for others in range(3):
            shapes = [shape for shape in SHAPES if len(shape[1]) == others and len(shape[2]) == rank]
            calls = [[values(element, rows, *rest), indices(rows, index)] for rows, rest, index in shapes]
            compare("gather", element, 1 + others, rank, calls)
    check(lambda b, x, i: b.op("gather", x, i), values(element, 9, 37), indices(9, (2, 1, 3)))
    check(lambda b, x, i: b.op("gather", x, i), values(element, 5), np.int64(3))


def compare(name: str, element: Element, rank: int, index_rank: int, calls: Sequence[Sequence[Any]], **attributes: Any) -> None:
    """Sizes known only when called."""
    axes = [of(fresh(f"i{place}")) for place in range(index_rank)]
    first = axes if name == "scatter_rows" else []
    own = (*first, *(of(fresh(f"n{place}")) for place in range(rank - len(first))))
    types = [TensorType(element, own), TensorType(I64, tuple(axes))]
    assert_same(finished(function_of(types, lambda b, x, i: b.op(name, x, i, **attributes))), calls)


@pytest.mark.parametrize("element", [F32, F64])
def test_native_scatter_rows(element: Element) -> None:
    for rows, rest, index in SHAPES:
        x, i = values(element, *index, *rest), indices(rows, index)
        compare("scatter_rows", element, len(index) + len(rest), len(index), [[x, i]], size=number(rows))
        check(lambda b, x, i, rows=rows: b.op("scatter_rows", x, i, size=number(rows)), x, i)
    check(lambda b, x, i: b.op("scatter_rows", x, i, size=number(3)), DTYPES[element](2.5), np.int64(1))
    check(lambda b, x, i: b.op("scatter_rows", x, i, size=number(3)), values(element, 500, 20), indices(3, (500,)))


def test_native_gathers_among_fused_work() -> None:
    n = of(fresh("n"))

    def build(b: Builder, x: Value, i: Value) -> Sequence[Value]:
        first = b.op("gather", b.op("mul", x, x), i)
        second = b.op("gather", b.op("transpose", first, permutation=(1, 0)), b.op("iota", axes=(number(2),), position=0))
        back = b.op("scatter_rows", b.op("exp", b.op("neg", first)), i, size=number(5))
        return [b.op("add", first, first), second, b.op("sub", back, x), b.op("sum", first, positions=(0, 1))]

    for fused in (False, True):
        function = finished(function_of([tensor(5, 6), TensorType(I64, (n,))], build), fused)
        assert_same(function, [[values(F32, 5, 6), indices(5, (count,))] for count in (0, 1, 7, 40)])


# ---- out of range

WRONG = [[5], [-1], [0, 4, 5], [0] * 17 + [2**31, -3], [-(2**63)], [2**62, 0], [4] * 16 + [-1]]


def test_an_index_out_of_range_says_which_and_where() -> None:
    n = of(fresh("n"))
    function = finished(function_of([tensor(5, 3), TensorType(I64, (n,))], lambda b, x, i: b.op("gather", x, i)))
    for wrong, outcome in zip(WRONG, assert_same(function, [[values(F32, 5, 3), np.int64(index)] for index in WRONG]), strict=True):
        position = next(place for place, index in enumerate(wrong) if not 0 <= index < 5)
        assert outcome[0] is ExecutionError
        assert outcome[1] == (
            f"R1101: index {wrong[position]} at position {position}: gather's axis 5 has 5 elements, so indices go from 0 to 4"
        )


def test_an_index_without_axes_and_one_into_nothing() -> None:
    assert check(lambda b, x, i: b.op("gather", x, i), values(F32, 5), np.int64(5))[0] is ExecutionError
    assert "there is no index into it" in check(lambda b, x, i: b.op("gather", x, i), values(F32, 0, 2), np.int64([0]))[1]
    assert check(lambda b, x, i: b.op("gather", x, i), values(F32, 3, 0), np.int64([1, 3]))[0] is ExecutionError


PROGRAM = """
import shapescript.std.nn as nn

dim V = 5
dim D = 3

model Words:
    table: nn.Embedding[V, D]
    head: nn.Linear[D, 2]

fn loss(m: Words, tokens: int[b n], label: int[b]) -> []:
    return tokens |> nn.embedding(m.table) |> mean(over=n) |> nn.linear(m.head) |> cross_entropy(label)

fn step(mut m: Words, mut opt: AdamW[Words], tokens: int[b n], label: int[b]) -> float:
    l, mut g = value_and_grad(loss(m, tokens, label), wrt=m)
    clip_norm(mut g, 1.0)
    update(mut m, mut opt, g, lr=1e-2)
    return l

fn look_and_step(mut m: Words, mut opt: AdamW[Words], tokens: int[b n], label: int[b], other: int[k]):
    l, g = value_and_grad(loss(m, tokens, label), wrt=m)
    unused = gather(m.table.weight, other, over=V)
    update(mut m, mut opt, g, lr=1e-2)

fn again(x: [v d], i: int[b], times: int) -> [v d]:
    mut total = zeros[v d]
    for k in 0..times:
        l, g = value_and_grad(sum(gather(x, i, over=v), over=(b, d)), wrt=x)
        total = total + g
    return total

fn columns(x: [a V b], i: int[k]) -> [k a b]:
    return gather(x, i, over=V)

fn column_gradient(x: [a V b], i: int[k], w: [k a b]) -> [a V b]:
    l, g = value_and_grad(sum(columns(x, i) * w, over=(k, a, b)), wrt=x)
    return g

fn mixed(x: f64[v d], i: int[b n], w: f64[b n d]) -> f64[]:
    y = gather(x, i, over=v)
    return sum(y * y * y * w, over=(b, n, d))

fn first(x: f64[v d], i: int[b n], w: f64[b n d]) -> f64[v d]:
    l, g = value_and_grad(mixed(x, i, w), wrt=x)
    return g

fn squared(x: f64[v d], i: int[b n], w: f64[b n d]) -> f64[]:
    g = first(x, i, w)
    return sum(g * g, over=(v, d))

fn second(x: f64[v d], i: int[b n], w: f64[b n d]) -> f64[v d]:
    l, g = value_and_grad(squared(x, i, w), wrt=x)
    return g

fn whole_numbers(x: int[v], y: bool[v], i: int[b n]) -> (int[b n], bool[b n]):
    return gather(x, i, over=v), gather(y, i, over=v)

fn sorted_out(x: [v], i: int[v]) -> [v]:
    return gather(x, i, over=v)

model Tied:
    table: nn.Embedding[V, D]

fn logits(m: Tied, tokens: int[b n]) -> [b n V]:
    return einsum(tokens |> nn.embedding(m.table), m.table.weight: b n D, V D -> b n V)

fn tied_loss(m: Tied, tokens: int[b n], next: int[b n]) -> []:
    return logits(m, tokens) |> cross_entropy(next)

fn tied_gradient(m: Tied, tokens: int[b n], next: int[b n]) -> ([], Tied):
    l, g = value_and_grad(tied_loss(m, tokens, next), wrt=m)
    return l, g
"""

ENGINES: tuple[EngineName, ...] = get_args(EngineName)


def loaded(folder: Path, engine: EngineName) -> Any:
    path = folder / "program.ss"
    path.write_text(PROGRAM)
    return shapescript.load(path, engine=engine)


@pytest.fixture(params=ENGINES)
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return loaded(tmp_path, request.param)


@pytest.mark.parametrize("index", [5, -1, 2**31, -(2**63)])
def test_an_index_out_of_range_changes_nothing(program: Any, index: int) -> None:
    """Field report 53."""
    m = program.Words(seed=1)
    opt = shapescript.AdamW(m)
    tokens, label = indices(5, (4, 7)), indices(2, (4,))
    program.step(m, opt, tokens, label)

    def state() -> tuple[Any, ...]:
        return m.buffer.tobytes(), opt.slot("first").tobytes(), opt.slot("second").tobytes(), opt.step

    before, wrong = state(), tokens.copy()
    wrong[2, 3] = index
    for call in (lambda: program.step(m, opt, wrong, label), lambda: program.look_and_step(m, opt, tokens, label, wrong.reshape(-1))):
        with pytest.raises(shapescript.ShapeScriptError, match=rf"R1101: index {index} at position 17: gather's axis V has 5") as raised:
            call()
        assert isinstance(raised.value, ValueError) and raised.value.code == "R1101"
        assert state() == before
    program.step(m, opt, tokens, label)
    assert opt.step == 2


def test_gradients_moved_out_of_a_loop_are_safe(program: Any) -> None:
    """The rows' gradient needs nothing that the loop makes; the check of the index stays inside."""
    x, good, bad = values(F32, 4, 3), np.array([1, 1, 3]), np.array([0, 2**40, -5])
    np.testing.assert_array_equal(program.again(x, good, 3), np.float32([[0], [6], [0], [3]]) * np.ones((1, 3), np.float32))
    assert (program.again(x, bad, 0) == 0).all()
    with pytest.raises(shapescript.ShapeScriptError, match="R1101: index 1099511627776 at position 1"):
        program.again(x, bad, 1)


# ---- programs beside PyTorch


def test_an_axis_that_is_not_the_first(program: Any) -> None:
    x, i, w = values(F32, 2, 5, 3), np.array([4, 0, 4, 1]), values(F32, 4, 2, 3, seed=2)
    theirs_in = torch.from_numpy(x).requires_grad_()
    theirs = theirs_in[:, torch.from_numpy(i)].permute(1, 0, 2)
    np.testing.assert_array_equal(program.columns(x, i), theirs.detach())
    (theirs * torch.from_numpy(w)).sum().backward()
    np.testing.assert_allclose(program.column_gradient(x, i, w), theirs_in.grad, rtol=1e-6, atol=1e-6)


def test_other_elements_and_shared_axes(program: Any) -> None:
    i = indices(6, (2, 5))
    numbers, flags = np.arange(6) * 2**40, np.array([True, False, False, True, True, False])
    found, also = program.whole_numbers(numbers, flags, i)
    np.testing.assert_array_equal(found, numbers[i])
    np.testing.assert_array_equal(also, flags[i])
    x = values(F32, 6)
    np.testing.assert_array_equal(program.sorted_out(x, np.argsort(x)), np.sort(x))


@pytest.mark.parametrize("shape", [(2, 7), (0, 3), (1, 1)])
def test_second_derivatives_with_repeated_indices(program: Any, shape: tuple[int, int]) -> None:
    x, i, w = values(F64, 4, 3), indices(4, shape), values(F64, *shape, 3, seed=2)
    theirs_in = torch.from_numpy(x).requires_grad_()
    rows = theirs_in[torch.from_numpy(i)]
    (first,) = torch.autograd.grad((rows**3 * torch.from_numpy(w)).sum(), theirs_in, create_graph=True)
    (second,) = torch.autograd.grad((first * first).sum(), theirs_in)
    np.testing.assert_allclose(program.first(x, i, w), first.detach(), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(program.second(x, i, w), second, rtol=1e-12, atol=1e-12)


def test_tied_weights_add_their_gradients(program: Any) -> None:
    m = program.Tied(seed=3)
    tokens, following = indices(5, (4, 6)), indices(5, (4, 6), seed=8)
    weight = torch.from_numpy(m["table.weight"].copy()).requires_grad_()
    rows = torch.nn.functional.embedding(torch.from_numpy(tokens), weight)
    theirs = torch.nn.functional.cross_entropy((rows @ weight.T).reshape(-1, 5), torch.from_numpy(following.reshape(-1)))
    theirs.backward()
    ours, gradient = program.tied_gradient(m, tokens, following)
    assert ours == pytest.approx(theirs.item(), rel=1e-6)
    np.testing.assert_allclose(gradient["table.weight"], weight.grad, rtol=1e-4, atol=1e-6)


def test_training_is_the_same_in_both_engines(tmp_path: Path) -> None:
    found = []
    for engine in ENGINES:
        program = loaded(tmp_path, engine)
        m = program.Words(seed=1)
        opt = shapescript.AdamW(m)
        losses = [program.step(m, opt, indices(5, (8, 6), seed), indices(2, (8,), seed)) for seed in (1, 2, 1, 2, 1, 2, 1, 2)]
        assert losses[-1] < losses[1]
        found.append((losses, m.buffer.tobytes(), opt.slot("first").tobytes(), opt.slot("second").tobytes()))
    assert found[0] == found[1]
