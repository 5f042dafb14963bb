"""Simplification of what moves, adds and removes axes."""

from __future__ import annotations

import numpy as np
from evaluating import RecordingHost, function_of, tensor
from simplified_functions import F32_SCALAR, bits, names, simplified

from shapescript.compiler.ir.nodes import Value, walk
from shapescript.compiler.ir.sizes import number
from shapescript.compiler.ops.build import Builder
from shapescript.compiler.passes.simplify import simplify
from shapescript.compiler.reference.engine import Evaluator


def test_double_transposes_and_broadcasts() -> None:
    def back(b: Builder, x: Value) -> Value:
        return b.op("transpose", b.op("transpose", x, permutation=(2, 0, 1)), permutation=(1, 2, 0))

    assert names(simplified([tensor(2, 3, 4)], back)) == []

    def spread(b: Builder, x: Value) -> Value:
        once = b.broadcast(x, (number(2), number(3)), (1,))
        return b.broadcast(once, (number(2), number(5), number(3)), (0, 2))

    (op,) = walk(simplified([tensor(3)], spread).body)
    assert op.name == "broadcast" and tuple(op.attributes["positions"]) == (2,)


def test_work_on_what_is_spread_is_done_before() -> None:
    def build(b: Builder, x: Value, y: Value) -> Value:
        axes = (number(2), number(3), number(4))
        return b.op("mul", b.op("exp", b.broadcast(x, axes, (1,))), b.broadcast(y, axes, ()))

    found = simplified([tensor(3), F32_SCALAR], build)
    assert [str(op.result.type) for op in walk(found.body) if op.name in ("exp", "mul")] == ["f32[3]", "f32[3]"]


def test_a_product_reads_transposed_operands_and_writes_transposed_results() -> None:
    def build(b: Builder, x: Value, y: Value) -> Value:
        turned = b.op("transpose", y, permutation=(1, 0))
        return b.op("transpose", b.op("contraction", x, turned, left=(0, 1), right=(1, 2), out=(0, 2)), permutation=(1, 0))

    (op,) = walk(simplified([tensor(3, 4), tensor(5, 4)], build).body)
    assert (op.attributes["left"], op.attributes["right"], op.attributes["out"]) == ((0, 1), (2, 1), (2, 0))


def test_the_order_of_a_sum_over_two_axes_is_kept() -> None:
    """Reading the left operand transposed would sum in another order; the right one may be read so."""

    def build(b: Builder, x: Value, y: Value) -> Value:
        return b.op(
            "contraction",
            b.op("transpose", x, permutation=(1, 0)),
            b.op("transpose", y, permutation=(1, 0)),
            left=(0, 1),
            right=(0, 1),
            out=(),
        )

    (turn, product) = walk(simplified([tensor(3, 4), tensor(3, 4)], build).body)
    assert turn.name == "transpose" and product.attributes["right"] == (1, 0)


def test_leading_axes_of_a_product_are_not_merged() -> None:
    """linear over `[..s I]`: the reshapes around it are gone, in the gradient too."""
    sizes = {name: number(value) for name, value in (("b", 2), ("n", 3), ("I", 4), ("O", 5))}
    flat = (number(6), sizes["I"])

    def build(b: Builder, x: Value, w: Value, bias: Value) -> list[Value]:
        rows = b.op("reshape", x, axes=flat)
        y = b.op("contraction", rows, w, left=(0, 1), right=(2, 1), out=(0, 2))
        y = b.op("add", y, b.broadcast(bias, (number(6), sizes["O"]), (1,)))
        y = b.op("tanh", b.op("reshape", y, axes=(sizes["b"], sizes["n"], sizes["O"])))
        g = b.op("reshape", y, axes=(number(6), sizes["O"]))
        return [y, b.op("contraction", g, rows, left=(0, 1), right=(0, 2), out=(1, 2)), b.op("sum", g, positions=(0,))]

    types = [tensor(2, 3, 4), tensor(5, 4), tensor(5)]
    function = function_of(types, build)
    changed = simplify(function)
    assert "reshape" not in names(changed)
    given = [np.random.default_rng(0).normal(0, 1, [axis.constant() for axis in type_.axes]).astype(np.float32) for type_ in types]
    before, after = (Evaluator(f).run(given, RecordingHost()) for f in (function, changed))
    assert bits(before) == bits(after)


def test_a_group_opened_otherwise_stays_a_reshape() -> None:
    """(p q) opened as (q p) is no identity."""

    def build(b: Builder, x: Value) -> Value:
        opened = b.op("reshape", x, axes=(number(2), number(3)))
        turned = b.op("transpose", opened, permutation=(1, 0))
        return b.op("reshape", turned, axes=(number(6),))

    assert names(simplified([tensor(6)], build)) == ["reshape", "transpose", "reshape"]
