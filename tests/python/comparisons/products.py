"""Products that are summed: `@` and einsum."""

from __future__ import annotations

import torch

from comparisons.comparison import Comparison, Within

ORDER = Within(16, "sums of products in two orders", absolute=8)

THROUGH = Within(64, "sums of products and a softmax of long rows between", absolute=16)

ENTRIES = (
    Comparison("matrix product", ("contraction",), "fn f(x: T[b n], w: T[n m]) -> T[b m]:\n    return x @ w\n", torch.matmul, ORDER),
    Comparison(
        "long rows between two products",
        ("rows_product",),
        "dim Long = 260\ndim D = 4\ndim E = 3\n\nfn f(x: T[b D], y: T[Long D], z: T[Long E]) -> T[b E]:\n"
        "    return softmax(einsum(x, y: b D, Long D -> b Long), over=Long) @ z\n",
        lambda x, y, z: torch.softmax(x @ y.T, -1) @ z,
        THROUGH,
        wrt=(),
        extremes=(),
    ),
    Comparison(
        "product of vectors",
        ("contraction",),
        "fn f(x: T[n], w: T[n]) -> T[]:\n    return x @ w\n",
        torch.dot,
        ORDER,
    ),
    Comparison(
        "products side by side",
        ("contraction",),
        "fn f(x: T[h b n], w: T[h n m]) -> T[h b m]:\n    return x @ w\n",
        torch.matmul,
        ORDER,
    ),
    Comparison(
        "einsum of two summed axes",
        ("contraction",),
        "fn f(x: T[b n c], w: T[c m n]) -> T[m b]:\n    return einsum(x, w: b n c, c m n -> m b)\n",
        lambda x, w: torch.einsum("bnc,cmn->mb", x, w),
        Within(16, "sums of products in two orders", absolute=32),
    ),
    Comparison(
        "outer product",
        ("contraction",),
        "fn f(x: T[b], w: T[n]) -> T[n b]:\n    return einsum(x, w: b, n -> n b)\n",
        lambda x, w: torch.outer(w, x),
        ORDER,
    ),
    Comparison(
        "scores of heads",
        ("contraction", "reshape", "transpose"),
        "dim H = 3\ndim E = 4\n\nfn f(q: T[b n H*E], k: T[b m H*E]) -> T[b H n m]:\n"
        "    heads = rearrange(q: b n (H E) -> b H n E)\n"
        "    return einsum(heads, rearrange(k: b m (H E) -> b m H E): b H n E, b m H E -> b H n m)\n",
        lambda q, k: torch.einsum("bnhe,bmhe->bhnm", q.unflatten(2, (3, 4)), k.unflatten(2, (3, 4))),
        ORDER,
    ),
    Comparison(
        "layer with what follows it",
        ("contraction", "fused_contraction", "add", "relu"),
        "dim I = 6\ndim O = 9\n\nfn f(x: T[b I], w: T[O I], bias: T[O]) -> T[b O]:\n"
        "    return relu(einsum(x, w: b I, O I -> b O) + bias)\n",
        lambda x, w, bias: torch.relu(x @ w.T + bias),
        Within(16, "sums of products in two orders", absolute=16),
        smooth=False,
    ),
)
