"""Programs made at random: assignments, loops and conditions over tensors, models, optimisers and numbers, to find storage that is
overwritten too early."""

from __future__ import annotations

import random
from collections.abc import Sequence

from evaluating import function_of, mlp, tensor

from shapescript.compiler.ir.nodes import Block, Function, Value
from shapescript.compiler.ir.sizes import fresh, of
from shapescript.compiler.ir.types import INT, Element, OptimiserType, sorted_leaves
from shapescript.compiler.ops.build import Builder

ROWS = of(fresh("n"))
TENSOR = tensor(ROWS, 4)
MODEL = mlp(2, 3, 2)
OPTIMISER = OptimiserType("AdamW", MODEL)
I64 = Element.I64

Names = dict[str, Value]  # t0, t1, ... are tensors, m0, ... models, o0, ... optimisers, k0, ... numbers


def random_program(seed: int) -> Function:
    """fn(mut tensor, tensor, mut model, model, mut optimiser, int) -> three values of any kinds."""
    rng = random.Random(seed)

    def build(b: Builder, *parameters: Value) -> Sequence[Value]:
        names = dict(zip(("t0", "t1", "m0", "m1", "o0", "k0"), parameters, strict=True))
        names |= {"t2": names["t0"], "o1": names["o0"], "k1": names["k0"]}
        _Writer(rng, b, names, 0).statements()
        results = [rng.choice(sorted(names)) for _ in range(3)]
        return [*(names[result] for result in results), names["t0"], names["m0"], names["o0"]]

    return function_of([TENSOR, TENSOR, MODEL, MODEL, OPTIMISER, INT], build, mutable=(0, 2, 4))


class _Writer:
    """Writes statements at one place of a program."""

    def __init__(self, rng: random.Random, b: Builder, names: Names, depth: int) -> None:
        self.rng, self.b, self.names, self.depth = rng, b, names, depth

    def some(self, kind: str) -> str:
        return self.rng.choice([name for name in self.names if name.startswith(kind)])

    def value(self, kind: str) -> Value:
        return self.names[self.some(kind)]

    def statements(self) -> None:
        kinds = [self.arithmetic] * 7 + [self.rebinding] * 4
        kinds += [self.reduction, self.product, self.scaling, self.replacing, self.packing, self.update, self.counting]
        if self.depth < 3:
            kinds += [self.loop, self.condition] * 2
        for _ in range(self.rng.randint(1, 4)):
            self.rng.choice(kinds)()

    def arithmetic(self) -> None:
        name = self.rng.choice(["add", "mul", "sub", "maximum", "relu"])
        operands = [self.value("t") for _ in range(1 if name == "relu" else 2)]
        self.names[self.some("t")] = self.b.op(name, *operands)

    def rebinding(self) -> None:
        kind = self.rng.choice("tmo")
        self.names[self.some(kind)] = self.value(kind)

    def reduction(self) -> None:
        place = self.rng.choice([0, 1])
        self.names[self.some("t")] = self.b.broadcast(self.b.op("sum", self.value("t"), positions=(place,)), TENSOR.axes, (1 - place,))

    def product(self) -> None:
        square = self.b.op("contraction", self.value("t"), self.value("t"), left=(0, 1), right=(0, 2), out=(1, 2))
        self.names[self.some("t")] = self.b.op("contraction", self.value("t"), square, left=(0, 1), right=(1, 2), out=(0, 2))

    def scaling(self) -> None:
        self.names[self.some("m")] = self.b.op("scale_model", self.value("m"), self.b.constant(0.5, Element.F32))

    def replacing(self) -> None:
        part = self.b.op("submodel", self.value("m"), path="output")
        self.names[self.some("m")] = self.b.op("replace_submodel", self.value("m"), part, path="output")

    def packing(self) -> None:
        leaves = [self.b.op("leaf", self.value("m"), path=leaf.name) for leaf in sorted_leaves(MODEL)]
        if self.rng.random() < 0.5:
            leaves = [self.b.op("mul", leaf, leaf) for leaf in leaves]
        self.names[self.some("m")] = self.b.op("pack", *leaves, model=MODEL)

    def update(self) -> None:
        operands = [self.value("m"), self.value("o"), self.value("m"), self.b.float_constant(0.01), self.b.constant(0.5, Element.F32)]
        self.names[self.some("m")], self.names[self.some("o")] = self.b.emit("update", *operands, kind="AdamW")

    def counting(self) -> None:
        self.names[self.some("k")] = self.b.op("add", self.value("k"), self.b.constant(self.rng.randint(-2, 3), I64))

    def region(self, carried: Sequence[str], first: Sequence[Value]) -> Block:
        """A block that takes `first` and the carried names' values, and yields their new ones."""
        inner, parameters = Builder(), [Value(self.names[name].type) for name in carried]
        names = {**self.names, **dict(zip(carried, parameters, strict=True)), **{f"k{9 + i}": value for i, value in enumerate(first)}}
        _Writer(self.rng, inner, names, self.depth + 1).statements()
        return inner.block([*first, *parameters], [names[name] for name in carried])

    def loop(self) -> None:
        carried = self.rng.sample(sorted(self.names), self.rng.randint(1, min(5, len(self.names))))
        body = self.region(carried, [Value(INT)])
        limits = [self.b.constant(0, I64), self.b.constant(self.rng.randint(0, 3), I64)]
        made = self.b.emit("for_range", *limits, *(self.names[name] for name in carried), regions=[body], name="i")
        self.names.update(zip(carried, made, strict=True))

    def condition(self) -> None:
        changed = self.rng.sample(sorted(self.names), self.rng.randint(1, min(4, len(self.names))))
        bodies = []
        for _ in range(2):
            inner, names = Builder(), dict(self.names)
            _Writer(self.rng, inner, names, self.depth + 1).statements()
            bodies.append(inner.block([], [names[name] for name in changed]))
        test = self.b.op("lt", self.value("k"), self.b.constant(1, I64))
        self.names.update(zip(changed, self.b.emit("if", test, regions=bodies), strict=True))
