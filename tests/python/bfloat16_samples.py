"""Numbers of bf16, and how far apart two are."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import shapescript
from shapescript.compiler.numerics.bfloat16_arrays import bits_of

F32 = np.float32
RNG = np.random.default_rng(7)


def bf16(*shape: int, scale: float = 1.0) -> np.ndarray[Any, Any]:
    return shapescript.bfloat16(RNG.standard_normal(shape).astype(F32) * F32(scale))


def tensor(array: np.ndarray[Any, Any]) -> torch.Tensor:
    return torch.from_numpy(np.array(array)).to(torch.bfloat16)


def places_apart(found: np.ndarray[Any, Any], wanted: torch.Tensor) -> int:
    """The largest distance in units of bf16's last place."""
    ours, theirs = (bits_of(np.asarray(one, F32)).astype(np.int64) for one in (found, wanted.detach().float().numpy()))
    ordered = [np.where(bits >> 15, -(bits & 0x7FFF), bits) for bits in (ours, theirs)]
    return int(np.abs(ordered[0] - ordered[1]).max(initial=0))
