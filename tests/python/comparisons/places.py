"""Places of a tensor by its axes' names, taken and put; tensors side by side; tensors written out or made of axes."""

from __future__ import annotations

from typing import Any

import torch

from comparisons.comparison import EXACT, Comparison, Within, integers, number

ADDED = Within(0, "moved numbers, and a product or two of them", gradient=(4, 8))
SUMMED = Within(8, "sums in another order", absolute=64)


def shifted(x: Any) -> Any:
    return x[:, 1:] * x[:, :-1]


def middle(x: Any) -> Any:
    low, high = x.shape[1] // 2, x.shape[1] - x.shape[1] // 4
    return (x[:, low:high] ** 2).sum(1)


def window(x: Any, w: Any, i: int) -> Any:
    return x[:, i : i + 3] * w


def put_row(x: Any, v: Any) -> Any:
    y = x.clone()
    y[:, 0] = v
    return y * x


def put_box(x: Any, v: Any) -> Any:
    y = x * x
    y[:1, 1:] = v
    y[:, :1] = 0.5
    return y


def put_middle(x: Any, v: Any) -> Any:
    y = x * 2
    low = x.shape[0] // 2
    return torch.cat([y[:low], v * y[low:]])


def padded(x: Any, v: Any) -> Any:
    b, n, k = x.shape
    wider = torch.cat([v.expand(b, 1, k), x, v.expand(b, 2, k)], 1)
    return torch.cat([wider, v.expand(b, n + 3, 1)], 2)


def running_sum(x: Any) -> Any:
    return x.cumsum(1)


ENTRIES = (
    Comparison(
        "range-of-an-axis",
        ("slice", "check_slice"),
        "fn f(x: T[b n k]) -> T[b n-1 k]:\n    return x[n=1..] * x[n=0..n-1]\n",
        shifted,
        ADDED,
        nonempty=("n",),
    ),
    Comparison(
        "place-of-an-axis",
        ("slice", "reshape", "put"),
        "fn f(x: T[b n k]) -> T[k b]:\n    return rearrange(x[n=n-1] + x[n=0]: b k -> k b)\n",
        lambda x: (x[:, -1] + x[:, 0]).T,
        ADDED,
        nonempty=("n",),
    ),
    Comparison(
        "place-by-a-number-of-the-run",
        ("slice", "check_slice"),
        "fn f(x: T[b n k], i: int) -> T[b]:\n    return x[n=i, k=i] * x[k=0, n=i]\n",
        lambda x, i: x[:, i, i] * x[:, i, 0],
        ADDED,
        inputs={"i": number(0)},
        nonempty=("n", "k"),
    ),
    Comparison(
        "range-of-a-known-length-that-begins-anywhere",
        ("slice", "check_slice"),
        "dim K = 3\nfn f(x: T[b n+5], w: T[K], i: int) -> T[b K]:\n    return x[n+5=i..i+K] * w\n",
        window,
        ADDED,
        inputs={"i": number(2)},
    ),
    Comparison(
        "range-whose-length-a-run-decides",
        ("slice", "bind_size", "check_slice"),
        "fn f(x: T[b n]) -> T[b]:\n    i, j = n // 2, n - n // 4\n    return sum(x[n=i..j] * x[n=i..j], over=n)\n",
        middle,
        SUMMED,
    ),
    Comparison(
        "put-a-place",
        ("put", "check_slice"),
        "fn f(x: T[b n k], v: T[b]) -> T[b n k]:\n    mut y = x\n    y[n=0] = v\n    return y * x\n",
        lambda x, v: put_row(x, v[:, None]),
        ADDED,
        nonempty=("n",),
    ),
    Comparison(
        "put-along-several-axes",
        ("put", "slice"),
        "fn f(x: T[b n], v: T[n-1]) -> T[b n]:\n    mut y = x * x\n    y[b=0, n=1..] = v\n    y[n=0..1] = 0.5\n    return y\n",
        put_box,
        ADDED,
        nonempty=("b", "n"),
    ),
    Comparison(
        "put-a-range-whose-length-a-run-decides",
        ("put", "bind_size"),
        "fn f(x: T[n b], v: T[b]) -> T[n b]:\n    mut y = x * 2\n    i = n // 2\n    y[n=i..] = v * y[n=i..]\n    return y\n",
        put_middle,
        Within(0, "moved numbers and products; a gradient that is summed along the spread axis", gradient=(8, 64)),
    ),
    Comparison(
        "put-in-a-loop",
        ("put", "for_range"),
        "fn f(x: T[b n]) -> T[b n]:\n    mut y = x\n    for t in 1..n:\n        y[n=t] = y[n=t] + y[n=t-1]\n    return y\n",
        running_sum,
        Within(4, "the same sums one after another; a gradient adds in another order", absolute=16, gradient=(16, 64)),
        largest=40,
    ),
    Comparison(
        "put-whole-numbers-and-truth-values",
        ("put",),
        """
fn f(x: int[b n], k: bool[n]) -> int[b n]:
    mut y = x
    mut m = k
    y[n=0] = 7
    m[n=0..1] = true
    y[b=0] = y[b=0] * int(m)
    return y
""",
        lambda x, k: torch.cat([torch.cat([torch.tensor([7]), x[0, 1:] * k[1:]])[None], torch.cat([x[1:, :1] * 0 + 7, x[1:, 1:]], 1)]),
        elements=("f32",),
        extremes=(),
        nonempty=("b", "n"),
    ),
    Comparison(
        "concat",
        ("concat",),
        "fn f(x: T[b n k], y: T[b m k], z: T[b 1 k]) -> T[b 2*n+m+1 k]:\n    return concat(x, y, z, x, over=n)\n",
        lambda x, y, z: torch.cat([x, y, z, x], 1),
        ADDED,
    ),
    Comparison(
        "concat-whole-numbers",
        ("concat",),
        "fn f(x: int[b n], y: int[k n]) -> int[b+k n]:\n    return concat(x, y, over=(b, k))\n",
        lambda x, y: torch.cat([x, y]),
        elements=("f32",),
        extremes=(),
    ),
    Comparison(
        "stack",
        ("concat", "reshape"),
        "fn f(x: T[b n], y: T[b n]) -> T[3 b n]:\n    return stack(x, y, x * y, over=3)\n",
        lambda x, y: torch.stack([x, y, x * y]),
        ADDED,
    ),
    Comparison(
        "stack-by-a-pattern",
        ("concat", "transpose"),
        "fn f(x: T[b n], y: T[n b]) -> T[n 2 b]:\n    return stack(x, y: b n, n b -> n 2 b)\n",
        lambda x, y: torch.stack([x.T, y], 1),
        EXACT,
    ),
    Comparison(
        "pad",
        ("concat", "broadcast"),
        "fn f(x: T[b n k], v: T[1]) -> T[b n+3 k+1]:\n    return pad(x, n=(1, 2), k=(0, 1), value=v[1=0])\n",
        padded,
        Within(0, "moved numbers; the fill's gradient is a sum in another order", gradient=(8, 128)),
    ),
    Comparison(
        "literal",
        ("literal",),
        "fn f(x: T[2], w: T[3]) -> T[2 3]:\n    a, b = x[2=0], x[2=1]\n    return [[a, 1.5, b], [b, a * b, -2]] * w\n",
        lambda x, w: torch.stack([x[0], torch.full_like(x[0], 1.5), x[1], x[1], x[0] * x[1], torch.full_like(x[0], -2)]).reshape(2, 3) * w,
        ADDED,
    ),
    Comparison(
        "literal-of-numbers",
        ("literal",),
        "dim D = 3\nfn f(x: T[b D]) -> T[b D]:\n    return x * rearrange([1, -2.5, 0.1]: D -> D)\n",
        lambda x: x * torch.tensor([1, -2.5, 0.1]),
        elements=("f32",),
        elementwise=True,
    ),
    Comparison(
        "literal-of-whole-numbers",
        ("literal",),
        "fn f(x: int[b 2], y: bool[2]) -> int[b 2]:\n    return x * [3, -4] + int(y == [true, false])\n",
        lambda x, y: x * torch.tensor([3, -4]) + (y == torch.tensor([True, False])).long(),
        elements=("f32",),
        extremes=(),
    ),
    Comparison(
        "arange",
        ("iota",),
        "fn f(x: int[b n]) -> int[b n]:\n    return x * arange[n]\n",
        lambda x: x * torch.arange(x.shape[1]),
        elements=("f32",),
        extremes=(),
    ),
    Comparison(
        "eye",
        ("iota", "eq", "select"),
        "fn f(x: T[n m]) -> T[n m]:\n    return x + eye[n m]\n",
        lambda x: x + torch.eye(*x.shape),
        elements=("f32",),
        elementwise=True,
    ),
    Comparison(
        "causal",
        ("iota", "le"),
        "fn f(x: T[b n m]) -> bool[n m]:\n    return causal[n m]\n",
        lambda x: torch.ones(x.shape[1:], dtype=torch.bool).tril(x.shape[2] - x.shape[1]),
        elements=("f32",),
        extremes=(),
    ),
    Comparison(
        "one-hot",
        ("gather", "iota", "select"),
        "dim Classes = 5\nfn f(label: int[b n]) -> f32[b n Classes]:\n    return one_hot(label, over=Classes)\n",
        lambda label: torch.nn.functional.one_hot(label, 5).float(),
        inputs={"label": integers(0, 5)},
        elements=("f32",),
        extremes=(),
    ),
)
