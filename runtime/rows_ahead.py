"""Which rows the next places of an order are, looked up for many places at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shapescript.runtime.arrays import Words

if TYPE_CHECKING:
    from shapescript.runtime.examples import Examples

ROWS_AHEAD = 1 << 14  # computing a part of an order has a cost of its own, so batches share one


class RowsAhead:
    """The rows of a loop over places below `end`; places are asked for in ascending order."""

    def __init__(self, examples: Examples, end: int) -> None:
        self._examples, self._end = examples, end
        self._first, self._known = 0, np.arange(0)

    def between(self, start: int, stop: int) -> Words:
        """The rows at places start to stop - 1."""
        if start < self._first or stop > self._first + len(self._known):
            count = max(stop - start, min(ROWS_AHEAD, self._end - start))
            self._first, self._known = start, self._examples.rows(start, count)
        return self._known[start - self._first : stop - self._first]
