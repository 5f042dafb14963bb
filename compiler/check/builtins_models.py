"""Gradients, clipping, optimisers, modes."""

from __future__ import annotations

from dataclasses import replace

from shapescript.compiler.check import types
from shapescript.compiler.check.places import assign, check_aliasing, mut_place
from shapescript.compiler.check.report import did_you_mean
from shapescript.compiler.check.site import Site, host_float
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.check.types import Tensor
from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ir.types import Element
from shapescript.compiler.syntax import tree

BETAS = (0.9, 0.999)
EPSILON = 1e-8
DECAY = 0.01
CLIP_EPSILON = 1e-6


def _value_and_grad(site: Site) -> Typed:
    """The expression is evaluated once, in a region whose parameter is what the gradient is taken of."""
    found = site.arguments(("value",), ("wrt",))
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
    with site.body.region() as inner:
        parameter = Value(variable.typed.value.type, name.name)
        site.body.environment[name.name] = replace(variable, typed=Typed(kind, (parameter,)), mutable=False)
        before, site.body.in_gradient = site.body.in_gradient, True
        try:
            loss = site.evaluate(found["value"])
        finally:
            site.body.in_gradient = before
        if not isinstance(loss.type, Tensor) or loss.type.axes or not loss.type.element.is_float:
            site.fail(
                "E0802",
                f"a gradient is taken of a `[]`, found {loss.type}",
                found["value"].value.span,
                "reduce it, for instance with mean(over=...)",
            )
        block = inner.block((parameter,), loss.values)
    results = site.body.builder.emit("value_and_grad", variable.typed.value, regions=(block,), hints=("loss", "gradient"))
    return Typed(types.Tuple((loss.type, kind)), results)


def _clip_norm(site: Site) -> Typed:
    """Scales by min(1, limit / (norm + 1e-6)), in f64, rounded once to f32; gives the norm before."""
    found = site.arguments(("gradient", "limit"), mutable=("gradient",))
    limit = site.value(found["limit"], types.FLOAT)
    place, gradient = mut_place(site.body, found["gradient"])
    if not isinstance(gradient.type, types.Model):
        site.fail("E0301", f"`clip_norm` takes a model's gradient, found {gradient.type}", found["gradient"].value.span)
    if isinstance(limit.constant, float) and not limit.constant > 0.0:
        site.fail("E0503", f"the norm is clipped to a number above 0, not {limit.constant}", found["limit"].value.span)
    builder = site.body.builder
    norm = builder.op("global_norm", gradient.value, hint="norm")
    ratio = builder.op("div", limit.value, builder.op("add", norm, builder.float_constant(CLIP_EPSILON)))
    one = builder.float_constant(1.0)
    factor = builder.convert(builder.op("select", builder.op("lt", ratio, one), ratio, one), Element.F32)
    assign(site.body, place, Typed(gradient.type, (builder.op("scale_model", gradient.value, factor),)))
    return Typed(types.FLOAT, (norm,))


def _update(site: Site) -> Typed:
    found = site.arguments(("model", "optimiser", "gradient", "lr"), mutable=("model", "optimiser"))
    gradient, rate = site.evaluate(found["gradient"]), site.value(found["lr"], types.FLOAT)
    model_place, model = mut_place(site.body, found["model"])
    opt_place, opt = mut_place(site.body, found["optimiser"])
    if not isinstance(model.type, types.Model):
        site.fail("E0301", f"`update` takes a model, found {model.type}", found["model"].value.span)
    if opt.type != types.Optimiser("AdamW", model.type.model):
        site.fail("E0301", f"`update` takes the model's optimiser AdamW[{model.type}], found {opt.type}", found["optimiser"].value.span)
    if gradient.type != model.type:
        site.fail("E0301", f"`update` takes a gradient of type {model.type}, found {gradient.type}", found["gradient"].value.span)
    if isinstance(rate.constant, float) and rate.constant < 0.0:
        site.fail("E0503", f"a rate is at least 0, not {rate.constant}", found["lr"].value.span)
    check_aliasing(site.body, [(found["model"], model_place), (found["optimiser"], opt_place), (found["gradient"], None)])
    builder = site.body.builder
    builder.emit("check_finite", gradient.value, what="gradient")
    factor = builder.constant(1.0, Element.F32)
    new_model, new_opt = builder.emit(
        "update", model.value, opt.value, gradient.value, rate.value, factor, kind="AdamW", hints=("model", "opt")
    )
    assign(site.body, model_place, Typed(model.type, (new_model,)))
    assign(site.body, opt_place, Typed(opt.type, (new_opt,)))
    return Typed(types.NOTHING)


def _adamw(site: Site) -> Typed:
    found = site.arguments(("model",), ("beta1", "beta2", "eps", "decay"))
    model = site.evaluate(found["model"])
    if not isinstance(model.type, types.Model):
        site.fail("E0301", f"`AdamW` takes a model, found {model.type}", found["model"].value.span)
    defaults = {"beta1": BETAS[0], "beta2": BETAS[1], "eps": EPSILON, "decay": DECAY}
    numbers = [host_float(site, found.get(name), default).value for name, default in defaults.items()]
    return Typed(types.Optimiser("AdamW", model.type.model), site.body.builder.emit("optimiser", model.value, *numbers, kind="AdamW"))


def _train(site: Site) -> Typed:
    seed = site.value(site.arguments(("seed",))["seed"], types.INT)
    return Typed(types.MODE, site.body.builder.emit("mode_train", seed.value))


HANDLERS = {"value_and_grad": _value_and_grad, "clip_norm": _clip_norm, "update": _update, "AdamW": _adamw, "Train": _train}
