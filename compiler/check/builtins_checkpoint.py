"""`checkpoint(EXPR)`: a value whose intermediate results no gradient keeps."""

from __future__ import annotations

from dataclasses import replace

from shapescript.compiler.check import types
from shapescript.compiler.check.changes import mut_names
from shapescript.compiler.check.site import Handler, Site
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.ir.types import ModelType, TensorType


def _checkpoint(site: Site) -> Typed:
    """The expression is a region. What it changes in `mut` variables comes out of it, as its value does."""
    argument, body = site.arguments(("value",))["value"], site.body
    names = dict.fromkeys(name.text for name in mut_names(argument.value))
    changed = [name for name in names if name in body.environment and body.environment[name].mutable and not body.environment[name].broken]
    with body.region() as inner:
        value = site.evaluate(argument)
        if isinstance(value.type, types.ModelList) or not all(isinstance(part.type, TensorType | ModelType) for part in value.values):
            site.fail("E0301", f"`checkpoint` takes tensors, numbers and models, found {value.type}", argument.value.span)
        if value.type == types.NOTHING:
            site.fail("E0301", "this gives no value to compute again", argument.value.span)
        after = [body.environment[name].typed for name in changed]
        outcomes = (value, *after)
        block = inner.block((), [part for typed in outcomes for part in typed.values])
        made = body.made
    body.made |= made
    results = body.builder.emit("checkpoint", regions=(block,), hints=[part.hint for typed in outcomes for part in typed.values])
    start = len(value.values)
    for name, typed in zip(changed, after, strict=True):
        own = results[start : start + len(typed.values)]
        body.environment[name] = replace(body.environment[name], typed=Typed(typed.type, own))
        start += len(own)
    return Typed(value.type, results[: len(value.values)])


HANDLERS: dict[str, Handler] = {"checkpoint": _checkpoint}
