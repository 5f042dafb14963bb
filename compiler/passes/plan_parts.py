"""Whether a value may be computed where a part of a model lies, before the part is replaced: a moment in its optimiser's state, a parameter
in its model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from shapescript.compiler.ir.nodes import Block, Op, Value, free_values, walk
from shapescript.compiler.ir.types import Element, TensorType, sorted_leaves
from shapescript.compiler.ops.locations import has_storage
from shapescript.compiler.ops.storage import Place, is_stored, overwritten
from shapescript.compiler.ops.table import View, entry
from shapescript.compiler.passes.overwriting import has_all_points, overwritable
from shapescript.compiler.records.dataclass import dataclass


@dataclass(frozen=True)
class Parts:
    """`in_place`: where a value lies; for one in a row of a tensor, where the tensor does."""

    places: Mapping[Value, Place]
    in_place: Callable[[Value], Place]

    def is_free(self, part: Place, result: Value, block: Block, first: int, last: int) -> bool:
        """Whether nothing needs what lies in the part from operation `first` on, which makes the result, up to operation `last`; nor at
        the block's end, where that is the last."""
        if last == len(block.ops) and any(self._lies_in(value, part) for value in block.yields):
            return False
        if any(self._uses(op, part) for op in block.ops[first + 1 : last]):
            return False
        return not self._uses(block.ops[first], part) or self.may_lie_upon(block.ops[first], result, part)

    def may_lie_upon(self, op: Op, result: Value, part: Place) -> bool:
        """Whether the operation's result may take the storage of operands that lie in the part."""
        if op.name == "pack":
            names = [leaf.name for leaf in sorted_leaves(op.attributes["model"])]
            given = zip(op.operands, names, strict=True)
            inside = [(operand, name) for operand, name in given if self._lies_in(operand, part)]
            return bool(inside) and all(self.places[operand] == part.inner(name) for operand, name in inside)
        allowed = overwritable(op) if has_all_points(op, result) else ()
        found = False
        for place, operand in enumerate(op.operands):
            if operand in self.places and self.places[operand].overlaps(part):
                if place not in allowed or self.places[operand] != part or not _have_width(op.results, _element_bytes(operand)):
                    return False
                found = True
            elif operand in self.places and self._lies_in(operand, part):
                return False
        return found

    def _lies_in(self, value: Value, part: Place) -> bool:
        return value in self.places and self.in_place(value).overlaps(part)

    def _uses(self, op: Op, part: Place) -> bool:
        """Whether the operation reads or overwrites something in the part. A view does neither: what it shows is read later."""
        if any(self._lies_in(value, part) for region in op.regions for value in free_values(region)):
            return True
        return any(place.overlaps(part) for place in self._used_places(op))

    def _used_places(self, op: Op) -> Iterator[Place]:
        is_view = isinstance(entry(op.name).lowering, View)
        for index, operand in enumerate(op.operands):
            if operand not in self.places or (is_view and is_stored(op.result)):
                continue
            narrowed = is_view or (op.name == "replace_submodel" and index == 0)
            place = self.in_place(operand)
            yield place.inner(op.attributes["path"]) if narrowed and "path" in op.attributes else place


def replaced_parts(block: Block, places: Mapping[Value, Place], last: Mapping[Value, int]) -> Iterator[tuple[Value, Place, int]]:
    """Storages that only replace a part of a model: the storage, the part, and the number of the operation that does it."""
    taken = {places[operand].root for op in walk(block) for place in overwritten(op) if (operand := op.operands[place]) in places}
    lying: dict[Value, list[Value]] = {}
    for value, place in places.items():
        lying.setdefault(place.root, []).append(value)
    for index, op in enumerate(block.ops):
        if op.name != "replace_submodel" or op.operands[1] not in places:
            continue
        filled = places[op.operands[1]]
        if not filled.path and filled.root not in taken and max(last.get(value, -1) for value in lying[filled.root]) == index:
            yield filled.root, places[op.result].inner(op.attributes["path"]), index


def _have_width(results: Sequence[Value], width: int) -> bool:
    """Whether the elements of all that is stored have so many bytes."""
    return all(_element_bytes(result) == width for result in results if has_storage(result))


def _element_bytes(value: Value) -> int:
    return value.type.element.bytes if isinstance(value.type, TensorType) else Element.F32.bytes
