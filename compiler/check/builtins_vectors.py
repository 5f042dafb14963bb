"""Models made from a model's type, and what two models have in common as vectors of their parameters."""

from __future__ import annotations

from shapescript.compiler.check import types
from shapescript.compiler.check.site import Handler, Site
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.check.types import Tensor
from shapescript.compiler.ir.types import Element, TensorType


def _model(site: Site, name: str) -> Typed:
    argument = site.arguments((name,))[name]
    typed = site.evaluate(argument)
    if not isinstance(typed.type, types.Model):
        site.fail("E0301", f"`{site.name}` takes a model, found {typed.type}", argument.value.span)
    return typed


def _filled(what: str) -> Handler:
    """A model of m's type: `rates(m)`, `decays(m)`."""

    def handler(site: Site) -> Typed:
        typed = _model(site, "model")
        return Typed(typed.type, (site.body.builder.op("fill_leaves", typed.value, what=what),))

    return handler


def _zeros_like(site: Site) -> Typed:
    argument = site.arguments(("x",))["x"]
    typed = site.evaluate(argument)
    match typed.type:
        case types.Model():
            return Typed(typed.type, (site.body.builder.op("fill_leaves", typed.value, what="zeros"),))
        case Tensor(element):
            kind = typed.value.type
            assert isinstance(kind, TensorType)
            zero = False if element is Element.BOOL else 0.0 if element.is_float else 0
            return Typed(typed.type, (site.body.builder.full(zero, kind),))
    site.fail("E0301", f"`zeros_like` takes a model or a tensor, found {typed.type}", argument.value.span)


def _dot(site: Site) -> Typed:
    found = site.arguments(("a", "b"))
    left, right = (site.evaluate(found[name]) for name in ("a", "b"))
    for typed, name in ((left, "a"), (right, "b")):
        if not isinstance(typed.type, types.Model):
            hint = "of tensors it is `a @ b`" if isinstance(typed.type, Tensor) else None
            site.fail("E0301", f"`dot` takes two models, found {typed.type}", found[name].value.span, hint)
    if left.type != right.type:
        site.fail("E0301", f"`dot` takes models of one type, found {left.type} and {right.type}")
    return Typed(types.FLOAT, (site.body.builder.op("dot_leaves", left.value, right.value),))


def _groups(site: Site) -> Typed:
    """How optimisers treat each parameter, as a table to print."""
    return Typed(types.STR, site.body.builder.emit("groups", _model(site, "model").value))


HANDLERS: dict[str, Handler] = {
    "zeros_like": _zeros_like,
    "rates": _filled("rates"),
    "decays": _filled("decays"),
    "dot": _dot,
    "groups": _groups,
}
