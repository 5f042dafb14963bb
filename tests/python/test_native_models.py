"""Models and optimisers in native code beside the reference evaluator, byte for byte."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from evaluating import fresh_state, function_of, mlp, tensor
from native_harness import assert_same, finished
from native_samples import (
    F32,
    F64,
    I64,
    MIXED,
    SMALL,
    block,
    model_of,
    normal,
)

from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ir.types import (
    FLOAT,
    INT,
    Member,
    ModelType,
    OptimiserType,
    sorted_leaves,
)
from shapescript.compiler.ops.build import Builder
from shapescript.compiler.reference.layouts import Layout


@pytest.mark.parametrize("kind", [SMALL, MIXED], ids=["small", "mixed"])
def test_parts_of_models(kind: ModelType) -> None:
    def build(b: Builder, m: Value, other: Value) -> Sequence[Value]:
        leaves = [b.op("leaf", m, path=leaf.name) for leaf in sorted_leaves(kind)]
        swapped = [b.op("leaf", other, path=leaf.name) for leaf in sorted_leaves(kind)]
        return [*leaves, b.op("pack", *swapped[:2], *leaves[2:], model=kind), b.op("copy", m)]

    assert_same(finished(function_of([kind, kind], build)), [[model_of(kind), model_of(kind, 1)]])


def test_replacing_parts() -> None:
    def build(b: Builder, m: Value, other: Value, x: Value) -> Sequence[Value]:
        inner = b.op("submodel", other, path="inner")
        changed = b.op("replace_submodel", m, inner, path="inner")
        changed = b.op("replace_submodel", changed, x, path="scale")
        deep = b.op("replace_submodel", changed, b.op("leaf", other, path="inner.hidden.weight"), path="inner.hidden.weight")
        return [deep, b.op("submodel", deep, path="inner.output"), m, b.op("leaf", changed, path="scale")]

    assert_same(finished(function_of([MIXED, MIXED, tensor()], build)), [[model_of(MIXED), model_of(MIXED, 1), 2.5]])


@pytest.mark.parametrize("kind", [SMALL, MIXED, mlp(70, 130, 9)], ids=["small", "mixed", "large"])
def test_norms_scaling_and_updates(kind: ModelType) -> None:
    def build(b: Builder, m: Value, opt: Value, g: Value, rate: Value, factor: Value) -> Sequence[Value]:
        norm, before = b.op("global_norm", g), b.op("optimiser_step", opt)
        b.emit("check_finite", g, what="gradient")
        scaled = b.op("scale_model", g, factor)
        changed, state = b.emit("update", m, opt, scaled, rate, factor, kind="AdamW")
        again, last = b.emit("update", changed, state, g, rate, factor, kind="AdamW")
        return [norm, before, b.op("optimiser_step", last), scaled, m, again, last]

    function = finished(function_of([kind, OptimiserType("AdamW", kind), kind, FLOAT, tensor()], build, mutable=(0, 1)))
    states = [fresh_state(kind), fresh_state(kind, (0.5, 0.25), 0.0, 0.0), fresh_state(kind, eps=1e-3, decay=0.5)]
    states[0].block[0] = 12345
    assert_same(function, [[model_of(kind), state, model_of(kind, 1), 0.01, 0.3] for state in states])


def test_a_new_optimiser_goes_through_a_loop() -> None:
    def build(b: Builder, m: Value, g: Value, count: Value) -> Sequence[Value]:
        opt = b.op("optimiser", m, *(b.float_constant(value) for value in (0.8, 0.95, 1e-6, 0.1, 0.0)), kind="AdamW")

        def turn(i: Builder, _: Value, p: Value, o: Value) -> Sequence[Value]:
            return i.emit("update", p, o, g, i.float_constant(0.1), i.constant(0.5, F32), kind="AdamW")

        made = b.emit("for_range", b.constant(0, I64), count, m, opt, regions=[block([INT, SMALL, opt.type], turn)], name="i")
        return [*made, opt]

    function = finished(function_of([SMALL, SMALL, INT], build))
    assert_same(function, [[model_of(SMALL), model_of(SMALL, 1), count] for count in (0, 1, 4)])


def test_the_best_model_is_kept() -> None:
    def build(b: Builder, m: Value, opt: Value, g: Value) -> Sequence[Value]:
        def turn(i: Builder, index: Value, p: Value, o: Value, best: Value) -> Sequence[Value]:
            changed, state = i.emit("update", p, o, g, i.float_constant(0.1), i.constant(1.0, F32), kind="AdamW")
            better = i.op("lt", index, i.constant(2, I64))
            kept = i.emit("if", better, regions=[block([], lambda j: [changed]), block([], lambda j: [best])])
            return [changed, state, kept[0]]

        types = [INT, SMALL, opt.type, SMALL]
        return b.emit("for_range", b.constant(0, I64), b.constant(5, I64), m, opt, m, regions=[block(types, turn)], name="i")

    function = finished(function_of([SMALL, OptimiserType("AdamW", SMALL), SMALL], build))
    assert_same(function, [[model_of(SMALL), fresh_state(SMALL), model_of(SMALL, 1)]])


@pytest.mark.parametrize("bad", ["hidden.bias", "output.weight", ""])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_named(bad: str, value: float) -> None:
    def build(b: Builder, m: Value, opt: Value, g: Value, loss: Value, x: Value) -> Sequence[Value]:
        b.emit("check_finite", x, what="loss")
        b.emit("check_finite", loss, what="loss")
        b.emit("check_finite", g, b.op("global_norm", g), what="gradient")
        return b.emit("update", m, opt, g, b.float_constant(0.1), b.constant(1.0, F32), kind="AdamW")

    function = finished(function_of([SMALL, OptimiserType("AdamW", SMALL), SMALL, tensor(), tensor(40)], build, mutable=(0, 1)))
    gradient, x, state = model_of(SMALL, 1), normal(40), fresh_state(SMALL)
    state.block[0] = 6
    if bad:
        Layout(SMALL).places[bad].view(gradient).reshape(-1)[1] = value
    calls = [[model_of(SMALL), state, gradient, loss, x] for loss in (1.0, value)]
    x = x.copy()
    x[37] = value
    outcomes = assert_same(function, [*calls, [model_of(SMALL), state, gradient, 1.0, x]])
    assert all("at step 7" in outcome[1] for outcome in outcomes if isinstance(outcome[0], type)) and isinstance(outcomes[1][0], type)


def test_norms_of_numbers_of_every_size() -> None:
    exact = ModelType("Exact", "main", (), tuple(Member(name, tensor(3, element=F64), None) for name in ("a", "b", "c")))

    def norm_and_checks(b: Builder, g: Value) -> list[Value]:
        return [norm := b.op("global_norm", g), b.op("all_finite", g), b.op("all_finite", norm)]

    function = finished(function_of([exact], norm_and_checks))
    calls = []
    for scale in (1.0, 1e200, 1e-200, 1e308, 5e-324, 0.0, 2.0**500, 2.0**-450, np.inf, np.nan):
        gradient = model_of(exact)
        for place in Layout(exact).places.values():
            place.view(gradient)[:] = 0.75 * scale
        calls.append([gradient])
    assert_same(function, calls)
