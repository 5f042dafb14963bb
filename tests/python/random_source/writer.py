"""Writes the statements of one function, in both languages, and finds operands that fit."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from random_source import elementwise, indexing, joining, moves, reductions
from random_source.expression import Axes, Axis, Expression, is_within, lined_up, same

ELEMENTS = ("f32", "f64", "int", "bool")
EXPRESSIONS = (*elementwise.TABLE, *reductions.TABLE, *moves.TABLE, *joining.TABLE, *indexing.TABLE)
MAKERS: tuple[Callable[[Writer], Expression | None], ...] = tuple(maker for maker, share in EXPRESSIONS for _ in range(share))
MOST_NESTED = 2
MOST_ELEMENTS = 2000


@dataclass
class Writer:
    """`smooth`: no kink or step of a function lies near a number. `steps`: floats may be rounded and compared."""

    rng: random.Random
    axes: Axes
    variables: list[Expression]
    smooth: bool = False
    steps: bool = True
    elements: Sequence[str] = ("f32", "f64")
    ours: list[str] = field(default_factory=list)
    theirs: list[str] = field(default_factory=list)
    indices: list[str] = field(default_factory=list)
    depth: int = 1
    nested: int = 0
    made: int = 0

    # ---- text

    def line(self, ours: str, theirs: str) -> None:
        self.ours.append("    " * self.depth + ours)
        self.theirs.append("    " * self.depth + theirs)

    def fresh(self) -> str:
        self.made += 1
        return f"v{self.made}"

    def bound_to(self, value: Expression) -> Expression:
        """A variable that holds the value."""
        name = self.fresh()
        self.line(f"{name} = {value.ours}", f"{name} = {value.theirs}")
        return value.named(name)

    def unary_text(self, x: Expression, side: str) -> str:
        """Something else of the same type that is no larger, in one language."""
        text = x.ours if side == "ours" else x.theirs
        if x.element == "bool":
            return f"(!{text})" if side == "ours" else f"(~{text})"
        return f"({text} * -1)" if x.element == "int" else f"({text} * -0.5)"

    # ---- operands

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def allowed(self, elements: Sequence[str]) -> list[str]:
        return [element for element in elements if element in ("int", "bool") or element in self.elements]

    def value(self, elements: Sequence[str] = ELEMENTS) -> Expression:
        """An operand: a variable, later ones more often, or an expression."""
        if self.nested < MOST_NESTED and self.chance(0.25):
            self.nested += 1
            found = self.expression()
            self.nested -= 1
            if found is not None and found.element in self.allowed(elements):
                return found
        fitting = [v for v in self.variables if v.element in self.allowed(elements)]
        return self.rng.choice(fitting[-6:] if self.chance(0.6) else fitting)

    def expression(self) -> Expression | None:
        found = self.rng.choice(MAKERS)(self)
        if found is None or found.count > MOST_ELEMENTS or len(found.axes) > 5 or found.element not in self.allowed(ELEMENTS):
            return None
        return self.small(found, 1e9 if found.element == "int" else 1e6)

    def with_axes(self, x: Expression) -> Expression:
        """x, or a variable of its element type that has axes."""
        if x.axes:
            return x
        found = [v for v in self.variables if v.element == x.element and v.axes]
        return self.rng.choice(found) if found else x

    def fitting(self, x: Expression) -> Expression:
        """What meets x by name: a variable whose axes are within x's or the other way round, or a number."""
        found = [v for v in self.variables if v.element == x.element and (is_within(v.axes, x.axes) or is_within(x.axes, v.axes))]
        if x.element != "bool" and (not found or self.chance(0.2)):
            text = self.rng.choice(("2", "-3", "k") if x.element == "int" else ("0.5", "-1.25", "s", "k"))
            return Expression(text, text, x.element, (), 10.0, host=True)
        return self.rng.choice(found[-5:]) if found else x

    def of_axes(self, element: str, axes: Axes) -> Expression:
        """A mask whose axes are within these."""
        found = [v for v in self.variables if v.element == element and is_within(v.axes, axes)]
        if found and self.chance(0.8):
            return self.rng.choice(found)
        plain = [axis for axis in axes if axis.plain]
        if not plain:
            n = self.axes[0]
            return Expression(f"(sum(arange[{n.text}], over={n.text}) > k)", f"(torch.arange({n.python}).sum() > k)", "bool")
        axis = self.rng.choice(plain)
        return Expression(f"(arange[{axis.text}] % 3 == 1)", f"(torch.arange({axis.python}) % 3 == 1)", "bool", (axis,))

    def filled(self, element: str, axes: Axes) -> Expression:
        """A tensor of exactly these axes."""
        found = [v for v in self.variables if v.element == element and same(v.axes, axes)]
        if found and self.chance(0.8):
            return self.rng.choice(found)
        texts, sizes = " ".join(axis.text for axis in axes), ", ".join(axis.python for axis in axes)
        kind = {"f32": "", "f64": "f64", "int": "int"}[element]
        dtype = "int64" if element == "int" else "float64"
        if not axes:
            n = self.axes[0]
            text, theirs = f"{kind}(sum(ones[{n.text}], over={n.text}))", f"torch.ones({n.python}).sum().to(torch.{dtype})"
            return Expression(f"f32({text})" if not kind else text, theirs, element, (), float(n.most))
        base = Expression(f"{kind}(zeros[{texts}])", f"torch.zeros({sizes}, dtype=torch.{dtype})", element, axes, 0.0)
        parts = [v for v in self.variables if v.element == element and is_within(v.axes, axes) and v.axes]
        part = self.rng.choice(parts) if parts else Expression("3", "3", element, (), 3.0, host=True)
        return elementwise.binary(base, part, "+")

    def small(self, x: Expression, most: float) -> Expression:
        """x where its numbers are within a bound, else something of it that is."""
        if x.bound <= most:
            return x
        if x.element == "int":
            return replace(x, ours=f"({x.ours} % 17)", theirs=f"({x.theirs} % 17)", bound=17.0)
        factor = 2.0 ** -math.ceil(math.log2(x.bound / most))
        return replace(
            x,
            ours=f"({x.ours} * {factor!r})",
            theirs=f"({x.theirs} * {factor!r})",
            bound=x.bound * factor,
            error=x.error * factor + x.epsilon,
        )

    def away(self, x: Expression) -> Expression:
        """x moved so that none of its numbers is within 0.5 of 0."""
        by = (x.bound + 0.5) * self.rng.choice((1, -1))
        found = replace(x, ours=f"({x.ours} + {by!r})", theirs=f"({x.theirs} + {by!r})", bound=2 * x.bound + 0.5)
        return replace(found, error=found.rounded(x.error))

    def apart(self, x: Expression, axis: Axis) -> Expression | None:
        """Numbers of x that lie at least 0.2 apart from each other along an axis."""
        if x.element == "int":
            return x
        order, theirs = f"{x.element}(arange[{axis.text}] * 7 % 31)", f"(torch.arange({axis.python}) * 7 % 31)"
        if axis.most > 31 or x.element == "f32":
            return None
        found = replace(
            x, ours=f"(0.4 * tanh({x.ours}) + {order})", theirs=f"(0.4 * torch.tanh({x.theirs}) + {lined_up(theirs, (axis,), x.axes)})"
        )
        found = replace(found, bound=32.0)
        return replace(found, error=found.rounded(x.error))

    # ---- axes

    def some_axes(self, x: Expression, least: int = 0) -> Axes:
        """One axis of x or two, in any order, that `over` can name; of sizes from the least up."""
        fitting = [axis for axis in x.axes if axis.plain and axis.least >= least]
        return tuple(self.rng.sample(fitting, min(len(fitting), self.rng.choice((1, 1, 2)))))

    def any_axis(self, x: Expression) -> Axis | None:
        """One that x lacks."""
        own = {name for axis in x.axes for name in (axis.text, *axis.text.strip("()").split())}
        found = [axis for axis in self.axes if axis.text not in own]
        return self.rng.choice(found) if found else None

    def number(self, size: int) -> Axis:
        return Axis(str(size), (size,) * len(self.axes[0].sizes))

    def has_twice(self, axes: Axes) -> bool:
        return len({axis.text for axis in axes}) < len(axes)

    def count(self, axes: Axes) -> int:
        return math.prod(axis.most for axis in axes)

    # ---- statements

    def assignment(self) -> bool:
        found = self.expression()
        if found is not None:
            self.variables.append(self.bound_to(found))
        return found is not None

    def assignments(self, count: int) -> None:
        while count > 0:
            count -= self.assignment()
