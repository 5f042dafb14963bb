"""Conditions that a program's data must meet, and what is said where they don't."""

from __future__ import annotations

from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.types import BOOL, Type
from shapescript.compiler.ops.table import Kernel, NoDerivative, OpEntry, attribute, register, require

_DIVISION = "of tensors: a divisor is 0, or the least whole number is divided by -1"
# The code and the message, by the attribute `failure`.
FAILURES: dict[str, tuple[str, str]] = {
    "variance": ("R1103", "variance of too few elements: it divides by their number less the correction, and that is not above 0"),
    "mean of rows": ("R1103", "a mean over rows of which none counts: it has no value for that"),
    "prefetch": ("R1004", "`prefetch` of `batches` is below 0: it says how many batches are read ahead"),
    "//": ("R1106", f"`//` {_DIVISION}"),
    "%": ("R1106", f"`%` {_DIVISION}"),
}


def _infer_check(op: Op) -> tuple[Type, ...]:
    require([operand.type for operand in op.operands] == [BOOL], op, "takes a host bool")
    require(attribute(op, "failure") in FAILURES, op, "no such failure")
    return ()


# check(holds) {failure}: an error of the run where the condition doesn't hold.
register(OpEntry("check", _infer_check, NoDerivative.ZERO, Kernel("check"), ordered=True))
