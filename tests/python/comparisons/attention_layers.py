"""Attention of shapescript.std.attention, and a transformer's layer, beside PyTorch's modules with the same parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from comparisons.comparison import Array, Comparison, Within
from comparisons.layers import Parameters, in_net, within

BOUND = Within(64, "four products one behind the other, and a softmax", absolute=64, gradient=(256, 256))
THROUGH = Within(256, "six products and two normalisations one behind the other", absolute=256, gradient=(1024, 1024))
MODULE = nn.MultiheadAttention(6, 3, batch_first=True)
DIMS, LAYER = "D=6", "attention.MultiheadAttention[D, 3]"


def attended(x: Tensor, memory: Tensor, m: Parameters, mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
    """Where a place sees nothing PyTorch has NaN: such a row is asked about with one key, and then its share is taken away."""
    if x.shape[0] == 0:  # which PyTorch's masks don't fit
        return x
    n, length = x.shape[1], memory.shape[1]
    seen = torch.ones(x.shape[0], n, length, dtype=torch.bool)
    seen &= mask[:, None] if mask is not None else seen
    seen &= torch.ones(n, length, dtype=torch.bool).tril(length - n) if is_causal else seen
    sees = seen.any(2, keepdim=True)
    blocked = (~(seen | ~sees)).repeat_interleave(3, 0)
    parameters = within(m)
    given = (x, memory, memory, None, False, blocked)
    out = functional_call(MODULE, parameters, given)[0]  # type: ignore[no-untyped-call]
    return torch.where(sees, out, parameters["out_proj.bias"])


def some_rows_see_nothing(rng: Any, shape: tuple[int, ...], dtype: Any) -> Array:
    mask: Array = rng.random(shape) < 0.7
    mask[::3] = False
    mask[2::3, :1] = False
    return mask


def entry(
    name: str, signature: str, body: str, twin: Callable[..., Tensor], nonempty: tuple[str, ...], bound: Within = BOUND, **more: Any
) -> Comparison:
    text = in_net("attention", more.pop("dims", DIMS), more.pop("layer", LAYER), signature, body)
    inputs = {"mask": some_rows_see_nothing} if "mask" in signature else {}
    ops = ("softmax", *more.pop("more_ops", ()))
    return Comparison(name, ops, text, twin, bound, inputs=inputs, nonempty=nonempty, extremes=(), largest=11, **more)


def encoded(
    x: Tensor, m: Parameters, mask: Tensor | None = None, norm_first: bool = False, is_causal: bool = False, gelu: bool = False
) -> Tensor:
    if x.shape[0] == 0:
        return x
    module = nn.TransformerEncoderLayer(6, 3, 10, 0.0, "gelu" if gelu else "relu", batch_first=True, norm_first=norm_first)
    blocked = ~torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril() if is_causal else None
    hidden = ~mask if mask is not None else None
    return functional_call(module, within(m), (x, blocked, hidden))  # type: ignore[no-untyped-call,no-any-return]


def first_is_seen(rng: Any, shape: tuple[int, ...], dtype: Any) -> Array:
    mask: Array = rng.random(shape) < 0.7
    mask[:, :1] = True
    return mask


def in_steps(call: str) -> str:
    return "\n".join(
        [
            "mut keys = T(zeros[b 3 n+1 D/3])",
            "mut values = T(zeros[b 3 n+1 D/3])",
            "mut y = T(zeros[b n D])",
            "for t in 0..n:",
            f"    place = {call}",
            "    y[n=t] = rearrange(place: b 1 D -> b D)",
            "return y",
        ]
    )


def by_head(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return torch.softmax(query @ key.mT / 5**0.5, -1) @ value


ENCODER = {"dims": "D=6", "layer": "attention.TransformerEncoderLayer[D, 3, 10]", "bound": THROUGH}
CAUSAL = {**ENCODER, "more_ops": ("reduced_contraction",)}
X = "x: T[b n D]"

ENTRIES = (
    entry(
        "self_attention", f"{X}, m: Net) -> T[b n D]", "return attention.self_attention(x, m.layer)", lambda x, m: attended(x, x, m), ("n",)
    ),
    entry(
        "self_attention that is causal",
        f"{X}, m: Net) -> T[b n D]",
        "return attention.self_attention(x, m.layer, is_causal=true)",
        lambda x, m: attended(x, x, m, is_causal=True),
        ("n",),
    ),
    entry(
        "self_attention with a mask",
        f"{X}, m: Net, mask: bool[b n]) -> T[b n D]",
        "return attention.self_attention(x, m.layer, mask)",
        lambda x, m, mask: attended(x, x, m, mask),
        ("n",),
    ),
    entry(
        "self_attention that is causal, with a mask",
        f"{X}, m: Net, mask: bool[b n]) -> T[b n D]",
        "return attention.self_attention(x, m.layer, mask, Train(seed=0), 0.0, true)",
        lambda x, m, mask: attended(x, x, m, mask, is_causal=True),
        ("n",),
    ),
    entry(
        "self_attention in steps",
        f"{X}, m: Net) -> T[b n D]",
        in_steps("attention.self_attention(x[n=t..t+1], m.layer, mut keys, mut values, t)"),
        lambda x, m: attended(x, x, m, is_causal=True),
        ("n",),
        wrt=(),
    ),
    entry(
        "cross_attention",
        f"{X}, memory: T[b k D], m: Net) -> T[b n D]",
        "return attention.cross_attention(x, memory, m.layer)",
        attended,
        ("k",),
    ),
    entry(
        "cross_attention with a mask",
        f"{X}, memory: T[b k D], m: Net, mask: bool[b k]) -> T[b n D]",
        "return attention.cross_attention(x, memory, m.layer, mask)",
        attended,
        ("k",),
    ),
    Comparison(
        "attention of heads",
        ("softmax", "contraction"),
        "import shapescript.std.attention as attention\n\n"
        "fn f(query: T[b h n 5], key: T[b h k 5], value: T[b h k 5]) -> T[b h n 5]:\n"
        "    return attention.shares(query, key) |> attention.mixed(value)\n",
        by_head,
        BOUND,
        nonempty=("k",),
        extremes=(),
        largest=11,
    ),
    entry("encoder_layer", f"{X}, m: Net) -> T[b n D]", "return attention.encoder_layer(x, m.layer, Eval)", encoded, ("n",), **ENCODER),
    entry(
        "encoder_layer that is causal, norms first",
        f"{X}, m: Net) -> T[b n D]",
        "return attention.encoder_layer(x, m.layer, Eval, norm_first=true, is_causal=true, with_gelu=true)",
        lambda x, m: encoded(x, m, None, True, True, True),
        ("n",),
        **CAUSAL,
    ),
    *(
        entry(
            f"encoder_layer in steps, norms {'first' if norm_first else 'behind'}",
            f"{X}, m: Net) -> T[b n D]",
            in_steps(
                "attention.encoder_layer(x[n=t..t+1], m.layer, mut keys, mut values, t"
                + (", norm_first=true, with_gelu=true)" if norm_first else ")")
            ),
            lambda x, m, first=norm_first: encoded(x, m, None, first, True, first),
            ("n",),
            wrt=(),
            **ENCODER,
        )
        for norm_first in (False, True)
    ),
    *(
        Comparison(
            f"encoder_layer with a mask, norms {'first' if norm_first else 'behind'}",
            ("softmax",),
            in_net(
                "attention",
                "D=6",
                "attention.TransformerEncoderLayer[D, 3, 10]",
                f"{X}, m: Net, mask: bool[b n]) -> T[b n D]",
                f"return attention.encoder_layer(x, m.layer, mask, Train(seed=0), 0.0, {str(norm_first).lower()}, is_causal=true)",
            ),
            lambda x, m, mask, first=norm_first: encoded(x, m, mask, first, True),
            THROUGH,
            inputs={"mask": first_is_seen},
            elements=("f32",),
            nonempty=("n",),
            largest=11,
        )
        for norm_first in (False, True)
    ),
)
