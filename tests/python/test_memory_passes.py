"""How many passes over memory the examples make: a count that no change may raise unseen, and that fusion has brought down to this."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from built_programs import train_mlp
from optimiser_samples import ENGINES

import shapescript.checking
from shapescript.compiler.ir.nodes import Block, Function, Op, walk
from shapescript.compiler.ir.types import ModelType, OptimiserType
from shapescript.compiler.passes.memory_passes import block_traffic
from shapescript.compiler.passes.pipeline import compile_entry
from shapescript.emit import emitted

EXAMPLES = Path(__file__).parents[2] / "examples"

# For each example the loops that train: their passes over memory before fusion and behind it. The LSTM's loops over the letters, forwards
# and backwards, are apart. A number for each row counts as much as the logits, of which test_logits_read_once counts the passes.
TRAINING: dict[str, list[tuple[str, int, int]]] = {
    "train_mlp": [("if/for_range/for_batches", 96, 39), ("if/for_range/for_batches", 96, 39)],
    "digits_cnn": [("for_range/for_batches", 181, 90)],
    "autoencoder": [("for_range/for_batches", 189, 85)],
    "names_lstm": [
        ("for_range/for_batches", 188, 77),
        ("for_range/for_batches/for_range", 94, 65),
        ("for_range/for_batches/for_range", 210, 82),
    ],
    "char_gpt": [
        ("for_batches", 1512, 551),
        ("for_batches/if", 2, 2),
        ("for_batches/if/for_batches", 599, 167),
        ("for_batches", 606, 167),
    ],
}


def example(name: str, stage: str) -> Function:
    checked = shapescript.checking.checked_file(EXAMPLES / f"{name}.ss", None)
    assert checked.module is not None
    (signature,) = checked.functions["main"]
    return compile_entry(checked.module, signature.key, {}, stop_after=stage)


def counts(function: Function) -> list[tuple[str, int]]:
    return [(path, traffic.passes) for path, traffic in block_traffic(function) if "for_batches" in path]


@pytest.mark.parametrize("name", TRAINING)
def test_the_passes_of_each_example(name: str) -> None:
    before, after = (counts(example(name, stage)) for stage in ("simplified", "fused"))
    found = [(path, first, second) for (path, first), (_, second) in zip(before, after, strict=True)]
    assert found == TRAINING[name]


def buffers(op: Op) -> bool:
    """Whether an operation goes over a model's whole buffer."""
    kinds = [value.type for value in (*op.operands, *op.results)]
    return any(isinstance(kind, ModelType | OptimiserType) for kind in kinds)


def over_buffers(block: Block) -> list[str]:
    """The operations that go over whole buffers and are no views of them, numbers of them, or packs of what is made in them."""
    none = ("leaf", "submodel", "flat", "pack", "optimiser_step", "check_finite", "for_range", "for_batches", "if", "load", "save")
    return [op.name for op in walk(block) if buffers(op) and op.name not in none]


def test_an_update_is_two_passes_over_the_buffers() -> None:
    """The norm, which says whether all is finite too, and the update, to which clipping is a factor."""
    step = compile_entry(train_mlp(), "train_step", {}, "final")
    assert over_buffers(step.body) == ["global_norm", "update"]


HEADER = """
import shapescript.std.nn as nn
import shapescript.std.optim as optim

model Mlp:
    hidden: nn.Linear[7, 5]
    output: nn.Linear[5, 3]

fn loss(m: Mlp, x: [b 7]) -> []:
    return x |> nn.linear(m.hidden) |> relu |> nn.linear(m.output) |> mean(over=(b, 3))
"""


def entry(folder: Path, text: str, stage: str = "fused") -> Function:
    path = folder / "program.ss"
    path.write_text(HEADER + text)
    checked = shapescript.checking.checked_file(path, None)
    assert checked.module is not None
    (signature,) = checked.functions["step"]
    return compile_entry(checked.module, signature.key, {}, stop_after=stage)


@pytest.mark.parametrize("optimiser", ["AdamW", "Adam", "Sgd"])
def test_each_optimiser_clips_and_updates_in_two_passes(tmp_path: Path, optimiser: str) -> None:
    text = f"""
fn step(mut m: Mlp, mut opt: {optimiser}[Mlp], x: [b 7]):
    _, mut g = value_and_grad(loss(m, x), wrt=m)
    clip_norm(mut g, 1.0)
    update(mut m, mut opt, g, lr=0.1)
"""
    assert over_buffers(entry(tmp_path, text, "final").body) == ["global_norm", "update"]


def test_an_optimiser_of_model_vectors_is_one_kernel(tmp_path: Path) -> None:
    """Lion, as the library has it: the gradient, the moment and the parameters are read once, the last two written once."""
    text = """
fn step(mut m: Mlp, mut opt: optim.Lion[Mlp], g: Mlp):
    optim.update(mut m, mut opt, g, lr=0.1, decay=0.1)
"""
    function = entry(tmp_path, text)
    (kernel,) = [op for op in walk(function.body) if op.name == "kernel"]
    assert len(kernel.operands) == 3 and len(kernel.results) == 2
    names = [op.name for op in walk(entry(tmp_path, text, "final").body)]
    assert names.count("pack_flat") == 2 and "copy" not in names and "pack" not in names


@pytest.mark.parametrize("element", ["f32", "f64", "bf16"])
def test_what_is_done_to_a_buffer_has_the_bits_of_each_parameter(tmp_path: Path, element: str) -> None:
    """Parameters whose sizes leave room between them, where 0 / 0 is computed too: a norm of the whole doesn't see it."""
    path = tmp_path / "whole.ss"
    path.write_text(WHOLE.replace("T[", f"{element}["))
    outcomes = []
    for engine in ENGINES:
        program = shapescript.load(path, engine=engine)
        m, g = program.Net(seed=1), program.Net(seed=2)
        length = program.step(m, g, 0.3)
        outcomes.append((length, bytes(m.buffer)))
        alone, first = (np.asarray(tensor) for tensor in (program.alone(program.Net(seed=1), g, 0.3), m.first))
        assert first.dtype == alone.dtype and first.tobytes() == alone.tobytes()
    assert outcomes[0] == outcomes[1] and math.isfinite(outcomes[0][0])


WHOLE = """
model Net:
    first: T[3 5] = normal(0, 1)
    second: T[21] = normal(0, 1)
    third: T[2 2] = normal(0, 1)

fn step(mut m: Net, g: Net, rate: float) -> float:
    m = m - (g / g) * rate + m * g
    mut whole = m
    return clip_norm(mut whole, 1.0)

fn alone(m: Net, g: Net, rate: float) -> T[3 5]:
    return m.first - (g.first / g.first) * rate + m.first * g.first
"""


def test_a_parameter_that_is_treated_apart_is_no_part_of_one_buffer(tmp_path: Path) -> None:
    """There is one expression for all of them where numbers alone differ, and none where operations do."""
    text = """
fn step(mut m: Mlp, g: Mlp):
    m = m - apart(g)

fn apart(g: Mlp) -> Mlp:
    mut other = g
    other.hidden.weight = CHANGED
    return other
"""
    alike = [op.name for op in entry(tmp_path, text.replace("CHANGED", "g.hidden.weight * 0.5")).body.ops]
    apart = [op.name for op in entry(tmp_path, text.replace("CHANGED", "abs(g.hidden.weight)")).body.ops]
    assert "pack_flat" in alike and "pack_flat" not in apart and "pack" in apart


def test_the_count_stands_behind_the_program() -> None:
    path = EXAMPLES / "train_mlp.ss"
    checked = shapescript.checking.checked_file(path, None)
    (signature,) = checked.functions["main"]
    lines = emitted("fused", path, checked, signature.key).splitlines()
    (line,) = {line for line in lines if line.startswith("# if/for_range/for_batches: ")}
    ((_, _, passes), *_) = TRAINING["train_mlp"]
    assert line.split(": ")[1].startswith(f"{passes} passes over memory by ") and "Hidden*batch" in line
