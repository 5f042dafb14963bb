"""examples/char_gpt.ss: the same losses as the same model in PyTorch, the same bytes on both engines, text that comes out."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fixtures import EXAMPLES

import shapescript
from shapescript.cli import main as command_line

TEXT = "".join(f"{n} times {m} is {n * m},\nand {m} times {n} is the same.\n" for n in range(1, 30) for m in range(2, 12))
SMALL = {"Context": 12, "Width": 16, "Heads": 2, "Depth": 2, "Samples": 2, "Length": 20, "Vocabulary": len(set(TEXT))}
STEPS = 100


def loaded(engine: Any = "native") -> Any:
    return shapescript.load(EXAMPLES / "char_gpt.ss", SMALL, engine=engine)


def windows(program: Any) -> Any:
    return program.Window.windows(shapescript.Vocabulary.of_text(TEXT).encode(TEXT))


class Twin(torch.nn.Module):
    """The model in PyTorch, with ours' parameters under ours' names, joined as PyTorch's layers want them."""

    def __init__(self, start: dict[str, np.ndarray[Any, Any]]) -> None:
        super().__init__()
        self.p = torch.nn.ParameterDict({name.replace(".", "/"): torch.nn.Parameter(torch.tensor(value)) for name, value in start.items()})

    def of(self, name: str) -> torch.Tensor:
        return self.p[name.replace(".", "/")]

    def norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return torch.nn.functional.layer_norm(x, x.shape[-1:], self.of(f"{name}.weight"), self.of(f"{name}.bias"))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.of("characters")[ids] + self.of("places")[: ids.shape[1]]
        for block in (f"blocks.{number}" for number in range(SMALL["Depth"])):
            normed = self.norm(x, f"{block}.attention_norm")
            query, key, value = (torch.einsum("btw,hpw->bhtp", normed, self.of(f"{block}.{part}")) for part in ("query", "key", "value"))
            mixed = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = x + torch.einsum("bhtp,hpw->btw", mixed, self.of(f"{block}.join"))
            inner = torch.nn.functional.gelu(self.norm(x, f"{block}.inner_norm") @ self.of(f"{block}.widen"))
            x = x + inner @ self.of(f"{block}.narrow")
        return self.norm(x, "last_norm") @ self.of("characters").T

    def loss(self, ids: torch.Tensor) -> torch.Tensor:
        logits = self(ids[:, :-1])
        return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1))


def rate(step: int, steps: int) -> float:
    """nanoGPT's: up over 100 steps, down the cosine to a tenth."""
    if step < 100:
        return 1e-3 * (step + 1) / 100
    return 1e-4 + 0.5 * (1 + math.cos(math.pi * (step - 100) / (steps - 100))) * 9e-4


def test_losses_are_those_of_pytorch() -> None:
    program = loaded()
    data, m = windows(program), program.Gpt(seed=1337)
    twin = Twin(m.state_dict())
    undecayed = [value for name, value in twin.p.items() if "_norm/" in name]
    decayed = [value for name, value in twin.p.items() if "_norm/" not in name]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": undecayed, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99))
    held_out, sink = data.take(30), shapescript.MemorySink()
    expected = []
    for step, batch in enumerate(data.sample(12 * STEPS, 0).batches(12)):
        for group in optimiser.param_groups:
            group["lr"] = rate(step, STEPS)
        loss = twin.loss(torch.tensor(batch.ids))
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(twin.parameters(), 1.0)
        optimiser.step()
        expected.append(loss.item())
    assert program.loss(program.Gpt(seed=1337), next(iter(data.sample(12, 0).batches(12)))) == pytest.approx(expected[0], abs=1e-6)
    program.train(m, data, held_out, STEPS, sink)
    (record,) = sink.records
    assert record.step == STEPS and record.loss == pytest.approx(expected[-1], abs=1e-4)
    assert expected[-1] < 0.9 * expected[0]


def test_both_engines_give_the_same_bytes() -> None:
    found = []
    for engine in ("native", "numpy"):
        program = loaded(engine)
        data, m, sink = windows(program), program.Gpt(seed=1), shapescript.MemorySink()
        program.train(m, data, data.take(20), 3, sink)
        batch = next(iter(data.sample(5, 1).batches(5)))
        found.append([{name: value.tobytes() for name, value in m.state_dict().items()}, program.loss(m, batch)])
    assert found[0] == found[1]


@pytest.mark.parametrize("engine", ["native", "numpy"])
def test_a_short_run_ends_with_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], engine: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sums.txt").write_text(TEXT)
    dims = [word for name, value in SMALL.items() for word in ("--dim", f"{name}={value}")]
    words = ["run", "--engine", engine, *dims, str(EXAMPLES / "char_gpt.ss"), "--text", str(tmp_path / "sums.txt"), "--steps", "2"]
    assert command_line(words) == 0
    first, *texts = capsys.readouterr().out.split("----\n")
    assert first.startswith("held-out loss ") and [len(text.removesuffix("\n")) for text in texts] == [20, 20]
    assert set("".join(texts)) <= set(TEXT)
