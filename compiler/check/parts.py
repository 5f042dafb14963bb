"""Assigning a part of what a `mut` variable holds: a parameter, a buffer or a sub-model of a model."""

from __future__ import annotations

from shapescript.compiler.check import types
from shapescript.compiler.check.body import Body
from shapescript.compiler.check.places import assign, changed_variable, part_path
from shapescript.compiler.check.typed import Place, Typed
from shapescript.compiler.diagnostics.model import Label
from shapescript.compiler.syntax import tree


def assign_part(body: Body, place: tree.Attribute | tree.Bracket, typed: Typed) -> None:
    """`norm.mean = value`, `m.blocks[0] = block`: the part gets a new value of its type and axes."""
    root, path = part_path(body, place, "assigned")
    variable = changed_variable(body, root, place.span, "a part of it can't be assigned")
    base = body.evaluate(place.base)
    if not isinstance(base.type, types.Model | types.ModelList):
        body.report.fail("E0605", f"a part of {base.type} can't be assigned: models have parts that change", place.span)
    wanted = body.evaluate(place).type
    if isinstance(wanted, types.ModelList):
        hint = f"its sub-models are assigned one by one: `{place.span.text}[0] = ...`"
        body.report.fail("E0301", "a list of sub-models can't be assigned", place.span, help=hint)
    label = (Label(variable.span, "bound here"),)
    typed = body.convert(typed, wanted, place.span, lambda: f"`{place.span.text}` keeps its type", label)
    assign(body, Place(variable, ".".join(path)), typed)
