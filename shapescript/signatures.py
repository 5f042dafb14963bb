"""Signatures as programs write them."""

from __future__ import annotations

from shapescript.compiler.check.program import Signature
from shapescript.compiler.check.types import NOTHING


def signature_text(signature: Signature) -> str:
    """A signature as the program writes it: `fit(mut m: Mlp, epochs: int = 10) -> [b]`."""
    dims = f"[{', '.join(symbol.name for symbol in signature.dims)}]" if signature.dims else ""
    parameters = []
    for parameter in signature.parameters:
        default = "" if parameter.default is None else f" = {literal(parameter.default)}"
        parameters.append(f"{'mut ' if parameter.mutable else ''}{parameter.name}: {parameter.type}{default}")
    result = "" if signature.result == NOTHING else f" -> {signature.result}"
    return f"{signature.name}{dims}({', '.join(parameters)}){result}"


def literal(value: float | int | bool | str) -> str:
    """A host value as a program writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else repr(value)
