"""Layers of shapescript.std.nn beside PyTorch's modules with the same parameters."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from comparisons.comparison import Comparison, Within, integers

Parameters = dict[str, Tensor]

ORDER = Within(32, "sums of products in two orders", absolute=32, gradient=(64, 32))
NORMED = Within(64, "a mean and a variance, each summed in two orders", absolute=64, gradient=(128, 128))
MOVED = Within(0, "moved as they are", gradient=(8, 4))


def within(m: Parameters, part: str = "layer.") -> Parameters:
    """The tensors of one part by the names that they have in it."""
    return {name.removeprefix(part): tensor for name, tensor in m.items() if name.startswith(part)}


def like(module: nn.Module) -> Callable[..., Any]:
    """The module, with the parameters of the model that comes last."""
    return lambda *arguments: functional_call(module, within(arguments[-1]), arguments[:-1])  # type: ignore[no-untyped-call]


def in_net(library: str, dims: str, layer: str, signature: str, body: str) -> str:
    """A program of a model `Net` with this one `layer`, of T. `dims` is such as "I=3 O=2"."""
    parameter = "E" if "EncoderLayer" in layer else "F"
    lines = [f"import shapescript.std.{library} as {library}", "", *(f"dim {pair.replace('=', ' = ')}" for pair in dims.split())]
    return "\n".join(
        [
            *lines,
            "",
            "model Net:",
            f"    layer: {layer[:-1]}, {parameter}=T]",
            "",
            f"fn f({signature}:",
            *(f"    {line}" for line in body.splitlines()),
            "",
        ]
    )


def simple(
    name: str, dims: str, layer: str, module: nn.Module, axes: tuple[str, str], call: str, bound: Within = ORDER, **more: Any
) -> Comparison:
    text = in_net("nn", dims, layer, f"x: T[{axes[0]}], m: Net) -> T[{axes[1]}]", f"return {call}")
    return Comparison(name, ("leaf", "submodel"), text, like(module), bound, **more)


# ---- Normalisation by the batch

RANKS = ("b C", "b C n", "b C h w")


def scaled(by_channel: Tensor, x: Tensor) -> Tensor:
    return by_channel.reshape(-1, *[1] * (x.ndim - 2))


def instance_normalised(x: Tensor) -> Tensor:
    """PyTorch refuses a channel of one value."""
    places = tuple(range(2, x.ndim))
    centred = x - x.mean(places, keepdim=True) if places else x
    return centred / torch.sqrt((centred**2).mean(places, keepdim=True) + 1e-5) if places else centred


def batch_norm(training: bool) -> Callable[[Tensor, Parameters], Tensor]:
    """To the running numbers, as buffers, no gradient flows."""

    def twin(x: Tensor, m: Parameters) -> Tensor:
        parts = within(m)
        if training and x[:, 0].numel() == 1:  # which PyTorch refuses
            return instance_normalised(x * 0) * scaled(parts["weight"], x) + scaled(parts["bias"], x)
        running = [parts[name].detach().clone() for name in ("running_mean", "running_var")]
        return functional.batch_norm(x, *running, parts["weight"], parts["bias"], training, 0.1, 1e-5)

    return twin


def normalised_by_batch(axes: str, training: bool) -> Comparison:
    body = "mut n = m\nreturn nn.batch_norm(x, mut n.layer, Train(seed=0))" if training else "return nn.batch_norm(x, m.layer)"
    return Comparison(
        f"batch_norm of {axes.replace(' ', '')} {'by the batch' if training else 'by the running numbers'}",
        ("leaf",),
        in_net("nn", "C=3", "nn.BatchNorm[C]", f"x: T[{axes}], m: Net) -> T[{axes}]", body),
        batch_norm(training),
        Within(64, "a mean and a variance, each summed in two orders", absolute=64, gradient=(512, 1024)) if training else ORDER,
        nonempty=("b", "n", "h", "w"),
        extremes=(),
        largest=11,
    )


def pool(name: str, axes: tuple[str, str], call: str, twin: Callable[[Tensor], Tensor], bound: Within) -> Comparison:
    text = f"import shapescript.std.nn as nn\n\nfn f(x: T[{axes[0]}]) -> T[{axes[1]}]:\n    return x |> {call}\n"
    places = tuple(place for place in ("h", "w", "n") if re.search(rf"\b{place}\b", axes[0]))
    return Comparison(name, ("windows",), text, twin, bound, nonempty=("b", *places), largest=11, extremes=())


def instance_norm(axes: str) -> Comparison:
    return Comparison(
        f"instance_norm of {axes.replace(' ', '')}",
        ("mean",),
        f"import shapescript.std.nn as nn\n\nfn f(x: T[{axes}]) -> T[{axes}]:\n    return nn.instance_norm(x)\n",
        instance_normalised,
        Within(64, "a mean and a variance, each summed in two orders", absolute=64, gradient=(512, 1024)),
        nonempty=("b", "c", "n", "h", "w"),
        extremes=(),
        largest=11,
    )


ENTRIES = (
    simple("linear", "I=5 O=3", "nn.Linear[I, O]", nn.Linear(5, 3), ("b n I", "b n O"), "nn.linear(x, m.layer)"),
    Comparison(
        "embedding",
        ("gather",),
        in_net("nn", "V=6 D=3", "nn.Embedding[V, D]", "tokens: int[b n], m: Net) -> T[b n D]", "return nn.embedding(tokens, m.layer)"),
        like(nn.Embedding(6, 3)),
        MOVED,
        inputs={"tokens": integers(0, 5)},
    ),
    simple("layer_norm", "D=5", "nn.LayerNorm[D]", nn.LayerNorm(5), ("b n D", "b n D"), "nn.layer_norm(x, m.layer)", NORMED, extremes=()),
    simple("rms_norm", "D=5", "nn.RMSNorm[D]", nn.RMSNorm(5, eps=1e-5), ("b n D", "b n D"), "nn.rms_norm(x, m.layer)", NORMED, extremes=()),
    simple(
        "group_norm along one axis",
        "C=6",
        "nn.GroupNorm[2, C]",
        nn.GroupNorm(2, 6),
        ("b C n", "b C n"),
        "nn.group_norm(x, m.layer)",
        NORMED,
        nonempty=("n",),
        extremes=(),
    ),
    simple(
        "group_norm of images",
        "C=6",
        "nn.GroupNorm[3, C]",
        nn.GroupNorm(3, 6),
        ("b C h w", "b C h w"),
        "nn.group_norm(x, m.layer)",
        NORMED,
        nonempty=("h", "w"),
        extremes=(),
        largest=11,
    ),
    instance_norm("b c n"),
    instance_norm("b c h w"),
    *(normalised_by_batch(axes, training) for axes in RANKS for training in (False, True)),
    simple(
        "conv1d",
        "I=4 O=6",
        "nn.Conv1d[I, O, 3, Stride=2, Padding=1, Groups=2]",
        nn.Conv1d(4, 6, 3, 2, 1, groups=2),
        ("b I n", "b O (n+1)//2"),
        "nn.conv1d(x, m.layer)",
        nonempty=("n",),
        extremes=(),
        largest=11,
    ),
    simple(
        "conv2d",
        "I=2 O=3",
        "nn.Conv2d[I, O, 3, Padding=2, Dilation=2]",
        nn.Conv2d(2, 3, 3, 1, 2, 2),
        ("b I h w", "b O h w"),
        "nn.conv2d(x, m.layer)",
        nonempty=("h", "w"),
        extremes=(),
        largest=11,
    ),
    simple(
        "conv_transpose1d",
        "I=4 O=2",
        "nn.ConvTranspose1d[I, O, 3, Stride=2, Padding=1, OutputPadding=1, Groups=2]",
        nn.ConvTranspose1d(4, 2, 3, 2, 1, 1, groups=2),
        ("b I n", "b O 2*n"),
        "nn.conv_transpose1d(x, m.layer)",
        nonempty=("n",),
        extremes=(),
        largest=11,
    ),
    simple(
        "conv_transpose2d",
        "I=2 O=3",
        "nn.ConvTranspose2d[I, O, 2, Stride=2]",
        nn.ConvTranspose2d(2, 3, 2, 2),
        ("b I h w", "b O 2*h 2*w"),
        "nn.conv_transpose2d(x, m.layer)",
        nonempty=("h", "w"),
        extremes=(),
        largest=11,
    ),
    pool(
        "max_pool1d", ("b n", "b (n-1)//2+1"), "nn.max_pool1d[3, Stride=2, Padding=1]", lambda x: functional.max_pool1d(x, 3, 2, 1), MOVED
    ),
    pool("max_pool2d", ("b 2*h 2*w", "b h w"), "nn.max_pool2d[2]", lambda x: functional.max_pool2d(x, 2), MOVED),
    pool(
        "avg_pool1d", ("b n", "b (n-1)//2+1"), "nn.avg_pool1d[3, Stride=2, Padding=1]", lambda x: functional.avg_pool1d(x, 3, 2, 1), ORDER
    ),
    pool("avg_pool2d", ("b 2*h 2*w", "b h w"), "nn.avg_pool2d[2]", lambda x: functional.avg_pool2d(x, 2), ORDER),
)
