"""Each `value_and_grad` replaced by its region's operations and, behind them, those that compute the gradient.

Reverse mode: the region is walked backwards; an operation whose result has a gradient g gives each of its operands a contribution by the
rule of its entry in the op table. What reaches a value from several users is added in the order in which it arrives, that is in reverse
program order, and begins with the first contribution (docs/exactness.md, rule 4). Only places that depend on what the gradient is taken of,
and on which the scalar depends, take part (`activity.py`). How control flow is gone back through stands in `reverse_branches`,
`reverse_loops` and `reverse_checkpoints`.

The innermost request goes first, so that the gradient of a gradient differentiates ordinary operations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from shapescript.compiler.diagnostics.model import CompileError, Diagnostic, Label
from shapescript.compiler.ir.nodes import Block, Function, Op, Value, walk_ops
from shapescript.compiler.ir.types import ModelType, sorted_leaves
from shapescript.compiler.ops.build import Builder, rebuilt, result_type
from shapescript.compiler.passes.activity import Activity, find_activity
from shapescript.compiler.passes.adjoints import Adjoints
from shapescript.compiler.passes.dead import drop_dead
from shapescript.compiler.passes.done_once import APART, has_done_once
from shapescript.compiler.passes.renaming import renamed
from shapescript.compiler.passes.reverse import Reverse, called
from shapescript.compiler.passes.turns import Turns

COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")


def differentiate(function: Function) -> Function:
    """The function without `value_and_grad`.

    Raises CompileError E0801 where a gradient would flow through what has none, E0803 where there is none to take, E0804 where it needs
    what can't be kept.
    """
    body = _Expansion().block(function.body)
    return function.with_body(body)


class _Expansion:
    def __init__(self) -> None:
        self.replaced: dict[Value, Value] = {}
        self.turns = Turns()

    def values(self, values: Sequence[Value]) -> tuple[Value, ...]:
        return tuple(self.replaced.get(value, value) for value in values)

    def block(self, block: Block) -> Block:
        with self.turns.level(block.parameters, block.symbols) as level:
            self.add(block.ops)
            return Block(block.parameters, tuple(level.ops), self.values(block.yields), block.symbols)

    def add(self, ops: Sequence[Op]) -> None:
        """Put the operations into the innermost block."""
        for op in ops:
            if op.name == "value_and_grad":
                for made in self.gradient(op):
                    self.turns.append(made)
            else:
                regions = tuple(self.block(region) for region in op.regions)
                self.turns.append(rebuilt(op, self.values(op.operands), regions, op.results))

    def gradient(self, op: Op) -> list[Op]:
        (region,), (wrt,) = op.regions, self.values(op.operands)
        parameter = region.parameters[0]
        self.replaced[parameter] = parameter
        with self.turns.level() as level:
            self.add(region.ops)
            forward: Sequence[Op] = level.ops
        loss, *others = self.values(region.yields)
        activity = _checked_activity(op, forward, parameter, loss)
        with self.turns.level() as level:
            counted = self.turns.count(forward, set(_to_count(forward, activity)))
            reverse = Reverse(activity, parameter, counted, self.turns.numbers)
            adjoints = Adjoints(Builder(op.span), activity)
            adjoints.add(loss, adjoints.builder.constant(1.0, result_type(loss).element))
            forward = reverse.whole(level.ops, adjoints)
        gradient = adjoints.whole(parameter, op.results[1].hint)
        backward = drop_dead(Block((), tuple(adjoints.builder.ops), (gradient,)))
        check = Builder(op.span)
        if op.attributes.get("nonfinite") != "allow":
            check.emit("check_finite", loss, what="loss")
        names = {parameter: wrt}
        self.replaced.update(zip(op.results, (names.get(value, value) for value in (loss, gradient, *others)), strict=True))
        return renamed([*forward, *check.ops, *backward.ops], names)


def _checked_activity(op: Op, forward: Sequence[Op], wrt: Value, loss: Value) -> Activity:
    activity = find_activity(forward, wrt, loss)
    if activity.lost is not None:
        raise _steps(*activity.lost, wrt)
    if not activity.is_active(loss):
        message = f"the value doesn't depend on {called(wrt)}, so its gradient would be 0 everywhere"
        untrained = isinstance(wrt.type, ModelType) and not all(leaf.is_trained for leaf in sorted_leaves(wrt.type))
        hint = "frozen parameters and buffers have no gradient" if untrained else None
        raise CompileError(Diagnostic("E0803", message, op.span, help=hint))
    return activity


def _to_count(ops: Sequence[Op], activity: Activity) -> Iterator[Op]:
    """The operations whose turns must be known, should they be loops: a gradient flows through them, or they are done again."""
    for op in walk_ops(ops):
        if any(activity.is_active(result) for result in op.results):
            yield op
            if op.name in APART:
                inner = chain.from_iterable(walk_ops(region.ops) for region in op.regions)
                yield from (loop for loop in inner if loop.name == "for_range" and has_done_once(loop))


def _steps(cause: Op, back: Op, wrt: Value) -> CompileError:
    what = "a comparison" if cause.name in COMPARISONS else "a conversion to int" if cause.name == "to_i64" else cause.name
    message = f"{what} goes in steps, so the gradient by {called(wrt)} through it would be 0 everywhere"
    labels = (Label(back.span, "it becomes a float again here"),) if back.span else ()
    return CompileError(Diagnostic("E0801", message, cause.span, labels, "stop_gradient(...) around it takes its value as a constant"))
