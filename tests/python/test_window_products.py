"""Convolutions and their gradients without a tensor of windows for the batch: the joined operations beside those that they were made of, in
both engines and byte for byte, at sizes known when compiled and not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from evaluating import function_of, type_of
from native_harness import TARGETS, NotingHost, assert_same, outcome
from native_samples import F32, F64, I64, some

from shapescript.compiler.ir.nodes import Block, Function, Value, walk
from shapescript.compiler.ir.sizes import Size, fresh, number, of, product
from shapescript.compiler.ir.types import Element, TensorType
from shapescript.compiler.ir.verifier import verify_function
from shapescript.compiler.ops.build import Builder, result_type
from shapescript.compiler.ops.table import infer
from shapescript.compiler.passes.copies import insert_copies
from shapescript.compiler.passes.join_window_products import join_window_products
from shapescript.compiler.reference.engine import Evaluator


@dataclass(frozen=True)
class Case:
    """A batch of images, and windows over both of their axes: sizes in the order of those axes."""

    batch: int
    channels: int
    outputs: int
    image: tuple[int, int]
    window: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    before: tuple[int, int] = (0, 0)
    element: Element = F32

    def counts(self, image: Sequence[Size]) -> tuple[Size, ...]:
        found = []
        for size, k, s, d, p in zip(image, self.window, self.stride, self.dilation, self.before, strict=True):
            found.append((size + number(2 * p - d * (k - 1) - 1)) // number(s) + number(1))
        return tuple(found)

    def steps(self) -> dict[str, Any]:
        named = {"strides": self.stride, "dilations": self.dilation, "before": self.before}
        return {name: tuple(map(number, values)) for name, values in named.items()} | {"room": ()}

    def arguments(self, batch: int) -> list[Any]:
        x = some(self.element, batch, self.channels, *self.image)
        weight = some(self.element, self.outputs, self.channels, *self.window, seed=1)
        counts = [size.constant() for size in self.counts([number(size) for size in self.image])]
        return [x, weight, some(self.element, batch, self.outputs, *map(int, counts), seed=2)]  # type: ignore[arg-type]


CASES = [
    Case(3, 2, 5, (8, 8), (3, 3), before=(1, 1)),
    Case(2, 3, 4, (9, 7), (3, 2), stride=(2, 1), before=(1, 0)),
    Case(2, 1, 33, (20, 37), (5, 3), dilation=(2, 1), before=(4, 1)),
    Case(3, 17, 20, (6, 5), (1, 1)),
    Case(5, 2, 1, (4, 4), (4, 4)),
    Case(2, 2, 3, (5, 40), (2, 2), stride=(2, 2)),
    Case(2, 2, 2, (4, 5), (2, 2), stride=(3, 3), dilation=(1, 2), before=(2, 2)),
    Case(3, 2, 3, (7, 7), (3, 3), before=(1, 1), element=F64),
    Case(2, 2, 16, (72, 65), (3, 3), before=(1, 1)),
]


def windows(b: Builder, x: Value, case: Case) -> Value:
    *_, high, wide = result_type(x).axes
    lengths, counts = tuple(map(number, case.window)), case.counts((high, wide))
    return b.op("windows", x, positions=(2, 3), lengths=lengths, counts=counts, fill=0.0, **case.steps())


def convolution(b: Builder, case: Case, x: Value, weight: Value, given: Value) -> Sequence[Value]:
    """The forward product with indices and a mask behind it, the weight's gradient, and x's."""
    element, inner = Value(TensorType(case.element)), Builder()
    place, extra = inner.op("iota", axes=(), position=0), Value(TensorType(case.element))
    far = inner.op("gt", place, inner.constant(0, I64))
    yields = [inner.op("relu", inner.op("add", element, extra)), far]
    letters = {"left": (0, 1, 2, 3, 4, 5), "right": (6, 1, 2, 3), "out": (0, 6, 4, 5)}
    region = inner.block([element, extra], yields)
    operands = windows(b, x, case), weight, b.op("neg", given)
    forward = b.emit("fused_contraction", *operands, regions=[region], **letters, maps=((0, 1, 2, 3),))
    by_weight = b.op("contraction", given, windows(b, x, case), left=(0, 1, 2, 3), right=(0, 4, 5, 6, 2, 3), out=(1, 4, 5, 6))
    grown = b.op("contraction", given, weight, left=(0, 1, 2, 3), right=(1, 4, 5, 6), out=(0, 4, 5, 6, 2, 3))
    by_x = b.op("fold", grown, positions=(2, 3), sizes=result_type(x).axes[2:], **case.steps())
    return [*forward, by_weight, by_x]


def joined(function: Function) -> Function:
    done = insert_copies(join_window_products(function))
    verify_function(done, infer)
    return done


def names(function: Function) -> list[str]:
    return sorted({op.name for op in walk(function.body)} & {"windows", "fold", "contraction", "windows_contraction", "contraction_fold"})


@pytest.mark.parametrize("case", CASES, ids=str)
def test_joined_as_apart(case: Case) -> None:
    if case.element is not F64:
        known = [type_of(argument) for argument in case.arguments(case.batch)]
        compare(case, function_of(known, lambda b, *given: convolution(b, case, *given)), [case.batch])
    batch, channels, outputs, high, wide = (of(fresh(name)) for name in "bcohw")
    counts = case.counts((high, wide))
    axes = [(batch, channels, high, wide), (outputs, channels, *map(number, case.window)), (batch, outputs, *counts)]
    unknown = [TensorType(case.element, tuple(own)) for own in axes]
    compare(case, function_of(unknown, lambda b, *given: convolution(b, case, *given)), [case.batch, 1, 0])


def compare(case: Case, function: Function, batches: Sequence[int]) -> None:
    done, apart = joined(function), Evaluator(insert_copies(function))
    calls = [case.arguments(batch) for batch in batches]
    found = assert_same(done, calls, targets=TARGETS[:1] if len(batches) > 1 else TARGETS[1:])
    for arguments, own in zip(calls, found, strict=True):
        assert own == outcome(apart.run, arguments, NotingHost())


def test_what_is_joined() -> None:
    usual = CASES[0]
    types = [type_of(argument) for argument in usual.arguments(2)]
    found = names(joined(function_of(types, lambda b, *given: convolution(b, usual, *given))))
    assert found == ["contraction_fold", "windows_contraction"]
    short = CASES[4]  # one place of an example is summed over at a time
    types = [type_of(argument) for argument in short.arguments(2)]
    found = names(joined(function_of(types, lambda b, *given: convolution(b, short, *given))))
    assert found == ["contraction", "contraction_fold", "windows", "windows_contraction"]


def test_dropout_goes_by_the_place_in_the_whole() -> None:
    case = CASES[0]

    def build(b: Builder, x: Value, weight: Value, rate: Value, seed: Value) -> Sequence[Value]:
        inner = Builder()
        value, r, s = (Value(TensorType(element)) for element in (F32, F64, I64))
        region: Block = inner.block([value, r, s], [inner.op("dropout", value, r, s, s)])
        letters = {"left": (0, 1, 2, 3, 4, 5), "right": (6, 1, 2, 3), "out": (0, 6, 4, 5)}
        return b.emit("fused_contraction", windows(b, x, case), weight, rate, seed, regions=[region], **letters, maps=((), ()))

    x, weight, _ = case.arguments(3)
    arguments = [x, weight, 0.5, 7]
    function = function_of([type_of(argument) for argument in arguments], build)
    (found,) = assert_same(joined(function), [arguments])
    assert found == outcome(Evaluator(insert_copies(function)).run, arguments, NotingHost())


def test_windows_of_a_shape_with_other_axes() -> None:
    """Two groups, each a product of its own, seen through a reshape."""
    case = Case(3, 4, 6, (7, 6), (3, 3), before=(1, 1))

    def build(b: Builder, x: Value, weight: Value) -> Sequence[Value]:
        seen = windows(b, x, case)
        batch, _, *rest = result_type(seen).axes
        apart = b.op("reshape", seen, axes=(batch, number(2), number(2), *rest))
        parts = b.op("reshape", weight, axes=(number(2), number(3), number(2), *map(number, case.window)))
        made = b.op("contraction", apart, parts, left=(0, 1, 2, 3, 4, 5, 6), right=(1, 7, 2, 3, 4), out=(0, 1, 7, 5, 6))
        return [b.op("reshape", made, axes=(batch, product([number(6), *result_type(made).axes[3:]])))]

    x, weight = some(F32, 3, 4, 7, 6), some(F32, 6, 2, 3, 3, seed=1)
    function = function_of([type_of(x), type_of(weight)], build)
    assert names(joined(function)) == ["windows_contraction"]
    (found,) = assert_same(joined(function), [[x, weight]])
    assert found == outcome(Evaluator(insert_copies(function)).run, [x, weight], NotingHost())
