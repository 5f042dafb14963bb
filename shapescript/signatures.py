"""Signatures as programs write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shapescript.compiler.check.program import Signature
from shapescript.compiler.check.types import NOTHING
from shapescript.compiler.ir.sizes import Size, Symbol
from shapescript.compiler.ir.types import ModelType


def signature_text(signature: Signature) -> str:
    """A signature as the program writes it: `fit(mut m: Mlp, epochs: int = 10) -> [b]`."""
    dims = bracketed(signature.dims, signature.defaults) if signature.dims else ""
    parameters = []
    for parameter in signature.parameters:
        default = "" if parameter.default is None else f" = {literal(parameter.default)}"
        parameters.append(f"{'mut ' if parameter.mutable else ''}{parameter.name}: {parameter.type}{default}")
    result = "" if signature.result == NOTHING else f" -> {signature.result}"
    return f"{signature.name}{dims}({', '.join(parameters)}){result}"


def bracketed(parameters: Sequence[Symbol | ModelType], defaults: Mapping[Symbol, Size]) -> str:
    """A declaration's parameters as it writes them: `[I, O, Stride = 1]`."""
    written = (f"{one.name} = {defaults[one]}" if isinstance(one, Symbol) and one in defaults else one.name for one in parameters)
    return f"[{', '.join(written)}]"


def literal(value: float | int | bool | str) -> str:
    """A host value as a program writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else repr(value)
