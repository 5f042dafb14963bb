"""Assigning a part of what a `mut` variable holds: a parameter, a buffer or a sub-model of a model."""

from __future__ import annotations

from shapescript.compiler.check import types
from shapescript.compiler.check.body import Body
from shapescript.compiler.check.places import assign, changed_variable
from shapescript.compiler.check.typed import Place, Typed
from shapescript.compiler.diagnostics.model import Label
from shapescript.compiler.syntax import tree


def assign_part(body: Body, place: tree.Attribute | tree.Bracket, typed: Typed) -> None:
    """`norm.mean = value`, `m.blocks[0] = block`: the part gets a new value of its type and axes."""
    root, path = _path(body, place)
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


def _path(body: Body, node: tree.Expression) -> tuple[tree.Expression, list[str]]:
    """The variable at the root, and the dotted names below it; numbers step into lists."""
    path: list[str] = []
    while isinstance(node, tree.Attribute | tree.Bracket):
        if isinstance(node, tree.Attribute):
            path.insert(0, node.name.text)
        else:
            listed = body.evaluate(node.base).type
            if not isinstance(listed, types.ModelList):
                body.report.fail("E0605", f"a part of {listed} can't be assigned: models have parts that change", node.span)
            path.insert(0, str(list_index(body, listed, node)))
        node = node.base
    return node, path


def list_index(body: Body, kind: types.ModelList, node: tree.Bracket) -> int:
    """The number in `m.blocks[0]`."""
    index = None
    match node.items:
        case (tree.AxisList(_, (tree.AxisName(_, name),)),) if name in body.environment:
            pass
        case (tree.AxisList(_, (axis,)),):
            index = body.context.axis(axis).size.constant()
    if index is None:
        body.report.not_built("indexing a list of sub-models by anything but a known number", node.span)
    count = kind.list.count.constant()
    if count is not None and index >= count:
        body.report.fail("E0503", f"the list has {count} sub-models, index {index} is past its end", node.span)
    return index
