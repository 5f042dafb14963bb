"""Convolutions, pooling and windows."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import (
    avg_pool1d,
    avg_pool2d,
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    max_pool1d,
    max_pool2d,
    pad,
)

from comparisons.comparison import EXACT, LIMITS, Comparison, Within

ORDER = Within(16, "sums of products in two orders", absolute=8)
ADDED = Within(8, "what several windows give back is added in another order", absolute=4)
FINITE = (0.0, -0.0, 1e-45, -1e-308)  # a padding's zeros take part in our sums: times an infinity they are NaN, and PyTorch leaves them out
CONVOLUTION = ("windows", "fold", "contraction")
JOINED = (*CONVOLUTION, "windows_contraction", "contraction_fold")


def unfolded(x: Any) -> Any:
    return pad(x, (1, 1)).unfold(1, 3, 1)


def unfolded_twice(x: Any) -> Any:
    return x.unfold(0, 2, 2).unfold(2, 2, 1).permute(0, 1, 2, 4, 3)


def convolved_along_the_first_axes(x: Any, k: Any) -> Any:
    return conv2d(x.permute(2, 3, 0, 1), k, stride=(2, 1), padding=1).permute(2, 3, 0, 1)


ENTRIES = (
    Comparison(
        "convolution",
        JOINED,
        "fn f(x: T[b i h w], k: T[o i 3 3]) -> T[b o h w]:\n    return convolve(x, k, over=(h, w), padding=1)\n",
        lambda x, k: conv2d(x, k, padding=1),
        ORDER,
        nonempty=("h", "w", "i", "o"),
        extremes=FINITE,
        largest=11,
    ),
    Comparison(
        "convolution without padding",
        CONVOLUTION,
        "fn f(x: T[b i h+1 w+2], k: T[o i 2 3]) -> T[b o h w]:\n    return convolve(x, k, over=(h+1, w+2))\n",
        conv2d,
        ORDER,
        nonempty=("h", "w", "i", "o"),
        largest=11,
    ),
    Comparison(
        "convolution of one place",
        ("contraction",),
        "fn f(x: T[b i h w], k: T[o i 1 1]) -> T[b o h w]:\n    return convolve(x, k, over=(h, w))\n",
        lambda x, k: torch.einsum("bihw,oi->bohw", x, k[:, :, 0, 0]),
        ORDER,
        largest=11,
    ),
    Comparison(
        "convolution along one axis, strided and dilated",
        CONVOLUTION,
        "fn f(x: T[b i n], k: T[o i 2]) -> T[b o (n+1)//2]:\n    return convolve(x, k, over=n, stride=2, padding=1, dilation=2)\n",
        lambda x, k: conv1d(x, k, stride=2, padding=1, dilation=2),
        ORDER,
        nonempty=("n", "i", "o"),
        extremes=FINITE,
    ),
    Comparison(
        "convolution along three axes",
        CONVOLUTION,
        "fn f(x: T[i d h w], k: T[o i 2 1 2]) -> T[o d+1 (h+1)//2+1 w]:\n"
        "    return convolve(x, k, over=(d, h, w), stride=(1, 2, 1), padding=(1, 1, 1), dilation=(1, 1, 2))\n",
        lambda x, k: conv3d(x[None], k, stride=(1, 2, 1), padding=1, dilation=(1, 1, 2))[0],
        ORDER,
        nonempty=("d", "h", "w", "i", "o"),
        extremes=FINITE,
        largest=7,
    ),
    Comparison(
        "convolution with its axes elsewhere",
        CONVOLUTION,
        "fn f(x: T[h w b i], k: T[o i 3 2]) -> T[(h-1)//2+1 w+1 b o]:\n    return convolve(x, k, over=(h, w), stride=(2, 1), padding=1)\n",
        convolved_along_the_first_axes,
        ORDER,
        nonempty=("h", "w", "i", "o"),
        extremes=FINITE,
        largest=9,
    ),
    Comparison(
        "convolution in groups",
        CONVOLUTION,
        "fn f(x: T[b 2*i h w], k: T[2*o i 3 1]) -> T[b 2*o h w]:\n    return convolve(x, k, over=(h, w), padding=(1, 0), groups=2)\n",
        lambda x, k: conv2d(x, k, padding=(1, 0), groups=2),
        ORDER,
        nonempty=("h", "w", "i", "o"),
        extremes=FINITE,
        largest=7,
    ),
    Comparison(
        "convolution of each channel by itself",
        CONVOLUTION,
        "fn f(x: T[b c h w], k: T[c 1 3 3]) -> T[b c h w]:\n    return convolve(x, k, over=(h, w), padding=1, groups=c)\n",
        lambda x, k: conv2d(x, k, padding=1, groups=x.shape[1]),
        ORDER,
        nonempty=("h", "w", "c"),
        extremes=FINITE,
        largest=7,
    ),
    Comparison(
        "transposed convolution",
        CONVOLUTION,
        "fn f(x: T[b i h w], k: T[i o 3 3]) -> T[b o 2*h 2*w]:\n"
        "    return convolve_transposed(x, k, over=(h, w), stride=2, padding=1, output_padding=1)\n",
        lambda x, k: conv_transpose2d(x, k, stride=2, padding=1, output_padding=1),
        ORDER,
        nonempty=("h", "w", "i", "o"),
        extremes=FINITE,
        largest=9,
    ),
    Comparison(
        "transposed convolution in groups, dilated",
        CONVOLUTION,
        "fn f(x: T[b 2*i n], k: T[2*i o 3]) -> T[b 2*o 2*n+1]:\n"
        "    return convolve_transposed(x, k, over=n, stride=2, padding=1, dilation=2, groups=2)\n",
        lambda x, k: conv_transpose1d(x, k, stride=2, padding=1, dilation=2, groups=2),
        ORDER,
        nonempty=("n", "i", "o"),
        extremes=FINITE,
        largest=11,
    ),
    Comparison(
        "max pooling",
        ("windows", "fold", "max"),
        "fn f(x: T[b c h w]) -> T[b c (h-1)//2+1 (w-1)//2+1]:\n    return max_pool(x, over=(h, w), size=3, stride=2, padding=1)\n",
        lambda x: max_pool2d(x, 3, 2, 1),
        Within(0, "the largest as it is", gradient=(8, 4)),
        nonempty=("h", "w", "c"),
        extremes=LIMITS,
        largest=11,
    ),
    Comparison(
        "max pooling along one axis, dilated",
        ("windows", "fold", "max"),
        "fn f(x: T[b n]) -> T[b n]:\n    return max_pool(x, over=n, size=2, stride=1, padding=1, dilation=2)\n",
        lambda x: max_pool1d(x, 2, 1, 1, 2),
        Within(0, "the largest as it is", gradient=(8, 4)),
        nonempty=("b", "n"),
    ),
    Comparison(
        "average pooling",
        ("windows", "fold", "mean"),
        "fn f(x: T[b c h w]) -> T[b c (h-1)//2+1 w+1]:\n    return average_pool(x, over=(h, w), size=(3, 2), stride=(2, 1), padding=1)\n",
        lambda x: avg_pool2d(x, (3, 2), (2, 1), 1),
        ADDED,
        nonempty=("h", "w", "c"),
        largest=11,
    ),
    Comparison(
        "average pooling along one axis",
        ("windows", "fold", "mean"),
        "fn f(x: T[c n+3]) -> T[c (n+3)//4]:\n    return average_pool(x, over=n+3, size=4)\n",
        lambda x: avg_pool1d(x, 4),
        ADDED,
        nonempty=("c", "n"),
    ),
    Comparison(
        "windows",
        ("windows", "fold"),
        "fn f(x: T[b n]) -> T[b n 3]:\n    return windows(x, over=n, size=3, padding=1)\n",
        unfolded,
        Within(0, "moved as they are", gradient=(8, 4)),
        nonempty=("n",),
    ),
    Comparison(
        "windows along two axes",
        ("windows",),
        "fn f(x: T[2*n b m+1]) -> T[n b m 2 2]:\n    return windows(x, over=(m+1, 2*n), size=2, stride=(1, 2))\n",
        unfolded_twice,
        Within(0, "moved as they are", gradient=(8, 4)),
        nonempty=("n", "m"),
    ),
    Comparison(
        "windows of whole numbers",
        ("windows",),
        "fn f(x: int[b n]) -> int[b n 2]:\n    return windows(x, over=n, size=2, dilation=2, padding=1)\n",
        lambda x: torch.stack([pad(x, (1, 1))[:, : x.shape[1]], pad(x, (1, 1))[:, 2:]], 2),
        EXACT,
        elements=("f32",),
        nonempty=("n",),
    ),
)
