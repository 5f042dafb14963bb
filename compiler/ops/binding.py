"""The sizes that a call binds: axis variables, from the shapes of its arguments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from shapescript.compiler.diagnostics.model import Span
from shapescript.compiler.ir.nodes import Function
from shapescript.compiler.ir.sizes import InexactDivision, Size, Symbol, evaluate, number
from shapescript.compiler.ir.types import DatasetType, TensorType
from shapescript.compiler.ops.protocol import ExecutionError, inexact_axis
from shapescript.compiler.records.dataclass import dataclass


@dataclass(frozen=True)
class Equation:
    """An axis of an argument: its size as the parameter's type states it, and the number found."""

    size: Size
    found: int
    where: str


@dataclass(frozen=True)
class Binding:
    value: int
    where: str


def bind_sizes(function: Function, arguments: Sequence[Any]) -> dict[Symbol, int]:
    """Every symbol that one argument's axis fixes, be it inside `n+1` or `n/2`.

    Raises ExecutionError R1003 where two axes disagree, where a size would not be whole or below 0, or where an argument has another
    number of axes than its type.
    """
    equations = list(_equations(function, arguments))
    bound: dict[Symbol, Binding] = {}
    waiting = equations
    while waiting:
        left = [equation for equation in waiting if not _bind(equation, bound, function.span)]
        if len(left) == len(waiting):
            break
        waiting = left
    for equation in equations:
        _check(equation, bound, function.span)
    return {symbol: binding.value for symbol, binding in bound.items()}


def _equations(function: Function, arguments: Sequence[Any]) -> Iterator[Equation]:
    for value, argument in zip(function.body.parameters, arguments, strict=True):
        name, type_ = value.hint or "an argument", value.type
        if isinstance(type_, TensorType) and type_.axes:
            yield from _axes(type_.axes, argument.shape, name, function.span)
        elif isinstance(type_, DatasetType):
            yield Equation(type_.rows, int(argument.block[0]), f"the rows of {name}")
            for (field, kind), shape in zip(type_.record.fields, argument.shapes, strict=True):
                yield from _axes(kind.axes, shape, f"{name}.{field}", function.span)


def _axes(axes: Sequence[Size], shape: Sequence[int], name: str, span: Span | None) -> Iterator[Equation]:
    if len(axes) != len(shape):
        raise inexact_axis(f"{name} has {len(shape)} axes, not {len(axes)}", span)
    for place, (axis, found) in enumerate(zip(axes, shape, strict=True)):
        yield Equation(axis, found, f"axis {place} of {name}")


def _bind(equation: Equation, bound: dict[Symbol, Binding], span: Span | None) -> bool:
    """Whether the equation needs no more work: its unknown is bound now, or it had none."""
    known = {symbol: number(binding.value) for symbol, binding in bound.items()}
    known |= {symbol: number(symbol.value) for symbol in equation.size.symbols() if symbol.value is not None}
    try:
        size = equation.size.substitute(known)
        if not any(symbol.value is None for symbol in size.symbols()):
            return True
        solution = _solve(size, equation.found)
    except InexactDivision as error:
        raise _disagreement(equation, f"{error}", span) from None
    if solution is None:
        return False
    symbol, value = solution
    if value < 0:
        raise _disagreement(equation, f"{symbol} would be {value}", span)
    bound[symbol] = Binding(value, equation.where)
    return True


def _solve(size: Size, found: int) -> tuple[Symbol, int] | None:
    """The unknown of count * symbol + offset = found, None where there are more or it isn't linear; raises InexactDivision.

    A quotient rounded down says too little of what is divided.
    """
    offset = sum(count for monomial, count in size.terms if not monomial)
    unknown = [(monomial, count) for monomial, count in size.terms if monomial]
    if len(unknown) != 1 or len(unknown[0][0]) != 1 or unknown[0][0][0].rounded:
        return None
    ((symbol,), count) = unknown[0]
    if (found - offset) % count:
        raise InexactDivision(found - offset, count)
    value = (found - offset) // count
    if symbol.quotient is None:
        return symbol, value
    numerator, denominator = symbol.quotient
    divisor = denominator.constant()
    return None if divisor is None else _solve(numerator, value * divisor)


def _check(equation: Equation, bound: dict[Symbol, Binding], span: Span | None) -> None:
    def value_of(symbol: Symbol) -> int | None:
        return bound[symbol].value if symbol in bound else symbol.value

    try:
        wanted = evaluate(equation.size, value_of)
    except InexactDivision as error:
        raise _disagreement(equation, f"{error}", span) from None
    if wanted is not None and wanted != equation.found:
        sources = [f"{symbol} is {bound[symbol].value} by {bound[symbol].where}" for symbol in equation.size.symbols() if symbol in bound]
        raise _disagreement(equation, "; ".join([f"it should have {wanted}", *sources]), span)


def _disagreement(equation: Equation, why: str, span: Span | None) -> ExecutionError:
    return inexact_axis(f"{equation.where} is {equation.size} and has {equation.found} elements: {why}", span)
