"""Modes: whether dropout draws masks, and how far its stream has got."""

from __future__ import annotations

import numpy as np

from shapescript.runtime.arrays import Words
from shapescript.runtime.host_numbers import checked_int, checked_seed

EVAL_KIND, TRAIN_KIND = 0, 1
_KIND, _SEED, _DRAWS = range(3)


class Mode:
    """A mode. `block` is what native code reads, and in `Train` writes: kind (0 Eval, 1 Train), seed, draws, and 0."""

    _block: Words

    @property
    def block(self) -> Words:
        return self._block


class EvalMode(Mode):
    """The mode that draws nothing; its one value is `Eval`."""

    def __init__(self) -> None:
        self._block = np.array([EVAL_KIND, 0, 0, 0], np.int64)
        self._block.flags.writeable = False

    def __reduce__(self) -> str:
        return "Eval"

    def __repr__(self) -> str:
        return "Eval"


class Train(Mode):
    """The mode in which each dropout that is executed takes the stream's next draw; one value goes on across calls."""

    def __init__(self, seed: int) -> None:
        """A stream at draw 0. Raises ArgumentError R1004 unless seed is an int from 0 to 2**63-1."""
        self._block = np.array([TRAIN_KIND, checked_seed("seed", seed), 0, 0], np.int64)

    @property
    def seed(self) -> int:
        return int(self._block[_SEED])

    @property
    def draws(self) -> int:
        """How many draws have been taken: the position in the stream."""
        return int(self._block[_DRAWS])

    @draws.setter
    def draws(self, value: int) -> None:
        self._block[_DRAWS] = checked_int("draws", value, 0)

    def __repr__(self) -> str:
        return f"Train(seed={self.seed}, draws={self.draws})" if self.draws else f"Train(seed={self.seed})"


Eval = EvalMode()
