"""What a training step holds at once beside its arguments, as the memory plan counts it: bounded by what the model keeps for each example
of the batch, however large that is."""

from __future__ import annotations

from pathlib import Path

from planned_bytes import planned_bytes, rows

from shapescript.compiler.check.checker import check_source
from shapescript.compiler.ops.locations import Plan
from shapescript.compiler.passes.pipeline import compile_entry
from shapescript.compiler.passes.plan import plan_memory

EXAMPLES = Path(__file__).parents[2] / "examples"
STEP = """
fn one_step(mut m: MODEL, mut opt: AdamW[MODEL], batch: EXAMPLE[b]MODE) -> float:
    l, mut g = value_and_grad(loss(m, batchGIVEN), wrt=m)
    clip_norm(mut g, 1.0)
    update(mut m, mut opt, g, lr=1e-3)
    return l
"""
RECURRENT = """
import shapescript.std.nn as nn
import shapescript.std.recurrent as recurrent

dim Places = 32
dim Inputs = 64
dim Hidden = 128

data Text:
    ids: int[Places]
    label: int[Places]

model Net:
    characters: nn.Embedding[Inputs, Inputs]
    memory: recurrent.LSTM[Inputs, Hidden]
    output: nn.Linear[Hidden, Inputs]

fn loss(m: Net, batch: Text[b]) -> []:
    outputs, hidden, cell = batch.ids |> nn.embedding(m.characters) |> recurrent.lstm(m.memory)
    return outputs |> nn.linear(m.output) |> cross_entropy(batch.label)
"""


def plan(text: str, model: str, example: str, mode: str = "") -> Plan:
    """Of a step."""
    step = STEP.replace("MODEL", model).replace("EXAMPLE", example).replace("MODE", f", mode: {mode}" if mode else "")
    program = check_source(text + step.replace("GIVEN", ", mode" if mode else ""))
    assert program.module is not None, program.diagnostics
    (signature,) = program.functions["one_step"]
    return plan_memory(compile_entry(program.module, signature.key, {}))


def floats_an_example(found: Plan) -> tuple[int, int]:
    """How many an example takes more, at small and at large batches."""
    small, large = ((planned_bytes(found, rows(2 * n)) - planned_bytes(found, rows(n))) // (4 * n) for n in (8, 1024))
    return small, large


def test_a_convolutional_net() -> None:
    found = plan((EXAMPLES / "digits_cnn.ss").read_text(), "Cnn", "Digit", "Mode")
    places, few, many = 8 * 8, 32, 64
    # Both layers' results; the gradient of the pooling's windows, and what they give back: nothing holds an element nine times.
    assert max(floats_an_example(found)) <= places * (few + 3 * many)


def test_a_transformer() -> None:
    found = plan((EXAMPLES / "char_gpt.ss").read_text(), "Gpt", "Window")
    context, width, inner, heads, depth = 64, 128, 512, 4, 4
    # Of a block: gelu and its slope, the shares, and six of the model's width: queries, keys, values, what is mixed, and two centred
    # tensors; beside them six for what is read at the peak.
    assert max(floats_an_example(found)) <= context * depth * (2 * inner + heads * context + 6 * width) + context * 6 * width


def test_a_recurrent_net() -> None:
    found = plan(RECURRENT, "Net", "Text")
    places, hidden = 32, 128
    # At each place seven tapes of the state's width, the gradient of four gates, and three of what the layer reads and gives; the states.
    assert max(floats_an_example(found)) <= places * hidden * 14 + 8 * hidden
