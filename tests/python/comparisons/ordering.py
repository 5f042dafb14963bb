"""Order along an axis: running sums, sorting, elements and rows by their positions."""

from __future__ import annotations

from typing import Any

import torch

from comparisons.comparison import EXACT, LIMITS, Comparison, Within, integers

CLASSES = 7
DIM = f"dim V = {CLASSES}\n\n"
INDEX = {"i": integers(0, CLASSES)}
CHAIN = Within(40, "a chain of up to 37 sums in the element type, which PyTorch makes in f64 and rounds")
SUMMED = Within(0, "elements moved; a gradient that is added up in another order", gradient=(8, 0))


def added(x: Any, rows: Any, i: Any) -> Any:
    """The rows one after the other, for gradients too."""
    return x.index_add(0, i.reshape(-1), rows.reshape(i.numel(), x.shape[1]))


def added_in_the_middle(x: Any, rows: Any, i: Any) -> Any:
    return x.index_add(1, i, rows.transpose(0, 1))


ENTRIES = (
    *(
        Comparison(
            f"cumsum over {name}",
            ("cumsum",),
            f"fn f(x: T[b n c]) -> T[b n c]:\n    return cumsum(x, over={name})\n",
            lambda x, place=place: x.cumsum(place),
            CHAIN,
        )
        for place, name in enumerate("bnc")
    ),
    Comparison(
        "cumsum of whole numbers",
        ("cumsum",),
        "fn f(x: int[b n]) -> int[b n]:\n    return cumsum(x, over=n)\n",
        lambda x: x.cumsum(1),
        inputs={"x": integers(-(2**63), 2**63 - 1)},
        elements=("f32",),
        extremes=(),
    ),
    *(
        Comparison(
            f"sort over {name}{', descending' if descending else ''}",
            ("argsort", "take_along"),
            f"fn f(x: T[b n]) -> T[b n]:\n    return sort(x, over={name}{', descending=true' if descending else ''})\n",
            lambda x, place=place, descending=descending: torch.sort(x, dim=place, descending=descending, stable=True).values,
        )
        for place, name in enumerate("bn")
        for descending in (False, True)
    ),
    *(
        Comparison(
            f"argsort{' descending' if descending else ''} of numbers that stand several times",
            ("argsort",),
            f"fn f(x: T[b n]) -> int[b n]:\n    return argsort(x, over=n, descending={str(descending).lower()})\n",
            lambda x, descending=descending: torch.argsort(x, dim=1, descending=descending, stable=True),
            inputs={"x": integers(-2, 3)},
            extremes=LIMITS,
        )
        for descending in (False, True)
    ),
    Comparison(
        "argsort of whole numbers",
        ("argsort",),
        "fn f(x: int[n b]) -> int[n b]:\n    return argsort(x, over=n)\n",
        lambda x: torch.argsort(x, dim=0, stable=True),
        elements=("f32",),
        extremes=(),
    ),
    Comparison(
        "topk",
        ("argsort", "slice", "take_along", "put_along"),
        f"{DIM}fn f(x: T[b V c]) -> T[b 3 c]:\n    values, places = topk(x, over=V, count=3)\n    return values\n",
        lambda x: x.topk(3, 1).values,
    ),
    Comparison(
        "places of topk",
        ("argsort", "slice"),
        f"{DIM}fn f(x: T[b V]) -> int[b 3]:\n    values, places = topk(x, 3, over=V)\n    return places\n",
        lambda x: x.topk(3, 1).indices,
        extremes=(),
    ),
    Comparison(
        "take_along",
        ("take_along", "put_along"),
        f"{DIM}fn f(x: T[b V c], i: int[b m c]) -> T[b m c]:\n    return take_along(x, i, over=V)\n",
        lambda x, i: x.gather(1, i),
        SUMMED,
        inputs=INDEX,
    ),
    Comparison(
        "pick",
        ("check_index", "pick"),
        f"{DIM}fn f(x: T[b V c], i: int[b c]) -> T[b c]:\n    return pick(x, i, over=V)\n",
        lambda x, i: x.gather(1, i[:, None]).squeeze(1),
        inputs=INDEX,
    ),
    Comparison(
        "pick of one row",
        ("pick",),
        f"{DIM}fn f(x: T[V], i: int) -> T[]:\n    return pick(x, i, over=V)\n",
        lambda x, i: x[i],
        inputs={"i": lambda rng, shape, dtype: int(rng.integers(0, CLASSES))},
    ),
    Comparison(
        "scatter_add",
        ("add_rows", "gather"),
        f"{DIM}fn f(x: T[V d], rows: T[b n d], i: int[b n]) -> T[V d]:\n    return scatter_add(x, rows, i, over=V)\n",
        added,
        Within(2, "rows added one after the other on both sides"),
        inputs=INDEX,
    ),
    Comparison(
        "scatter_add over a later axis",
        ("add_rows",),
        f"{DIM}fn f(x: T[d V], rows: T[b d], i: int[b]) -> T[d V]:\n    return scatter_add(x, rows, i, over=V)\n",
        added_in_the_middle,
        Within(2, "rows added one after the other on both sides"),
        inputs=INDEX,
    ),
    Comparison(
        "scatter_add of whole numbers",
        ("add_rows",),
        f"{DIM}fn f(x: int[V], rows: int[b], i: int[b]) -> int[V]:\n    return scatter_add(x, rows, i, over=V)\n",
        lambda x, rows, i: x.index_add(0, i, rows),
        EXACT,
        inputs=INDEX,
        elements=("f32",),
        extremes=(),
    ),
)
