"""What is built in, by name."""

from __future__ import annotations

from collections.abc import Callable

from shapescript.compiler.check import (
    builtins_data,
    builtins_files,
    builtins_indexing,
    builtins_learning,
    builtins_models,
    builtins_patterns,
    builtins_tensors,
    types,
)
from shapescript.compiler.check.body import Body
from shapescript.compiler.check.site import Handler
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.check.types import Tensor
from shapescript.compiler.ir.types import Element
from shapescript.compiler.syntax import tree

# Functions of language.md that this version does not compile yet: E0902 where one is called.
NOT_BUILT = (
    "split",
    "repeat",
    "concat",
    "stack",
    "where",
    "masked_fill",
    "one_hot",
    "scatter_add",
    "cumsum",
    "sort",
    "topk",
    "arange",
    "eye",
    "causal",
    "checkpoint",
    "logsumexp",
    "variance",
    "any",
    "all",
    "log1p",
    "expm1",
    "rsqrt",
    "sin",
    "cos",
    "erf",
    "gelu",
    "silu",
    "softplus",
    "leaky_relu",
    "elu",
    "sign",
    "floor",
    "round",
    "pow",
    "clamp",
    "csv",
    "tensorboard",
    "memory",
    "tee",
    "Sgd",
    "Adam",
    "Lion",
)


def bracket_value(body: Body, name: str, node: tree.Bracket) -> Typed | None:
    """`zeros[b H]`, `ones[b H]`; None for a name that isn't built in this way."""
    if name in ("causal", "arange", "eye"):
        body.report.fail("E0902", f"`{name}[...]` is part of the language, but this version does not compile it yet", node.span)
    if name not in ("zeros", "ones"):
        return None
    match node.items:
        case (tree.AxisList(_, nodes),):
            axes = body.context.axes(nodes)
        case ():
            axes = ()
        case _:
            body.report.fail("E0301", "axes are separated by spaces", node.span)
    kind = Tensor(Element.F32, axes)
    (lowered,) = types.lower(kind)
    return Typed(kind, (body.builder.full(1.0 if name == "ones" else 0.0, lowered),))  # type: ignore[arg-type]


NAMES_AS_VALUES: dict[str, Callable[[Body], Typed]] = {
    "Eval": lambda body: Typed(types.MODE, body.builder.emit("mode_eval")),
}

BUILTINS: dict[str, Handler] = {
    **builtins_tensors.HANDLERS,
    **builtins_indexing.HANDLERS,
    **builtins_learning.HANDLERS,
    **builtins_patterns.HANDLERS,
    **builtins_models.HANDLERS,
    **builtins_data.HANDLERS,
    **builtins_files.HANDLERS,
}
