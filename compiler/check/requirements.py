"""What meets a requirement at a call: the one declaration that fits in the module that declares the model; if that module has none, the one
that fits in the caller's module. A generic caller passes on what it requires itself."""

from __future__ import annotations

from shapescript.compiler.check import types
from shapescript.compiler.check.axes import agree
from shapescript.compiler.check.binding import Binding, fits
from shapescript.compiler.check.generics import declaring_module, instance_signature, written
from shapescript.compiler.check.program import Signature
from shapescript.compiler.check.report import Report, Reported
from shapescript.compiler.check.scope import FunctionEntity, FunctionInfo, ModuleScope
from shapescript.compiler.check.types import Type, TypeMap
from shapescript.compiler.diagnostics.model import Label, Span
from shapescript.compiler.ir.sizes import InexactDivision


def resolve(
    callee: FunctionInfo, given: TypeMap, caller: FunctionInfo, scopes: dict[str, ModuleScope], span: Span, report: Report
) -> tuple[FunctionInfo, ...]:
    """The functions that meet the callee's requirements with these types, in order. E2311, E2312 or E2313 at the call."""
    return tuple(
        _one(instance_signature(requirement, given), requirement, callee, caller, scopes, span, report)
        for requirement in callee.signature.requirements
    )


def _one(
    wanted: Signature,
    stated: Signature,
    callee: FunctionInfo,
    caller: FunctionInfo,
    scopes: dict[str, ModuleScope],
    span: Span,
    report: Report,
) -> FunctionInfo:
    own = [info for info in caller.required if info.signature.name == wanted.name]
    passed = [info for info in own if differences(wanted, info) == []]
    if passed:
        return passed[0]
    label = Label(stated.span, f"`{callee.signature.name}` requires it here")
    if _is_open(wanted):
        report.fail(
            "E2313",
            f"`{callee.signature.name}` requires `{wanted.name}`, and `{caller.signature.name}`, being generic, must state that too",
            span,
            [label, Label(caller.signature.span, "state it here")],
            f"requires {written(wanted).removeprefix('fn ').removesuffix(':')}",
        )
    home = scopes.get(declaring_module(wanted) or "")
    places = [place for place in (home, caller.scope) if place is not None]
    for place in dict.fromkeys(places):
        fitting = [info for info in _declared(place, wanted.name) if differences(wanted, info) == []]
        if len(fitting) > 1:
            labels = [Label(info.signature.span, "this one fits") for info in fitting]
            report.fail(
                "E2312", f"{len(fitting)} functions `{wanted.name}` meet what `{callee.signature.name}` requires", span, [*labels, label]
            )
        if fitting:
            return fitting[0]
    _missing(wanted, callee, places, span, report, label)
    raise Reported


def _is_open(wanted: Signature) -> bool:
    """Whether a type parameter of the caller is still in it."""
    for parameter in wanted.parameters:
        match parameter.type:
            case types.Model(model) | types.Optimiser(_, model) if model.is_parameter:
                return True
            case types.Batch(record) | types.Dataset(record) if record.is_parameter:
                return True
    return False


def _declared(scope: ModuleScope, name: str) -> tuple[FunctionInfo, ...]:
    entity = scope.entities.get(name)
    return tuple(info for info in entity.overloads if not info.signature.types) if isinstance(entity, FunctionEntity) else ()


def _missing(wanted: Signature, callee: FunctionInfo, places: list[ModuleScope], span: Span, report: Report, label: Label) -> None:
    found = [info for place in dict.fromkeys(places) for info in _declared(place, wanted.name)]
    labels = [Label(info.signature.span, "; ".join(differences(wanted, info))) for info in found]
    what = "none fits of those" if found else "none is declared"
    where = " or ".join(_shown(place) for place in dict.fromkeys(places))
    report.fail(
        "E2311",
        f"`{callee.signature.name}` requires a function `{wanted.name}`, and {what} in {where}",
        span,
        [*labels, label],
        f"declare it beside the model:\n\n    {written(wanted)}\n        return ...",
    )


def _shown(scope: ModuleScope) -> str:
    return scope.source.path.rsplit("/", 1)[-1]


def differences(wanted: Signature, info: FunctionInfo) -> list[str]:
    """What a declaration has otherwise than the requirement; nothing where it fits."""
    found = info.signature
    if len(found.parameters) != len(wanted.parameters):
        return [f"takes {len(found.parameters)} parameters, {len(wanted.parameters)} are wanted"]
    different: list[str] = []
    scratch = Report()
    binding = Binding(found, scratch, found.span)
    for ours, theirs in zip(wanted.parameters, found.parameters, strict=True):
        if ours.mutable != theirs.mutable:
            different.append(f"`{theirs.name}` {'is' if theirs.mutable else 'is not'} `mut`")
        if not _exactly(theirs.type, ours.type):
            different.append(f"`{theirs.name}` is {theirs.type}, {ours.type} is wanted")
            continue
        try:
            binding.parameter(theirs, ours.type, found.span)
        except (Reported, InexactDivision, ZeroDivisionError):
            different.append(f"`{theirs.name}` is {theirs.type}, {ours.type} is wanted")
    if different:
        return different
    try:
        binding.finish()
        result = binding.result(found.result)
    except (Reported, InexactDivision, ZeroDivisionError):
        return ["its sizes don't follow from its parameters"]
    if any(symbol not in binding.axes for symbol in found.dims):
        return ["a dim of it is bound by no parameter"]
    return [] if _same_result(wanted.result, result) else [f"gives {found.result}, {wanted.result} is wanted"]


def _exactly(parameter: Type, argument: Type) -> bool:
    """Fits without a conversion: what the generic function passes is of just this type."""
    if isinstance(parameter, types.Scalar) or isinstance(argument, types.Scalar):
        return parameter == argument or (parameter == types.FLOAT and argument == types.INT)
    return fits(parameter, argument)


def _same_result(wanted: Type, found: Type) -> bool:
    if isinstance(wanted, types.Tensor) and isinstance(found, types.Tensor):
        same = wanted.element == found.element and len(wanted.axes) == len(found.axes)
        return same and all(agree(one, other) for one, other in zip(wanted.axes, found.axes, strict=True))
    return wanted == found
