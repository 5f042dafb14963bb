"""Sizes of axes as native code has them: Python ints where they are known, else I64 values computed from the symbols' values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.emit import F64, I64, Builder, Value
from shapescript.compiler.ir.nodes import Block, Op
from shapescript.compiler.ir.sizes import Size, Symbol
from shapescript.compiler.ir.types import DatasetType, OrderedType, TensorType
from shapescript.compiler.passes.symbols import is_doubtful


class SizeValues:
    """The values of symbols, and of the sizes made of them; scopes follow the blocks of the program.

    A size is computed once in a scope, where the builder stands at its first use: never ask for one where the code emitted may be skipped
    without opening a scope. With `arguments`, values of symbols that the function is given, sizes are computed at the function's entry.
    """

    def __init__(self, arguments: dict[Symbol, Value] | None = None) -> None:
        self._symbols: list[dict[Symbol, emit.Size]] = [dict(arguments or {})]
        self._known: list[dict[Size, emit.Size]] = [{}]
        self._checked: list[set[Size | Symbol]] = [set()]
        self._at_entry = arguments is not None

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is bound or computed inside holds inside only."""
        self._symbols.append({})
        self._known.append({})
        self._checked.append(set())
        yield
        self._symbols.pop()
        self._known.pop()
        self._checked.pop()

    def bind(self, symbol: Symbol, value: emit.Size) -> None:
        self._symbols[-1][symbol] = value

    def is_checked(self, what: Size | Symbol) -> bool:
        """Whether code has been emitted that leaves if this size is below 0, or this quotient isn't whole; from now on it has."""
        known = any(what in scope for scope in self._checked)
        self._checked[-1].add(what)
        return known

    def is_bound(self, size: Size) -> bool:
        return all(self._has_value(symbol) for monomial, _ in size.terms for symbol in monomial)

    def _has_value(self, symbol: Symbol) -> bool:
        if symbol.value is not None or any(symbol in scope for scope in self._symbols):
            return True
        return symbol.quotient is not None and all(self.is_bound(part) for part in symbol.quotient)

    def of(self, b: Builder, size: Size) -> emit.Size:
        constant = size.constant()
        if constant is not None:
            return constant
        for scope in self._known:
            if size in scope:
                return scope[size]
        if self._at_entry:
            with b.goto_entry_block():
                value = self._computed(b, size)
        else:
            value = self._computed(b, size)
        self._known[-1][size] = value
        return value

    def _computed(self, b: Builder, size: Size) -> emit.Size:
        total: emit.Size = 0
        for monomial, count in size.terms:
            term: emit.Size = count
            for symbol in monomial:
                term = extents.times(b, term, self._symbol(b, symbol))
            total = extents.plus(b, total, term) if total != 0 else term
        return total

    def magnitude(self, b: Builder, size: Size) -> Value:
        """The size in f64, to about 15 digits: unlike in I64, a huge one doesn't wrap there."""
        total = emit.constant(0.0, F64)
        for monomial, count in size.terms:
            term = emit.constant(count, F64)
            for symbol in monomial:
                term = b.fmul(term, self._symbol_magnitude(b, symbol))
            total = b.fadd(total, term)
        return total

    def _symbol_magnitude(self, b: Builder, symbol: Symbol) -> Value:
        if symbol.quotient is not None and symbol.value is None:
            return b.fdiv(*(self.magnitude(b, part) for part in symbol.quotient))
        return b.sitofp(emit.size(self._symbol(b, symbol)), F64)

    def _symbol(self, b: Builder, symbol: Symbol) -> emit.Size:
        if symbol.value is not None:
            return symbol.value
        for scope in reversed(self._symbols):
            if symbol in scope:
                return scope[symbol]
        assert symbol.quotient is not None, f"the size {symbol} is not bound here"
        numerator, denominator = (emit.size(self.of(b, part)) for part in symbol.quotient)
        if not symbol.rounded:
            return b.sdiv(numerator, denominator)
        below = b.icmp_signed("<", b.srem(numerator, denominator), I64(0))
        return b.sub(b.sdiv(numerator, denominator), b.zext(below, I64))


def doubtful_sizes(block: Block) -> dict[Size, Op | None]:
    """The sizes in a block, without its regions, that may be no number or one below 0: quotients, differences. With each, the operation
    that has it first, None for a parameter."""
    found: dict[Size, Op | None] = {}
    for parameter in block.parameters:
        _note(parameter.type, None, found)
    for op in block.ops:
        results = (result.type for result in op.results)
        for part in (op.attributes.get("room"), *results, *(op.attributes.get(name) for name in ("axes", "space", "size"))):
            _note(part, op, found)
    return found


def _note(part: Any, op: Op | None, found: dict[Size, Op | None]) -> None:
    match part:
        case Size():
            if is_doubtful(part):
                found.setdefault(part, op)
        case TensorType(_, axes):
            _note(axes, op, found)
        case DatasetType():
            _note(part.rows, op, found)
        case OrderedType(dataset):
            _note(dataset, op, found)
        case tuple():
            for inner in part:
                _note(inner, op, found)
