"""Every kind and option of an optimiser, here and in PyTorch, and programs that update models with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import shapescript
from shapescript.engines import EngineName
from shapescript.runtime.optimiser import OPTIMISERS, Optimiser

ENGINES: tuple[EngineName, ...] = ("native", "numpy")
THEIRS = {"Sgd": torch.optim.SGD, "Adam": torch.optim.Adam, "AdamW": torch.optim.AdamW}
THEIR_NAMES = {"decay": "weight_decay"}


@dataclass(frozen=True)
class Case:
    """A kind with options, by Python's names for them."""

    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return "-".join([self.kind, *(f"{name}={value}".replace(" ", "") for name, value in self.options.items())])

    def ours(self, model: shapescript.Model) -> Optimiser:
        made: Optimiser = OPTIMISERS[self.kind](model, **self.options)  # type: ignore[call-arg]
        return made

    def theirs(self, parameters: Any, lr: float) -> torch.optim.Optimizer:
        return THEIRS[self.kind](parameters, lr=lr, **{THEIR_NAMES.get(name, name): value for name, value in self.options.items()})

    def written(self) -> str:
        """As a program writes it, for a model m."""
        options = dict(self.options)
        if "betas" in options:
            options["beta1"], options["beta2"] = options.pop("betas")
        return f"{self.kind}({', '.join(['m', *(f'{name}={_literal(value)}' for name, value in options.items())])})"


def _literal(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


CASES = (
    Case("Sgd"),
    Case("Sgd", {"decay": 0.05}),
    Case("Sgd", {"momentum": 0.9}),
    Case("Sgd", {"momentum": 0.8, "dampening": 0.4}),
    Case("Sgd", {"momentum": 0.9, "nesterov": True}),
    Case("Sgd", {"momentum": 0.7, "nesterov": True, "decay": 0.03}),
    Case("Adam"),
    Case("Adam", {"decay": 0.1}),
    Case("Adam", {"amsgrad": True}),
    Case("Adam", {"betas": (0.5, 0.9), "eps": 1e-3, "decay": 0.02, "amsgrad": True}),
    Case("AdamW"),
    Case("AdamW", {"betas": (0.0, 0.99), "decay": 0.0}),
    Case("AdamW", {"betas": (0.5, 0.9), "eps": 1e-3, "decay": 0.3}),
    Case("AdamW", {"amsgrad": True}),
)

UPDATES = """
fn step(mut m: M, mut opt: KIND[M], g: M, lr: float):
    update(mut m, mut opt, g, lr=lr)

fn clipped(mut m: M, mut opt: KIND[M], g: M, lr: float, limit: float) -> float:
    mut h = g
    norm = clip_norm(mut h, limit)
    update(mut m, mut opt, h, lr=lr)
    return norm

fn made(m: M) -> KIND[M]:
    return MADE

fn renewed(m: M, mut opt: KIND[M]):
    opt = MADE
"""


def program(folder: Path, members: str, case: Case, engine: EngineName, more: str = "") -> Any:
    """A model M with these members, and functions that update it."""
    path = folder / "updates.ss"
    path.write_text(f"model M:\n{members}\n" + UPDATES.replace("KIND", case.kind).replace("MADE", case.written()) + more)
    return shapescript.load(path, engine=engine)


def fill(model: shapescript.Model, rng: np.random.Generator, scale: float = 1.0) -> None:
    """Random numbers in every tensor of floats."""
    for leaf in model.layout:
        if leaf.dtype in ("f32", "f64"):
            view = model.layout.view(model.buffer, leaf.name)
            view[...] = rng.standard_normal(leaf.shape) * scale


def contents(model: shapescript.Model, state: Optimiser) -> tuple[Any, ...]:
    """Everything that an update changes, to the bit, with what lies between tensors."""
    return model.buffer.tobytes(), state.step, state.options, [state.slot(name).tobytes() for name in state.slot_names]


def assert_padding_is_zero(model: shapescript.Model, *buffers: Any) -> None:
    between = np.ones(model.layout.nbytes, bool)
    for leaf in model.layout:
        start = model.layout.offset(leaf.name)
        between[start : start + leaf.nbytes] = False
    for buffer in (model.buffer, *buffers):
        assert not buffer[between].any()


each_case = pytest.mark.parametrize("case", CASES, ids=str)
each_engine = pytest.mark.parametrize("engine", ENGINES)

MIXED = """
    empty: [0 3] = zeros
    one: [1] = ones
    wide: f64[19] = uniform(-1, 1)
    long: [4097] = normal(0, 1)
    exact: f64[] = ones
    last: [3 17] = normal(0, 1)
    buffer seen: int[2] = zeros
    buffer mean: [5] = ones
    buffer flag: bool[] = true
"""


def run_both(tmp_path: Path, members: str, case: Case, turns: int = 4) -> list[Any]:
    """What updates and clipped updates leave, in each engine."""
    found = []
    for engine in ENGINES:
        both = program(tmp_path, members, case, engine)
        m, g = both.M(seed=3), both.M(seed=3)
        state, rng, norms = case.ours(m), np.random.default_rng(5), []
        for turn in range(turns):
            fill(g, rng, scale=10.0 ** rng.integers(-3, 3))
            both.step(m, state, g, 0.1 / (turn + 1))
            norms.append(both.clipped(m, state, g, 0.05, 0.5))
        assert_padding_is_zero(m, *(state.slot(name) for name in state.slot_names))
        found.append((contents(m, state), norms))
    return found
