"""Tensors without elements that have a long axis: no kernel walks along it, and none asks for memory by it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
from evaluating import function_of, tensor
from native_harness import TARGETS, assert_same, finished
from native_samples import contraction

from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ir.sizes import fresh, number, of
from shapescript.compiler.ir.types import Element
from shapescript.compiler.ops.build import Builder, result_type

LONG = 1 << 40
F32, I64 = Element.F32, Element.I64

Build = Callable[..., Value | Sequence[Value]]


def product(spec: str, epilogue: bool = False) -> Build:
    def build(b: Builder, x: Value, y: Value) -> Value:
        found = contraction(b, spec, x, y)
        return b.op("tanh", b.op("exp", found)) if epilogue else found

    return build


def softened(b: Builder, x: Value) -> Value:
    """Two walks along the last axis, and one back."""
    kind = result_type(x)
    last = kind.rank - 1
    kept = tuple(range(last))
    largest = b.broadcast(b.op("max", x, positions=(last,)), kind.axes, kept)
    powers = b.op("exp", b.op("sub", x, largest))
    return b.op("div", powers, b.broadcast(b.op("sum", powers, positions=(last,)), kind.axes, kept))


def sort(position: int) -> Build:
    return lambda b, x: b.op("argsort", x, b.constant(False, Element.BOOL), position=position)


# what is done, and the operands' axes by letters, with the elements of those that aren't F32
CASES: dict[str, tuple[Build, tuple[str | tuple[str, Element], ...]]] = {
    "product": (product("mk,kn->mn"), ("mk", "kn")),
    "product, transposed": (product("mk,nk->nm"), ("mk", "nk")),
    "product with an epilogue": (product("mk,kn->mn", True), ("mk", "kn")),
    "products": (product("bmk,bkn->bmn"), ("bmk", "bkn")),
    "products with an epilogue": (product("bmk,bkn->mbn", True), ("bmk", "bkn")),
    "products of two sums": (product("mkl,lkn->mn"), ("mkl", "lkn")),
    "sort of rows": (sort(1), ("mn",)),
    "sort of columns": (sort(0), ("mn",)),
    "running sums": (lambda b, x: b.op("cumsum", x, position=1, reverse=False), ("amn",)),
    "taken": (lambda b, x, i: b.op("take_along", x, i, position=1), ("amn", ("akn", I64))),
    "put": (lambda b, x, i: b.op("put_along", x, i, position=1, size=result_type(x).axes[1]), ("akn", ("akn", I64))),
    "gathered": (lambda b, x, i: b.op("gather", x, i), ("mn", ("kl", I64))),
    "elements": (lambda b, x: b.op("exp", x), ("mn",)),
    "turned": (lambda b, x: b.op("exp", b.op("transpose", x, permutation=(2, 0, 1))), ("amn",)),
    "part": (lambda b, x: b.op("slice", x, b.constant(0, I64), position=1, length=number(0)), ("amn",)),
    "side by side": (lambda b, x, y: b.op("concat", x, y, position=1), ("amn", "akn")),
    "one sum": (lambda b, x: b.op("sum", x, positions=(0, 1, 2)), ("amn",)),
    "softened": (softened, ("amn",)),
}


def long_axes() -> Iterator[tuple[str, str]]:
    """With each of its letters, unless an operand has no other."""
    for name, (_, operands) in CASES.items():
        axes = [operand if isinstance(operand, str) else operand[0] for operand in operands]
        yield from ((name, letter) for letter in sorted(set("".join(axes))) if letter not in axes)


@pytest.mark.parametrize("is_fused", [False, True], ids=["plain", "fused"])
@pytest.mark.parametrize(("name", "long"), list(long_axes()))
def test_a_long_axis_of_nothing(name: str, long: str, is_fused: bool) -> None:
    build, operands = CASES[name]
    named = [operand if isinstance(operand, tuple) else (operand, F32) for operand in operands]
    symbols = {letter: of(fresh(letter)) for letter in sorted({letter for axes, _ in named for letter in axes})}
    types = [tensor(*(symbols[letter] for letter in axes), element=element) for axes, element in named]
    function = finished(function_of(types, build), is_fused)
    dtypes = {F32: np.float32, I64: np.int64}
    arguments = [np.empty([LONG if letter == long else 0 for letter in axes], dtypes[element]) for axes, element in named]
    assert_same(function, [arguments], targets=TARGETS[:1])
