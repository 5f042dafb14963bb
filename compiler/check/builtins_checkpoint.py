"""`checkpoint(EXPR)`: a value whose intermediate results no gradient keeps."""

from __future__ import annotations

from shapescript.compiler.check import types
from shapescript.compiler.check.carried import carried_values, leave_region, names_carried_by
from shapescript.compiler.check.site import Handler, Site
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.ir.types import ModelType, TensorType


def _checkpoint(site: Site) -> Typed:
    """The expression is a region. What it changes in `mut` variables comes out of it, as its value does."""
    argument, body = site.arguments(("value",))["value"], site.body
    changed = names_carried_by(body, argument.value)
    with body.region() as inner:
        value = site.evaluate(argument)
        if isinstance(value.type, types.ModelList) or not all(isinstance(part.type, TensorType | ModelType) for part in value.values):
            site.fail("E0301", f"`checkpoint` takes tensors, numbers and models, found {value.type}", argument.value.span)
        if value.type == types.NOTHING:
            site.fail("E0301", "this gives no value to compute again", argument.value.span)
        outcome = (*value.values, *carried_values(body, changed))
        block = inner.block((), outcome)
        made = body.made
    body.made |= made
    results = body.builder.emit("checkpoint", regions=(block,), hints=[part.hint for part in outcome])
    leave_region(body, changed, results[len(value.values) :])
    return Typed(value.type, results[: len(value.values)])


HANDLERS: dict[str, Handler] = {"checkpoint": _checkpoint}
