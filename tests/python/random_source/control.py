"""Branches, loops, places put, and sub-models one after the other, over `mut` tensors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from random_source.expression import Expression, is_within, lined_up

if TYPE_CHECKING:
    from random_source.writer import Writer

MOST_DEPTH = 3
LOOSE = 1e5  # units by which a variable of a loop may lie apart: each turn halves what the turn before left


class Control:
    """Statements of blocks; `changing` are the `mut` variables, whose numbers stay within 2."""

    def __init__(self, writer: Writer) -> None:
        self.w = writer
        self.changing: list[Expression] = []

    def begin(self) -> None:
        """A `mut` variable of some type."""
        w = self.w
        x = w.with_axes(w.value(w.elements))
        name = w.fresh()
        w.line(f"mut {name} = tanh({x.ours})", f"{name} = torch.tanh({x.theirs})")
        self.changing.append(replace(x.named(name), bound=2.0, error=x.error + LOOSE * x.epsilon))

    def statement(self) -> None:
        w = self.w
        options = [self.change] * 3 + [self.put] * 2
        if w.depth < MOST_DEPTH:
            options += [self.branch, self.loop, self.sub_models] + ([] if w.smooth else [self.while_loop])
        w.rng.choice(options)()

    @contextmanager
    def block(self, ours: str, theirs: str) -> Iterator[None]:
        w, before = self.w, len(self.w.variables)
        w.line(ours, theirs)
        w.depth += 1
        yield
        w.depth -= 1
        del w.variables[before:]

    def change(self) -> None:
        w = self.w
        target = w.rng.choice(self.changing)
        if w.chance(0.4):
            w.assignments(1)
        inside = [v for v in w.variables if v.element == target.element and is_within(v.axes, target.axes)]
        part = w.rng.choice(inside + self._like(target)) if inside else target
        theirs = lined_up(part.theirs, part.axes, target.axes)
        name = target.ours
        w.line(f"{name} = {name} * 0.5 + sin({part.ours})", f"{name} = {name} * 0.5 + torch.sin({theirs})")

    def _like(self, target: Expression) -> list[Expression]:
        return [v for v in self.changing if v.element == target.element and is_within(v.axes, target.axes)]

    def put(self) -> None:
        w = self.w
        target = w.rng.choice(self.changing)
        found = [at for at, axis in enumerate(target.axes) if axis.is_variable and axis.least]
        if not found:
            return self.change()
        at = w.rng.choice(found)
        n, rest = target.axes[at].text, (*target.axes[:at], *target.axes[at + 1 :])
        place = w.rng.choice(("0", f"{n} - 1", f"k % {n}", *(f"{i} % {n}" for i in w.indices)))
        parts = [v for v in w.variables if v.element == target.element and is_within(v.axes, rest)]
        part = w.rng.choice(parts) if parts and w.chance(0.7) else Expression("0.25", "0.25", target.element)
        ours = part.ours if part.ours == "0.25" else f"cos({part.ours})"
        theirs = "0.25" if part.ours == "0.25" else f"torch.cos({lined_up(part.theirs, part.axes, rest)})"
        w.line(f"{target.ours}[{n}={place}] = {ours}", f"{target.ours} = put({target.ours}, {at}, {place}, {theirs})")

    def body(self) -> None:
        for _ in range(self.w.rng.randint(1, 2)):
            self.statement()

    def branch(self) -> None:
        w = self.w
        ours, theirs = w.rng.choice((("k > 2", "k > 2"), ("k % 2 == 0 or k == 1", "k % 2 == 0 or k == 1"), ("s > 0.5", "s > 0.5")))
        if w.indices and w.chance(0.5):
            ours = theirs = f"{w.rng.choice(w.indices)} % 2 == 0"
        elif w.steps and not w.smooth and w.chance(0.5):
            x = w.rng.choice(self.changing)
            if all(axis.plain for axis in x.axes) and not w.has_twice(x.axes):
                names = ", ".join(axis.text for axis in x.axes)
                ours, theirs = f"sum({x.ours}, over=({names},)) > 0.3".replace(",)", ")"), f"{x.theirs}.sum() > 0.3"
        with self.block(f"if {ours}:", f"if {theirs}:"):
            self.body()
        if w.chance(0.3):
            with self.block("elif k > 1:", "elif k > 1:"):
                self.body()
        if w.chance(0.5):
            with self.block("else:", "else:"):
                self.body()

    def loop(self) -> None:
        w = self.w
        n = w.rng.choice([axis.text for axis in w.axes if axis.is_variable])
        start, stop = w.rng.choice((("0", n), ("1", n), ("0", "3"), ("1", "k")))
        index = f"t{w.depth}_{w.made}"
        w.made += 1
        with self.block(f"for {index} in {start}..{stop}:", f"for {index} in range({start}, {stop}):"):
            w.indices.append(index)
            self.body()
            w.indices.pop()

    def while_loop(self) -> None:
        w, count = self.w, self.w.fresh()
        w.line(f"mut {count} = k", f"{count} = k")
        with self.block(f"while {count} > 0:", f"while {count} > 0:"):
            self.body()
            w.line(f"{count} = {count} // 2", f"{count} = {count} // 2")

    def sub_models(self) -> None:
        """`blocks` of the model, of f64 and axis D."""
        w = self.w
        found = [v for v in self.changing if v.element == "f64" and sum(axis.text == "D" for axis in v.axes) == 1]
        if not found or w.indices:
            return self.change()
        target = w.rng.choice(found)
        name, axes = target.ours, target.axes
        (d,) = (axis for axis in axes if axis.text == "D")
        block = f"block{w.made}"
        w.made += 1
        with self.block(f"for {block} in m.blocks:", f"for {block} in blocks(m):"):
            gain, shift = (lined_up(f"{block}['{part}']", (d,), axes) for part in ("gain", "shift"))
            w.line(f"{name} = tanh({name} * {block}.gain + {block}.shift)", f"{name} = torch.tanh({name} * {gain} + {shift})")
        return None
