"""Calls with a pattern."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from shapescript.compiler.check import patterns
from shapescript.compiler.check.body import Body
from shapescript.compiler.check.einsum import einsum
from shapescript.compiler.check.report import did_you_mean
from shapescript.compiler.check.site import Handler, Site
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.check.types import Tensor
from shapescript.compiler.diagnostics.model import Span
from shapescript.compiler.ir.sizes import Size, number, of
from shapescript.compiler.syntax import tree

EXAMPLES = {
    "rearrange": "x: b n -> n b",
    "einsum": "x, w: b n, n m -> b m",
    "split": "x: b (3 n) -> b n",
    "repeat": "x: b -> b r, r=3",
}


def _pattern_call(site: Site) -> tuple[list[tree.Argument], dict[str, Size]]:
    if site.node.pattern is None or site.items is not None:
        site.fail("E0407", f"`{site.name}` takes a pattern: `{site.name}({EXAMPLES[site.name]})`")
    lists = site.node.pattern.inputs
    groups = [part for operand in lists for group in operand.axes if isinstance(group, tree.AxisGroup) for part in group.axes]
    new = patterns.single_axes(site.node.pattern.output) if site.name == "repeat" else ()
    opened = {part.name for part in (*groups, *new) if isinstance(part, tree.AxisName)}
    operands: list[tree.Argument] = []
    given: dict[str, Size] = {}
    for argument in site.node.arguments:
        if argument.is_mut:
            site.fail("E0604", f"`{site.name}` changes nothing: `mut` doesn't stand here", argument.span)
        if argument.name is None:
            operands.append(argument)
        elif argument.name.text not in opened:
            text = f"the pattern has no factor `{argument.name}` whose size could be given"
            site.fail("E0311", text, argument.name.span, did_you_mean(argument.name.text, opened))
        else:
            given[argument.name.text] = _given_size(site, argument)
    return operands, given


def _given_size(site: Site, argument: tree.Argument) -> Size:
    """A factor given to a pattern: `h=8`, `h=Heads`."""
    node = argument.value
    if isinstance(node, tree.IntLiteral):
        return number(node.value)
    if isinstance(node, tree.Name):
        known = site.body.context.known(node.name)
        if known is not None:
            return known.size
        symbols = dict(site.body.scope.dims())
        if node.name in symbols:
            return of(symbols[node.name])
    site.fail("E0409", "a factor is given as a number, a dim or an axis", node.span)


def _of_one(rule: Callable[[Body, Typed, tree.Pattern, Mapping[str, Size], Span], Typed]) -> Handler:
    def handler(site: Site) -> Typed:
        operands, given = _pattern_call(site)
        assert site.node.pattern is not None
        if len(operands) != 1:
            site.fail("E0302", f"`{site.name}` takes one operand, found {len(operands)}")
        typed = site.evaluate(operands[0])
        if not isinstance(typed.type, Tensor):
            site.fail("E0301", f"`{site.name}` takes a tensor, found {typed.type}", operands[0].value.span)
        return rule(site.body, typed, site.node.pattern, given, operands[0].value.span)

    return handler


def _einsum(site: Site) -> Typed:
    operands, given = _pattern_call(site)
    assert site.node.pattern is not None
    typed = [site.tensor(operand)[0] for operand in operands]
    if not typed:
        site.fail("E0302", "`einsum` takes an operand or more")
    return einsum(site.body, typed, site.node.pattern, given, [operand.value.span for operand in operands])


HANDLERS: dict[str, Handler] = {
    "rearrange": _of_one(patterns.rearrange),
    "split": _of_one(patterns.split),
    "repeat": _of_one(patterns.repeat),
    "einsum": _einsum,
}
