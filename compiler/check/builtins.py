"""What is built in, by name."""

from __future__ import annotations

from collections.abc import Callable

from shapescript.compiler.check import (
    builtins_checkpoint,
    builtins_data,
    builtins_draws,
    builtins_files,
    builtins_functions,
    builtins_indexing,
    builtins_joining,
    builtins_learning,
    builtins_losses,
    builtins_making,
    builtins_models,
    builtins_ordering,
    builtins_patterns,
    builtins_saving,
    builtins_selection,
    builtins_sinks,
    builtins_tensors,
    builtins_texts,
    builtins_training,
    builtins_vectors,
    builtins_windows,
    types,
)
from shapescript.compiler.check.body import Body
from shapescript.compiler.check.site import Handler
from shapescript.compiler.check.typed import Typed

NAMES_AS_VALUES: dict[str, Callable[[Body], Typed]] = {
    "Eval": lambda body: Typed(types.MODE, body.builder.emit("mode_eval")),
}

BUILTINS: dict[str, Handler] = {
    **builtins_tensors.HANDLERS,
    **builtins_functions.HANDLERS,
    **builtins_selection.HANDLERS,
    **builtins_indexing.HANDLERS,
    **builtins_joining.HANDLERS,
    **builtins_learning.HANDLERS,
    **builtins_losses.HANDLERS,
    **builtins_making.HANDLERS,
    **builtins_patterns.HANDLERS,
    **builtins_models.HANDLERS,
    **builtins_ordering.HANDLERS,
    **builtins_training.HANDLERS,
    **builtins_checkpoint.HANDLERS,
    **builtins_vectors.HANDLERS,
    **builtins_windows.HANDLERS,
    **builtins_data.HANDLERS,
    **builtins_texts.HANDLERS,
    **builtins_draws.HANDLERS,
    **builtins_sinks.HANDLERS,
    **builtins_files.HANDLERS,
    **builtins_saving.HANDLERS,
}
