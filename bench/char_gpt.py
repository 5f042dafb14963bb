"""The character transformer in nanoGPT's CPU configuration, beside PyTorch:  python -m bench.char_gpt TEXT [--steps 2000] [--seeds 1337 …]

On a text such as tiny Shakespeare it shows that the first losses are PyTorch's, what a step takes beside PyTorch eager's (one thread each,
alternating), and, with --steps, the held-out loss after so many steps for each seed. The README of nanoGPT gives 1.88 after 2000.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import shapescript

from .char_gpt_torch import Gpt, decayed_in_part
from .task import ROOT

COMPARED_STEPS = 50
ROUNDS = 15
STEPS_A_ROUND = 4
BATCH = 12
RATE = 1e-3
STEP = """
fn one_step(mut m: Gpt, mut opt: AdamW[Gpt], batch: Window[b], rate: float) -> float:
    l, mut g = value_and_grad(loss(m, batch), wrt=m)
    clip_norm(mut g, 1.0)
    update(mut m, mut opt, g, lr=rate)
    return l
"""


def loaded(folder: Path, text: Path) -> Any:
    """The example with a function for one step; its vocabulary is the text's."""
    program = folder / "char_gpt.ss"
    program.write_text((ROOT / "examples" / "char_gpt.ss").read_text() + STEP)
    return shapescript.load(program, {"Vocabulary": len(set(text.read_text()))})


class Ours:
    def __init__(self, program: Any, seed: int) -> None:
        self.step_of, self.model = program.one_step, program.Gpt(seed=seed)
        self.optimiser = shapescript.AdamW(self.model, betas=(0.9, 0.99), decay=0.1)

    def step(self, batch: Any) -> float:
        loss: float = self.step_of(self.model, self.optimiser, batch, RATE)
        return loss


class Torch:
    """As its users write it: one product for query, key and value, the fused attention, the fused AdamW."""

    def __init__(self, start: Any) -> None:
        self.model = Gpt(start)
        self.optimiser = torch.optim.AdamW(decayed_in_part(self.model, 0.1), lr=RATE, betas=(0.9, 0.99), fused=True)

    def step(self, batch: Any) -> float:
        loss = self.model.loss(torch.tensor(batch.ids))
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()
        return float(loss.item())


def compare(program: Any, data: Any, seed: int) -> None:
    """The first losses of both, and then their times a step, in rounds that alternate."""
    ours = Ours(program, seed)
    theirs = Torch(ours.model.state_dict())
    batches = list(data.sample(BATCH * COMPARED_STEPS, seed).batches(BATCH))
    apart = max(abs(ours.step(batch) - theirs.step(batch)) for batch in batches)
    print(f"first {COMPARED_STEPS} losses: at most {apart:.1e} apart")
    times: dict[str, list[float]] = {"ShapeScript": [], "PyTorch eager": []}
    for _ in range(ROUNDS):
        for peer, found in zip((ours, theirs), times.values(), strict=True):
            begun = time.perf_counter()
            for batch in batches[:STEPS_A_ROUND]:
                peer.step(batch)
            found.append((time.perf_counter() - begun) / STEPS_A_ROUND * 1e3)
    for name, found in times.items():
        print(f"{name}: {statistics.median(found):.1f} ms a step (least {min(found):.1f})")
    ratios = [theirs_ / ours_ for ours_, theirs_ in zip(*times.values(), strict=True)]
    print(f"PyTorch eager takes {statistics.median(ratios):.2f} times as long (median of {ROUNDS} pairs)")


def train(program: Any, data: Any, steps: int, seeds: Sequence[int]) -> None:
    learned, held_out = data.take(len(data) * 9 // 10), data.skip(len(data) * 9 // 10)
    for seed in seeds:
        m, sink = program.Gpt(seed=seed), shapescript.MemorySink()
        program.train(m, learned, held_out, steps, sink)
        print(f"seed {seed}: held-out loss {program.mean_loss(m, held_out):.4f} after {steps} steps")


def main() -> None:
    words = argparse.ArgumentParser(description="The character transformer beside PyTorch")
    words.add_argument("text", type=Path)
    words.add_argument("--steps", type=int, default=0, help="train for so many steps, and show the held-out loss")
    words.add_argument("--seeds", type=int, nargs="+", default=[1337])
    given = words.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        program = loaded(Path(folder), given.text)
        data = program.Window.windows(shapescript.Vocabulary.of_text(given.text.read_text()).encode(given.text.read_text()))
        compare(program, data, given.seeds[0])
        if given.steps:
            train(program, data, given.steps, given.seeds)


if __name__ == "__main__":
    main()
