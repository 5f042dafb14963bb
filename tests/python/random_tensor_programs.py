"""Random functions of tensors over the axes b and n: elementwise work, moved axes, sums and products, for passes that keep bits."""

from __future__ import annotations

import random

import numpy as np
from evaluating import SPAN, function_of

from shapescript.compiler.ir.nodes import Function, Value
from shapescript.compiler.ir.sizes import ONE, Size, fresh, number, of, product
from shapescript.compiler.ir.types import INT, Element, TensorType
from shapescript.compiler.ops.build import Builder, result_type

B, N, D = of(fresh("b")), of(fresh("n")), number(4)
SHAPES: list[tuple[Size, ...]] = [(B, N, D), (B * N, D), (B, D), (D,), (N, D), (B, N), (D, D), (B, D, N), (D, B)]
UNARY = ("neg", "tanh", "relu", "abs", "exp", "sigmoid")
BINARY = ("add", "sub", "mul", "div", "minimum", "maximum")
KINDS = [
    "unary",
    "unary",
    "binary",
    "binary",
    "binary",
    "spread",
    "spread",
    "transpose",
    "reshape",
    "sum",
    "contraction",
    "contraction",
    "select",
    "dropout",
    "constant",
    "loop",
    "twice",
]


class TensorWriter:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def pick(self, values: list[Value], axes: tuple[Size, ...] | None = None, element: Element = Element.F32) -> Value:
        """A value of the shape, recent ones more often."""
        fitting = [v for v in values if result_type(v).element is element and (axes is None or result_type(v).axes == axes)]
        return self.random.choice(fitting[-4:] if self.random.random() < 0.7 else fitting)

    def operation(self, b: Builder, values: list[Value]) -> None:
        r = self.random
        x = self.pick(values)
        axes = result_type(x).axes
        match r.choice(KINDS):
            case "unary":
                values.append(b.op(r.choice(UNARY), x))
            case "binary":
                values.append(b.op(r.choice(BINARY), x, self.pick(values, axes)))
            case "twice":
                values.append(b.op("mul", x, x))
            case "spread":
                self.spread(b, values)
            case "transpose":
                order = list(range(len(axes)))
                r.shuffle(order)
                values.append(b.op("transpose", x, permutation=tuple(order)))
            case "reshape":
                self.reshape(b, values, x)
            case "sum":
                self.reduce(b, values, x)
            case "contraction":
                self.contract(b, values)
            case "select":
                place = r.randrange(len(axes)) if axes else None
                index = b.op("to_f32", b.op("iota", axes=axes, position=place)) if place is not None else x
                hit = b.op(r.choice(("gt", "eq", "le")), x, index)
                values.append(b.op("select", hit, x, self.pick(values, axes)))
            case "dropout":
                if axes:
                    seed, draw = b.constant(3, Element.I64), b.constant(r.choice((-1, 5)), Element.I64)
                    values.append(b.op("dropout", x, b.float_constant(0.4), seed, draw))
            case "constant":
                number_ = r.choice((1.0, 0.0, -0.0, 2.0, 0.3, -1.0))
                values.append(b.op(r.choice(BINARY), x, b.full(number_, result_type(x))))
            case "loop":
                if r.random() < 0.4:
                    self.loop(b, values, x)

    def spread(self, b: Builder, values: list[Value]) -> None:
        x = self.pick(values)
        mine, wanted = result_type(x).axes, self.random.choice(SHAPES)
        places: list[int] = []
        for axis in mine:
            later = [place for place, other in enumerate(wanted) if other == axis and place > (places[-1] if places else -1)]
            if not later:
                return
            places.append(later[0])
        values.append(b.broadcast(x, wanted, places))

    def reshape(self, b: Builder, values: list[Value], x: Value) -> None:
        axes = result_type(x).axes
        fitting = [shape for shape in (*SHAPES, (ONE, *axes)) if product(shape) == product(axes)]
        if fitting and axes:
            values.append(b.op("reshape", x, axes=self.random.choice(fitting)))

    def reduce(self, b: Builder, values: list[Value], x: Value) -> None:
        rank = result_type(x).rank
        positions = tuple(place for place in range(rank) if self.random.random() < 0.5)
        if positions:
            values.append(b.op(self.random.choice(("sum", "mean")), x, positions=positions))
            if len(positions) == 1:
                values.append(b.op("max", x, positions=positions))

    def contract(self, b: Builder, values: list[Value]) -> None:
        """Equal axes become one letter, summed or kept."""
        x, y = self.pick(values), self.pick(values)
        left, right = result_type(x).axes, result_type(y).axes
        used = list(range(len(left)))
        letters: list[int] = []
        for place, axis in enumerate(right):
            same = [letter for letter in used if left[letter] == axis and letter not in letters]
            letters.append(same[0] if same else len(left) + place)
        common = [letter for letter in letters if letter < len(left)]
        summed = {letter for letter in common if self.random.random() < 0.7}
        out = [letter for letter in (*used, *(letter for letter in letters if letter >= len(left))) if letter not in summed]
        self.random.shuffle(out)
        if len(out) <= 3:
            values.append(b.op("contraction", x, y, left=tuple(used), right=tuple(letters), out=tuple(out)))

    def loop(self, b: Builder, values: list[Value], x: Value) -> None:
        inner, h = Builder(SPAN), Value(x.type)
        at_hand = [*values, h]
        for _ in range(self.random.randint(1, 4)):
            self.operation(inner, at_hand)
        yields = [self.pick(at_hand, result_type(x).axes)]
        bounds = b.constant(0, Element.I64), b.constant(self.random.randint(0, 2), Element.I64)
        values += b.emit("for_range", *bounds, x, regions=[inner.block([Value(INT), h], yields)])

    def function(self) -> Function:
        types = [TensorType(Element.F32, axes) for axes in SHAPES]

        def build(b: Builder, *parameters: Value) -> list[Value]:
            values = list(parameters)
            for _ in range(self.random.randint(4, 14)):
                self.operation(b, values)
            return values[-2:]

        return function_of(types, build)


def arguments(b: int, n: int) -> list[np.ndarray]:
    generator = np.random.default_rng(b * 10 + n)
    sizes = {B: b, N: n, D: 4, B * N: b * n}
    return [generator.normal(0, 1, [sizes[axis] for axis in axes]).astype(np.float32) for axes in SHAPES]
