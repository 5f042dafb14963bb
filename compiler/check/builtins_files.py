"""Printing."""

from __future__ import annotations

from shapescript.compiler.check import types
from shapescript.compiler.check.site import Site
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.ir.nodes import Value


def _print(site: Site) -> Typed:
    values: list[Value] = []
    for argument in site.node.arguments:
        if argument.name is not None or argument.is_mut:
            site.fail("E0311", "`print` takes values without names", argument.span)
        typed = site.evaluate(argument)
        if not isinstance(typed.type, types.Scalar | types.Tensor):
            site.fail("E0301", f"`print` prints numbers, strings and tensors, not {typed.type}", argument.value.span)
        values += typed.values
    site.body.builder.emit("print", *values)
    return Typed(types.NOTHING)


HANDLERS = {"print": _print}
