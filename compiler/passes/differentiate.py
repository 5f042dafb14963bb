"""Each `value_and_grad` replaced by its region's operations and, behind them, those that compute the gradient.

Reverse mode: the region is walked backwards; an operation whose result has a gradient g gives each of its operands a contribution by the
rule of its entry in the op table. What reaches a value from several users is added in the order in which it arrives, that is in reverse
program order, and begins with the first contribution (docs/exactness.md, rule 4). Only places that depend on what the gradient is taken of,
and on which the scalar depends, take part (`activity.py`).

The innermost request goes first, so that the gradient of a gradient differentiates ordinary operations.
"""

from __future__ import annotations

from collections.abc import Sequence

from shapescript.compiler.diagnostics.model import CompileError, Diagnostic, Label
from shapescript.compiler.ir.nodes import Block, Function, Op, Value
from shapescript.compiler.ir.types import ModelType, TensorType, sorted_leaves
from shapescript.compiler.ops.build import Builder, rebuilt, result_type
from shapescript.compiler.ops.table import NoDerivative, entry
from shapescript.compiler.passes.activity import CONTROL, PARTS, Activity, Place, find_activity
from shapescript.compiler.passes.dead import drop_dead

COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")


def differentiate(function: Function) -> Function:
    """The function without `value_and_grad`.

    Raises CompileError E0801 where a gradient would flow through what has none, E0901 where it would flow through control flow.
    """
    body = _Expansion().block(function.body)
    return Function(function.name, function.dims, body, function.mutable, function.results, function.span)


class _Expansion:
    def __init__(self) -> None:
        self.replaced: dict[Value, Value] = {}

    def values(self, values: Sequence[Value]) -> tuple[Value, ...]:
        return tuple(self.replaced.get(value, value) for value in values)

    def block(self, block: Block) -> Block:
        ops = self.ops(block.ops)
        return Block(block.parameters, tuple(ops), self.values(block.yields), block.symbols)

    def ops(self, ops: Sequence[Op]) -> list[Op]:
        found: list[Op] = []
        for op in ops:
            if op.name == "value_and_grad":
                found += self.gradient(op)
            else:
                regions = tuple(self.block(region) for region in op.regions)
                found.append(rebuilt(op, self.values(op.operands), regions, op.results))
        return found

    def gradient(self, op: Op) -> list[Op]:
        (region,), (wrt,) = op.regions, self.values(op.operands)
        self.replaced[region.parameters[0]] = region.parameters[0]
        forward = self.ops(region.ops)
        loss, *others = self.values(region.yields)
        builder = Builder(op.span)
        builder.emit("check_finite", loss, what="loss")
        gradient, backward = _backward(op, forward, region.parameters[0], loss)
        inside = _renamed([*forward, *builder.ops, *backward], {region.parameters[0]: wrt})
        results = ({region.parameters[0]: wrt}.get(value, value) for value in (loss, gradient, *others))
        self.replaced.update(zip(op.results, results, strict=True))
        return inside


def _renamed(ops: Sequence[Op], names: dict[Value, Value]) -> list[Op]:
    renaming = _Expansion()
    renaming.replaced = names
    return renaming.ops(ops)


def _backward(op: Op, forward: Sequence[Op], wrt: Value, loss: Value) -> tuple[Value, tuple[Op, ...]]:
    """The gradient of `loss` by `wrt`, and the operations that compute it."""
    builder = Builder(op.span)
    activity = find_activity(forward, wrt, loss)
    if activity.lost:
        raise _steps(*activity.lost[-1], wrt)
    if not activity.is_active(loss):
        message = f"the value doesn't depend on {_called(wrt)}, so its gradient would be 0 everywhere"
        raise CompileError(Diagnostic("E0803", message, op.span))
    adjoints = _Adjoints(builder, activity)
    adjoints.add(loss, builder.constant(1.0, result_type(loss).element))
    for inner in reversed(forward):
        with builder.at(inner.span):
            _propagate(inner, adjoints, wrt)
    gradient = adjoints.whole(wrt, op.results[1].hint)
    block = drop_dead(Block((), tuple(builder.ops), (gradient,)))
    return gradient, block.ops


class _Adjoints:
    """The gradients found so far, one for each place."""

    def __init__(self, builder: Builder, activity: Activity) -> None:
        self.builder, self.activity = builder, activity
        self.of: dict[Place, Value] = {}

    def add(self, value: Value, gradient: Value | None, path: str = "") -> None:
        place = self.activity.place(value, path)
        if gradient is None or place not in self.activity.varying:
            return
        before = self.of.get(place)
        self.of[place] = gradient if before is None else self.builder.op("add", before, gradient)

    def get(self, value: Value, path: str = "") -> Value | None:
        return self.of.get(self.activity.place(value, path))

    def whole(self, wrt: Value, hint: str) -> Value:
        """The gradient with the type of `wrt`; zeros where nothing arrived."""
        if isinstance(wrt.type, ModelType):
            leaves = [self.get(wrt, leaf.name) or self.zeros(leaf.type) for leaf in sorted_leaves(wrt.type)]
            return self.builder.op("pack", *leaves, model=wrt.type, hint=hint)
        return self.get(wrt) or self.zeros(result_type(wrt))

    def zeros(self, type_: TensorType) -> Value:
        return self.builder.full(0.0 if type_.element.is_float else 0, type_)


def _propagate(op: Op, adjoints: _Adjoints, wrt: Value) -> None:
    activity = adjoints.activity
    if op.name in PARTS:
        return
    if op.name == "pack":
        for leaf, operand in zip(sorted_leaves(op.attributes["model"]), op.operands, strict=True):
            adjoints.add(operand, adjoints.get(op.result, leaf.name))
    elif op.name == "replace_submodel":
        for target, path, name in activity.sources_of_replaced(op):
            adjoints.add(target, adjoints.get(op.result, name), path)
    elif any(activity.is_active(result) for result in op.results):
        _apply_rule(op, adjoints, wrt)


def _apply_rule(op: Op, adjoints: _Adjoints, wrt: Value) -> None:
    rule, activity = entry(op.name).derivative, adjoints.activity
    if op.name in CONTROL:
        message = f"a gradient flows through {CONTROL[op.name]}, and that isn't built yet"
        raise CompileError(Diagnostic("E0901", message, op.span, help="compute what depends on the parameters outside of it"))
    if isinstance(rule, NoDerivative):
        raise _no_derivative(op, wrt)
    gradients = [adjoints.get(result) for result in op.results]
    if all(gradient is None for gradient in gradients):
        return
    for operand, contribution in zip(op.operands, rule(adjoints.builder, op, gradients), strict=True):
        if contribution is None and activity.varies(operand):
            raise _no_derivative(op, wrt)
        adjoints.add(operand, contribution)


def _called(wrt: Value) -> str:
    return f"`{wrt.hint}`" if wrt.hint else "what the gradient is taken of"


def _steps(cause: Op, back: Op, wrt: Value) -> CompileError:
    what = "a comparison" if cause.name in COMPARISONS else "a conversion to int" if cause.name == "to_i64" else cause.name
    message = f"{what} goes in steps, so the gradient by {_called(wrt)} through it would be 0 everywhere"
    labels = (Label(back.span, "it becomes a float again here"),) if back.span else ()
    return CompileError(Diagnostic("E0801", message, cause.span, labels, "stop_gradient(...) around it takes its value as a constant"))


def _no_derivative(op: Op, wrt: Value) -> CompileError:
    message = f"{op.name} can't be differentiated, but the gradient by {_called(wrt)} flows through it"
    return CompileError(Diagnostic("E0801", message, op.span, help="stop_gradient(…) around it takes its value as a constant"))
