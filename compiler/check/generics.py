"""Generic functions: what their type parameters are at a call, what meets their requirements, and the instances that calls need.

A generic function is checked once by itself, its type parameters being models and records of which nothing is known. Each choice of
types then gives an instance, which is checked like any function: its IR knows no type parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from shapescript.compiler.check import types
from shapescript.compiler.check.program import Signature, SignatureParameter, TypeParameter
from shapescript.compiler.check.report import Report
from shapescript.compiler.check.scope import FunctionInfo, ModuleScope
from shapescript.compiler.check.types import Type, TypeMap, instantiate
from shapescript.compiler.diagnostics.model import Label, Span
from shapescript.compiler.ir.types import ModelType
from shapescript.compiler.records.dataclass import dataclass

Key = tuple[str, tuple[TypeParameter, ...], tuple[str, ...]]


@dataclass(eq=False)
class Instances:
    """The instances made so far, and those whose bodies are still to be checked. `scopes` are all modules by name."""

    scopes: Mapping[str, ModuleScope]
    made: dict[Key, FunctionInfo] = field(default_factory=dict)
    waiting: list[FunctionInfo] = field(default_factory=list)
    resolving: set[tuple[str, tuple[tuple[TypeParameter, TypeParameter], ...]]] = field(default_factory=set)

    def instance(self, info: FunctionInfo, given: TypeMap, required: tuple[FunctionInfo, ...]) -> FunctionInfo:
        """The function with these types and these functions for its requirements: made once."""
        arguments = tuple(given[parameter] for parameter in info.signature.types)
        key = (info.signature.key, arguments, tuple(one.signature.key for one in required))
        if key not in self.made:
            signature = replace(instance_signature(info.signature, given), key=f"{info.signature.key}<{len(self.made)}>")
            named = {name: instantiate(kind, given) for name, kind in info.types.items()}
            found = replace(info, signature=signature, types=named, required=required)
            self.made[key] = found
            if not any(is_open(argument) for argument in arguments):
                self.waiting.append(found)
        return self.made[key]


def instance_signature(signature: Signature, given: TypeMap) -> Signature:
    """The signature with types in the place of its type parameters."""
    parameters = tuple(replace(parameter, type=instantiate(parameter.type, given)) for parameter in signature.parameters)
    return replace(signature, parameters=parameters, result=instantiate(signature.result, given), types=(), requirements=())


# ---- inference --------------------------------------------------------------------------------------------------------------------------


def infer(signature: Signature, arguments: Sequence[tuple[SignatureParameter, Type, Span]], span: Span, report: Report) -> TypeMap:
    """What each type parameter is, by the arguments' types. E2303 where none says it, E2304 where two disagree, E2305 for a wrong kind."""
    given: dict[TypeParameter, TypeParameter] = {}
    sources: dict[TypeParameter, str] = {}
    for parameter, found, place in arguments:
        for variable, value in _pairs(parameter.type, found):
            if variable not in signature.types:
                continue
            if given.setdefault(variable, value) != value:
                report.fail(
                    "E2304",
                    f"`{signature.name}`: {variable} is {given[variable]} by `{sources[variable]}`, and {value} by `{parameter.name}`",
                    place,
                    [Label(parameter.span, "declared here")],
                )
            sources.setdefault(variable, parameter.name)
    missing = [variable for variable in signature.types if variable not in given]
    if missing:
        report.fail(
            "E2303",
            f"`{signature.name}`: no argument says what {missing[0]} is",
            span,
            [Label(signature.span, "declared here")],
        )
    return given


def _pairs(wanted: Type, found: Type) -> list[tuple[TypeParameter, TypeParameter]]:
    match wanted, found:
        case (types.Model(model), types.Model(other)) | (types.Optimiser(_, model), types.Optimiser(_, other)):
            return _model_pairs(model, other)
        case types.Record(), types.Record():
            return [(wanted, found)]
        case (types.Batch(record), types.Batch(other)) | (types.Dataset(record), types.Dataset(other)):
            return [(record, other)]
    return []


def _model_pairs(wanted: ModelType, found: ModelType) -> list[tuple[TypeParameter, TypeParameter]]:
    inside = [pair for one, other in zip(wanted.models, found.models, strict=False) for pair in _model_pairs(one, other)]
    return [(wanted, found), *inside]


def takes(parameters: Sequence[TypeParameter], wanted: Type, found: Type) -> bool | None:
    """Whether an argument fits a type that is, or is made of, one of the type parameters; None where none is in it."""
    match wanted, found:
        case types.Model(model), _ if _is_made_of(model, parameters):
            return isinstance(found, types.Model) and _matches(model, found.model, parameters)
        case types.Optimiser(kind, model), _ if _is_made_of(model, parameters):
            return isinstance(found, types.Optimiser) and found.kind == kind and _matches(model, found.model, parameters)
        case types.Record(), _ if wanted in parameters:
            return isinstance(found, types.Record)
        case types.Batch(record), _ if record in parameters:
            return isinstance(found, types.Batch)
        case types.Dataset(record, _, ordered), _ if record in parameters:
            return isinstance(found, types.Dataset) and found.ordered == ordered
    return None


def _is_made_of(model: ModelType, parameters: Sequence[TypeParameter]) -> bool:
    return model in parameters or any(_is_made_of(inner, parameters) for inner in model.models)


def _matches(wanted: ModelType, found: ModelType, parameters: Sequence[TypeParameter]) -> bool:
    if wanted in parameters:
        return True
    same = (wanted.name, wanted.module, wanted.elements) == (found.name, found.module, found.elements)
    same = same and len(wanted.models) == len(found.models)
    return same and all(_matches(one, other, parameters) for one, other in zip(wanted.models, found.models, strict=True))


def is_open(argument: TypeParameter) -> bool:
    """Whether a generic function's own type parameter is in it."""
    return argument.is_open if isinstance(argument, ModelType) else argument.is_parameter


def wrong_kind(parameters: Sequence[TypeParameter], wanted: Type, found: Type) -> str | None:
    """What to say where a model stands for a `data` parameter or a record for a `model` one."""
    if isinstance(wanted, types.Model) and wanted.model in parameters and isinstance(found, types.Record | types.Batch | types.Dataset):
        return f"{wanted} is a model, and {found} is made of a record"
    if isinstance(wanted, types.Batch | types.Dataset | types.Record) and isinstance(found, types.Model):
        record = wanted if isinstance(wanted, types.Record) else wanted.record
        if record in parameters:
            return f"{record} is a record of data, and {found} is a model"
    return None


def declaring_module(signature: Signature) -> str | None:
    """The module of the first model among a requirement's parameters: where the requirement is looked for first."""
    for parameter in signature.parameters:
        if isinstance(parameter.type, types.Model | types.Optimiser):
            return parameter.type.model.module
    return None


def written(signature: Signature) -> str:
    """A requirement as a declaration to paste."""
    parameters = ", ".join(f"{'mut ' if p.mutable else ''}{p.name}: {p.type}" for p in signature.parameters)
    result = "" if signature.result == types.NOTHING else f" -> {signature.result}"
    return f"fn {signature.name}({parameters}){result}:"


__all__ = ["Instances", "ModelType", "declaring_module", "infer", "instance_signature", "takes", "written", "wrong_kind"]
