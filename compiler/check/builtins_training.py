"""Optimisers, their updates, and the clipping of a gradient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from shapescript.compiler.check import types
from shapescript.compiler.check.places import assign, check_aliasing, mut_place
from shapescript.compiler.check.site import Handler, Site, chosen, host_float, in_range
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.ir.nodes import Block, Value
from shapescript.compiler.ir.types import Element
from shapescript.compiler.numerics.norms import CLIP_EPSILON
from shapescript.compiler.numerics.optimisers import KINDS, OptimiserConstant, OptimiserKind
from shapescript.compiler.ops.build import Builder
from shapescript.compiler.syntax import tree

NONFINITE = ("error", "skip", "allow")


def _clip_norm(site: Site) -> Typed:
    """Scales by min(1, limit / (norm + 1e-6)), in f64, and by 1 for a norm that isn't finite; gives the norm before."""
    found = site.arguments(("gradient", "limit"), mutable=("gradient",))
    limit = site.value(found["limit"], types.FLOAT)
    place, gradient = mut_place(site.body, found["gradient"])
    if not isinstance(gradient.type, types.Model):
        site.fail("E0301", f"`clip_norm` takes a model's gradient, found {gradient.type}", found["gradient"].value.span)
    in_range(site, "limit", limit, found["limit"].value.span)
    builder = site.body.builder
    norm = builder.op("global_norm", gradient.value, hint="norm")
    ratio = builder.op("div", limit.value, builder.op("add", norm, builder.float_constant(CLIP_EPSILON)))
    one = builder.float_constant(1.0)
    scales = builder.op("and", builder.op("lt", ratio, one), builder.op("all_finite", norm))
    factor = builder.op("select", scales, ratio, one)
    assign(site.body, place, Typed(gradient.type, (builder.op("scale_model", gradient.value, factor),)))
    return Typed(types.FLOAT, (norm,))


def _check_finite(site: Site) -> Typed:
    """Stops the step (R1105) where a trained parameter's gradient isn't finite; `update` does so itself."""
    argument = site.arguments(("gradient",))["gradient"]
    gradient = site.evaluate(argument)
    if not isinstance(gradient.type, types.Model):
        site.fail("E0301", f"`check_finite` takes a model's gradient, found {gradient.type}", argument.value.span)
    site.body.builder.emit("check_finite", gradient.value, what="gradient")
    return Typed(types.NOTHING)


def _update(site: Site) -> Typed:
    found = site.arguments(("model", "optimiser", "gradient", "lr"), ("nonfinite",), mutable=("model", "optimiser"))
    gradient, rate = site.evaluate(found["gradient"]), site.value(found["lr"], types.FLOAT)
    model_place, model = mut_place(site.body, found["model"])
    opt_place, opt = mut_place(site.body, found["optimiser"])
    if not isinstance(model.type, types.Model):
        site.fail("E0301", f"`update` takes a model, found {model.type}", found["model"].value.span)
    if not isinstance(opt.type, types.Optimiser) or opt.type.model != model.type.model:
        kind = opt.type.kind if isinstance(opt.type, types.Optimiser) else "AdamW"
        text = f"`update` takes an optimiser of the model, such as {kind}[{model.type}], found {opt.type}"
        site.fail("E0301", text, found["optimiser"].value.span, f"{kind}({found['model'].value.span.text}) makes one")
    if gradient.type != model.type:
        site.fail("E0301", f"`update` takes a gradient of type {model.type}, found {gradient.type}", found["gradient"].value.span)
    in_range(site, "lr", rate, found["lr"].value.span)
    check_aliasing(site.body, [(found["model"], model_place), (found["optimiser"], opt_place), (found["gradient"], None)])
    nonfinite = chosen(site, found, "nonfinite", NONFINITE, "it decides what the program checks")
    new_model, new_opt = _updated(site.body.builder, nonfinite, opt.type.kind, (model.value, opt.value, gradient.value, rate.value))
    assign(site.body, model_place, Typed(model.type, (new_model,)))
    assign(site.body, opt_place, Typed(opt.type, (new_opt,)))
    return Typed(types.NOTHING)


def _updated(builder: Builder, nonfinite: str, kind: str, operands: Sequence[Value]) -> tuple[Value, ...]:
    """The model and the state after an update, or as they are where a gradient that isn't finite is to be skipped."""
    model, state, gradient, _ = operands
    if nonfinite == "error":
        builder.emit("check_finite", gradient, what="gradient")
    is_finite = builder.op("all_finite", gradient) if nonfinite == "skip" else None
    inner = builder if is_finite is None else Builder(builder.span)
    factor = inner.constant(1.0, Element.F32)
    changed = inner.emit("update", *operands, factor, kind=kind, hints=("model", "opt"))
    if is_finite is None:
        return changed
    regions = (inner.block((), changed), Block((), (), (model, state)))
    return builder.emit("if", is_finite, regions=regions, hints=("model", "opt"))


# ---- the kinds of optimisers


def _optimiser(kind: OptimiserKind, site: Site) -> Typed:
    found = site.arguments(("model",), [constant.name for constant in kind.constants])
    model = site.evaluate(found["model"])
    if not isinstance(model.type, types.Model):
        site.fail("E0301", f"`{kind.name}` takes a model, found {model.type}", found["model"].value.span)
    given = {constant.name: _constant(site, constant, found.get(constant.name)) for constant in kind.constants}
    for constant in kind.constants:
        if constant.range is not None and constant.name in found:
            in_range(site, constant.name, given[constant.name], found[constant.name].value.span)
    if "nesterov" in found:
        in_range(site, "nesterov", _nesterov_momentum(site, given), found["nesterov"].value.span)
    numbers = [_number(site, given[constant.name]) for constant in kind.constants]
    return Typed(types.Optimiser(kind.name, model.type.model), site.body.builder.emit("optimiser", model.value, *numbers, kind=kind.name))


def _constant(site: Site, constant: OptimiserConstant, argument: tree.Argument | None) -> Typed:
    if not constant.is_flag:
        return host_float(site, argument, constant.default)
    return site.body.constant(bool(constant.default)) if argument is None else site.value(argument, types.BOOL)


def _number(site: Site, constant: Typed) -> Value:
    """A constant as the state keeps it: a flag is 0.0 or 1.0."""
    if isinstance(constant.constant, bool):
        return site.body.builder.float_constant(float(constant.constant))
    return site.body.builder.convert(constant.value, Element.F64)


def _nesterov_momentum(site: Site, given: Mapping[str, Typed]) -> Typed:
    """The momentum that a Nesterov step would have: 0 where there is a dampening, and 1 where no such step is asked for."""
    flag, momentum, dampening = (given[name] for name in ("nesterov", "momentum", "dampening"))
    if flag.constant is False:
        return site.body.constant(1.0)
    if all(one.constant is not None for one in (flag, momentum, dampening)):
        return site.body.constant(float(momentum.constant or 0.0) if dampening.constant == 0.0 else 0.0)
    builder = site.body.builder
    zero, one = builder.float_constant(0.0), builder.float_constant(1.0)
    usable = builder.op("select", builder.op("eq", dampening.value, zero), momentum.value, zero)
    return Typed(types.FLOAT, (builder.op("select", flag.value, usable, one),))


HANDLERS: dict[str, Handler] = {
    "check_finite": _check_finite,
    "clip_norm": _clip_norm,
    "update": _update,
    **{kind.name: partial(_optimiser, kind) for kind in KINDS.values()},
}
