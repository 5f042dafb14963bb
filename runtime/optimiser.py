"""AdamW's state: two moments for every parameter, the number of updates done, and the constants of the update."""

from __future__ import annotations

from typing import Literal, NoReturn

import numpy as np

from shapescript.runtime.arrays import Array, Bytes, Words, address_of, aligned
from shapescript.runtime.errors import ArgumentError
from shapescript.runtime.host_numbers import checked_float, checked_int
from shapescript.runtime.layout import Layout
from shapescript.runtime.model import Model, check_buffer

MomentName = Literal["first", "second"]

BLOCK_WORDS = 8
_STEP, _FIRST, _SECOND, _BETA1, _BETA2, _EPS, _DECAY = range(7)


class AdamW:
    """The state of AdamW over a model's parameters, with PyTorch's defaults; decay applies to every parameter.

    It belongs to a layout, not to one model: the moments lie as the parameters do. `block` is what native code reads and
    writes in place: step, address of first, address of second, the bits of beta1, beta2, eps and decay as f64, and 0.
    """

    def __init__(self, model: Model, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, decay: float = 0.01) -> None:
        """Raises ArgumentError R1004 for what is no model, and for constants outside 0 <= beta < 1, eps >= 0, decay >= 0."""
        if not isinstance(model, Model):
            raise ArgumentError("R1004", f"AdamW: expected a model, got {type(model).__name__}")
        self._set_up(model.layout, betas, eps, decay)

    @classmethod
    def over(cls, layout: Layout, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, decay: float = 0.01) -> AdamW:
        """A fresh state for models of this layout."""
        state = cls.__new__(cls)
        state._set_up(layout, betas, eps, decay)
        return state

    def _set_up(self, layout: Layout, betas: tuple[float, float], eps: float, decay: float) -> None:
        if not isinstance(betas, tuple | list) or len(betas) != 2:
            raise ArgumentError("R1004", "betas: expected two floats, as (0.9, 0.999)")
        infinity = float("inf")
        constants = [checked_float(f"betas[{i}]", beta, 0.0, 1.0) for i, beta in enumerate(betas)]
        constants += [checked_float("eps", eps, 0.0, infinity), checked_float("decay", decay, 0.0, infinity)]
        self._layout = layout
        self._first, self._second = aligned(layout.nbytes), aligned(layout.nbytes)
        check_buffer(layout, self._first)
        check_buffer(layout, self._second)
        self._block: Words = np.zeros(BLOCK_WORDS, np.int64)
        self._block[_FIRST], self._block[_SECOND] = address_of(self._first), address_of(self._second)
        self._block[_BETA1 : _DECAY + 1].view(np.float64)[:] = constants

    @property
    def layout(self) -> Layout:
        return self._layout

    @property
    def block(self) -> Words:
        return self._block

    @property
    def first(self) -> Bytes:
        """The first moments, laid out as the parameters."""
        return self._first

    @property
    def second(self) -> Bytes:
        """The second moments, laid out as the parameters."""
        return self._second

    @property
    def step(self) -> int:
        """The number of updates done: 0 before the first."""
        return int(self._block[_STEP])

    @step.setter
    def step(self, value: int) -> None:
        self._block[_STEP] = checked_int("step", value, 0)

    @property
    def betas(self) -> tuple[float, float]:
        return self._constant(_BETA1), self._constant(_BETA2)

    @property
    def eps(self) -> float:
        return self._constant(_EPS)

    @property
    def decay(self) -> float:
        return self._constant(_DECAY)

    def _constant(self, word: int) -> float:
        return float(self._block[word : word + 1].view(np.float64)[0])

    def moment(self, which: MomentName, name: str) -> Array:
        """A read-only view of one parameter's first or second moment."""
        return self._layout.read_only_view(self._first if which == "first" else self._second, name)

    def copy(self) -> AdamW:
        twin = AdamW.over(self._layout, self.betas, self.eps, self.decay)
        twin.step = self.step
        np.copyto(twin._first, self._first)
        np.copyto(twin._second, self._second)
        return twin

    def __copy__(self) -> AdamW:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, object]) -> AdamW:
        return self.copy()

    def __reduce__(self) -> NoReturn:
        raise TypeError("an AdamW state can't be pickled; save it with shapescript.save_checkpoint")

    def __repr__(self) -> str:
        constants = f"betas={self.betas}, eps={self.eps!r}, decay={self.decay!r}"
        return f"<AdamW of {self._layout.model_name}, step {self.step}, {constants}>"
