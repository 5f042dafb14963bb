"""What a `mut` argument names, and what a call gives back to it."""

from __future__ import annotations

from dataclasses import replace

from shapescript.compiler.check import types
from shapescript.compiler.check.body import Body
from shapescript.compiler.check.report import did_you_mean
from shapescript.compiler.check.typed import Place, Typed, Variable
from shapescript.compiler.diagnostics.model import Label, Span
from shapescript.compiler.syntax import tree


def mut_place(body: Body, argument: tree.Argument) -> tuple[Place, Typed]:
    """The variable or member that `mut` stands before, which must be `mut` itself, and its value now."""
    root, path = part_path(body, argument.value, "given as `mut`")
    variable = _variable(body, root, argument.span)
    typed = body.evaluate(argument.value)
    if isinstance(typed.type, types.Handle | types.Dataset | types.Batches):
        body.report.fail("E0605", f"{typed.type} is a handle, which moves without `mut`", argument.span)
    _require_mut(body, variable, argument.span, "a call can't change it")
    return Place(variable, ".".join(path)), typed


def part_path(body: Body, node: tree.Expression, done: str) -> tuple[tree.Expression, list[str]]:
    """The variable at the root, and the dotted names below it; numbers step into lists. `done`: what is done to the part."""
    path: list[str] = []
    while isinstance(node, tree.Attribute | tree.Bracket):
        if isinstance(node, tree.Attribute):
            path.insert(0, node.name.text)
        else:
            listed = body.evaluate(node.base).type
            if not isinstance(listed, types.ModelList):
                body.report.fail("E0605", f"a part of {listed} can't be {done}: models have parts that change", node.span)
            path.insert(0, str(list_index(body, listed, node)))
        node = node.base
    return node, path


def list_index(body: Body, kind: types.ModelList, node: tree.Bracket) -> int:
    """The number in `m.blocks[0]`."""
    index = _list_index(body, node)
    if index is None:
        body.report.not_built("indexing a list of sub-models by anything but a known number", node.span)
    count = kind.list.count.constant()
    if count is not None and index >= count:
        body.report.fail("E0503", f"the list has {count} sub-models, index {index} is past its end", node.span)
    return index


def _list_index(body: Body, node: tree.Bracket) -> int | None:
    """The known number that stands alone in brackets."""
    match node.items:
        case (tree.AxisList(_, (tree.AxisName(_, name),)),) if name in body.environment:
            return None
        case (tree.AxisList(_, (axis,)),):
            return body.context.axis(axis).size.constant()
    return None


def changed_variable(body: Body, root: tree.Expression, span: Span, why: str) -> Variable:
    """The variable that the root of a place names, which must be `mut`; `why` is what can't be done otherwise."""
    variable = _variable(body, root, span)
    _require_mut(body, variable, span, why)
    return variable


def _require_mut(body: Body, variable: Variable, span: Span, why: str) -> None:
    if not variable.mutable:
        body.report.fail(
            "E0605",
            f"`{variable.name}` isn't `mut`, so {why}",
            span,
            [Label(variable.span, "bound here")],
            help=f"bind it as `mut {variable.name}`" if variable.rebindable else "copy it: `mut copy = ...`",
        )


def _variable(body: Body, root: tree.Expression, span: Span) -> Variable:
    if not isinstance(root, tree.Name):
        body.report.fail("E0605", "what changes is a variable or a part of one", span)
    variable = body.variable(root.name)
    if variable is None:
        body.report.fail("E0201", f"`{root.name}` is no variable", root.span, help=did_you_mean(root.name, body.environment))
    return variable


def check_aliasing(body: Body, arguments: list[tuple[tree.Argument, Place | None]]) -> None:
    """A value passed as `mut` and once more in the same call: E0602. Host scalars read from it are read before the call."""
    named: list[tuple[str, str, bool, tree.Argument]] = []
    for argument, place in arguments:
        found = _names(body, argument.value)
        if found is not None and found[0] in body.environment:
            named.append((*found, place is not None, argument))
    for number, (root, path, is_mut, argument) in enumerate(named):
        for other_root, other_path, other_mut, other in named[:number]:
            overlap = root == other_root and (_within(path, other_path) or _within(other_path, path))
            if overlap and (is_mut or other_mut) and not _is_scalar(body, argument if not is_mut else other):
                read = other if is_mut else argument
                body.report.fail(
                    "E0602",
                    f"`{argument.value.span.text}` is passed as `mut` and once more in the same call",
                    argument.span,
                    [Label(other.span, "also here")],
                    help=None if is_mut and other_mut else f"bind a copy before: `copy = {read.value.span.text}`",
                )


def _names(body: Body, node: tree.Expression) -> tuple[str, str] | None:
    """The variable and the dotted names below it, of a whole value or a part; None of anything else, as places of a tensor."""
    path: list[str] = []
    while isinstance(node, tree.Attribute | tree.Bracket):
        if isinstance(node, tree.Attribute):
            path.insert(0, node.name.text)
        elif (index := _list_index(body, node)) is not None:
            path.insert(0, str(index))
        else:
            return None
        node = node.base
    return (node.name, ".".join(path)) if isinstance(node, tree.Name) else None


def _within(inner: str, outer: str) -> bool:
    return not outer or inner == outer or inner.startswith(outer + ".")


def _is_scalar(body: Body, argument: tree.Argument) -> bool:
    """Whether what is read is a host scalar: an optimiser's step."""
    node = argument.value
    if argument.is_mut or not isinstance(node, tree.Attribute) or not isinstance(node.base, tree.Name):
        return False
    variable = body.environment[node.base.name]
    return isinstance(variable.typed.type, types.Optimiser)


def assign(body: Body, place: Place, typed: Typed) -> None:
    """Give a new value to what a `mut` argument named."""
    variable = body.environment[place.variable.name]
    if place.path:
        whole = body.builder.op("replace_submodel", variable.typed.value, typed.value, path=place.path)
        typed = Typed(variable.typed.type, (whole,))
    body.environment[variable.name] = replace(variable, typed=Typed(variable.typed.type, typed.values))
