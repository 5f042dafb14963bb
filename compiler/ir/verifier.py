"""What every valid function obeys, checked between passes in tests: each value is defined once and before its use, regions take and yield
what their operation says, and each operation's results have the types that its entry in the op table gives."""

from __future__ import annotations

from collections.abc import Callable, Set

from shapescript.compiler.ir.nodes import Block, Function, Op, Value
from shapescript.compiler.ir.types import Type

Infer = Callable[[Op], tuple[Type, ...]]


class InvalidIR(Exception):
    """A bug of the compiler: a pass made IR that breaks the rules."""


def verify_function(function: Function, infer: Infer) -> None:
    """`infer` gives an operation's result types, and raises InvalidIR for operands, attributes or regions that don't fit."""
    body = function.body
    if len(function.mutable) != len(body.parameters):
        raise InvalidIR(f"{function.name}: mutable flags don't match the parameters")
    changed = [value.type for value, mutable in zip(body.parameters, function.mutable, strict=True) if mutable]
    yielded = [value.type for value in body.yields[function.results :]]
    if changed != yielded:
        raise InvalidIR(f"{function.name}: mut parameters {_list(changed)} but yields {_list(yielded)}")
    _verify_block(body, frozenset(), infer, function.name)


def _verify_block(block: Block, outer: Set[Value], infer: Infer, where: str) -> None:
    seen = set(outer)
    _define(block.parameters, seen, where)
    for op in block.ops:
        place = f"{where}: {op.name}"
        for operand in op.operands:
            if operand not in seen:
                raise InvalidIR(f"{place}: an operand of type {operand.type} ({operand.hint or 'unnamed'}) is not defined here")
        for region in op.regions:
            _verify_block(region, seen, infer, place)
        expected = infer(op)
        found = tuple(value.type for value in op.results)
        if expected != found:
            raise InvalidIR(f"{place}: results are {_list(found)}, its entry says {_list(expected)}")
        _define(op.results, seen, place)
    for value in block.yields:
        if value not in seen:
            raise InvalidIR(f"{where}: yields a value of type {value.type} that is not defined here")


def _define(values: tuple[Value, ...], seen: set[Value], where: str) -> None:
    for value in values:
        if value in seen:
            raise InvalidIR(f"{where}: a value is defined twice")
        seen.add(value)


def _list(types: list[Type] | tuple[Type, ...]) -> str:
    return f"({', '.join(map(str, types))})"
