"""The ranges of the numbers that training is given: what the checker says of constants, a run of what it computes, Python of arguments."""

from __future__ import annotations

import math

from shapescript.compiler.records.dataclass import dataclass


@dataclass(frozen=True)
class Range:
    """Numbers from `lowest` to `highest`; NaN is in none. `what` says which number it is, and `text` how far it goes."""

    what: str
    text: str
    lowest: float
    highest: float
    has_lowest: bool = True
    has_highest: bool = False

    def holds(self, number: float) -> bool:
        above = number >= self.lowest if self.has_lowest else number > self.lowest
        return above and (number <= self.highest if self.has_highest else number < self.highest)

    def fault(self, number: float) -> str:
        """What is wrong with a number that isn't in it."""
        return f"{self.what} is {self.text}, not {number}"


@dataclass(frozen=True)
class NesterovRange(Range):
    """A momentum that Nesterov's step can use; 0 stands for one with a dampening too."""

    def fault(self, number: float) -> str:
        return "a nesterov step needs a momentum above 0, and no dampening"


def _below_one(name: str) -> Range:
    return Range(name, "at least 0 and below 1", 0.0, 1.0)


RANGES: dict[str, Range] = {
    "lr": Range("a rate", "at least 0 and finite", 0.0, math.inf),
    "limit": Range("the limit of a norm", "above 0", 0.0, math.inf, has_lowest=False, has_highest=True),
    "beta1": _below_one("beta1"),
    "beta2": _below_one("beta2"),
    "momentum": _below_one("momentum"),
    "dampening": Range("dampening", "at least 0 and at most 1", 0.0, 1.0, has_highest=True),
    "eps": Range("eps", "above 0 and finite", 0.0, math.inf, has_lowest=False),
    "smoothing": Range("label smoothing", "at least 0 and at most 1", 0.0, 1.0, has_highest=True),
    "fraction": Range("the fraction of a split", "at least 0 and at most 1", 0.0, 1.0, has_highest=True),
    "decay": Range("decay", "at least 0 and finite", 0.0, math.inf),
    "nesterov": NesterovRange("a nesterov step", "possible with a momentum above 0", 0.0, 1.0, has_lowest=False, has_highest=True),
}
