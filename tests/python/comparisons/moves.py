"""Elements in other places: patterns, rows by number, shapes."""

from __future__ import annotations

import torch

from comparisons.comparison import EXACT, Comparison, Within, integers

PATTERN = "dim H = 2\ndim E = 3\n\nfn f(x: T[{}]) -> T[{}]:\n    return rearrange(x: {} -> {})\n"

ENTRIES = (
    Comparison(
        "transpose",
        ("transpose",),
        "fn f(x: T[b n c]) -> T[c b n]:\n    return rearrange(x: b n c -> c b n)\n",
        lambda x: x.permute(2, 0, 1),
        elementwise=True,
        extremes=(),
    ),
    Comparison(
        "heads",
        ("transpose", "reshape"),
        PATTERN.format("b n H*E", "b H n E", "b n (H E)", "b H n E"),
        lambda x: x.unflatten(2, (2, 3)).transpose(1, 2),
    ),
    Comparison(
        "heads together",
        ("transpose", "reshape"),
        PATTERN.format("b H n E", "b n (H E)", "b H n E", "b n (H E)"),
        lambda x: x.transpose(1, 2).flatten(2),
    ),
    Comparison(
        "broadcast",
        ("broadcast",),
        "fn f(x: T[n], y: T[b n]) -> T[b n]:\n    return where(y == y, x, 0.0)\n",
        lambda x, y: x.expand(y.shape),
        Within(0, "elements as they are; the gradient is summed in another order", gradient=(4, 64)),
        wrt=("x",),
        extremes=(),
    ),
    Comparison(
        "gather",
        ("gather", "scatter_rows"),
        "dim V = 7\n\nfn f(x: T[V c], index: int[b n]) -> T[b n c]:\n    return gather(x, index, over=V)\n",
        lambda x, index: x[index],
        Within(0, "rows as they are; the gradient's are added in another order", gradient=(8, 8)),
        inputs={"index": integers(0, 7)},
        twice=True,
    ),
    Comparison(
        "gather over a later axis",
        ("gather", "transpose"),
        "dim V = 7\n\nfn f(x: T[c V], index: int[n]) -> T[n c]:\n    return gather(x, index, over=V)\n",
        lambda x, index: x[:, index].T,
        Within(0, "rows as they are; the gradient's are added in another order", gradient=(8, 8)),
        inputs={"index": integers(0, 7)},
    ),
    Comparison(
        "zeros and ones",
        ("constant", "broadcast"),
        "fn f(x: f32[b n]) -> f32[b n]:\n    return zeros[b n] + ones[n]\n",
        torch.ones_like,
        EXACT,
        elements=("f32",),
        extremes=(),
    ),
    Comparison(
        "sizes as numbers",
        ("size",),
        "fn f(x: T[b n]) -> float:\n    return (1.0 * b * b + n) / (b + 1)\n",
        lambda x: torch.tensor((x.shape[0] ** 2 + x.shape[1]) / (x.shape[0] + 1), dtype=torch.float64),
        EXACT,
        extremes=(),
    ),
)
