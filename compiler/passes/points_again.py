"""What a fused operation keeps for a gradient, and a few operations make again from something else that is kept: made again where it is
first read long after, in place of being kept. Of a layer's normalisation only the centred tensor and a number for each row are kept, and
not what comes of dividing it, scaling it and shifting it.

Only cheap arithmetic is made again, never a product, a reduction (of which one number a row is kept) or an elementary function; and only
where all that it reads is kept anyway. All that an operation makes again is made in one pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import accumulate

from shapescript.compiler.ir.nodes import Block, Function, Op, Value, walk
from shapescript.compiler.ir.types import TensorType
from shapescript.compiler.ops.build import Builder, rebuilt, result_type
from shapescript.compiler.ops.fused import varies
from shapescript.compiler.ops.locations import has_storage, storage_bytes
from shapescript.compiler.ops.storage import overwritten
from shapescript.compiler.ops.table import View, entry
from shapescript.compiler.passes.overwriting import has_all_points
from shapescript.compiler.passes.renaming import copied, renamed_op
from shapescript.compiler.passes.rows_again import SOON, reads_in
from shapescript.compiler.passes.slot_places import example_bytes
from shapescript.compiler.records.dataclass import dataclass

FUSED = {"kernel": 0, "fused_reduction": 0, "fused_contraction": 1}  # and how many parameters their regions have before the extras'
CHEAP = ("add", "sub", "mul", "div", "neg", "abs", "relu", "minimum", "maximum", "select", "not", "eq", "ne", "lt", "le", "gt", "ge")
MOST_OPERATIONS = 6  # an element
LEAST_BYTES = 1 << 16  # for the sizes of an example: below it, what is kept is little


def make_points_again(function: Function) -> Function:
    return function.with_body(_block(function.body))


def _block(block: Block) -> Block:
    ops = [rebuilt(op, op.operands, [_block(one) for one in op.regions], op.results) if op.name not in FUSED else op for op in block.ops]
    work = _Work(block, ops, reads_in(block))
    for index, op in enumerate(ops):
        if op.name in FUSED:
            work.make_again(index)
    return Block(block.parameters, tuple(work.all_ops()), block.yields, block.symbols)


@dataclass
class _Work:
    """`reads`: the numbers of the operations that read a value, for the block's end the last. `before`: what is made again, by the number
    of the operation in front of which it stands. `held`: bytes at each operation, for the sizes of an example; `most` of them."""

    block: Block
    ops: list[Op]
    reads: dict[Value, list[int]]
    made: dict[Value, int] = field(default_factory=dict)
    before: dict[int, list[Op]] = field(default_factory=dict)
    held: list[int] = field(default_factory=list)
    most: int = 0

    def __post_init__(self) -> None:
        for index, op in enumerate(self.ops):
            self.made.update((result, index) for result in op.results)
        changes = [0] * (len(self.ops) + 2)
        for value, index in self.made.items():
            # Models are packed or changed in place.
            if isinstance(value.type, TensorType) and value.type.axes and not self._is_view(value) and value in self.reads:
                size = example_bytes(storage_bytes(value.type))
                changes[index] += size
                changes[self.reads[value][-1] + 1] -= size
        self.held = list(accumulate(changes))
        self.most = max(self.held)

    def all_ops(self) -> list[Op]:
        return [one for index, op in enumerate(self.ops) for one in (*self.before.get(index, ()), op)]

    def make_again(self, index: int) -> None:
        """Results that are read first at about the same time in one pass."""
        far = {result: places for result in self.ops[index].results if (places := self._far(index, result))}
        while far:
            first = min(map(min, far.values()))
            together = {result: far.pop(result) for result in list(far) if far[result][0] - first <= SOON}
            if all(place < len(self.ops) for places in together.values() for place in places):
                self._make_together(index, first, together, [result for result in self.ops[index].results if result in far])

    def _make_together(self, index: int, first: int, far: Mapping[Value, Sequence[int]], later: Sequence[Value]) -> None:
        op = self.ops[index]
        points = _Points(op, [self._is_kept(operand, index, first) for operand in op.operands])
        chosen = points.chosen([result for result in op.results if result in far], later)
        if not chosen:
            return
        again = points.again(chosen)
        unread = [result for result in chosen if far[result] == self.reads[result]]
        self.ops[index] = points.kept(unread)
        self.made.update((result, index) for result in self.ops[index].results)
        self.before.setdefault(first, []).append(again)
        for operand in again.operands:
            self.reads[operand] = sorted([*self.reads.get(operand, ()), first])
        for result, new in zip(chosen, again.results, strict=True):
            self.reads[result] = [place for place in self.reads[result] if place not in far[result]]
            self.reads[new], self.made[new] = list(far[result]), first
            for place in far[result]:
                self.ops[place] = renamed_op(self.ops[place], {result: new})

    def _far(self, index: int, result: Value) -> list[int]:
        """The reads of a result that come long after those before, with a time between when much is held."""
        if not _is_worth_it(self.ops[index], result):
            return []
        last, far = index, list(self.reads.get(result, ()))
        while far and (far[0] - last <= SOON or 2 * max(self.held[last + 1 : far[0]]) < self.most):
            last = far.pop(0)
        return far

    def _is_kept(self, value: Value, index: int, first: int) -> bool:
        """Whether what operation `index` reads is still there at operation `first`, whatever is done here."""
        while value in self.made and self._is_view(value):
            value = self.ops[self.made[value]].operands[0]
        if value in self.made:
            return any(place >= first for place in self.reads.get(value, ()))
        between = (inner for op in self.ops[index:first] for inner in _with_inner(op))
        return not any(op.operands[place] is value for op in between for place in overwritten(op))

    def _is_view(self, value: Value) -> bool:
        op = self.ops[self.made[value]]
        return isinstance(entry(op.name).lowering, View) and bool(op.operands)


def _with_inner(op: Op) -> Sequence[Op]:
    return [op, *(inner for region in op.regions for inner in walk(region))]


def _is_worth_it(op: Op, result: Value) -> bool:
    return has_storage(result) and has_all_points(op, result) and example_bytes(storage_bytes(result.type)) >= LEAST_BYTES


class _Points:
    """How results of a fused operation follow from each other at each point, from its operands that are kept, and from what is the same
    along a row."""

    def __init__(self, op: Op, is_kept: Sequence[bool]) -> None:
        self.op, (self.region,) = op, op.regions
        first = len(op.operands) - len(op.attributes["maps"])
        self.space = result_type(next(result for result in op.results if has_all_points(op, result))).axes
        self.reduced: Sequence[int] = op.attributes.get("positions", ())
        extras = zip(self.region.parameters[FUSED[op.name] :], op.operands[first:], op.attributes["maps"], is_kept[first:], strict=True)
        self.given = {parameter: (operand, tuple(map_)) for parameter, operand, map_, kept in extras if kept}
        self.definitions = {inner.result: inner for inner in self.region.ops}
        self.varying = varies(op) if op.name == "fused_reduction" else set(self.definitions)

    def chosen(self, far: Sequence[Value], later: Sequence[Value]) -> list[Value]:
        """Those of the results that are made again: as many as go, the last first. What is read later is kept."""
        inside = dict(zip(self.op.results, self.region.yields, strict=True))
        kept, found = dict.fromkeys((*far, *later)), list[Value]()
        for result in reversed(far):
            others = {inside[other] for other in kept if other is not result}
            if inside[result] not in others and self._steps(inside[result], others) <= MOST_OPERATIONS:
                del kept[result]
                found.insert(0, result)
        self.start = {inside[result]: result for result in kept}
        return found

    def _steps(self, wanted: Value, kept: set[Value]) -> int:
        """How many operations lead to a value of the region, more than the most where none do."""
        found = 0
        waiting, seen = [wanted], set[Value]()
        while waiting:
            value = waiting.pop()
            if value in seen or value in kept or value in self.given or self._is_short(value):
                continue
            seen.add(value)
            inner = self.definitions.get(value)
            if inner is None or inner.name not in (*CHEAP, "constant"):
                return MOST_OPERATIONS + 1
            found += inner.name != "constant"
            waiting += inner.operands
        return found

    def _is_short(self, value: Value) -> bool:
        """Whether it is the same along a row, and comes of a reduction or of what isn't kept."""
        return value in self.definitions and value not in self.varying and bool(self.definitions[value].operands)

    def again(self, chosen: Sequence[Value]) -> Op:
        """The pass that makes them, over what `kept` keeps."""
        inside = dict(zip(self.op.results, self.region.yields, strict=True))
        used, needed = dict[Value, None](), dict[Value, None]()
        waiting = [inside[result] for result in chosen]
        while waiting:
            value = waiting.pop()
            if value in self.start or value in self.given or self._is_short(value):
                used[value] = None
            elif value not in needed:
                needed[value] = None
                waiting += self.definitions[value].operands
        self.shorts = self._short_results([value for value in used if self._is_short(value)])
        along = tuple(place for place in range(len(self.space)) if place not in self.reduced)
        whole = tuple(range(len(self.space)))
        sources = [(self.start[value], whole) if value in self.start else self._source(value, along) for value in used]
        names = {value: Value(value.type, value.hint) for value in used}
        parameters = tuple(names.values())
        ops = copied([inner for inner in self.region.ops if inner.result in needed], names)
        region = Block(parameters, tuple(ops), tuple(names[inside[result]] for result in chosen))
        builder = Builder(self.op.span)
        operands, maps = [source for source, _ in sources], tuple(map_ for _, map_ in sources)
        builder.emit("kernel", *operands, regions=[region], hints=[result.hint for result in chosen], space=self.space, maps=maps)
        return builder.ops[0]

    def _source(self, value: Value, along: tuple[int, ...]) -> tuple[Value, tuple[int, ...]]:
        return (self.shorts[value], along) if value in self.shorts else self.given[value]

    def _short_results(self, shorts: Sequence[Value]) -> Mapping[Value, Value]:
        """The results that they are; new ones for those that aren't yet."""
        known = dict(zip(self.region.yields, self.op.results, strict=True))
        axes = tuple(axis for place, axis in enumerate(self.space) if place not in self.reduced)
        return {value: known.get(value) or Value(TensorType(result_type(value).element, axes), value.hint) for value in shorts}

    def kept(self, unread: Sequence[Value]) -> Op:
        """The operation with the rows' numbers as results too, and without what nobody reads any more; after `again`."""
        pairs = [pair for pair in zip(self.region.yields, self.op.results, strict=True) if pair[1] not in unread]
        pairs += [(value, result) for value, result in self.shorts.items() if result not in self.op.results]
        region = Block(self.region.parameters, self.region.ops, tuple(value for value, _ in pairs), self.region.symbols)
        return rebuilt(self.op, self.op.operands, [region], [result for _, result in pairs])
