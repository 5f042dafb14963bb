"""Random programs of branches, loops and values computed again, each beside the same in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

VARIABLES = ("p", "q", "r")
TURNS = ("0..n", "1..n", "0..3", "0..k", "2..k", "0..n+1", "3..n")
MOST_DEPTH = 2

HEAD = """
fn bent(x: f64[b], w: f64[b]) -> f64[b]:
    return 0.4 * sin(x * w) + 0.3 * tanh(x + w * w)

fn loss(x: f64[n b], w: f64[b], m: f64[b b], k: int) -> f64[]:
    mut p = w
    mut q = tanh(w)
    mut r = x * 0.5
"""

FOOT = """    return sum(p * 0.7 + tanh(q) + sin(q @ m) * p, over=b) + sum(sin(r), over=(n, b))

fn gradients(x: f64[n b], w: f64[b], m: f64[b b], k: int) -> (f64[], f64[n b], f64[b], f64[b b]):
    l, by_x = value_and_grad(loss(x, w, m, k), wrt=x)
    l2, by_w = value_and_grad(loss(x, w, m, k), wrt=w)
    l3, by_m = value_and_grad(loss(x, w, m, k), wrt=m)
    return l, by_x, by_w, by_m

fn slope(x: f64[n b], w: f64[b], m: f64[b b], k: int) -> f64[]:
    l, by_w = value_and_grad(loss(x, w, m, k), wrt=w)
    return sum(by_w * sin(by_w) + 0.5 * w * w, over=b)

fn twice(x: f64[n b], w: f64[b], m: f64[b b], k: int) -> (f64[], f64[n b], f64[b]):
    l, by_x = value_and_grad(slope(x, w, m, k) + 0.1 * sum(x * x, over=(n, b)), wrt=x)
    l2, by_w = value_and_grad(slope(x, w, m, k), wrt=w)
    return l, by_x, by_w
"""


@dataclass
class _Writer:
    rng: np.random.Generator
    ours: list[str] = field(default_factory=list)
    theirs: list[str] = field(default_factory=list)
    indices: list[str] = field(default_factory=list)
    count: int = 0

    def line(self, depth: int, ours: str, theirs: str) -> None:
        self.ours.append("    " * depth + ours)
        self.theirs.append("    " * depth + theirs)

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def pick(self, *options: str) -> str:
        return str(self.rng.choice(options))

    def vector(self) -> tuple[str, str]:
        """A vector of b, in both languages."""
        v, u = self.pick("p", "q", "w"), self.pick("p", "q", "w")
        options = [
            (v, v),
            (f"tanh({v} * {u})", f"torch.tanh({v} * {u})"),
            (f"sigmoid({v} - {u})", f"torch.sigmoid({v} - {u})"),
            (f"sin({v} @ m)", f"torch.sin({v} @ m)"),
            (f"0.5 * {v} * sin({u})", f"0.5 * {v} * torch.sin({u})"),
            (f"bent({v}, {u})", f"bent({v}, {u})"),
            (f"checkpoint(bent({v}, {u}))", f"bent({v}, {u})"),
        ]
        if self.indices:
            index = self.pick(*self.indices)
            options += [(f"tanh({source}[n={index} % n] + {v})", f"torch.tanh({source}[{index} % n] + {v})") for source in ("x", "r")]
            options.append((f"sin({v} * (0.25 * {index}))", f"torch.sin({v} * (0.25 * {index}))"))
        return options[int(self.rng.integers(len(options)))]

    def statement(self, depth: int) -> None:
        nested = depth <= MOST_DEPTH
        if nested and self.chance(0.3):
            self.loop(depth)
        elif nested and self.chance(0.35):
            self.branch(depth)
        elif self.indices and self.chance(0.25):
            index, (ours, theirs) = self.pick(*self.indices), self.vector()
            self.line(depth, f"r[n={index} % n] = {ours}", f"r = put(r, {theirs}, {index} % n)")
        else:
            (ours, theirs), target = self.vector(), self.pick("p", "q")
            self.line(depth, f"{target} = {ours}", f"{target} = {theirs}")

    def block(self, depth: int) -> None:
        for _ in range(int(self.rng.integers(1, 4))):
            self.statement(depth)

    def loop(self, depth: int) -> None:
        turns, index = self.pick(*TURNS), f"i{self.count}"
        self.count += 1
        start, stop = turns.split("..")
        guarded = stop != "n"  # places of x are taken, and n may be 0
        if guarded:
            self.line(depth, "if n > 0:", "if n > 0:")
            depth += 1
        self.line(depth, f"for {index} in {turns}:", f"for {index} in range({start}, {stop}):")
        self.indices.append(index)
        self.block(depth + 1)
        self.indices.pop()

    def branch(self, depth: int) -> None:
        v = self.pick("p", "q")
        ours, theirs = f"sum({v}, over=b) > 0.1", f"{v}.sum() > 0.1"
        if self.indices and self.chance(0.5):
            ours = theirs = f"{self.pick(*self.indices)} % 2 == 0"
        elif self.chance(0.3):
            ours = theirs = "k > 2"
        self.line(depth, f"if {ours}:", f"if {theirs}:")
        self.block(depth + 1)
        if self.chance(0.6):
            self.line(depth, "else:", "else:")
            self.block(depth + 1)


def _bent(x: Any, w: Any) -> Any:
    return 0.4 * torch.sin(x * w) + 0.3 * torch.tanh(x + w * w)


def _put(whole: Any, part: Any, place: int) -> Any:
    return torch.cat((whole[:place], part[None], whole[place + 1 :]))


def program(seed: int) -> tuple[str, Callable[..., Any]]:
    """The source, whose `loss` is the function of PyTorch; `gradients` and `twice` give gradients of it."""
    writer = _Writer(np.random.default_rng(seed))
    while not {"for", "if"} <= {line.split()[0] for line in writer.ours}:
        writer.block(1)
    body = "\n".join(writer.theirs)
    text = f"def loss(x, w, m, k):\n    n = len(x)\n    p, q, r = w, torch.tanh(w), x * 0.5\n{body}\n"
    text += "    return (p * 0.7 + torch.tanh(q) + torch.sin(q @ m) * p).sum() + torch.sin(r).sum()\n"
    names: dict[str, Any] = {"torch": torch, "bent": _bent, "put": _put}
    exec(text, names)
    return HEAD + "\n".join(writer.ours) + "\n" + FOOT, names["loss"]


def arguments(seed: int, n: int, b: int, k: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    return rng.normal(0, 1, (n, b)), rng.normal(0, 0.7, b), rng.normal(0, 0.5, (b, b)), k
