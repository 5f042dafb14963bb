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
    root: tree.Expression = argument.value
    path: list[str] = []
    while isinstance(root, tree.Attribute):
        path.insert(0, root.name.text)
        root = root.base
    variable = _variable(body, root, argument.span)
    typed = body.evaluate(argument.value)
    if isinstance(typed.type, types.Handle | types.Dataset | types.Batches):
        body.report.fail("E0605", f"{typed.type} is a handle, which moves without `mut`", argument.span)
    _require_mut(body, variable, argument.span, "a call can't change it")
    return Place(variable, ".".join(path)), typed


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
        found = _path(argument.value)
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


def _path(node: tree.Expression) -> tuple[str, str] | None:
    path: list[str] = []
    while isinstance(node, tree.Attribute):
        path.insert(0, node.name.text)
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
