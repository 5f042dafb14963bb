"""Long rows that a gradient reads long after they were made are made again there, in place of being kept: the shares of attention, of which
each layer has a number for every pair of places of a sequence.

What is made again is the product with its elementwise work; of the reductions along the rows (the greatest score, the sum of the
exponentials) the results are kept, one number a row. It is only done where all that the product reads is kept anyway.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from shapescript.compiler.ir.nodes import Block, Function, Op, Value, values_read
from shapescript.compiler.ir.sizes import product
from shapescript.compiler.ops.build import Builder, rebuilt, result_type
from shapescript.compiler.ops.fused import varies
from shapescript.compiler.ops.reduced_contraction import product_op, reduction_op
from shapescript.compiler.ops.shapes import LETTERS
from shapescript.compiler.passes.renaming import copied, renamed_op, renamed_values
from shapescript.compiler.records.dataclass import dataclass

SOON = 8  # operations after which rows are still at hand
LONGEST_KEPT = 512  # elements of a row: below it, what is kept is little
MOST_STEPS = 128  # of the product: above, computing it again costs more than memory


def make_rows_again(function: Function) -> Function:
    return function.with_body(_block(function.body))


def _block(block: Block) -> Block:
    ops = [rebuilt(op, op.operands, [_block(region) for region in op.regions], op.results) for op in block.ops]
    work = _Work(ops, reads_in(block))
    for index in range(len(ops)):
        if work.ops[index].name == "reduced_contraction":
            for result in work.ops[index].results:
                work.make_again(index, result)
    return Block(block.parameters, tuple(work.all_ops()), block.yields, block.symbols)


def reads_in(block: Block) -> dict[Value, list[int]]:
    """The numbers of the operations that read a value: for what is in a region that of its operation, for the block's end the last."""
    found: dict[Value, list[int]] = {}
    for index, op in enumerate(block.ops):
        for value in dict.fromkeys(values_read(op)):
            found.setdefault(value, []).append(index)
    for value in block.yields:
        found.setdefault(value, []).append(len(block.ops))
    return found


@dataclass
class _Work:
    """`before`: what is made again, by the number of the operation in front of which it stands."""

    ops: list[Op]
    reads: Mapping[Value, Sequence[int]]
    before: dict[int, list[Op]] = field(default_factory=dict)

    def all_ops(self) -> list[Op]:
        return [one for index, op in enumerate(self.ops) for one in (*self.before.get(index, ()), op)]

    def make_again(self, index: int, result: Value) -> None:
        op, last, far = self.ops[index], index, list(self.reads.get(result, ()))
        while far and far[0] - last <= SOON:
            last = far.pop(0)
        if not far or not _is_worth_it(op, result) or not all(self._reads_itself(place, result) for place in far):
            return
        rows = _Rows(op, result)
        if rows.can_be_made and all(self._is_kept(value, far[0]) for value in (*op.operands[:2], *rows.extras)):
            self.ops[index], again = rows.kept(), rows.again()
            self.before.setdefault(far[0], []).append(again)
            for place in far:
                self.ops[place] = renamed_op(self.ops[place], {result: again.result})

    def _reads_itself(self, index: int, value: Value) -> bool:
        return index < len(self.ops) and value in self.ops[index].operands

    def _is_kept(self, value: Value, index: int) -> bool:
        """Whether a value is still there at an operation, whatever is done here: it is read then or later, or comes from outside."""
        is_made_here = any(value in op.results for op in self.ops)
        return not is_made_here or any(place >= index for place in self.reads.get(value, ()))


def _is_worth_it(op: Op, result: Value) -> bool:
    kind = product_op(op).result.type
    if result.type != kind:
        return False
    length = result_type(result).axes[-1].constant()
    sizes = dict(zip(op.attributes["left"], result_type(op.operands[0]).axes, strict=True))
    steps = product(size for letter, size in sizes.items() if letter not in op.attributes["out"]).constant()
    return length is not None and length >= LONGEST_KEPT and steps is not None and steps <= MOST_STEPS


class _Rows:
    """How one result of a `reduced_contraction` follows from its product, and from numbers that are the same along a row."""

    def __init__(self, op: Op, result: Value) -> None:
        self.op, self.product = op, product_op(op)
        reduction = reduction_op(op)
        (self.region,) = reduction.regions
        self.place: int = op.attributes["place"]
        self.rank = len(reduction.attributes["space"])
        self.wanted = self.region.yields[op.results.index(result)]
        self.varying = varies(reduction)
        self.definitions = {inner.result: inner for inner in self.region.ops}
        others = zip(self.region.parameters, reduction.operands, reduction.attributes["maps"], strict=True)
        self.given = {parameter: (operand, tuple(map_)) for parameter, operand, map_ in others}
        self.needed: dict[Value, None] = {}  # in order: what is computed again, what is read, what is kept
        self._need(self.wanted)
        names = {inner.name for value, inner in self.definitions.items() if value in self.needed and self._is_computed(value)}
        self.can_be_made = "dropout" not in names and all(inner.name != "dropout" for inner in self.product.regions[0].ops)

    def _is_computed(self, value: Value) -> bool:
        """At each point: what varies along a row, constants and indices."""
        return value in self.varying or (value in self.definitions and not self.definitions[value].operands)

    def _need(self, value: Value) -> None:
        if value not in self.needed and self._is_computed(value) and value in self.definitions:
            for operand in self.definitions[value].operands:
                self._need(operand)
        self.needed[value] = None

    @property
    def read(self) -> list[Value]:
        """Parameters of the region, the product apart."""
        return [value for value in self.needed if value in self.given and value is not self.region.parameters[self.place]]

    @property
    def extras(self) -> list[Value]:
        """What the product and the work behind it read besides the product's operands."""
        return [*self.product.operands[2:], *(self.given[value][0] for value in self.read)]

    @property
    def shorts(self) -> list[Value]:
        return [value for value in self.needed if value in self.definitions and not self._is_computed(value)]

    def kept(self) -> Op:
        """The operation with what is the same along a row as further results."""
        regions = (self.op.regions[0], Block(self.region.parameters, self.region.ops, (*self.region.yields, *self.shorts)))
        builder = Builder(self.op.span)
        self.numbers = builder.emit(self.op.name, *self.op.operands, regions=regions, **self.op.attributes)[len(self.op.results) :]
        return rebuilt(self.op, self.op.operands, regions, (*self.op.results, *self.numbers))

    def again(self) -> Op:
        """The product with all of it behind; after `kept`."""
        (before,), names = self.product.regions, dict[Value, Value]()
        first = [_new(value, names) for value in before.parameters]
        product = Block(tuple(first), tuple(copied(before.ops, names)), renamed_values(before.yields, names))
        names.clear()
        parameters = [_new(value, names) for value in (self.region.parameters[self.place], *self.read, *self.shorts)]
        ops = copied([inner for inner in self.region.ops if inner.result in self.needed and self._is_computed(inner.result)], names)
        maps = [
            tuple(range(self.rank)),
            *(self.given[value][1] for value in self.read),
            *(tuple(range(self.rank - 1)) for _ in self.shorts),
        ]
        attributes = {name: self.op.attributes[name] for name in (*LETTERS, "maps")} | {"place": 0, "reduced_maps": tuple(maps)}
        operands = (*self.product.operands, *(self.given[value][0] for value in self.read), *self.numbers)
        builder = Builder(self.op.span)
        regions = (product, Block(tuple(parameters), tuple(ops), (names[self.wanted],)))
        builder.emit(self.op.name, *operands, regions=regions, **attributes)
        return builder.ops[0]


def _new(value: Value, names: dict[Value, Value]) -> Value:
    names[value] = Value(value.type, value.hint)
    return names[value]
