"""What is done with each block of whole rows of a product, as soon as they are made."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from shapescript.compiler.codegen.contraction_plan import Contraction, Plan
from shapescript.compiler.codegen.emit import Builder, Value
from shapescript.compiler.codegen.sizes import SizeValues
from shapescript.compiler.records.dataclass import dataclass

NEAR = 1 << 16  # elements of a block: its rows are still in the second cache when its last panel is done
USUAL_COLUMNS = 1024  # where their number isn't known


@dataclass(frozen=True)
class BehindRows:
    """`emit(builder, sizes, given, batch, first, end)` does it for rows first to end, in the turn of the loops around the product that
    `batch` says; `given` are the `arguments` and what follows them in the kernel. `work`: picoseconds that an element takes one core.

    With `scratch`, the bytes that it needs for so many rows of a block, the block lies at the beginning of these, whose address is given
    first; else in the result.
    """

    arguments: tuple[Value, ...]
    work: int
    emit: Callable[[Builder, SizeValues, Sequence[Value], Sequence[Value], Value, Value], None]
    key: Hashable
    scratch: Callable[[int], int] | None = None

    def captured(self, rest: Sequence[Value], sizes: int) -> tuple[Value, ...]:
        """Its arguments among those of a kernel, at whose end they stand before so many sizes."""
        return tuple(rest[len(rest) - len(self.arguments) - sizes :])


def rows_of_a_block(plan: Plan, contraction: Contraction) -> int:
    """A whole number of tiles."""
    columns = contraction.n if isinstance(contraction.n, int) else USUAL_COLUMNS
    return max(1, NEAR // max(1, columns) // plan.rows) * plan.rows
