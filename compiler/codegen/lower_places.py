"""Places along one axis (ops/places.py): slices and what is put in their stead, tensors side by side, sizes that a run decides.

Pure operations may come to stand before the check of what they do, so each is safe whatever start and sizes are: a part that is longer
than the whole is zeros where it is read, and nothing where it is written.
"""

from __future__ import annotations

from collections.abc import Callable

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.emit import I64, Value, at
from shapescript.compiler.codegen.lowering import MEMORY_TYPES, Lowering, Site, lowers
from shapescript.compiler.codegen.runs import Runs, add_runs, copy_runs
from shapescript.compiler.codegen.storage import clear_storage
from shapescript.compiler.ir import nodes
from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.sizes import Size, number, product
from shapescript.compiler.ops.build import result_type
from shapescript.compiler.ops.locations import RowStorage, has_storage, storage_bytes
from shapescript.compiler.passes.symbols import is_doubtful
from shapescript.compiler.records.dataclass import dataclass

# ---- sizes and checks


@lowers("bind_size")
def _bind_size(low: Lowering, op: Op) -> None:
    count, size = low.number(op.operands[0]), op.attributes["size"]
    low.fail_if(low.b.icmp_signed("<", count, I64(0)), Site("negative axis", op, (str(size),)), [count])
    for symbol in size.symbols():
        low.sizes.bind(symbol, count)


@lowers("check_slice")
def _check_slice(low: Lowering, op: Op) -> None:
    b, start, stop = low.b, *map(low.number, op.operands)
    size = emit.size(low.size(op.attributes["size"]))
    outside = [b.icmp_signed(">", x, y) for x, y in ((I64(0), start), (start, stop), (stop, size))]
    low.fail_if(b.or_(b.or_(*outside[:2]), outside[2]), Site("slice", op), [start, stop, size])


# ---- slices


@dataclass(frozen=True)
class _Window:
    """Where a part lies in a whole, which has the same axes but for one."""

    low: Lowering
    whole: nodes.Value
    part: nodes.Value
    position: int

    @property
    def sizes(self) -> tuple[Size, Size]:
        whole, part = (result_type(value).axes[self.position] for value in (self.whole, self.part))
        return whole, part

    def runs(self) -> tuple[Size, Size, Size]:
        """How many runs the part is, how many elements each has, and how far apart they are in the whole."""
        whole, part = result_type(self.whole).axes, result_type(self.part).axes
        return product(whole[: self.position]), product(part[self.position :]), product(whole[self.position :])

    def place(self, tensor: nodes.Value, start: Value) -> Value:
        """Where the part begins in a tensor of the whole's type: at the nearest start at which it is inside."""
        b, kind = self.low.b, result_type(self.whole)
        size, length = map(self.low.size, self.sizes)
        first = extents.most(b, extents.least(b, start, extents.minus(b, size, length)), 0)
        step = self.low.size(product(kind.axes[self.position + 1 :]))
        return at(b, self.low.pointer(tensor), extents.times(b, first, step), MEMORY_TYPES[kind.element])

    def where_it_fits(self, then: Callable[[], None], otherwise: Callable[[], None]) -> None:
        """Emit the one where the part is no longer than the whole, else the other."""
        low, (whole, part) = self.low, self.sizes
        room = whole - part
        if not is_doubtful(room) and (room.constant() or 0) >= 0:
            then()
            return
        fits = low.b.icmp_signed("<=", emit.size(low.size(part)), emit.size(low.size(whole)))
        with low.b.if_else(fits) as (yes, no):
            for branch, emit_branch in ((yes, then), (no, otherwise)):
                with branch, low.sizes.scope():
                    emit_branch()


@lowers("slice")
def _slice(low: Lowering, op: Op) -> None:
    (x, start), part = op.operands, op.result
    if isinstance(low.plan.locations[part].storage, RowStorage):
        return
    window = _Window(low, x, part, op.attributes["position"])
    element = result_type(x).element

    def copy() -> None:
        count, length, apart = window.runs()
        copy_runs(low, Runs(element, count, length, length, apart), low.pointer(part), window.place(x, low.number(start)))

    window.where_it_fits(copy, lambda: clear_storage(low, low.pointer(part), low.size(storage_bytes(part.type))))


@lowers("put", "add_slice")
def _put(low: Lowering, op: Op) -> None:
    """The result lies where the whole lies: the rest of it is there."""
    x, part, start = op.operands
    if op.name == "put" and low.plan.locations[part].storage == RowStorage(x, start, result_type(part).axes[0]):
        return
    window = _Window(low, x, part, op.attributes["position"])

    def write() -> None:
        count, length, apart = window.runs()
        move = copy_runs if op.name == "put" else add_runs
        move(low, Runs(result_type(x).element, count, length, apart, length), window.place(op.result, low.number(start)), low.pointer(part))

    window.where_it_fits(write, lambda: None)


# ---- side by side


@lowers("concat")
def _concat(low: Lowering, op: Op) -> None:
    kind, position = result_type(op.result), op.attributes["position"]
    count, apart = product(kind.axes[:position]), product(kind.axes[position:])
    start: Size = number(0)
    for part in op.operands:
        length = product(result_type(part).axes[position:])
        target = at(low.b, low.pointer(op.result), low.size(start), MEMORY_TYPES[kind.element])
        copy_runs(low, Runs(kind.element, count, length, apart, length), target, low.pointer(part))
        start = start + length


@lowers("literal")
def _literal(low: Lowering, op: Op) -> None:
    if not has_storage(op.result):
        low.define(op.result, low.number(op.operands[0]))
        return
    target, element = low.pointer(op.result), MEMORY_TYPES[result_type(op.result).element]
    for place, operand in enumerate(op.operands):
        low.store_number(low.number(operand), at(low.b, target, place, element))
