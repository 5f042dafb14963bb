"""Rows that one product alone reads, along them, are not kept: the two products are done by blocks of rows (ops/rows_product.py).

It is for long rows: of attention's shares, where the gradient makes them again, no more than a block is ever in memory, and what a mask
takes out is left out of the second product too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shapescript.compiler.ir.nodes import Block, Function, Op, Value, use_counts, values_read
from shapescript.compiler.ops.build import rebuilt, result_type
from shapescript.compiler.ops.reduced_contraction import product_op
from shapescript.compiler.ops.shapes import LETTERS
from shapescript.compiler.ops.table import entry
from shapescript.compiler.records.dataclass import dataclass

SHORTEST = 256  # elements of a row: shorter ones are near until they are read
WIDEST = 256  # columns of the second product


def join_row_products(function: Function) -> Function:
    body = _block(function.body, use_counts(function.body))
    return function.with_body(body)


def _block(block: Block, uses: Mapping[Value, int]) -> Block:
    ops: list[Op] = []
    for op in block.ops:
        found = _rows_of(op, ops, uses)
        if found is None:
            ops.append(rebuilt(op, op.operands, [_block(region, uses) for region in op.regions], op.results))
        else:
            ops.remove(found.reduced)
            ops.append(found.joined())
    return Block(block.parameters, tuple(ops), block.yields, block.symbols)


def _rows_of(op: Op, before: Sequence[Op], uses: Mapping[Value, int]) -> _Pair | None:
    """The operation that makes the rows which this one reads, where the two may be one."""
    if op.name != "contraction":
        return None
    for place, value in enumerate(op.operands):
        index = next((index for index, made in enumerate(before) if value in made.results), None)
        if index is not None and uses[value] == 1 and before[index].name == "reduced_contraction":
            pair = _Pair(before[index], op, place)
            if pair.fits() and not any(map(pair.is_in_the_way, before[index + 1 :])):
                return pair
    return None


@dataclass(frozen=True)
class _Pair:
    """`place`: which operand of the last product the rows are."""

    reduced: Op
    last: Op
    place: int

    @property
    def rows(self) -> Value:
        return self.last.operands[self.place]

    def fits(self) -> bool:
        """Whether nothing but the rows is as large, and the last product sums along them, with one more axis for its columns."""
        kind = product_op(self.reduced).result.type
        whole = [result for result in self.reduced.results if result_type(result).rank == result_type(self.rows).rank]
        length, width = result_type(self.rows).axes[-1].constant(), result_type(self.last.result).axes[-1].constant()
        if (
            whole != [self.rows]
            or self.rows.type != kind
            or length is None
            or length < SHORTEST
            or width is None
            or not 0 < width <= WIDEST
        ):
            return False
        if any(inner.name == "dropout" for region in self.reduced.regions for inner in region.ops):
            return False
        left, right, out = (self.last.attributes[name] for name in LETTERS)
        own, other = (left, right) if self.place == 0 else (right, left)
        columns = [letter for letter in other if letter not in own]
        is_along = own[-1] in other and own[-1] not in out and set(own[:-1]) <= set(out)
        return is_along and columns == [other[-1]] and out[-1] == columns[0] and self._is_shared(other, own)

    def _is_shared(self, other: Sequence[int], own: Sequence[int]) -> bool:
        """Whether the other operand has none of the rows' places but those that both operands of the first product have."""
        first, second, out = (self.reduced.attributes[name] for name in LETTERS)
        places = zip(own[:-1], out[:-1], strict=True)
        return all(letter in first and letter in second for name, letter in places if name in other)

    def is_in_the_way(self, op: Op) -> bool:
        """Whether what makes the rows can't be moved behind an operation."""
        return entry(op.name).ordered or not set(self.reduced.results).isdisjoint(values_read(op))

    def joined(self) -> Op:
        number = self.reduced.results.index(self.rows)
        others = self.reduced.results[:number] + self.reduced.results[number + 1 :]
        attributes = dict(self.reduced.attributes) | {"rows": number, "is_left": self.place == 0}
        attributes |= {f"last_{name}": self.last.attributes[name] for name in LETTERS}
        operands = (*self.reduced.operands, self.last.operands[1 - self.place])
        return Op("rows_product", operands, attributes, (self.last.result, *others), self.reduced.regions, self.reduced.span)
