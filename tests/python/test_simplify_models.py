"""Simplification of operations on models."""

from __future__ import annotations

from evaluating import tensor
from simplified_functions import F32_SCALAR, PAIR, names, simplified

from shapescript.compiler.check.checker import check_source
from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ir.types import FLOAT, SINK, Element, OptimiserType
from shapescript.compiler.ir.verifier import verify_function
from shapescript.compiler.ops.build import Builder
from shapescript.compiler.ops.table import infer
from shapescript.compiler.passes.pipeline import compile_entry


def test_parts_of_what_was_put_together() -> None:
    def build(b: Builder, m: Value, n: Value) -> list[Value]:
        whole = b.op("replace_submodel", m, b.op("submodel", n, path="one"), path="two")
        return [b.op("leaf", whole, path="two.bias"), b.op("leaf", whole, path="one.bias"), b.op("submodel", whole, path="two")]

    function = simplified([PAIR, PAIR], build)
    assert sorted(names(function)) == ["leaf", "leaf", "submodel"]
    assert [op.operands[0] is function.body.parameters[0] for op in function.body.ops if op.name == "leaf"].count(True) == 1

    def packed(b: Builder, m: Value) -> Value:
        leaves = [b.op("leaf", m, path=f"{part}.{name}") for part in ("one", "two") for name in ("bias", "weight")]
        return b.op("pack", *leaves, model=PAIR)

    assert names(simplified([PAIR], packed)) == []


def step(b: Builder, m: Value, opt: Value, g: Value, f: Value, keep: bool = False) -> list[Value]:
    b.emit("check_finite", g, what="gradient")
    norm = b.op("global_norm", g)
    scaled = b.op("scale_model", g, f)
    b.emit("check_finite", scaled, what="gradient")
    found = b.emit("update", m, opt, scaled, norm, b.constant(1.0, Element.F32), kind="AdamW")
    return [scaled, *found] if keep else [*found]


def test_clipping_and_the_update_are_one_pass() -> None:
    types = [PAIR, OptimiserType("AdamW", PAIR), PAIR, F32_SCALAR]
    function = simplified(types, step, mutable=[0, 1])
    assert names(function) == ["check_finite", "global_norm", "update"]
    assert function.body.ops[-1].operands[4] is function.body.parameters[3]
    kept = simplified(types, lambda b, *operands: step(b, *operands, keep=True), mutable=[0, 1])
    assert "scale_model" in names(kept)


def test_an_evaluation_mode_draws_nothing() -> None:
    def build(b: Builder, x: Value) -> Value:
        seed, draw = b.emit("mode_draw", b.op("mode_eval"))
        return b.op("dropout", x, b.float_constant(0.1), seed, draw)

    assert names(simplified([tensor(4)], build)) == []


def test_dead_code_keeps_effects() -> None:
    def build(b: Builder, sink: Value, x: Value, r: Value) -> Value:
        b.op("exp", x)
        b.emit("write", sink, r, record="R", fields=("r",))
        return x

    assert names(simplified([SINK, tensor(4), FLOAT], build)) == ["write"]


UNLIKE_OPERANDS = """
dim D = 4
dim H = 3

model Net:
    weight: f64[D H] = zeros
    bias: [H] = zeros

fn f(x: [b H], m: Net) -> ([b H], [D H], f64[H]):
    return where(arange[H] % 3 == 1, x, m.bias), f32(m.weight), f64(arange[H])
"""


def test_operations_on_models_and_of_nothing() -> None:
    """A conversion of a model's part, and a fused pass over what a pass without operands made: no rule takes them for its own."""
    checked = check_source(UNLIKE_OPERANDS)
    (signature,) = checked.functions["f"]
    assert checked.module is not None
    verify_function(compile_entry(checked.module, signature.key, {}), infer)
