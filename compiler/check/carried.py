"""The outer `mut` variables that a region changes: their values go out of it with its own results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from shapescript.compiler.check.body import Body
from shapescript.compiler.check.changes import changed_names
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.syntax import tree


def carried_names(body: Body, statements: Iterable[tree.Statement]) -> list[str]:
    """Outer `mut` variables that a block changes, in a fixed order."""
    names = dict.fromkeys(name.text for name in changed_names(statements))
    return [name for name in names if name in body.environment and body.environment[name].mutable and not body.environment[name].broken]


def names_carried_by(body: Body, expression: tree.Expression) -> list[str]:
    return carried_names(body, (tree.Evaluate(expression.span, expression),))


def carried_values(body: Body, names: Iterable[str]) -> tuple[Value, ...]:
    return tuple(value for name in names for value in body.environment[name].typed.values)


def leave_region(body: Body, names: Iterable[str], results: Sequence[Value]) -> None:
    """Give the variables the region's results."""
    start = 0
    for name in names:
        variable = body.environment[name]
        width = len(variable.typed.values)
        body.environment[name] = replace(variable, typed=Typed(variable.typed.type, tuple(results[start : start + width])))
        start += width
