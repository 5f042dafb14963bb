"""Groups of a model's parameters: what `group "*.bias": decay=false` says, checked against the names that the model has."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice

from shapescript.compiler.check.constants import ConstantEvaluator
from shapescript.compiler.check.report import Report, did_you_mean
from shapescript.compiler.check.scope import ModuleScope
from shapescript.compiler.check.type_names import MOST_TENSORS
from shapescript.compiler.ir.groups import may_fit
from shapescript.compiler.ir.types import Group, ListType, ModelType, TensorType
from shapescript.compiler.syntax import tree

OPTIONS = ("decay", "rate", "frozen")
LISTED = 8


class GroupReader:
    """Reads the groups of one model, whose members are known."""

    def __init__(self, scope: ModuleScope, report: Report, model: ModelType) -> None:
        self.scope, self.report = scope, report
        self.names = list(islice(parameter_names(model), MOST_TENSORS))

    def read(self, treatment: tree.Treatment) -> Group:
        for pattern in treatment.patterns:
            if not any(may_fit(pattern.value, name) for name in self.names) and len(self.names) < MOST_TENSORS:
                self._refuse(pattern)
        said: dict[str, bool | float] = {}
        for option in treatment.options:
            assert option.name is not None
            name = option.name.text
            if name not in OPTIONS:
                self.report.fail(
                    "E0311",
                    f"a group has no option `{name}`",
                    option.name.span,
                    help=did_you_mean(name, OPTIONS) or "decay, rate or frozen",
                )
            if name in said:
                self.report.fail("E0302", f"`{name}` is given twice", option.span)
            said[name] = self._rate(option) if name == "rate" else self._truth(option, name)
        return Group(tuple(pattern.value for pattern in treatment.patterns), **said)  # type: ignore[arg-type]

    def _truth(self, option: tree.Argument, name: str) -> bool:
        value = ConstantEvaluator(self.scope, self.report).value(option.value)
        if not isinstance(value, bool):
            self.report.fail("E0301", f"`{name}` is true or false", option.value.span)
        return value

    def _rate(self, option: tree.Argument) -> float:
        value = ConstantEvaluator(self.scope, self.report).value(option.value)
        if isinstance(value, bool | str):
            self.report.fail("E0301", "`rate` is a number, the factor of the rate", option.value.span)
        if value < 0.0 or not math.isfinite(value):
            self.report.fail("E0503", f"a rate is at least 0, not {value}", option.value.span)
        return float(value)

    def _refuse(self, pattern: tree.StringLiteral) -> None:
        if not self.names:
            self.report.fail("E0208", "the model has no parameters that a group could name", pattern.span)
        shown = ", ".join(self.names[:LISTED]) + (f" and {len(self.names) - LISTED} more" if len(self.names) > LISTED else "")
        message = f'"{pattern.value}" names no parameter of this model: they are {shown}'
        self.report.fail("E0208", message, pattern.span, help=did_you_mean(pattern.value, self.names))


def parameter_names(model: ModelType, prefix: str = "") -> Iterator[str]:
    """The dotted names of a model's parameters; `*` stands for the numbers of a list of unknown length, and for what a type parameter
    may have inside."""
    if model.is_parameter:
        yield f"{prefix}*"
    for member in model.members:
        match member.type:
            case TensorType():
                if not member.is_buffer:
                    yield prefix + member.name
            case ModelType():
                yield from parameter_names(member.type, f"{prefix}{member.name}.")
            case ListType(element, length):
                count = length.constant()
                for place in ["*"] if count is None else map(str, range(count)):
                    yield from parameter_names(element, f"{prefix}{member.name}.{place}.")
