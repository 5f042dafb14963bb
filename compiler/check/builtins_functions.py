"""Elementwise functions, of tensors and of host numbers."""

from __future__ import annotations

from shapescript.compiler.check import types
from shapescript.compiler.check.operators import tensor_pair
from shapescript.compiler.check.powers import real_power
from shapescript.compiler.check.site import Handler, Site, host_float
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.check.types import Tensor
from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ir.types import Element
from shapescript.compiler.syntax import tree

OF_FLOATS = (
    *("exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "sin", "cos", "tanh", "sigmoid", "erf", "floor", "ceil", "round"),
    *("relu", "gelu", "gelu_tanh", "silu", "softplus", "log_sigmoid"),
)
OF_NUMBERS = ("abs", "sign")
HOST_NUMBERS = (types.INT, types.FLOAT)


def _number(site: Site, argument: tree.Argument, whole: bool) -> Typed:
    """A tensor of floats or a host float; with `whole` a tensor of ints or a host int too, else a host int becomes a float."""
    typed = site.evaluate(argument)
    if typed.type in HOST_NUMBERS:
        if whole:
            return typed
        return site.body.convert(typed, types.FLOAT, argument.value.span, lambda: f"`{site.name}`")
    if not isinstance(typed.type, Tensor):
        site.fail("E0301", f"`{site.name}` takes a tensor or a host number, found {typed.type}", argument.value.span)
    if typed.type.element is Element.BOOL or not (whole or typed.type.element.is_float):
        wanted = "numbers" if whole else "floats"
        site.fail("E0310", f"`{site.name}` is for {wanted}, found {typed.type}", argument.value.span, "convert with f32(...)")
    return typed


def _unary(op: str, whole: bool = False) -> Handler:
    def handler(site: Site) -> Typed:
        typed = _number(site, site.arguments(("x",))["x"], whole)
        return Typed(typed.type, (site.body.builder.op(op, typed.value),))

    return handler


def _extreme(op: str) -> Handler:
    """`minimum(x, y)`, `maximum(x, y)`: of tensors by name, of a tensor and a host number, of two host numbers."""

    def handler(site: Site) -> Typed:
        found = site.arguments(("x", "y"))
        left, right = (_number(site, found[name], whole=True) for name in ("x", "y"))
        if isinstance(left.type, Tensor) or isinstance(right.type, Tensor):
            spans = (found["x"].value.span, found["y"].value.span)
            values, kind = tensor_pair(site.body, site.name, left, right, site.span, spans)
            return Typed(kind, (site.body.builder.op(op, *values),))
        if left.type != right.type:
            left, right = (site.body.convert(side, types.FLOAT, site.span, lambda: f"`{site.name}`") for side in (left, right))
        return Typed(left.type, (site.body.builder.op(op, left.value, right.value),))

    return handler


def _spread(site: Site, number: Typed, x: Typed) -> Value:
    """A host number as one of x's, at each place of x."""
    assert isinstance(x.type, Tensor | types.Scalar)
    if not isinstance(x.type, Tensor):
        return site.body.convert(number, x.type, site.span, lambda: f"`{site.name}`").value
    adapted = site.body.host_number(number, x.type.element)
    return site.body.builder.broadcast(adapted, tuple(axis.size for axis in x.type.axes), ())


def _clamp(site: Site) -> Typed:
    """`clamp(x, low, high)`: minimum(maximum(x, low), high)."""
    found = site.arguments(("x", "low", "high"))
    x = _number(site, found["x"], whole=True)
    is_whole = x.type == types.INT or (isinstance(x.type, Tensor) and x.type.element is Element.I64)
    low, high = (site.value(found[name], types.INT if is_whole else types.FLOAT) for name in ("low", "high"))
    if isinstance(low.constant, int | float) and isinstance(high.constant, int | float) and low.constant > high.constant:
        text = f"`clamp` keeps to a range, and {low.constant} lies above {high.constant}"
        site.fail("E0503", text, found["low"].value.span, "the lower bound comes first: clamp(x, low, high)")
    value = site.body.builder.op("maximum", x.value, _spread(site, low, x))
    return Typed(x.type, (site.body.builder.op("minimum", value, _spread(site, high, x)),))


def _leaky_relu(site: Site) -> Typed:
    found = site.arguments(("x",), ("slope",))
    x = _number(site, found["x"], whole=False)
    slope = _spread(site, host_float(site, found.get("slope"), 0.01), x)
    builder = site.body.builder
    zero = _spread(site, site.body.constant(0.0), x)
    return Typed(x.type, (builder.op("select", builder.op("gt", x.value, zero), x.value, builder.op("mul", x.value, slope)),))


def _elu(site: Site) -> Typed:
    found = site.arguments(("x",), ("alpha",))
    x = _number(site, found["x"], whole=False)
    alpha = _spread(site, host_float(site, found.get("alpha"), 1.0), x)
    return Typed(x.type, (site.body.builder.op("elu", x.value, alpha),))


def _pow(site: Site) -> Typed:
    found = site.arguments(("x", "y"))
    base, exponent = (site.evaluate(found[name]) for name in ("x", "y"))
    return real_power(site.body, "pow", base, exponent, site.span, (found["x"].value.span, found["y"].value.span))


HANDLERS: dict[str, Handler] = {
    **{name: _unary(name) for name in OF_FLOATS},
    **{name: _unary(name, whole=True) for name in OF_NUMBERS},
    **{name: _extreme(name) for name in ("minimum", "maximum")},
    "clamp": _clamp,
    "leaky_relu": _leaky_relu,
    "elu": _elu,
    "pow": _pow,
}
