"""An operand or the result of a product of which only a part lies in scratch at a time."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.emit import Builder, Value
from shapescript.compiler.codegen.memory import ALIGNMENT
from shapescript.compiler.codegen.product_axes import C
from shapescript.compiler.codegen.sizes import SizeValues
from shapescript.compiler.ir.sizes import Size
from shapescript.compiler.records.dataclass import dataclass


@dataclass(frozen=True)
class InScratch:
    """`place` says which: A, B or C. Its part is that of one turn of the outermost loop, or with `is_run` of one run of the summed places.

    `move(builder, sizes, tensor, scratch, number)` fills an operand's part from a tensor before it is read, or takes the result's from
    there to the tensor. `bytes` and the sizes are by the names of the kernel's arguments.
    """

    place: int
    is_run: bool
    bytes: Size
    tensor: Value
    move: Callable[[Builder, SizeValues, Value, Value, Value], None]
    key: Hashable

    def rounded_bytes(self, b: Builder, value: Callable[[Size], emit.Size]) -> emit.Size:
        return extents.round_up(b, value(self.bytes), ALIGNMENT)

    def around(self, sizes: SizeValues, tensor: Value, scratch: Value) -> Callable[[Builder, Value, Callable[[], None]], None]:
        """What emits a turn of the outermost loop, given the product inside of it."""

        def turn(b: Builder, number: Value, inner: Callable[[], None]) -> None:
            if self.place == C:
                inner()
            self.move(b, sizes, tensor, scratch, number)
            if self.place != C:
                inner()

        return turn
