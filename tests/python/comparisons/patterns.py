"""Patterns: axes moved, opened, unpacked, repeated, multiplied and summed."""

from __future__ import annotations

from typing import Any

import torch

from comparisons.comparison import EXACT, Comparison, Within

PRODUCT = Within(8, "a chain of products, in another order", absolute=64)
REDUCED = Within(8, "sums in another order", absolute=64)
GATHERED = Within(0, "moved numbers; a gradient adds what comes back for each", gradient=(8, 64))


def attention(x: Any) -> Any:
    b, n, _ = x.shape
    q, k, v = x.reshape(b, n, 3, 2, 4).permute(2, 0, 3, 1, 4)
    return q * k - v


ENTRIES = (
    Comparison(
        "rearrange",
        ("transpose", "reshape"),
        "fn f(x: T[b n 2*k]) -> T[k b*n 2]:\n    return rearrange(x: b n (2 k) -> k (n b) 2)\n",
        lambda x: x.reshape(*x.shape[:2], 2, x.shape[2] // 2).permute(3, 1, 0, 2).flatten(1, 2),
        EXACT,
    ),
    Comparison(
        "split",
        ("slice", "reshape", "transpose"),
        "fn f(x: T[b n 24]) -> T[b 2 n 4]:\n    q, k, v = split(x: b n (3 2 4) -> b 2 n 4)\n    return q * k - v\n",
        attention,
        Within(0, "one product and one difference", gradient=(2, 4)),
    ),
    Comparison(
        "repeat",
        ("broadcast", "transpose"),
        "fn f(x: T[b n]) -> T[n 3 b*2]:\n    return repeat(x: b n -> n 3 (b r), r=2)\n",
        lambda x: x.T[:, None, :, None].expand(-1, 3, -1, 2).reshape(x.shape[1], 3, 2 * x.shape[0]),
        GATHERED,
    ),
    Comparison(
        "einsum-of-one",
        ("sum", "transpose"),
        "fn f(x: T[a b c]) -> T[c a]:\n    return einsum(x: a b c -> c a)\n",
        lambda x: torch.einsum("abc->ca", x),
        REDUCED,
    ),
    Comparison(
        "diagonal",
        ("iota", "select", "sum"),
        "fn f(x: T[n b n k]) -> T[k n b]:\n    return einsum(x: n b n k -> k n b)\n",
        lambda x: torch.einsum("nbnk->knb", x),
        EXACT,
    ),
    Comparison(
        "trace",
        ("iota", "select", "sum"),
        "fn f(x: T[n b n n]) -> T[b]:\n    return einsum(x: n b n n -> b)\n",
        lambda x: torch.einsum("nbnn->b", x),
        REDUCED,
    ),
    Comparison(
        "diagonals-multiplied",
        ("contraction", "sum"),
        "fn f(x: T[n n m], y: T[n n k]) -> T[k n]:\n    return einsum(x, y: n n m, n n k -> k n)\n",
        lambda x, y: torch.einsum("nnm,nnk->kn", x, y),
        PRODUCT,
    ),
    Comparison(
        "axes-of-one-operand-summed",
        ("contraction", "sum"),
        "fn f(x: T[a b n], y: T[n m c]) -> T[c b]:\n    return einsum(x, y: a b n, n m c -> c b)\n",
        lambda x, y: torch.einsum("abn,nmc->cb", x, y),
        Within(16, "sums and a chain of products, in another order", absolute=256),
    ),
    Comparison(
        "nothing-in-common",
        ("contraction", "sum"),
        "fn f(x: T[a b], y: T[n m]) -> T[m]:\n    return einsum(x, y: a b, n m -> m)\n",
        lambda x, y: torch.einsum("ab,nm->m", x, y),
        Within(16, "sums and a product, in another order", absolute=256),
    ),
    Comparison(
        "bilinear",
        ("contraction",),
        "fn f(x: T[b i], w: T[o i j], y: T[b j]) -> T[b o]:\n    return einsum(x, w, y: b i, o i j, b j -> b o)\n",
        lambda x, w, y: torch.einsum("bi,oij,bj->bo", x, w, y),
        Within(16, "two chains of products, in another order", absolute=256),
        largest=20,
    ),
    Comparison(
        "chain-of-products",
        ("contraction",),
        "fn f(x: T[a b], y: T[b c], z: T[c e], w: T[a e]) -> T[c]:\n    return einsum(x, y, z, w: a b, b c, c e, a e -> c)\n",
        lambda x, y, z, w: torch.einsum("ab,bc,ce,ae->c", x, y, z, w),
        Within(64, "three chains of products, in another order", absolute=1024),
        largest=20,
    ),
)
