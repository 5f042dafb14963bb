"""Reverse mode over the operations of one block: adjoints behind them, and of control flow what the way back needs.

The operations are walked backwards; one whose result has an adjoint g gives each of its operands a contribution by the rule of its entry
in the op table. Control flow becomes control flow (`reverse_branches`, `reverse_loops`, `reverse_checkpoints`): what its adjoints read of
the regions comes out of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from shapescript.compiler.diagnostics.model import CompileError, Diagnostic
from shapescript.compiler.ir.nodes import Block, Op, Value
from shapescript.compiler.ir.types import sorted_leaves
from shapescript.compiler.ops.build import Builder
from shapescript.compiler.ops.elementwise import Gradients
from shapescript.compiler.ops.table import Control, NoDerivative, entry
from shapescript.compiler.passes.activity import PARTS, Activity
from shapescript.compiler.passes.adjoints import Adjoints, defined_by
from shapescript.compiler.passes.cuts import Cuts
from shapescript.compiler.passes.numbers import Numbers
from shapescript.compiler.passes.recall import Around
from shapescript.compiler.passes.reverse_branches import reverse_if
from shapescript.compiler.passes.reverse_checkpoints import reverse_checkpoint
from shapescript.compiler.passes.reverse_loops import reverse_range
from shapescript.compiler.passes.safe_sizes import SafeSizes
from shapescript.compiler.passes.turns import Counted


def _add_slice(b: Builder, op: Op, gradients: Gradients, before: Value) -> Value:
    (gradient,) = gradients
    return before if gradient is None else b.op("add_slice", before, gradient, op.operands[1], position=op.attributes["position"])


def _add_rows(b: Builder, op: Op, gradients: Gradients, before: Value) -> Value:
    (gradient,) = gradients
    return before if gradient is None else b.op("add_rows", before, gradient, op.operands[1], called="gather")


# Operations that read some places of a tensor: where it has an adjoint already, only these are added to.
ADDS_IN_PLACE = {"slice": _add_slice, "gather": _add_rows}


class Reverse:
    """One gradient, by `wrt`."""

    def __init__(self, activity: Activity, wrt: Value, counted: Counted, numbers: Numbers) -> None:
        self.activity, self.wrt, self.turns, self.known_outside = activity, wrt, counted.turns, counted.outside
        self.around = Around(SafeSizes(numbers, counted.outside))
        self.cuts = Cuts()

    @contextmanager
    def passing_by(self, region: Block) -> Iterator[None]:
        inside = defined_by(region)
        self.around.passing |= inside
        yield
        self.around.passing -= inside

    def whole(self, ops: Sequence[Op], adjoints: Adjoints) -> list[Op]:
        """As `run`, for the block in which the gradient is taken."""
        found: list[Op] = []
        for op in reversed(ops):
            self.around.safe.begin(op)
            made = self.run((op,), adjoints)
            found += reversed([*self.around.safe.bindings(), *made])
        return found[::-1]

    def run(self, ops: Sequence[Op], adjoints: Adjoints) -> list[Op]:
        """Propagate adjoints through the operations of a block; gives these, with what is read of them later as further results."""
        found: list[Op] = []
        for op in reversed(ops):
            with adjoints.builder.at(op.span):
                found += reversed(self._through(op, adjoints))
        return found[::-1]

    def _through(self, op: Op, adjoints: Adjoints) -> Sequence[Op]:
        if op.name in PARTS:
            return (op,)
        if op.name == "pack":
            for leaf, operand in zip(sorted_leaves(op.attributes["model"]), op.operands, strict=True):
                adjoints.add(operand, adjoints.get(op.result, leaf.name))
        elif op.name == "replace_submodel":
            for target, path, name in self.activity.sources_of_replaced(op):
                adjoints.add(target, adjoints.get(op.result, name), path)
        elif any(self.activity.is_active(result) for result in op.results):
            if isinstance(entry(op.name).lowering, Control):
                return self._through_control(op, adjoints)
            self._apply_rule(op, adjoints)
        return (op,)

    def _through_control(self, op: Op, adjoints: Adjoints) -> Sequence[Op]:
        match op.name:
            case "if":
                return reverse_if(self, op, adjoints)
            case "for_range":
                return reverse_range(self, op, adjoints)
        return reverse_checkpoint(self, op, adjoints)

    def _apply_rule(self, op: Op, adjoints: Adjoints) -> None:
        rule = entry(op.name).derivative
        if isinstance(rule, NoDerivative):
            raise self._no_derivative(op)
        gradients = [adjoints.get(result) for result in op.results]
        if all(gradient is None for gradient in gradients):
            return
        add_in_place = ADDS_IN_PLACE.get(op.name)
        if add_in_place is not None and adjoints.change(op.operands[0], partial(add_in_place, adjoints.builder, op, gradients)):
            return
        contributions = self.cuts.behind(adjoints.builder, op, gradients, rule(adjoints.builder, op, gradients))
        for operand, contribution in zip(op.operands, contributions, strict=True):
            if contribution is None and self.activity.varies(operand):
                raise self._no_derivative(op)
            before = adjoints.get(operand)
            adjoints.add(operand, contribution)
            self.cuts.joined(adjoints.builder, before, contribution, adjoints.get(operand))

    def _no_derivative(self, op: Op) -> CompileError:
        message = f"{op.name} can't be differentiated, but the gradient by {called(self.wrt)} flows through it"
        return CompileError(Diagnostic("E0801", message, op.span, help="stop_gradient(…) around it takes its value as a constant"))


def called(wrt: Value) -> str:
    return f"`{wrt.hint}`" if wrt.hint else "what the gradient is taken of"
