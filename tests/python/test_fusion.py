"""Fusion: the same bits in fewer passes over memory, and the rules by which groups form."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import random_tensor_programs as programs
from built_programs import train_mlp
from evaluating import RecordingHost, function_of, tensor

from shapescript.compiler.ir.nodes import Function, Op, Value, walk
from shapescript.compiler.ir.sizes import number
from shapescript.compiler.ir.types import FLOAT, INT, MODE, Element, TensorType, Type
from shapescript.compiler.ir.verifier import verify_function
from shapescript.compiler.ops.build import Builder, result_type
from shapescript.compiler.ops.table import infer
from shapescript.compiler.passes.fuse import fuse
from shapescript.compiler.passes.fuse_reductions import fuse_reductions
from shapescript.compiler.passes.memory_passes import passes_over_memory
from shapescript.compiler.passes.pipeline import compile_entry
from shapescript.compiler.passes.simplify import simplify
from shapescript.compiler.reference.engine import Evaluator

X, W, SCALAR = tensor(3, 4), tensor(5, 4), tensor()


def fused(types: Sequence[Type], build: Callable[..., Value | Sequence[Value]]) -> Function:
    """Fused, cleaned of what nobody reads, valid, and with the bits of the original on some numbers."""
    function = function_of(types, build)
    found = simplify(fuse(function))
    verify_function(found, infer)
    if all(isinstance(type_, TensorType) for type_ in types):
        generator = np.random.default_rng(0)
        given = [
            np.asarray(generator.normal(0, 1, [axis.constant() for axis in type_.axes])).astype(np.float32)
            if type_.element is Element.F32
            else 1
            for type_ in types
            if isinstance(type_, TensorType)
        ]
        before, after = (Evaluator(f).run(given, RecordingHost()) for f in (function, found))
        assert [np.asarray(value).tobytes() for value in before] == [np.asarray(value).tobytes() for value in after]
    return found


def names(function: Function) -> list[str]:
    return [op.name for op in function.body.ops if op.results and result_type(op.results[0]).axes]


def inside(op: Op) -> list[str]:
    return [inner.name for inner in op.regions[0].ops]


def only(function: Function, name: str) -> Op:
    (op,) = [op for op in walk(function.body) if op.name == name]
    return op


def product(b: Builder, x: Value, w: Value) -> Value:
    return b.op("contraction", x, w, left=(0, 1), right=(2, 1), out=(0, 2))


@pytest.mark.parametrize("first", range(0, 160, 20))
def test_random_programs_keep_their_bits_and_save_passes(first: int) -> None:
    for seed in range(first, first + 20):
        function = programs.TensorWriter(seed).function()
        for source in (function, simplify(function)):
            found = fuse_reductions(fuse(source))
            verify_function(found, infer)
            assert passes_over_memory(found) <= passes_over_memory(source), f"seed {seed}"
            for b, n in ((3, 2), (2, 1)):
                given = programs.arguments(b, n)
                before, after = (Evaluator(f).run(given, RecordingHost()) for f in (function, found))
                for one, two in zip(before, after, strict=True):
                    assert np.array_equal(one, two, equal_nan=True) and np.array_equal(np.signbit(one), np.signbit(two)), f"seed {seed}"


def test_passes_of_a_training_step() -> None:
    """The counts of `examples/train_mlp.ss`: x, w, b, mask and activation of each layer, their gradients, the loss with its gradient, the
    norm, the update. Of the 39, six are over a number an example: the labels and what rows of logits come to."""
    counts = {step: passes_over_memory(compile_entry(train_mlp(), "train_step", {}, step)) for step in ("simplified", "fused", "final")}
    assert counts == {"simplified": 96, "fused": 39, "final": 39}


# ---- kernels


def test_a_chain_is_one_kernel_and_constants_are_inside() -> None:
    def build(b: Builder, x: Value) -> Value:
        return b.op("tanh", b.op("mul", b.op("add", x, b.full(0.5, X)), b.full(2.0, X)))

    function = fused([X], build)
    kernel = only(function, "kernel")
    assert names(function) == ["kernel"] and inside(kernel) == ["constant", "add", "constant", "mul", "tanh"]
    assert passes_over_memory(function) == 2


def test_broadcasts_and_transposes_are_maps() -> None:
    def build(b: Builder, x: Value, bias: Value, y: Value) -> Value:
        spread = b.broadcast(bias, result_type(x).axes, (1,))
        return b.op("add", b.op("mul", x, spread), b.op("transpose", y, permutation=(1, 0)))

    kernel = only(fused([X, tensor(4), tensor(4, 3)], build), "kernel")
    assert kernel.attributes["maps"] == ((0, 1), (1,), (1, 0))


def test_a_transposed_result_of_the_group_is_read_from_memory() -> None:
    """x + x.T of a square: the transposed element is another point, so it can't be computed at this one."""

    def build(b: Builder, x: Value) -> Value:
        y = b.op("exp", x)
        return b.op("add", y, b.op("transpose", y, permutation=(1, 0)))

    assert len(names(fused([tensor(4, 4)], build))) == 2


def test_what_is_read_elsewhere_is_a_result() -> None:
    def build(b: Builder, x: Value) -> list[Value]:
        y = b.op("exp", x)
        return [b.op("tanh", y), b.op("sum", y, positions=(0,))]

    kernel = only(fused([X], build), "kernel")
    assert len(kernel.results) == 2


def test_readers_of_one_tensor_share_the_pass() -> None:
    function = fused([X], lambda b, x: [b.op("exp", x), b.op("tanh", x)])
    assert names(function) == ["kernel"] and passes_over_memory(function) == 3


def test_operations_with_nothing_in_common_stay_apart() -> None:
    assert names(fused([X, X], lambda b, x, y: [b.op("exp", x), b.op("tanh", y)])) == ["exp", "tanh"]


def test_a_reduction_between_keeps_two_passes_apart() -> None:
    def build(b: Builder, x: Value) -> Value:
        powers = b.op("exp", x)
        total = b.op("sum", powers, positions=(1,))
        return b.op("div", powers, b.broadcast(total, result_type(x).axes, (0,)))

    assert names(fused([X], build)) == ["exp", "sum", "kernel"]


def test_indices_and_masks_read_nothing() -> None:
    """A causal mask is computed at each point of both kernels that use it."""
    square = tensor(2, 4, 4)

    def build(b: Builder, x: Value, y: Value) -> list[Value]:
        axes = (number(4), number(4))
        mask = b.op("ge", b.op("iota", axes=axes, position=0), b.op("iota", axes=axes, position=1))
        over = b.broadcast(mask, result_type(x).axes, (1, 2))
        hidden = b.full(float("-inf"), square)
        return [b.op("select", over, x, hidden), b.op("sum", b.op("select", over, y, hidden), positions=(0,))]

    function = fused([square, square], build)
    kernels = [op for op in function.body.ops if op.name == "kernel"]
    assert [[op.attributes["position"] for op in kernel.regions[0].ops if op.name == "iota"] for kernel in kernels] == [[1, 2], [1, 2]]
    assert all(len(kernel.operands) == 1 for kernel in kernels)


def test_registers_are_operands_without_axes() -> None:
    def build(b: Builder, x: Value, s: Value) -> Value:
        return b.op("mul", x, b.spread(b.op("exp", s), result_type(x)))

    function = fused([X, SCALAR], build)
    assert only(function, "kernel").attributes["maps"] == ((0, 1), ())
    assert [op.name for op in function.body.ops] == ["exp", "kernel"], "arithmetic on registers stays outside"


def test_dropout_keeps_its_index() -> None:
    """In its own space the element's index is the point's; read transposed it is made before."""

    def dropped(b: Builder, x: Value, seed: Value) -> Value:
        return b.op("dropout", x, b.float_constant(0.5), seed, seed)

    def own(b: Builder, x: Value, seed: Value) -> Value:
        return b.op("tanh", dropped(b, x, seed))

    assert inside(only(fused([X, INT], own), "kernel")) == ["constant", "dropout", "tanh"]

    def turned(b: Builder, x: Value, seed: Value) -> Value:
        return b.op("tanh", b.op("transpose", dropped(b, x, seed), permutation=(1, 0)))

    assert names(fused([X, INT], turned)) == ["dropout", "kernel"]


# ---- epilogues


def test_bias_and_activation_are_an_epilogue() -> None:
    def build(b: Builder, x: Value, w: Value, bias: Value) -> list[Value]:
        y = product(b, x, w)
        h = b.op("relu", b.op("add", y, b.broadcast(bias, result_type(y).axes, (1,))))
        return [h, b.op("sum", y, positions=(0,))]

    op = only(fused([X, W, tensor(5)], build), "fused_contraction")
    assert inside(op) == ["add", "relu"] and op.attributes["maps"] == ((1,),)
    assert len(op.results) == 2, "the product itself is read too"


def test_an_operand_that_is_made_later_moves_before_the_product() -> None:
    def build(b: Builder, x: Value, w: Value, z: Value) -> Value:
        y = product(b, x, w)
        total = b.op("sum", b.op("exp", z), positions=(0,))
        return b.op("add", y, b.broadcast(total, result_type(y).axes, (1,)))

    assert names(fused([X, W, tensor(2, 5)], build)) == ["exp", "sum", "fused_contraction"]


def test_an_operand_that_depends_on_the_product_is_no_part_of_its_epilogue() -> None:
    def build(b: Builder, x: Value, w: Value) -> Value:
        y = product(b, x, w)
        total = b.op("sum", y, positions=(0,))
        return b.op("sub", y, b.broadcast(total, result_type(y).axes, (1,)))

    assert names(fused([X, W], build)) == ["contraction", "sum", "kernel"]


def test_a_sum_of_two_products_is_the_epilogue_of_the_second() -> None:
    def build(b: Builder, x: Value, w: Value, v: Value) -> Value:
        return b.op("add", product(b, x, w), product(b, x, v))

    function = fused([X, W, W], build)
    assert names(function) == ["contraction", "fused_contraction"]


def test_other_producers_are_drawn_into_the_epilogue() -> None:
    def build(b: Builder, x: Value, w: Value, z: Value) -> Value:
        return b.op("mul", b.op("exp", z), b.op("tanh", product(b, x, w)))

    assert inside(only(fused([X, W, tensor(3, 5)], build), "fused_contraction")) == ["exp", "tanh", "mul"]


def test_a_product_of_what_the_group_makes_ends_it() -> None:
    def build(b: Builder, x: Value, w: Value) -> Value:
        y = b.op("tanh", product(b, x, w))
        return b.op("contraction", y, b.op("neg", y), left=(0, 1), right=(2, 1), out=(0, 2))

    function = fused([X, W], build)
    assert names(function) == ["fused_contraction", "contraction"]


# ---- forward and backward pass


def backward(b: Builder, x: Value, w: Value, v: Value, keep: bool, derivative: Callable[[Builder, Value], Value]) -> list[Value]:
    """h = act(x w), then g = (h v) v, times the derivative at h; `keep`: h is wanted for itself too."""
    h = b.op("tanh", product(b, x, w))
    y = b.op("contraction", h, v, left=(0, 1), right=(1, 2), out=(0, 2))
    g = b.op("contraction", b.op("neg", y), v, left=(0, 1), right=(2, 1), out=(0, 2))
    found = derivative(b, h)
    gate = b.op("mul", g, found) if result_type(found).element is Element.F32 else b.op("select", found, g, b.full(0.0, g.type))
    return [gate, b.op("sum", h, positions=(0,))] if keep else [gate]


def square(b: Builder, h: Value) -> Value:
    return b.op("sub", b.full(1.0, result_type(h)), b.op("mul", h, h))


def test_the_derivative_of_tanh_is_computed_in_the_backward_pass() -> None:
    function = fused([X, W, tensor(5, 2)], lambda b, x, w, v: backward(b, x, w, v, True, square))
    first, *_, last = [op for op in function.body.ops if op.name == "fused_contraction"]
    assert inside(first) == ["tanh"] and "sub" in inside(last)


def test_a_gate_is_kept_as_a_byte_where_nothing_else_is_needed() -> None:
    """The dropout of relu: the second product takes the dropped value, the gate needs relu's sign alone."""
    step = compile_entry(train_mlp(), "train_step", {}, "fused")
    first = next(op for op in walk(step.body) if op.name == "fused_contraction")
    assert [result_type(value).element for value in first.results] == [Element.F32, Element.BOOL]


def test_ordered_operations_keep_their_order() -> None:
    def build(b: Builder, mode: Value, x: Value, w: Value) -> list[Value]:
        y = product(b, x, w)
        first = b.op("mean", x, positions=(0, 1))
        seed, draw = b.emit("mode_draw", mode)
        h = b.op("dropout", y, b.float_constant(0.5), seed, draw)
        return [h, first, b.op("mean", h, positions=(0, 1))]

    function = fuse(function_of([MODE, X, W], build))
    verify_function(function, infer)
    assert [op.name for op in function.body.ops if op.name in ("mean", "mode_draw")] == ["mean", "mode_draw", "mean"]
    assert "fused_contraction" in [op.name for op in function.body.ops]


def test_an_ordered_operation_between_that_reads_the_product_separates() -> None:
    """The draw stands behind a mean of the product, so dropout can't be in the product's epilogue."""

    def build(b: Builder, mode: Value, x: Value, w: Value) -> list[Value]:
        y = product(b, x, w)
        first = b.op("mean", y, positions=(0, 1))
        seed, draw = b.emit("mode_draw", mode)
        return [b.op("dropout", y, b.float_constant(0.5), seed, draw), first]

    function = fuse(function_of([MODE, X, W], build))
    verify_function(function, infer)
    assert [op.name for op in function.body.ops] == ["contraction", "mean", "mode_draw", "constant", "dropout"]


def test_rates_of_every_kind_compile() -> None:
    """A constant rate is inside the region, one that is computed is an operand."""

    def build(b: Builder, x: Value, rate: Value, seed: Value) -> Value:
        return b.op("neg", b.op("dropout", x, rate, seed, seed))

    kernel = only(fuse(function_of([X, FLOAT, INT], build)), "kernel")
    assert kernel.attributes["maps"] == ((0, 1), (), ())
