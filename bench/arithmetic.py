"""How much arithmetic a step of the classifier is."""

from __future__ import annotations

from collections.abc import Mapping

UPDATE_FLOPS = 16  # of a parameter: its square for the norm, the clip, both moments, the step, the decay


def product_flops(dims: Mapping[str, int], batch: int) -> float:
    """Of the products, forward and back; the first layer's input needs no gradient."""
    first, second = _weights(dims)
    return 2.0 * batch * (2 * first + 3 * second)


def step_flops(dims: Mapping[str, int], batch: int) -> float:
    """Of the products and the update."""
    return product_flops(dims, batch) + UPDATE_FLOPS * (sum(_weights(dims)) + dims["Hidden"] + dims["Classes"])


def _weights(dims: Mapping[str, int]) -> tuple[int, int]:
    return dims["In"] * dims["Hidden"], dims["Hidden"] * dims["Classes"]
