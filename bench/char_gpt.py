"""What the character transformer learns:  python -m bench.char_gpt TEXT [--steps 2000] [--seeds 1337 …]

On a text such as tiny Shakespeare it shows the held-out loss after so many steps for each seed. nanoGPT's README gives 1.88 after 2000.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import shapescript

from .task import ROOT


def main() -> None:
    words = argparse.ArgumentParser("python -m bench.char_gpt", description="The character transformer's held-out loss")
    words.add_argument("text", type=Path)
    words.add_argument("--steps", type=int, default=2000)
    words.add_argument("--seeds", type=int, nargs="+", default=[1337])
    given = words.parse_args()
    text = given.text.read_text()
    vocabulary = shapescript.Vocabulary.of_text(text)
    program = shapescript.load(ROOT / "examples" / "char_gpt.ss", {"Vocabulary": len(vocabulary)})
    data = program.Window.windows(vocabulary.encode(text))
    learned, held_out = data.take(len(data) * 9 // 10), data.skip(len(data) * 9 // 10)
    for seed in given.seeds:
        m = program.Gpt(seed=seed)
        program.train(m, learned, held_out, given.steps, shapescript.MemorySink())
        print(f"seed {seed}: held-out loss {program.mean_loss(m, held_out):.4f} after {given.steps} steps", flush=True)


if __name__ == "__main__":
    main()
