"""Contractions in native code beside the reference evaluator, byte for byte."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from evaluating import function_of, tensor
from native_harness import TARGETS, assert_same, check, finished
from native_samples import (
    DTYPES,
    F32,
    F64,
    I64,
    contraction,
    letters,
    some,
)

from shapescript.compiler.codegen.lower_function import lower_function  # noqa: F401, importing it fills RULES
from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ir.sizes import fresh, of
from shapescript.compiler.ir.types import Element, TensorType
from shapescript.compiler.ops.build import Builder

PRODUCTS = [
    "mk,nk->mn m7 n10 k33",
    "mk,kn->mn m64 n40 k5",
    "km,kn->mn m9 n17 k64",
    "km,nk->mn m20 n3 k19",
    "mk,kn->nm m7 n10 k33",
    "mk,nk->nm m33 n1 k4",
    "k,k-> k100",
    "mk,k->m m33 k20",
    "k,nk->n n33 k20",
    "k,kn->n n18 k7",
    "m,n->mn m5 n20",
    "m,n->nm m5 n20",
    "bmk,bkn->bmn b3 m5 n18 k7",
    "bmk,bnk->mbn b3 m5 n18 k7",
    "bmk,bnk->mnb b3 m5 n18 k7",
    "bm,bm->b b4 m9",
    "bm,bm->bm b4 m9",
    "bhnd,bhmd->bhnm b2 h3 n5 m6 d8",
    "bhnm,bhmd->bnhd b2 h3 n5 m6 d8",
    "bnhd,bmhd->bhnm b2 h3 n5 m6 d8",
    "bni,oi->bno b2 n3 i20 o21",
    "bno,bni->oi b2 n7 i20 o21",
    "akb,kcb->ac a3 k4 b5 c6",
    "kab,bck->ac a3 k4 b5 c6",
    "mkl,lkn->mn m4 k3 l5 n6",
    "amk,kn->man a3 m4 k5 n6",
    "amk,knc->ncam a3 m4 k5 n6 c2",
    "mk,kn->mn m3 n20 k4100",
    "mk,nk->mn m2 n3 k9000",
    "mk,kn->mn m4 n5 k0",
    "mk,kn->mn m0 n5 k3",
    "mk,kn->mn m1 n1 k1",
    "mk,nk->mn m1 n128 k64",
    "mk,nk->mn m70 n130 k1030",
    # summed places that lie in runs: of any length, longer than a stage, across blocks, too short for it, and of nothing
    "brk,bck->rc b5 r3 c20 k17",
    "brk,bck->rc b7 r32 c144 k196",
    "brk,bck->rc b30 r16 c40 k196",
    "brk,bkc->rc b3 r5 c33 k1100",
    "brk,kbc->rc b4 r6 c18 k20",
    "bgrk,bgck->grc b9 g2 r17 c50 k40",
    "brk,bck->rc b3 r4 c5 k15",
    "brk,bck->rc b3 r4 c5 k0",
    "brk,bck->rc b0 r4 c5 k20",
    "brk,bck->rc b1 r20 c40 k300",
]


def parsed(case: str) -> tuple[str, dict[str, int]]:
    """A contraction and the sizes of its axes."""
    spec, *sizes = case.split()
    return spec, {size[0]: int(size[1:]) for size in sizes}


@pytest.mark.parametrize("case", PRODUCTS)
@pytest.mark.parametrize("element", [F32, F64])
def test_contractions_of_any_axes(case: str, element: Element) -> None:
    spec, sizes = parsed(case)
    left, right = spec.split("->", maxsplit=1)[0].split(",")
    rng = np.random.default_rng(2)
    arguments = [rng.standard_normal([sizes[letter] for letter in names]).astype(DTYPES[element]) for names in (left, right)]
    check(lambda b, x, y: contraction(b, spec, x, y), *arguments, targets=TARGETS[:1])
    symbols = {letter: of(fresh(letter)) for letter in sizes}
    types = [TensorType(element, tuple(symbols[letter] for letter in names)) for names in (left, right)]
    assert_same(finished(function_of(types, lambda b, x, y: contraction(b, spec, x, y))), [arguments], targets=TARGETS[1:])


FUSED = [
    "mk,nk->mn m7 n10 k33",
    "mk,kn->nm m20 n37 k3",
    "bmk,bnk->mnb b3 m5 n18 k7",
    "k,k-> k20",
    "mk,k->m m33 k20",
    "bhnd,bhmd->bhnm b2 h3 n5 m20 d8",
    "mk,nk->mn m64 n128 k64",
    "mk,kn->mn m3 n20 k4100",
    "bni,oi->bno b2 n3 i20 o21",
    "brk,bck->rc b5 r16 c40 k64",
]


@pytest.mark.parametrize("case", FUSED)
@pytest.mark.parametrize("long", [False, True], ids=["short", "long"])
def test_contractions_with_an_epilogue(case: str, long: bool) -> None:
    """Extras with some axes of the result, in another order; several results, of other element types; indices and a mask."""
    spec, sizes = parsed(case)
    left, right, out = spec.replace("->", ",").split(",")
    rank = len(out)

    def build(b: Builder, *operands: Value) -> Sequence[Value]:
        parameters = [Value(TensorType(element)) for element in (F32, F32, F32, F32, I64, F32, F64, I64)]
        inner = Builder()
        value, s, t, l, c, o, r, d = parameters
        total = inner.op("relu", inner.op("add", inner.op("mul", value, o), inner.op("sub", s, t)))
        if long:
            total = inner.op("exp", inner.op("neg", total))
        dropped = inner.op("dropout", total, r, d, d)
        yields = [dropped, inner.op("lt", total, l), inner.op("add", c, inner.op("to_i64", value))]
        if rank:
            yields.append(inner.op("iota", axes=(), position=rank - 1))
        maps = (tuple(range(rank)), tuple(reversed(range(rank))), (rank - 1,) if rank else (), (0,) if rank else (), (), (), ())
        return b.emit(
            "fused_contraction",
            *operands,
            left=letters(left),
            right=letters(right),
            out=letters(out),
            maps=maps,
            regions=[inner.block(parameters, yields)],
        )

    named = [left, right, out, out[::-1], out[-1:], out[:1], "", "", ""]
    kinds = [F32, F32, F32, F32, F32, I64, F32, F64, I64]
    shapes = [[sizes[letter] for letter in names] for names in named]
    arguments = [some(kind, *shape, seed=seed) for seed, (kind, shape) in enumerate(zip(kinds, shapes, strict=True))]
    arguments[-3:] = np.float32(1.5), 0.25, 3
    check(build, *arguments, targets=TARGETS[1:])
    symbols = {letter: of(fresh(letter)) for letter in sizes}
    types = [TensorType(kind, tuple(symbols[letter] for letter in names)) for kind, names in zip(kinds, named, strict=True)]
    assert_same(finished(function_of(types, build)), [arguments], targets=TARGETS[:1])


def test_a_product_with_an_epilogue_and_one_without_are_told_apart() -> None:
    """They have the same sizes, so nearly the same kernel."""

    def build(b: Builder, x: Value, w: Value) -> Sequence[Value]:
        first = b.op("relu", contraction(b, "ak,nk->an", x, w))
        return [first, contraction(b, "ak,nk->an", x, w), b.op("sum", contraction(b, "ak,nk->an", first, w), positions=(0, 1))]

    check(build, some(F32, 9, 20), some(F32, 20, 20, seed=1), fused=True)


def test_one_compilation_serves_all_sizes() -> None:
    batch = of(fresh("b"))

    def build(b: Builder, x: Value, w: Value, bias: Value) -> Value:
        y = contraction(b, "ak,nk->an", x, w)
        return b.op("relu", b.op("add", y, b.broadcast(bias, y.type.axes, (1,))))

    function = finished(function_of([tensor(batch, 20), tensor(37, 20), tensor(37)], build), fused=True)
    assert_same(function, [[some(F32, rows, 20), some(F32, 37, 20, seed=1), some(F32, 37, seed=2)] for rows in (1, 2, 0, 7, 64, 65)])
