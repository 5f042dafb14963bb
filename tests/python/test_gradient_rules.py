"""The derivative of each operation of the table, beside PyTorch and beside finite differences, in f64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from gradients import Gradient, gradient, sizes, total

from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ir.types import Element, TensorType
from shapescript.compiler.ops.build import Builder, result_type

F64 = Element.F64


@dataclass(frozen=True)
class Case:
    """`make` in the IR and in PyTorch, for an argument of that shape; weights make the sum's gradient uneven."""

    name: str
    make: Callable[[Builder, Value], Value]
    twin: Callable[[torch.Tensor], torch.Tensor]
    shape: tuple[int, ...] = (3, 4)
    positive: bool = False


def constant(b: Builder, array: np.ndarray) -> Value:
    """A tensor of these numbers, made of broadcasts of constants, so that the function needs no other parameter."""
    kind = TensorType(F64, sizes(*array.shape))
    found = b.full(0.0, kind)
    for place in np.ndindex(array.shape):
        hit = b.full(True, TensorType(Element.BOOL, kind.axes))
        for axis, index in enumerate(place):
            here = b.op("eq", b.op("iota", axes=kind.axes, position=axis), b.full(index, TensorType(Element.I64, kind.axes)))
            hit = b.op("and", hit, here)
        found = b.op("select", hit, b.full(float(array[place]), kind), found)
    return found


def weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).uniform(0.5, 1.5, shape)


def torch_weights(*shape: int) -> torch.Tensor:
    return torch.from_numpy(weights(*shape))


def unary(name: str, twin: Callable[[torch.Tensor], torch.Tensor], positive: bool = False) -> Case:
    return Case(name, lambda b, x: b.op(name, x), twin, positive=positive)


def binary(name: str, twin: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], left: bool = True) -> Case:
    def make(b: Builder, x: Value) -> Value:
        other = constant(b, weights(3, 4))
        return b.op(name, x, other) if left else b.op(name, other, x)

    other = torch_weights(3, 4)
    return Case(name, make, (lambda x: twin(x, other)) if left else (lambda x: twin(other, x)))


def chosen(b: Builder, x: Value) -> Value:
    positive = b.op("gt", x, b.full(0.2, result_type(x)))
    return b.op("select", positive, b.op("mul", x, x), b.op("neg", x))


def kept(b: Builder, x: Value) -> Value:
    return b.op("dropout", x, b.float_constant(0.5), b.constant(3, Element.I64), b.constant(-1, Element.I64))


def entropy(b: Builder, x: Value) -> Value:
    labels = b.op("to_i64", constant(b, np.array([1.0, 0.0, 3.0])))
    return b.emit("cross_entropy", x, labels)[0]


def entropy_and_probabilities(b: Builder, x: Value) -> Value:
    labels = b.op("to_i64", constant(b, np.array([1.0, 0.0, 3.0])))
    loss, probabilities = b.emit("cross_entropy", x, labels)
    return b.op("add", loss, total(b, b.op("mul", probabilities, constant(b, weights(3, 4)))))


LABELS = torch.tensor([1, 0, 3])
ROWS = np.array([[2, 0, 2], [1, 2, 2]])  # some twice, in more than one axis
COLUMNS = np.array([[1, 1, 0, 3, 1], [0, 2, 2, 2, 0], [3, 3, 3, 3, 3]])


def numbers(b: Builder, array: np.ndarray) -> Value:
    return b.op("to_i64", constant(b, array.astype(np.float64)))


def added(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros(5, 4, dtype=x.dtype).index_add(0, torch.from_numpy(ROWS).reshape(-1), x.reshape(-1, 4))


def add_weights(x: torch.Tensor) -> torch.Tensor:
    return x.index_add(0, torch.from_numpy(ROWS).reshape(-1), torch_weights(2, 3, 4).reshape(-1, 4))


def put_columns(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros(3, 4, dtype=x.dtype).scatter_add(1, torch.from_numpy(COLUMNS), x)


def place(b: Builder, start: int) -> Value:
    return b.constant(start, Element.I64)


def put_weights(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x[:, :1], torch_weights(3, 2), x[:, 3:]], 1)


def put_at_the_end(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([torch_weights(3, 7)[:, :3], x], 1)


def add_at_the_start(x: torch.Tensor) -> torch.Tensor:
    return x + torch.cat([torch_weights(2, 4), torch.zeros(1, 4, dtype=x.dtype)])


def add_in_the_middle(x: torch.Tensor) -> torch.Tensor:
    return torch_weights(3, 7) + torch.nn.functional.pad(x, (2, 1))


def two_elements(b: Builder, x: Value) -> Value:
    flat = b.op("reshape", x, axes=sizes(4))
    one, other = (b.op("reshape", b.op("slice", flat, place(b, at), position=0, length=sizes(1)[0]), axes=()) for at in (3, 0))
    return b.op("literal", one, other, one, b.op("mul", one, other), axes=sizes(2, 2))


STEPS = {"positions": (1, 2), "strides": sizes(2, 2), "dilations": sizes(1, 1), "before": sizes(1, 1), "room": ()}
WINDOWS = {**STEPS, "lengths": sizes(2, 3), "counts": sizes(3, 3), "fill": 0.0}
FOLD = {**STEPS, "sizes": sizes(4, 5)}


def folded(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.fold(x.reshape(1, 18, 9), (4, 5), (2, 3), 1, 1, 2)[0]


CASES = [
    unary("neg", torch.neg),
    unary("abs", torch.abs),
    unary("sqrt", torch.sqrt, True),
    unary("exp", torch.exp),
    unary("log", torch.log, True),
    unary("tanh", torch.tanh),
    unary("sigmoid", torch.sigmoid),
    unary("relu", torch.relu),
    unary("to_f32", lambda x: x.float().double()),
    Case("to_f64", lambda b, x: b.op("to_f64", b.op("to_f32", x)), lambda x: x.float().double()),
    binary("add", torch.add),
    binary("sub", torch.sub),
    binary("sub", torch.sub, left=False),
    binary("mul", torch.mul),
    binary("div", torch.div),
    binary("div", torch.div, left=False),
    binary("minimum", torch.minimum),
    binary("maximum", torch.maximum),
    binary("maximum", torch.maximum, left=False),
    Case("select", chosen, lambda x: torch.where(x > 0.2, x * x, -x)),
    Case("dropout", kept, lambda x: x),
    Case("copy", lambda b, x: b.op("copy", x), lambda x: x),
    Case("broadcast", lambda b, x: b.op("broadcast", x, axes=sizes(3, 2, 4), positions=(0, 2)), lambda x: x[:, None].expand(3, 2, 4)),
    Case("transpose", lambda b, x: b.op("transpose", x, permutation=(2, 0, 1)), lambda x: x.permute(2, 0, 1), (2, 3, 4)),
    Case("reshape", lambda b, x: b.op("reshape", x, axes=sizes(2, 6)), lambda x: x.reshape(2, 6)),
    Case("sum", lambda b, x: b.op("sum", x, positions=(0, 2)), lambda x: x.sum((0, 2)), (2, 3, 4)),
    Case("mean", lambda b, x: b.op("mean", x, positions=(1,)), lambda x: x.mean(1)),
    Case("max", lambda b, x: b.op("max", x, positions=(1,)), lambda x: x.max(1).values),
    Case("min", lambda b, x: b.op("min", x, positions=(0,)), lambda x: x.min(0).values),
    Case("softmax", lambda b, x: b.op("softmax", x, positions=(0,)), lambda x: x.softmax(0)),
    Case(
        "contraction",
        lambda b, x: b.op("contraction", x, constant(b, weights(5, 4)), left=(0, 1), right=(2, 1), out=(2, 0)),
        lambda x: torch.einsum("ik,jk->ji", x, torch_weights(5, 4)),
    ),
    Case(
        "contraction",
        lambda b, x: b.op("contraction", constant(b, weights(3, 5)), x, left=(0, 1), right=(0, 2), out=(0, 1, 2)),
        lambda x: torch.einsum("bi,bj->bij", torch_weights(3, 5), x),
    ),
    Case("gather", lambda b, x: b.op("gather", x, numbers(b, ROWS)), lambda x: x[torch.from_numpy(ROWS)]),
    Case("add_rows", lambda b, x: b.op("add_rows", x, constant(b, weights(2, 3, 4)), numbers(b, ROWS)), add_weights),
    Case(
        "add_rows",
        lambda b, x: b.op("add_rows", constant(b, weights(5, 4)), x, numbers(b, ROWS)),
        lambda x: torch_weights(5, 4) + added(x),
        (2, 3, 4),
    ),
    Case("cumsum", lambda b, x: b.op("cumsum", x, position=1, reverse=False), lambda x: x.cumsum(1)),
    Case("cumsum", lambda b, x: b.op("cumsum", x, position=0, reverse=True), lambda x: x.flip(0).cumsum(0).flip(0)),
    Case(
        "take_along", lambda b, x: b.op("take_along", x, numbers(b, COLUMNS), position=1), lambda x: x.gather(1, torch.from_numpy(COLUMNS))
    ),
    Case("put_along", lambda b, x: b.op("put_along", x, numbers(b, COLUMNS), position=1, size=sizes(4)[0]), put_columns, (3, 5)),
    Case("scatter_rows", lambda b, x: b.op("scatter_rows", x, numbers(b, ROWS), size=sizes(5)[0]), added, (2, 3, 4)),
    Case("slice", lambda b, x: b.op("slice", x, place(b, 1), position=1, length=sizes(2)[0]), lambda x: x[:, 1:3]),
    Case("put", lambda b, x: b.op("put", x, constant(b, weights(3, 2)), place(b, 1), position=1), put_weights),
    Case("put", lambda b, x: b.op("put", constant(b, weights(3, 7)), x, place(b, 9), position=1), put_at_the_end),
    Case("add_slice", lambda b, x: b.op("add_slice", x, constant(b, weights(2, 4)), place(b, -3), position=0), add_at_the_start),
    Case("add_slice", lambda b, x: b.op("add_slice", constant(b, weights(3, 7)), x, place(b, 2), position=1), add_in_the_middle),
    Case(
        "concat",
        lambda b, x: b.op("concat", x, constant(b, weights(3, 2)), b.op("mul", x, x), position=1),
        lambda x: torch.cat([x, torch_weights(3, 2), x * x], 1),
    ),
    Case("windows", lambda b, x: b.op("windows", x, **WINDOWS), lambda x: torch.nn.functional.unfold(x[None], (2, 3), 1, 1, 2), (3, 4, 5)),
    Case("fold", lambda b, x: b.op("fold", x, **FOLD), folded, (3, 2, 3, 3, 3)),
    Case("literal", two_elements, lambda x: torch.stack([x[1, 1], x[0, 0], x[1, 1], x[1, 1] * x[0, 0]]).reshape(2, 2), (2, 2)),
    Case("cross_entropy", entropy, lambda x: torch.nn.functional.cross_entropy(x, LABELS)),
    Case(
        "cross_entropy",
        entropy_and_probabilities,
        lambda x: torch.nn.functional.cross_entropy(x, LABELS) + (x.softmax(1) * torch_weights(3, 4)).sum(),
    ),
]


def weighted(case: Case) -> Case:
    """The result times uneven weights, so that a wrong index in a gradient shows."""

    def make(b: Builder, x: Value) -> Value:
        y = case.make(b, x)
        y = b.convert(y, F64)
        return b.op("mul", y, constant(b, weights(*(axis.constant() or 0 for axis in result_type(y).axes))))

    return Case(case.name, make, lambda x: case.twin(x) * torch_weights(*case.twin(x).shape), case.shape, case.positive)


def argument(case: Case) -> np.ndarray:
    x = np.random.default_rng(1).normal(0, 1, case.shape)
    return np.abs(x) + 0.1 if case.positive else x


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_gradient_beside_pytorch(case: Case) -> None:
    case = weighted(case)
    x = argument(case)
    value, found = Gradient(case.make, x).at(x)
    twin = torch.from_numpy(x).requires_grad_()
    loss = case.twin(twin).sum()
    loss.backward()
    assert value == pytest.approx(loss.item(), rel=1e-12)
    tolerance = 1e-6 if case.name in ("to_f32", "to_f64") else 1e-12
    np.testing.assert_allclose(found, twin.grad, rtol=tolerance, atol=1e-14)


@pytest.mark.parametrize("case", [case for case in CASES if not case.name.startswith("to_")], ids=lambda case: case.name)
def test_gradient_along_random_directions(case: Case) -> None:
    case = weighted(case)
    x = argument(case)
    compiled = Gradient(case.make, x)
    _, found = compiled.at(x)
    direction = np.random.default_rng(2).normal(0, 1, x.shape)
    step = 1e-6
    up, down = (compiled.at(x + sign * step * direction)[0] for sign in (1, -1))
    assert np.vdot(found, direction) == pytest.approx((up - down) / (2 * step), rel=1e-6, abs=1e-8)


@pytest.mark.parametrize(
    "case",
    [
        c
        for c in CASES
        if c.name in ("exp", "tanh", "sigmoid", "mul", "div", "softmax", "contraction", "mean", "cross_entropy", "log", "sqrt", "max")
        or c.name in ("gather", "scatter_rows")
    ],
    ids=lambda case: case.name,
)
def test_gradient_of_a_gradient(case: Case) -> None:
    """d/dx of the weighted sum of (d loss / dx) * x."""
    case = weighted(case)
    x = argument(case)

    def outer(b: Builder, p: Value) -> Value:
        _, inner = gradient(b, p, lambda c, q: total(c, b_mul_self(c, case.make(c, q))))
        return b.op("mul", inner, p)

    _, found = Gradient(outer, x).at(x)
    twin = torch.from_numpy(x).requires_grad_()
    y = case.twin(twin)
    (first,) = torch.autograd.grad((y * y).sum(), twin, create_graph=True)
    (second,) = torch.autograd.grad((first * twin).sum(), twin)
    np.testing.assert_allclose(found, second, rtol=1e-9, atol=1e-12)


def b_mul_self(b: Builder, x: Value) -> Value:
    return b.op("mul", x, x)
