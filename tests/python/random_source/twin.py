"""What the twins of random programs call: all floats are f64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  (a name of the twins' texts)
from torch import Tensor


def gelu_tanh(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


def minimum(x: Any, y: Any) -> Tensor:
    """Of two tensors, or of one and a number of the host."""
    like = x if isinstance(x, Tensor) else y
    return torch.minimum(torch.as_tensor(x, dtype=like.dtype), torch.as_tensor(y, dtype=like.dtype))


def maximum(x: Any, y: Any) -> Tensor:
    like = x if isinstance(x, Tensor) else y
    return torch.maximum(torch.as_tensor(x, dtype=like.dtype), torch.as_tensor(y, dtype=like.dtype))


def sum_(x: Tensor, places: Sequence[int]) -> Tensor:
    return x.sum(places)


def mean_(x: Tensor, places: Sequence[int]) -> Tensor:
    return x.mean(places)


def max_(x: Tensor, places: Sequence[int]) -> Tensor:
    return x.amax(places)


def min_(x: Tensor, places: Sequence[int]) -> Tensor:
    return x.amin(places)


def variance_(x: Tensor, places: Sequence[int]) -> Tensor:
    return ((x - x.mean(places, keepdim=True)) ** 2).mean(places)


def logsumexp_(x: Tensor, places: Sequence[int]) -> Tensor:
    return torch.logsumexp(x, places)


def any_(x: Tensor, places: Sequence[int]) -> Tensor:
    return x.any(places)


def all_(x: Tensor, places: Sequence[int]) -> Tensor:
    return x.all(places)


def argmax_(x: Tensor, places: Sequence[int]) -> Tensor:
    return _first(x == x.amax(places[0], keepdim=True), places[0])


def argmin_(x: Tensor, places: Sequence[int]) -> Tensor:
    return _first(x == x.amin(places[0], keepdim=True), places[0])


def _first(mask: Tensor, place: int) -> Tensor:
    """PyTorch doesn't say which of equals `argmax` takes; of a sorted mask it is the first."""
    return torch.argsort(~mask, dim=place, stable=True).select(place, 0)


def topk_(x: Tensor, place: int, count: int) -> Tensor:
    return torch.topk(x, count, place)[0]


def joined(x: Tensor, at: int) -> Tensor:
    return x.reshape(*x.shape[:at], x.shape[at] * x.shape[at + 1], *x.shape[at + 2 :])


def opened(x: Tensor, at: int, first: int, second: int) -> Tensor:
    return x.reshape(*x.shape[:at], first, second, *x.shape[at + 1 :])


def parts(x: Tensor, at: int, count: int) -> list[Tensor]:
    size = x.shape[at] // count
    return [x.narrow(at, place * size, size) for place in range(count)]


def repeated(x: Tensor, at: int, size: int) -> Tensor:
    return x.unsqueeze(at).expand(*x.shape[:at], size, *x.shape[at:])


def causal(rows: int, columns: int) -> Tensor:
    return torch.arange(columns) <= torch.arange(rows)[:, None] + columns - rows


def padded(x: Tensor, at: int, before: int, behind: int, value: Any) -> Tensor:
    def part(size: int) -> Tensor:
        return torch.full((*x.shape[:at], size, *x.shape[at + 1 :]), value, dtype=x.dtype)

    return torch.cat((part(before), x, part(behind)), at)


def gather(x: Tensor, index: Tensor, at: int) -> Tensor:
    rows = x.movedim(at, 0)
    return rows[torch.as_tensor(index).reshape(-1)].reshape((*torch.as_tensor(index).shape, *rows.shape[1:]))


def picked(x: Tensor, index: Tensor, at: int) -> Tensor:
    return torch.gather(x, at, index.unsqueeze(at)).squeeze(at)


def scattered(x: Tensor, rows: Tensor, index: Tensor, at: int) -> Tensor:
    whole = x.movedim(at, 0)
    return whole.index_add(0, index.reshape(-1), rows.reshape((index.numel(), *whole.shape[1:]))).movedim(0, at)


def convolved(x: Tensor, kernel: Tensor, channels: int, along: int, padding: int) -> Tensor:
    moved = torch.movedim(x, (channels, along), (-2, -1))
    flat = moved.reshape(-1, *moved.shape[-2:])
    if flat.shape[0] == 0:
        found = flat.new_zeros(0, kernel.shape[0], flat.shape[-1] + 2 * padding - 1)
    else:
        found = F.conv1d(flat, kernel, padding=padding)
    return torch.movedim(found.reshape(*moved.shape[:-2], *found.shape[-2:]), (-2, -1), (channels, along))


def put(whole: Tensor, at: int, place: int, part: Any) -> Tensor:
    mask = torch.arange(whole.shape[at]).reshape(-1, *[1] * (whole.dim() - at - 1)) == place
    part = torch.as_tensor(part, dtype=whole.dtype)
    found: Tensor = torch.where(mask, part.unsqueeze(at) if part.dim() else part, whole)
    return found


def blocks(model: dict[str, Any]) -> list[dict[str, Any]]:
    return [{part: model[f"blocks.{place}.{part}"] for part in ("gain", "shift")} for place in range(2)]


def value_and_grad(function: Callable[[Any], Tensor], at: Any) -> tuple[Tensor, Any]:
    """The value and the gradient, of a tensor or a dict of them."""
    leaves = {name: value.detach().requires_grad_() for name, value in at.items()} if isinstance(at, dict) else at.detach().requires_grad_()
    value = function(leaves)
    wrt = list(leaves.values()) if isinstance(leaves, dict) else [leaves]
    found = torch.autograd.grad(value, wrt, materialize_grads=True) if value.requires_grad else [torch.zeros_like(leaf) for leaf in wrt]
    return value.detach(), dict(zip(leaves, found, strict=True)) if isinstance(leaves, dict) else found[0]
