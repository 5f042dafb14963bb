"""Gradients and modes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from shapescript.compiler.check import types
from shapescript.compiler.check.carried import carried_values, leave_region, names_carried_by
from shapescript.compiler.check.report import did_you_mean
from shapescript.compiler.check.site import Site, chosen
from shapescript.compiler.check.typed import Typed, Variable, split
from shapescript.compiler.check.types import Tensor
from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.syntax import tree


def _value_and_grad(site: Site) -> Typed:
    """The expression is evaluated once, in a region whose parameter is what the gradient is taken of. What it changes in `mut` variables
    comes out of it."""
    found = site.arguments(("value",), ("wrt", "nonfinite"))
    allowed = {"nonfinite": "allow"} if _allows_nonfinite(site, found) else {}
    variable = _differentiated(site, found)
    body, name, kind = site.body, variable.name, variable.typed.type
    changed = names_carried_by(body, found["value"].value)
    with body.region() as inner:
        parameter = Value(variable.typed.value.type, name)
        body.environment[name] = replace(variable, typed=Typed(kind, (parameter,)))
        loss, *others = _results(site, found["value"])
        more = [value for typed in others for value in typed.values]
        after = carried_values(body, changed)
        block = inner.block((parameter,), (*loss.values, *more, *after))
        made = body.made
    body.made |= made
    hints = ["loss", "gradient", *(value.hint for value in (*more, *after))]
    value, gradient, *rest = body.builder.emit("value_and_grad", variable.typed.value, regions=(block,), hints=hints, **allowed)
    leave_region(body, changed, rest[len(more) :])
    return Typed(types.Tuple((loss.type, *(other.type for other in others), kind)), (value, *rest[: len(more)], gradient))


def _allows_nonfinite(site: Site, found: Mapping[str, tree.Argument]) -> bool:
    """Whether a loss that isn't finite goes on to what the program does with it."""
    if "nonfinite" in found and site.evaluate(found["nonfinite"]).constant == "skip":
        text = '`nonfinite` of `value_and_grad` is "error" or "allow": there is no update here to skip'
        hint = 'write nonfinite="allow" here, and nonfinite="skip" at the `update`'
        site.fail("E0301", text, found["nonfinite"].value.span, hint)
    return chosen(site, found, "nonfinite", ("error", "allow"), "it decides what the program checks") == "allow"


def _differentiated(site: Site, found: Mapping[str, tree.Argument]) -> Variable:
    """The variable that `wrt` names: a model or a tensor of floats."""
    if "wrt" not in found:
        site.fail("E0302", "`value_and_grad` needs wrt=NAME: the model or tensor that the gradient is taken of")
    name = found["wrt"].value
    if not isinstance(name, tree.Name):
        text = f"`wrt` is the name of a model or tensor, and `{name.span.text}` is an expression"
        site.fail("E0803", text, name.span, "bind it to a name before, and use that name in the loss too")
    variable = site.body.variable(name.name)
    if variable is None:
        site.fail("E0201", f"`{name.name}` is no variable", name.span, did_you_mean(name.name, site.body.environment))
    kind = variable.typed.type
    if not isinstance(kind, types.Model) and not (isinstance(kind, Tensor) and kind.element.is_float):
        site.fail("E0803", f"the gradient is taken of a model or a tensor of floats, not of {kind}", name.span)
    return variable


def _results(site: Site, argument: tree.Argument) -> tuple[Typed, ...]:
    """The loss, and what the expression gives behind it."""
    found = site.evaluate(argument)
    results = split(found.type, found.values) if isinstance(found.type, types.Tuple) and found.type.elements else (found,)
    loss = results[0]
    if not isinstance(loss.type, Tensor) or loss.type.axes or not loss.type.element.is_float:
        what = f"and the first result is {loss.type}" if len(results) > 1 else f"found {loss.type}"
        hint = "reduce it, for instance with mean(over=...)"
        site.fail("E0802", f"a gradient is taken of a `[]`, {what}", argument.value.span, hint)
    return results


def _train(site: Site) -> Typed:
    seed = site.value(site.arguments(("seed",))["seed"], types.INT)
    return Typed(types.MODE, site.body.builder.emit("mode_train", seed.value))


def _training(site: Site) -> Typed:
    """Whether a mode is `Train`."""
    mode = site.value(site.arguments(("mode",))["mode"], types.MODE)
    return Typed(types.BOOL, site.body.builder.emit("mode_is_train", mode.value))


HANDLERS = {
    "value_and_grad": _value_and_grad,
    "Train": _train,
    "training": _training,
}
