"""Signatures as programs write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shapescript.compiler.check.program import ElementParameter, ModelParameter, Signature
from shapescript.compiler.check.types import NOTHING
from shapescript.compiler.ir.sizes import Size, Symbol


def signature_text(signature: Signature) -> str:
    """A signature as the program writes it: `fit(mut m: Mlp, epochs: int = 10) -> [b]`."""
    dims = bracketed(signature.dims, signature.defaults) if signature.dims else ""
    parameters = []
    for parameter in signature.parameters:
        default = "" if parameter.default is None else f" = {literal(parameter.default)}"
        parameters.append(f"{'mut ' if parameter.mutable else ''}{parameter.name}: {parameter.type}{default}")
    result = "" if signature.result == NOTHING else f" -> {signature.result}"
    return f"{signature.name}{dims}({', '.join(parameters)}){result}"


def bracketed(parameters: Sequence[ModelParameter], defaults: Mapping[Symbol, Size]) -> str:
    """A declaration's parameters as it writes them: `[I, O, Stride = 1, F: float = f32]`."""
    return f"[{', '.join(_parameter(one, defaults) for one in parameters)}]"


def _parameter(parameter: ModelParameter, defaults: Mapping[Symbol, Size]) -> str:
    if isinstance(parameter, ElementParameter):
        return f"{parameter.name}: float" + (f" = {parameter.default.value}" if parameter.default else "")
    if isinstance(parameter, Symbol) and parameter in defaults:
        return f"{parameter.name} = {defaults[parameter]}"
    return parameter.name


def literal(value: float | int | bool | str) -> str:
    """A host value as a program writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else repr(value)
