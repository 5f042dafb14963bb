"""Random programs that take and put places of a tensor by its axes' names, each beside the same in PyTorch."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

AXES = "abc"
PLAIN = (  # a place or range of axis `a`: as a program writes it, its ends in Python, and whether the axis is dropped
    ("a=0", "0", "1", True),
    ("a=a-1", "a - 1", "a", True),
    ("a=i", "i", "i + 1", True),
    ("a=j-1..j", "j - 1", "j", False),
    ("a=1..", "1", "a", False),
    ("a=..a-1", "0", "a - 1", False),
    ("a=i..i+2", "i", "i + 2", False),
    ("a=a//2..", "a // 2", "a", False),
)
OF_A_RUN = (("a=i..j", "i", "j", False), ("a=2*i-i..a", "i", "a", False))  # their length stands in no gradient through a loop
OF_A_LOOP = ("a=t", "t", "t + 1", True)

Values = Callable[..., Any]


@dataclass(frozen=True)
class PlaceProgram:
    """`f(x, w, i, j)` of `x: f64[a b c]`, and the same of tensors of PyTorch, with the sizes of the axes behind."""

    text: str
    torch: Values


@dataclass
class _Writer:
    rng: random.Random
    lines: list[str] = field(default_factory=list)
    python: list[str] = field(default_factory=list)

    def line(self, depth: int, text: str, python: str) -> None:
        self.lines.append("    " * depth + text)
        self.python.append("    " * depth + python)

    def bracket(self, loop: str | None) -> tuple[str, str]:
        """Some axes in any order, and the subscript of PyTorch that keeps no dropped axis."""
        chosen = {axis: self._interval(axis, loop) for axis in self.rng.sample(AXES, self.rng.randint(1, 3))}
        inside = ", ".join(text for text, _, _, _ in chosen.values())
        ranges = ", ".join(f"{chosen[axis][1]}:{chosen[axis][2]}" if axis in chosen else ":" for axis in AXES)
        dropped = ", ".join("0" if axis in chosen and chosen[axis][3] else ":" for axis in AXES)
        return inside, f"[{ranges}][{dropped}]"

    def _interval(self, axis: str, loop: str | None) -> tuple[str, str, str, bool]:
        table = (*PLAIN, OF_A_LOOP) if loop == axis else PLAIN if loop else (*PLAIN, *OF_A_RUN)
        text, start, stop, dropped = self.rng.choice(table)
        left, right = text.split("=")
        return f"{left.replace('a', axis)}={right.replace('a', axis)}", start.replace("a", axis), stop.replace("a", axis), dropped

    def statement(self, depth: int, loop: str | None) -> None:
        match self.rng.randint(0, 5):
            case 0 | 1 | 2:
                inside, subscript = self.bracket(loop)
                value = self.rng.choice(["0.5", "w", "i", "x[{}] * 0.5", "tanh(y[{}])"])
                self.line(depth, f"y[{inside}] = {value.format(inside)}", "z = y.clone()")
                python = value.replace("[{}]", subscript).replace("tanh", "torch.tanh")
                self.python.append("    " * depth + f"z{subscript}.copy_(torch.as_tensor({python}, dtype=x.dtype))")
                self.python.append("    " * depth + "y = z")
            case 3 if loop is None:
                axis = self.rng.choice(AXES)
                self.line(depth, f"for t in 0..{axis}:", f"for t in range({axis}):")
                for _ in range(self.rng.randint(1, 3)):
                    self.statement(depth + 1, axis)
            case 4:
                self.line(depth, "y = sin(y)", "y = torch.sin(y)")
            case _:
                self.line(depth, "y = y * 0.9 + x", "y = y * 0.9 + x")


HEADER = "fn f{0}(x: f64[a b c], w: f64[], i: int, j: int) -> f64[a b c]:\n    mut y = x\n{1}\n    return y\n"
GRADIENTS = """
fn g{0}(x: f64[a b c], by: f64[a b c], w: f64[], i: int, j: int) -> (f64[a b c], f64[]):
    l, g = value_and_grad(sum(f{0}(x, w, i, j) * by + x * 0.0, over=(a, b, c)), wrt=x)
    k, h = value_and_grad(sum(f{0}(x, w, i, j) * by, over=(a, b, c)) + w * 0.0, wrt=w)
    return g, h
"""


def place_program(rng: random.Random, name: int) -> PlaceProgram:
    """The functions `f<name>` and `g<name>`, which gives the gradients of the sum of f's elements times `by`."""
    writer = _Writer(rng)
    for _ in range(rng.randint(2, 6)):
        writer.statement(1, None)
    names: dict[str, Any] = {"torch": torch}
    source = "\n".join(["def f(x, w, i, j, a, b, c):", "    y = x * 1", *writer.python, "    return y"])
    exec(compile(source, f"f{name}", "exec"), names)
    return PlaceProgram(HEADER.format(name, "\n".join(writer.lines)) + GRADIENTS.format(name), names["f"])
