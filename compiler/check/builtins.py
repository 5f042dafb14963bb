"""What is built in, by name: tensor functions here, models and data in the modules beside."""
from __future__ import annotations

from collections.abc import Callable

from shapescript.compiler.check import builtins_data, builtins_files, builtins_models, patterns, types
from shapescript.compiler.check.axes import agree
from shapescript.compiler.check.body import Body
from shapescript.compiler.check.operators import spread_by_name
from shapescript.compiler.check.site import Site
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.check.types import Tensor
from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ir.sizes import Size, number, of
from shapescript.compiler.ir.types import Element
from shapescript.compiler.syntax import tree

Handler = Callable[[Site], Typed]

# Functions of language.md that this version does not compile yet: E0902 where one is called.
NOT_BUILT = (
    "split", "repeat", "concat", "stack", "where", "masked_fill", "one_hot", "gather", "scatter_add", "cumsum", "sort", "topk", "arange", "eye",
    "causal", "checkpoint", "logsumexp", "variance", "any", "all", "log1p", "expm1", "rsqrt", "sin", "cos", "erf", "gelu", "silu", "softplus",
    "leaky_relu", "elu", "sign", "floor", "round", "pow", "clamp", "csv", "tensorboard", "memory", "tee", "Sgd", "Adam", "Lion",
)


def _unary(op: str, host: bool = False) -> Handler:
    """An elementwise function; some are for host floats too."""
    def handler(site: Site) -> Typed:
        argument = site.arguments(("x",))["x"]
        typed = site.evaluate(argument)
        if host and typed.type in (types.INT, types.FLOAT):
            if op == "abs" and typed.type == types.INT:
                site.body.report.not_built("abs of a host int", site.span)
            number_ = site.body.convert(typed, types.FLOAT, site.span, lambda: f"`{site.name}`")
            return Typed(types.FLOAT, (site.body.builder.op(op, number_.value),))
        if not isinstance(typed.type, Tensor) or not typed.type.element.is_float:
            site.fail("E0310" if isinstance(typed.type, Tensor) else "E0301", f"`{site.name}` takes a tensor of floats, found {typed.type}",
                      argument.value.span)
        return Typed(typed.type, (site.body.builder.op(op, typed.value),))
    return handler


def _binary(op: str) -> Handler:
    def handler(site: Site) -> Typed:
        found = site.arguments(("x", "y"))
        (left, left_type), (right, right_type) = (site.tensor(found[name]) for name in ("x", "y"))
        if left_type.element != right_type.element:
            site.fail("E0310", f"`{site.name}` of elements {left_type.element.value} and {right_type.element.value}")
        spans = (found["x"].value.span, found["y"].value.span)
        one, other, axes = spread_by_name(site.body, left, right, site.span, spans)
        return Typed(Tensor(left_type.element, axes), (site.body.builder.op(op, one, other),))
    return handler


def _conversion(element: Element, host: types.Scalar) -> Handler:
    """`f32(x)`, `f64(x)`, `int(x)`, `float(x)`: of a tensor, or of a host number."""
    def handler(site: Site) -> Typed:
        argument = site.arguments(("x",))["x"]
        typed = site.evaluate(argument)
        value = site.body.builder.convert(typed.value, element) if len(typed.values) == 1 and isinstance(typed.type, Tensor | types.Scalar) else None
        if value is None or typed.type == types.STR:
            site.fail("E0301", f"`{site.name}` converts numbers, found {typed.type}", argument.value.span)
        if isinstance(typed.type, Tensor) and (typed.type.axes or site.name not in ("int", "float")):
            return Typed(Tensor(element, typed.type.axes), (value,))
        return Typed(Tensor(element) if site.name == "f32" else host, (value,))
    return handler


def _reduction(op: str) -> Handler:
    def handler(site: Site) -> Typed:
        found = site.arguments(("x",), ("over",))
        operand, kind = site.tensor(found["x"], floats=op == "mean")
        places = site.axes_over(found.get("over"), kind)
        axes = tuple(axis for place, axis in enumerate(kind.axes) if place not in places)
        value, element = operand.value, kind.element
        if op.startswith("arg"):
            if len(places) != 1:
                site.fail("E0407", f"`{op}` is over one axis")
            element = Element.I64
        if op in ("max", "min"):    # one axis after another: the same value, and a derivative for each
            for place in reversed(places):
                value = site.body.builder.op(op, value, positions=(place,))
        else:
            value = site.body.builder.op(op, value, positions=places)
        return Typed(Tensor(element, axes), (value,))
    return handler


def _softmax(site: Site) -> Typed:
    found = site.arguments(("x",), ("over",))
    operand, kind = site.tensor(found["x"])
    places = site.axes_over(found.get("over"), kind)
    if len(places) != 1:
        site.fail("E0407", "`softmax` is over one axis")
    return Typed(kind, (site.body.builder.op("softmax", operand.value, positions=places),))


def _with_labels(site: Site) -> tuple[Value, Value, tuple[types.Axis, ...]]:
    """Logits with the class axis last and the other axes in the labels' order; the class axis is the one that the labels lack."""
    found = site.arguments(("logits", "label"))
    logits, kind = site.tensor(found["logits"])
    labels = site.evaluate(found["label"])
    if not isinstance(labels.type, Tensor) or labels.type.element is not Element.I64:
        site.fail("E0301", f"`{site.name}` takes labels of type int[...], found {labels.type}", found["label"].value.span)
    places: list[int] = []
    for axis in labels.type.axes:
        at = [place for place, other in enumerate(kind.axes) if agree(axis, other) and place not in places]
        if len(at) != 1:
            site.fail("E0402" if not at else "E0403", f"axis {axis} of the labels {labels.type} is {'not' if not at else 'twice'} in the logits {kind}",
                      found["label"].value.span)
        places.append(at[0])
    missing = [place for place in range(len(kind.axes)) if place not in places]
    if len(missing) != 1:
        listed = ", ".join(kind.axes[place].name for place in missing) or "none"
        site.fail("E0406", f"the class axis is the one of the logits {kind} that the labels {labels.type} lack; they lack {listed}")
    permutation = (*places, missing[0])
    value = logits.value
    if permutation != tuple(range(len(permutation))):
        value = site.body.builder.op("transpose", value, permutation=permutation)
    return value, labels.value, labels.type.axes


def _cross_entropy(site: Site) -> Typed:
    logits, labels, _ = _with_labels(site)
    loss, _ = site.body.builder.emit("cross_entropy", logits, labels, hints=("loss", "probabilities"))
    kind = loss.type
    return Typed(types.Tensor(kind.element), (loss,))  # type: ignore[union-attr]


def _accuracy(site: Site) -> Typed:
    """The share of rows whose largest logit (the first, where several are) is at the label: a host float."""
    logits, labels, axes = _with_labels(site)
    builder = site.body.builder
    chosen = builder.op("argmax", logits, positions=(len(axes),))
    hits = builder.convert(builder.op("eq", chosen, labels), Element.F64)
    return Typed(types.FLOAT, (builder.op("mean", hits, positions=tuple(range(len(axes)))) if axes else hits,))


def _dropout(site: Site) -> Typed:
    found = site.arguments(("x", "rate", "mode"))
    operand, kind = site.tensor(found["x"])
    rate = site.value(found["rate"], types.FLOAT)
    if isinstance(rate.constant, float) and not 0.0 <= rate.constant < 1.0:
        site.fail("E0503", f"a dropout rate is at least 0 and below 1, not {rate.constant}", found["rate"].value.span)
    mode = site.value(found["mode"], types.MODE)
    seed, draw = site.body.builder.emit("mode_draw", mode.value, hints=("seed", "draw"))
    return Typed(kind, (site.body.builder.op("dropout", operand.value, rate.value, seed, draw),))


def _stop_gradient(site: Site) -> Typed:
    operand, kind = site.tensor(site.arguments(("x",))["x"], floats=False)
    return Typed(kind, (site.body.builder.op("stop_gradient", operand.value),))


# ---- patterns -------------------------------------------------------------------------------------------------------------------------------

def _pattern_call(site: Site) -> tuple[list[tree.Argument], dict[str, Size]]:
    if site.node.pattern is None:
        site.fail("E0407", f"`{site.name}` needs a pattern, such as `{site.name}(x: b n -> n b)`")
    operands: list[tree.Argument] = []
    given: dict[str, Size] = {}
    for argument in site.node.arguments:
        if argument.is_mut:
            site.fail("E0604", f"`{site.name}` changes nothing: `mut` doesn't stand here", argument.span)
        if argument.name is None:
            operands.append(argument)
        else:
            given[argument.name.text] = _given_size(site, argument)
    return operands, given


def _given_size(site: Site, argument: tree.Argument) -> Size:
    """A factor given to a pattern: `h=8`, `h=Heads`."""
    node = argument.value
    if isinstance(node, tree.IntLiteral):
        return number(node.value)
    if isinstance(node, tree.Name):
        if node.name in site.body.context.names:
            return site.body.context.names[node.name].size
        symbols = dict(site.body.scope.dims())
        if node.name in symbols:
            return of(symbols[node.name])
    site.fail("E0409", "a factor is given as a number, a dim or an axis", node.span)


def _rearrange(site: Site) -> Typed:
    operands, given = _pattern_call(site)
    assert site.node.pattern is not None
    if len(operands) != 1:
        site.fail("E0302", f"`rearrange` takes one operand, found {len(operands)}")
    typed = site.evaluate(operands[0])
    if not isinstance(typed.type, Tensor):
        site.fail("E0301", f"`rearrange` takes a tensor, found {typed.type}", operands[0].value.span)
    return patterns.rearrange(site.body, typed, site.node.pattern, given, operands[0].value.span)


def _einsum(site: Site) -> Typed:
    operands, given = _pattern_call(site)
    assert site.node.pattern is not None
    typed = [site.tensor(operand)[0] for operand in operands]
    return patterns.einsum(site.body, typed, site.node.pattern, given, [operand.value.span for operand in operands])


def bracket_value(body: Body, name: str, node: tree.Bracket) -> Typed | None:
    """`zeros[b H]`, `ones[b H]`; None for a name that isn't built in this way."""
    if name in ("causal", "arange", "eye"):
        body.report.fail("E0902", f"`{name}[...]` is part of the language, but this version does not compile it yet", node.span)
    if name not in ("zeros", "ones"):
        return None
    match node.items:
        case (tree.AxisList(_, nodes),):
            axes = body.context.axes(nodes)
        case ():
            axes = ()
        case _:
            body.report.fail("E0301", "axes are separated by spaces", node.span)
    kind = Tensor(Element.F32, axes)
    (lowered,) = types.lower(kind)
    return Typed(kind, (body.builder.full(1.0 if name == "ones" else 0.0, lowered),))  # type: ignore[arg-type]


NAMES_AS_VALUES: dict[str, Callable[[Body], Typed]] = {
    "Eval": lambda body: Typed(types.MODE, body.builder.emit("mode_eval")),
}

BUILTINS: dict[str, Handler] = {
    **{name: _unary(name) for name in ("relu", "tanh", "sigmoid")},
    **{name: _unary(name, host=True) for name in ("exp", "log", "sqrt", "abs")},
    **{name: _binary(name) for name in ("minimum", "maximum")},
    **{name: _reduction(name) for name in ("sum", "mean", "max", "min", "argmax", "argmin")},
    "f32": _conversion(Element.F32, types.FLOAT),
    "f64": _conversion(Element.F64, types.FLOAT),
    "float": _conversion(Element.F64, types.FLOAT),
    "int": _conversion(Element.I64, types.INT),
    "softmax": _softmax,
    "cross_entropy": _cross_entropy,
    "accuracy": _accuracy,
    "dropout": _dropout,
    "stop_gradient": _stop_gradient,
    "rearrange": _rearrange,
    "einsum": _einsum,
    **builtins_models.HANDLERS,
    **builtins_data.HANDLERS,
    **builtins_files.HANDLERS,
}
