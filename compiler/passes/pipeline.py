"""The pipeline: one list of named steps from a checked module to what an engine gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from shapescript.compiler.diagnostics.model import InternalError
from shapescript.compiler.ir.nodes import Function, Module
from shapescript.compiler.ir.sizes import Size, Symbol
from shapescript.compiler.ir.verifier import InvalidIR, verify_function
from shapescript.compiler.ops.table import infer
from shapescript.compiler.passes.copies import insert_copies
from shapescript.compiler.passes.differentiate import differentiate
from shapescript.compiler.passes.expand import expand
from shapescript.compiler.passes.fuse import fuse
from shapescript.compiler.passes.fuse_reductions import fuse_reductions
from shapescript.compiler.passes.join_isolated import join_isolated
from shapescript.compiler.passes.join_leaves import join_leaves
from shapescript.compiler.passes.join_reductions import join_reductions
from shapescript.compiler.passes.join_row_products import join_row_products
from shapescript.compiler.passes.join_window_products import join_window_products
from shapescript.compiler.passes.leafwise import split_leafwise
from shapescript.compiler.passes.mark_zeros import mark_zeros
from shapescript.compiler.passes.points_again import make_points_again
from shapescript.compiler.passes.read_broadcasts import read_broadcasts
from shapescript.compiler.passes.rows_again import make_rows_again
from shapescript.compiler.passes.simplify import fold_conditions, simplify
from shapescript.compiler.passes.sink_scales import sink_scales
from shapescript.compiler.passes.specialise import specialise
from shapescript.compiler.passes.unreached import mark_unreached
from shapescript.compiler.passes.widen import widen
from shapescript.compiler.passes.windows_again import make_windows_again

Pass = Callable[[Function], Function]

# Each step and its passes. `specialise` stands before the first.
STEPS: tuple[tuple[str, tuple[Pass, ...]], ...] = (
    ("ir", (split_leafwise, widen)),
    ("grad", (fold_conditions, differentiate, widen)),
    ("expanded", (mark_unreached, expand)),
    ("simplified", (simplify,)),
    ("fused", (sink_scales, join_leaves, fuse, fuse_reductions)),
    (
        "final",
        (
            simplify,
            join_isolated,
            read_broadcasts,
            join_window_products,
            join_reductions,
            make_windows_again,
            make_rows_again,
            make_points_again,
            join_row_products,
            mark_zeros,
            insert_copies,
        ),
    ),
)


def compile_entry(module: Module, key: str, sizes: Mapping[Symbol, Size], stop_after: str | None = None, verify: bool = False) -> Function:
    """The function `key`, with sizes in the place of its dims, as it is after the step `stop_after` (a name in STEPS; the last without it).

    Raises CompileError where the program can't be compiled with these sizes, ValueError for an unknown step, and with `verify`
    InternalError where a pass made IR that breaks the rules.
    """
    if stop_after is not None and stop_after not in dict(STEPS):
        raise ValueError(f"no step {stop_after!r}; there are {', '.join(name for name, _ in STEPS)}")
    function = specialise(module, key, sizes)
    _verified(function, "specialise", verify)
    for name, passes in STEPS:
        for pass_ in passes:
            function = pass_(function)
            _verified(function, pass_.__name__, verify)
        if name == stop_after:
            break
    return function


def _verified(function: Function, stage: str, verify: bool) -> None:
    if not verify:
        return
    try:
        verify_function(function, infer)
    except InvalidIR as error:
        raise InternalError(stage, str(error), function.span) from error
