"""What an entry of the table says, and the numbers that its arguments are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

torch.set_num_threads(1)

Array = NDArray[Any]
Shape = tuple[int, ...]
Make = Callable[[np.random.Generator, Shape, Any], Any]
"""An argument, made of a generator, the shape (of a host number: ()) and the element type of T."""

# Limits of both formats, and where exponentials, squares and squashing functions reach theirs.
EXTREMES = (
    *(np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 2.5, -2.5, 3.0, -3.0, 1e-4, -1e-4, 20.5, -20.5),
    *(88.5, -88.5, 104.0, -104.0, 709.5, -709.5, 746.0, -746.0, 1e10, -1e10, 2.0**63, -(2.0**63), 3.4e38, -3.4e38, 1.7e308, -1.7e308),
    *(1e-38, -1e-38, 1e-45, -1e-45, 1e-308, -1e-308, 5e-324, -5e-324),
)
LIMITS = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-308)
"""What an operation that adds numbers up is given: with larger ones the order of the sum would decide what overflows."""


@dataclass(frozen=True)
class Within:
    """The bound, in units of the element type's epsilon: `relative` times the size of what PyTorch gives, and `absolute`.

    `gradient` is the same for gradients (as for values, where it isn't given). The size is that of the element where the entry is
    elementwise, and of the largest element of the tensor otherwise. `why` says where the bound comes from.
    """

    relative: float
    why: str
    absolute: float = 0.0
    gradient: tuple[float, float] | None = None

    def of_gradient(self) -> tuple[float, float]:
        return self.gradient or (self.relative, self.absolute)


EXACT = Within(0, "the same IEEE operations, or none")


@dataclass(frozen=True)
class Comparison:
    """See the package's docstring.

    elementwise: an element of the result depends on the elements that lie at its place, so an extreme number spoils no other.
    smooth: the gradient can be checked along random directions: no kink or step lies near the random numbers.
    twice: so can the gradient of the gradient, which PyTorch has.
    largest: no axis variable is larger: for programs that are slow in the reference, such as long loops.
    """

    name: str
    ops: tuple[str, ...]
    program: str
    torch: Callable[..., Any]
    within: Within = EXACT
    inputs: Mapping[str, Make] = field(default_factory=dict)
    wrt: tuple[str, ...] | None = None
    nonempty: tuple[str, ...] = ()
    elements: tuple[str, ...] = ("f32", "f64")
    elementwise: bool = False
    extremes: Sequence[float] | None = None
    smooth: bool = True
    twice: bool = True
    largest: int = 37

    @property
    def limits(self) -> Sequence[float]:
        return self.extremes if self.extremes is not None else EXTREMES if self.elementwise else LIMITS


# ---- makers of arguments


def normal(scale: float = 1.0) -> Make:
    return lambda rng, shape, dtype: (rng.standard_normal(shape) * scale).astype(dtype)


def uniform(low: float, high: float) -> Make:
    return lambda rng, shape, dtype: rng.uniform(low, high, shape).astype(dtype)


def integers(low: int, high: int) -> Make:
    """Whole numbers from low to high - 1."""
    return lambda rng, shape, dtype: rng.integers(low, high, shape)


def number(value: float | int | bool) -> Make:
    """A host number that is always the same."""
    return lambda rng, shape, dtype: value
