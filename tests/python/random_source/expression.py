"""What the generator knows of a value: its two texts, its axes, a bound of its numbers, and a bound of their error."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

EPSILON = {"f32": 2.0**-23, "f64": 2.0**-52, "int": 0.0, "bool": 0.0}
FLOATS = ("f32", "f64")


@dataclass(frozen=True)
class Axis:
    """`text` is how a program writes the axis; `sizes` are its sizes in the runs. Only a `plain` one is named in `over` and patterns."""

    text: str
    sizes: tuple[int, ...]
    plain: bool = True
    parts: tuple[Axis, ...] = ()  # of a group

    @property
    def least(self) -> int:
        return min(self.sizes)

    @property
    def most(self) -> int:
        return max(self.sizes)

    @property
    def is_variable(self) -> bool:
        return self.text[0].islower() and self.text.isalnum()

    @property
    def python(self) -> str:
        """The size in the twin."""
        return self.text.replace("/", "//").replace("////", "//")


Axes = tuple[Axis, ...]


@dataclass(frozen=True)
class Expression:
    """`bound` is at least the size of each number, `error` at least the distance from the twin's, which computes in f64.

    A value without axes is a tensor `[]`; a `host` one is a number of the host.
    """

    ours: str
    theirs: str
    element: str
    axes: Axes = ()
    bound: float = 1.0
    error: float = 0.0
    host: bool = False

    @property
    def is_float(self) -> bool:
        return self.element in FLOATS

    @property
    def epsilon(self) -> float:
        return EPSILON[self.element]

    @property
    def count(self) -> int:
        return math.prod(axis.most for axis in self.axes)

    def named(self, name: str) -> Expression:
        return replace(self, ours=name, theirs=name)

    def rounded(self, error: float, units: float = 4.0) -> float:
        """The error of a result of this bound that is rounded: `error` is what it has from its operands."""
        return error + units * self.epsilon * (self.bound + error)


def pattern(axes: Axes) -> str:
    return " ".join(axis.text for axis in axes)


def same(one: Axes, other: Axes) -> bool:
    return [axis.text for axis in one] == [axis.text for axis in other]


def is_within(some: Axes, all_: Axes) -> bool:
    """Whether the axes are a subsequence of the others."""
    rest = iter(axis.text for axis in all_)
    return all(axis.text in rest for axis in some)


def lined_up(theirs: str, axes: Axes, wide: Axes) -> str:
    """The twin's tensor with an axis of size 1 for each of `wide` that it lacks."""
    if not axes or same(axes, wide):
        return theirs
    own = {axis.text for axis in axes}
    return f"{theirs}[{', '.join(':' if axis.text in own else 'None' for axis in wide)}]" if wide else theirs
