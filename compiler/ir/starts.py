"""How a model's tensors begin: rules whose numbers may depend on dims, such as uniform(-1/sqrt(I), 1/sqrt(I))."""

from __future__ import annotations

import math
from collections.abc import Mapping

from shapescript.compiler.ir.sizes import Size, Symbol
from shapescript.compiler.records.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class StartRule:
    """`uniform` between two numbers, `normal` of mean and deviation, or everywhere one number (`constant`).

    `numbers` are host expressions over sizes, evaluated when all sizes are known.
    """

    kind: str
    numbers: tuple[HostNumber, ...] = ()


@dataclass(frozen=True, slots=True)
class HostNumber:
    """An expression of the checker's constants: an operator (`+ - * / neg sqrt size number`) over parts."""

    operator: str
    parts: tuple[HostNumber, ...] = ()
    value: float = 0.0
    size: Size | None = None


def constant_start(value: float) -> StartRule:
    return StartRule("constant", (HostNumber("number", (), value),))


def substitute_start(start: StartRule | None, values: Mapping[Symbol, Size]) -> StartRule | None:
    """Sizes in the place of symbols; raises sizes.InexactDivision."""
    if start is None:
        return None
    return StartRule(start.kind, tuple(_substitute_number(part, values) for part in start.numbers))


def _substitute_number(number: HostNumber, values: Mapping[Symbol, Size]) -> HostNumber:
    if number.size is None and not number.parts:
        return number
    size = None if number.size is None else number.size.substitute(values)
    return HostNumber(number.operator, tuple(_substitute_number(part, values) for part in number.parts), number.value, size)


def evaluate_number(number: HostNumber) -> float:
    """An initialiser's number, in f64, operators as IEEE has them; every size in it must be known."""
    if number.operator == "number":
        return number.value
    if number.operator == "size":
        value = number.size.constant() if number.size is not None else None
        if value is None:
            raise ValueError(f"the size {number.size} is not known here")
        return float(value)
    parts = [evaluate_number(part) for part in number.parts]
    match number.operator:
        case "+":
            return parts[0] + parts[1]
        case "-":
            return parts[0] - parts[1]
        case "*":
            return parts[0] * parts[1]
        case "/":
            return _divided(parts[0], parts[1])
        case "neg":
            return -parts[0]
        case "sqrt":
            return math.sqrt(parts[0]) if parts[0] >= 0.0 else math.nan
    raise ValueError(f"unknown operator {number.operator}")


def _divided(above: float, below: float) -> float:
    if below != 0.0:
        return above / below
    return math.nan if above == 0.0 or math.isnan(above) else math.copysign(math.inf, above) * math.copysign(1.0, below)
