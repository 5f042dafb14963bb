"""Work in a product's epilogue that only reductions read, moved to them where that saves passes over memory.

Behind a layer's normalisation the gradient's product has several elementwise results, of which one group of reductions reads some and
another the rest: computed there, of the product itself and what else they read, none of them is written.
"""

from __future__ import annotations

from collections.abc import Sequence

from shapescript.compiler.ir.nodes import Block, Op, Value, values_read
from shapescript.compiler.ir.types import TensorType
from shapescript.compiler.ops.build import Builder, result_type
from shapescript.compiler.ops.shapes import LETTERS
from shapescript.compiler.passes.fusion_access import Access, Map, identity
from shapescript.compiler.passes.fusion_groups import Group
from shapescript.compiler.passes.fusion_reduction_groups import ReductionGroup, maps_of, pays, space_of
from shapescript.compiler.records.dataclass import dataclass

Readers = dict[Value, set[Group | None]]


def sink_epilogues(ops: Sequence[Op], readers: Readers) -> list[Op]:
    """A block's operations, with kernels behind the products whose work has moved; these are to join the groups that read them."""
    found: list[Op] = []
    for op in ops:
        moves = _moves(op, readers) if op.name == "fused_contraction" and not _has_dropout(op) else []
        best = max(moves, key=lambda move: move.saved, default=None)
        found += [op] if best is None or best.saved <= 0 else best.ops()
    return found


def readers_of(groups: Sequence[Group], yields: Sequence[Value]) -> Readers:
    """Which groups read each value; None where the block yields it."""
    found: Readers = {}
    for group in groups:
        for op in group.ops:
            for value in values_read(op):
                found.setdefault(value, set()).add(group)
    for value in yields:
        found.setdefault(value, set()).add(None)
    return found


def _has_dropout(op: Op) -> bool:
    return any(inner.name == "dropout" for inner in op.regions[0].ops)


def _moves(op: Op, readers: Readers) -> list[_Move]:
    """What may move: to all groups that alone read a result, or to one of them."""
    taken: dict[ReductionGroup, list[int]] = {}
    for place, result in enumerate(op.results):
        (group, *others) = readers.get(result, set()) or {None}
        is_product = op.regions[0].yields[place] is op.regions[0].parameters[0]
        if not others and not is_product and isinstance(group, ReductionGroup) and _takes(group, result):
            taken.setdefault(group, []).append(place)
    alone = [_Move(op, {group: places}) for group, places in taken.items()]
    return [*alone, _Move(op, taken)] if len(alone) > 1 else alone


def _takes(group: ReductionGroup, result: Value) -> bool:
    """Whether the group reduces, and reads the result at its own points only."""
    if group.positions is None or group.space != result_type(result).axes or not pays(group):
        return False
    for op in group.ops:
        for operand, map_ in zip(op.operands, maps_of(op), strict=True):
            if operand is result and (space_of(op) != group.space or map_ != identity(result)):
                return False
    return True


@dataclass(frozen=True)
class _Move:
    """Results of a product's epilogue, by their places, that groups compute from now on."""

    product: Op
    taken: dict[ReductionGroup, list[int]]

    @property
    def region(self) -> Block:
        (region,) = self.product.regions
        return region

    @property
    def left(self) -> list[int]:
        gone = {place for places in self.taken.values() for place in places}
        return [place for place in range(len(self.product.results)) if place not in gone]

    def _part(self, places: Sequence[int]) -> tuple[list[Op], set[Value]]:
        """The region's operations for these results, and the parameters that they take."""
        wanted, ops = {self.region.yields[place] for place in places}, []
        for inner in reversed(self.region.ops):
            if inner.result in wanted:
                ops.append(inner)
                wanted.update(inner.operands)
        return ops[::-1], wanted & set(self.region.parameters)

    def _whole(self, places: Sequence[int]) -> set[Access]:
        """The operands with all of the space's axes that these results take, the product apart."""
        _, parameters = self._part(places)
        extras = zip(self.region.parameters[1:], self.product.operands[2:], self.product.attributes["maps"], strict=True)
        rank = len(self.product.attributes["out"])
        return {Access(value, tuple(map_)) for parameter, value, map_ in extras if parameter in parameters and len(map_) == rank}

    @property
    def _element(self) -> Value:
        return self.region.parameters[0]

    @property
    def saved(self) -> int:
        """Passes over memory."""
        kept = self._element in (self.region.yields[place] for place in self.left)
        before = len(self._whole(range(len(self.product.results)))) + 2 * sum(map(len, self.taken.values()))
        after = len(self._whole(self.left)) + (not kept)
        for group, places in self.taken.items():
            reads_product = kept and any(access.source in self._kept_product() for access in group.reads)
            after += (not reads_product) + len(self._whole(places) - group.reads)
        return before - after

    def _kept_product(self) -> set[Value]:
        return {self.product.results[place] for place in self.left if self.region.yields[place] is self._element}

    def ops(self) -> list[Op]:
        """The product with what is left, and a kernel for each group."""
        kept = sorted(self._kept_product(), key=self.product.results.index)
        axes = result_type(self.product.results[0]).axes
        bare = kept[0] if kept else Value(TensorType(result_type(self._element).element, axes))
        found = [self._product(bare, add=not kept)]
        return found + [self._kernel(places, bare) for places in self.taken.values()]

    def _product(self, bare: Value, add: bool) -> Op:
        ops, parameters = self._part(self.left)
        results = [*(self.product.results[place] for place in self.left), *([bare] if add else [])]
        yields = [*(self.region.yields[place] for place in self.left), *([self._element] if add else [])]
        attributes = {name: self.product.attributes[name] for name in LETTERS}
        if not ops and all(value is self._element for value in yields) and len(yields) == 1:
            return Op("contraction", self.product.operands[:2], attributes, tuple(results), (), self.product.span)
        extras = zip(self.region.parameters[1:], self.product.operands[2:], self.product.attributes["maps"], strict=True)
        used = [extra for extra in extras if extra[0] in parameters]
        block = Block((self._element, *(parameter for parameter, _, _ in used)), tuple(ops), tuple(yields))
        operands = (*self.product.operands[:2], *(value for _, value, _ in used))
        return Op(
            "fused_contraction",
            operands,
            {**attributes, "maps": tuple(map_ for _, _, map_ in used)},
            tuple(results),
            (block,),
            self.product.span,
        )

    def _kernel(self, places: Sequence[int], bare: Value) -> Op:
        """With values of its own inside, since another one may compute the same."""
        ops, parameters = self._part(places)
        space = result_type(bare).axes
        given: list[tuple[Value, Value, Map]] = [(self._element, bare, identity(bare))] if self._element in parameters else []
        extras = zip(self.region.parameters[1:], self.product.operands[2:], self.product.attributes["maps"], strict=True)
        given += [(parameter, value, tuple(map_)) for parameter, value, map_ in extras if parameter in parameters]
        builder, values = Builder(self.product.span), {parameter: Value(parameter.type, parameter.hint) for parameter, _, _ in given}
        inside = tuple(values.values())
        for op in ops:
            with builder.at(op.span):
                values[op.result] = builder.op(op.name, *(values[operand] for operand in op.operands), hint=op.result.hint, **op.attributes)
        block = builder.block(inside, [values[self.region.yields[place]] for place in places])
        attributes = {"space": space, "maps": tuple(map_ for _, _, map_ in given)}
        results = tuple(self.product.results[place] for place in places)
        return Op("kernel", tuple(value for _, value, _ in given), attributes, results, (block,), self.product.span)
