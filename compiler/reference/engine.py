"""The reference engine: a function, evaluated operation by operation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shapescript.compiler.diagnostics.model import InternalError
from shapescript.compiler.ir.nodes import Function, used_values, walk
from shapescript.compiler.ops.binding import bind_sizes
from shapescript.compiler.ops.guards import guarded_optimisers
from shapescript.compiler.ops.protocol import Host
from shapescript.compiler.reference import (
    control,
    data,
    draws,
    elementwise,
    fused,
    indexing,
    models,
    optimisers,
    ordering,
    places,
    reduced_contraction,
    reductions,
    reserve,
    shapes,
    window_products,
    windows,
)
from shapescript.compiler.reference.border import finish, from_host
from shapescript.compiler.reference.frame import HANDLERS, Frame
from shapescript.compiler.reference.layouts import Layouts

GROUPS = (
    control,
    data,
    draws,
    elementwise,
    fused,
    indexing,
    models,
    optimisers,
    ordering,
    places,
    reduced_contraction,
    reductions,
    reserve,
    shapes,
    window_products,
    windows,
)  # importing them fills HANDLERS


class Evaluator:
    """Evaluates one function, whose sizes are known but for axis variables; several threads may run it at once."""

    def __init__(self, function: Function) -> None:
        """Raises InternalError for an operation that an earlier pass should have removed."""
        for op in walk(function.body):
            if op.name not in HANDLERS:
                raise InternalError("the reference evaluator", f"the operation {op.name} reached it", op.span)
        self.function = function
        self._guards, self._layouts = guarded_optimisers(function), Layouts()
        self._used = used_values(function.body)

    def run(self, arguments: Sequence[object], host: Host) -> list[object]:
        """The declared results for arguments as ops/protocol.py describes them, in memory of their own.

        At the end each `mut` argument's array, buffer or state is overwritten with its last value. Raises ExecutionError, and what the
        host raises; no argument has changed then, though handles (a mode's draws, what the host has written) may have moved.
        """
        with np.errstate(all="ignore"):
            frame = Frame(bind_sizes(self.function, arguments), host, self._layouts, self._guards, self._used)
            body = self.function.body
            given = [from_host(value.type, argument) for value, argument in zip(body.parameters, arguments, strict=True)]
            return finish(self.function, arguments, frame.run(body, given))
