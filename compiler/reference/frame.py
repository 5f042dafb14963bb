"""One run of a function: its values and sizes, and the loop over a block's operations."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence, Set
from typing import Any

from shapescript.compiler.diagnostics.model import InternalError, Span
from shapescript.compiler.ir.nodes import Block, Op, Value
from shapescript.compiler.ir.sizes import LARGEST, InexactDivision, Size, Symbol, evaluate
from shapescript.compiler.ops.guards import Guards
from shapescript.compiler.ops.protocol import Host, inexact_axis
from shapescript.compiler.reference.layouts import Layouts

POLL_SECONDS = 0.05

# What evaluates an operation: the operation, its operands' values and the frame to the results' values. Tensors are NumPy arrays of the
# element's type, those without axes too, and may be views of others: no handler writes to an array that it was given.
Handler = Callable[[Op, Sequence[Any], "Frame"], Sequence[Any]]

HANDLERS: dict[str, Handler] = {}


def handles(*names: str) -> Callable[[Handler], Handler]:
    """Enters a function as the handler of operations."""

    def enter(handler: Handler) -> Handler:
        for name in names:
            HANDLERS[name] = handler
        return handler

    return enter


class Frame:
    """Each value of the function is held once: going round a loop again replaces what its region computed before."""

    def __init__(self, sizes: dict[Symbol, int], host: Host, layouts: Layouts, guards: Guards, used: Set[Value] | None = None) -> None:
        self.sizes, self.host, self.layouts = sizes, host, layouts
        self.space: tuple[int, ...] | None = None  # the points of the fused kernel whose region runs, None outside of one
        self._guards, self._used = guards, used
        self._values: dict[Value, Any] = {}
        self._poll_at = time.monotonic() + POLL_SECONDS

    def run(self, block: Block, arguments: Sequence[Any]) -> list[Any]:
        """What the block yields for these parameters."""
        values = self._values
        values.update(zip(block.parameters, arguments, strict=True))
        self._poll()
        for op in block.ops:
            results = HANDLERS[op.name](op, [values[operand] for operand in op.operands], self)
            values.update(zip(op.results, results, strict=True))
            self._poll()
        return [values[value] for value in block.yields]

    def uses(self, value: Value) -> bool:
        """Whether an operation or the end of a block reads the value."""
        return self._used is None or value in self._used

    def size(self, size: Size, span: Span | None) -> int:
        """Raises ExecutionError R1003 for a quotient that is none and for a size below 0."""
        found = self.number(size, span)
        if found < 0:
            raise inexact_axis(f"axis {size} would have {found} elements", span)
        return found

    def number(self, size: Size, span: Span | None) -> int:
        """A size that may be below 0."""
        try:
            found = evaluate(size, self._size_of)
        except InexactDivision as error:
            raise inexact_axis(f"axis {size}: {error}", span) from None
        if found is None:
            raise InternalError("the reference evaluator", f"the size {size} is not bound", span)
        return found

    def shape(self, axes: Sequence[Size], span: Span | None) -> tuple[int, ...]:
        """Raises MemoryError for more elements than NumPy counts, even in a view; like NumPy it leaves out axes of no places."""
        found = tuple(self.size(axis, span) for axis in axes)
        if math.prod(extent or 1 for extent in found) > LARGEST:
            raise MemoryError(f"a tensor of shape {found}, which has more than 2**48 elements")
        return found

    def step_of(self, guard: Op) -> int | None:
        """The number of the training step that a check guards, None where no update follows it."""
        state = self._values.get(self._guards[guard]) if guard in self._guards else None
        return None if state is None else int(state.block[0]) + 1

    def _size_of(self, symbol: Symbol) -> int | None:
        return self.sizes.get(symbol, symbol.value)

    def _poll(self) -> None:
        if time.monotonic() >= self._poll_at:
            self.host.poll()
            self._poll_at = time.monotonic() + POLL_SECONDS
