"""What meets a requirement at a call: the one declaration that fits in the module that declares the model; if that module has none, the one
that fits in the caller's module. A generic caller passes on what it requires itself."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from shapescript.compiler.check import types
from shapescript.compiler.check.axes import agree
from shapescript.compiler.check.binding import Binding, fits
from shapescript.compiler.check.generics import Instances, declaring_module, infer, instance_signature, takes, written
from shapescript.compiler.check.program import Signature
from shapescript.compiler.check.report import Report, Reported
from shapescript.compiler.check.scope import FunctionEntity, FunctionInfo, ModuleScope
from shapescript.compiler.check.types import Type, TypeMap
from shapescript.compiler.diagnostics.model import Label, Span
from shapescript.compiler.ir.sizes import InexactDivision
from shapescript.compiler.records.dataclass import dataclass


@dataclass(frozen=True)
class Resolver:
    """Meets the requirements of what is called at one place, `span`, in `caller`."""

    instances: Instances
    caller: FunctionInfo
    span: Span
    report: Report

    def resolve(self, callee: FunctionInfo, given: TypeMap) -> tuple[FunctionInfo, ...]:
        """The functions that meet the callee's requirements with these types, in order. E2311, E2312, E2313 or E2314 at the call."""
        return tuple(self._one(instance_signature(stated, given), stated, callee) for stated in callee.signature.requirements)

    def _one(self, wanted: Signature, stated: Signature, callee: FunctionInfo) -> FunctionInfo:
        own = [info for info in self.caller.required if info.signature.name == wanted.name]
        passed = [info for info in own if differences(wanted, info) == []]
        if passed:
            return passed[0]
        label = Label(stated.span, f"`{callee.signature.name}` requires it here")
        if _is_open(wanted):
            self.report.fail(
                "E2313",
                f"`{callee.signature.name}` requires `{wanted.name}`: `{self.caller.signature.name}`, being generic, must state that too",
                self.span,
                [label, Label(self.caller.signature.span, "state it here")],
                f"requires {written(wanted).removeprefix('fn ').removesuffix(':')}",
            )
        home = self.instances.scopes.get(declaring_module(wanted) or "")
        places = list(dict.fromkeys(place for place in (home, self.caller.scope) if place is not None))
        for place in places:
            fitting = [(info, made) for info in _declared(place, wanted.name) if (made := _fitted(wanted, info)) is not None]
            if len(fitting) > 1:
                labels = [Label(info.signature.span, "this one fits") for info, _ in fitting]
                what = f"{len(fitting)} functions `{wanted.name}` meet what `{callee.signature.name}` requires"
                self.report.fail("E2312", what, self.span, [*labels, label])
            if fitting:
                return self._made(*fitting[0], label)
        self._missing(wanted, callee, places, label)

    def _made(self, info: FunctionInfo, given: TypeMap, label: Label) -> FunctionInfo:
        """The declaration itself, or its instance for these types where it is generic."""
        if not info.signature.types:
            return info
        key = (info.signature.key, tuple(given.items()))
        if key in self.instances.resolving:
            message = f"what meets the requirement of `{info.signature.name}` is `{info.signature.name}` itself"
            self.report.fail("E2314", message, self.span, [label])
        self.instances.resolving.add(key)
        required = self.resolve(info, given)
        self.instances.resolving.discard(key)
        return self.instances.instance(info, given, required)

    def _missing(self, wanted: Signature, callee: FunctionInfo, places: list[ModuleScope], label: Label) -> NoReturn:
        found = [info for place in places for info in _declared(place, wanted.name)]
        labels = [Label(info.signature.span, "; ".join(differences(wanted, info))) for info in found]
        what = "none fits of those" if found else "none is declared"
        where = " or ".join(place.source.path.rsplit("/", 1)[-1] for place in places)
        self.report.fail(
            "E2311",
            f"`{callee.signature.name}` requires a function `{wanted.name}`, and {what} in {where}",
            self.span,
            [*labels, label],
            f"declare it beside the model:\n\n    {written(wanted)}\n        return ...",
        )


def _is_open(wanted: Signature) -> bool:
    """Whether a type parameter of the caller is still in it."""
    for parameter in wanted.parameters:
        match parameter.type:
            case types.Model(model) | types.Optimiser(_, model) if model.is_open:
                return True
            case types.Batch(record) | types.Dataset(record) if record.is_parameter:
                return True
    return False


def _declared(scope: ModuleScope, name: str) -> tuple[FunctionInfo, ...]:
    entity = scope.entities.get(name)
    return entity.overloads if isinstance(entity, FunctionEntity) else ()


def _fitted(wanted: Signature, info: FunctionInfo) -> TypeMap | None:
    """What the declaration's type parameters are where it meets the requirement; None where it doesn't."""
    if not info.signature.types:
        return {} if differences(wanted, info) == [] else None
    if len(info.signature.parameters) != len(wanted.parameters):
        return None
    pairs = zip(info.signature.parameters, wanted.parameters, strict=True)
    if not all(takes(info.signature.types, theirs.type, ours.type) in (True, None) for theirs, ours in pairs):
        return None
    arguments = [(theirs, ours.type, info.signature.span)
                 for theirs, ours in zip(info.signature.parameters, wanted.parameters, strict=True)]  # fmt: skip
    try:
        given = infer(info.signature, arguments, info.signature.span, Report())
    except Reported:
        return None
    made = replace(info, signature=instance_signature(info.signature, given))
    return given if differences(wanted, made) == [] else None


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
