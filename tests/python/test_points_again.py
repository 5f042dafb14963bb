"""What a gradient needs of a fused operation, made again from what is kept: only what is cheap, and where nothing more is kept for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from both_engines import Both
from planned_bytes import planned_bytes, rows

import shapescript
from shapescript.compiler.check.checker import check_source
from shapescript.compiler.ir.nodes import Function, Op
from shapescript.compiler.ir.verifier import verify_function
from shapescript.compiler.ops.table import infer
from shapescript.compiler.passes import pipeline
from shapescript.compiler.passes.pipeline import compile_entry
from shapescript.compiler.passes.plan import plan_memory
from shapescript.compiler.passes.points_again import make_points_again

DEPTH, WIDTH = 6, 256
LAYERS = """
import shapescript.std.nn as nn

dim Width = 256

model Layer:
    norm: nn.LayerNorm[Width]
    matrix: [Width Width] = uniform(-0.1, 0.1)

model Net:
    layers: Layer * 6

fn net(m: Net, x: [b Width]) -> [b Width]:
    mut y = x
    for layer in m.layers:
        y = BODY
    return y

fn step(mut m: Net, mut opt: Sgd[Net], x: [b Width]) -> float:
    l, mut g = value_and_grad(mean(net(m, x) ** 2, over=(b, Width)), wrt=m)
    update(mut m, mut opt, g, lr=0.01)
    return l
"""
NORM = "y + nn.layer_norm(y, layer.norm) @ layer.matrix"


def finished(text: str, name: str = "step") -> Function:
    program = check_source(text)
    assert program.module is not None, program.diagnostics
    (signature,) = program.functions[name]
    return compile_entry(program.module, signature.key, {}, verify=True)


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = tuple((name, tuple(one for one in passes if one is not make_points_again)) for name, passes in pipeline.STEPS)
    monkeypatch.setattr(pipeline, "STEPS", steps)


def kernels(function: Function) -> list[Op]:
    return [op for op in function.body.ops if op.name == "kernel" and len(op.attributes["space"]) == 2]


def floats_a_row(function: Function) -> float:
    found = plan_memory(function)
    return (planned_bytes(found, rows(8192)) - planned_bytes(found, rows(4096))) / (4 * 4096)


def test_of_a_normalisation_the_centred_tensor_is_kept() -> None:
    function = finished(LAYERS.replace("BODY", NORM))
    verify_function(function, infer)
    # The centred tensor and one number a row of each layer; at the peak what is made again of one, and what flows back.
    assert floats_a_row(function) <= DEPTH * (WIDTH + 2) + 5 * WIDTH


@pytest.mark.usefixtures("without")
def test_without_it_three_tensors_are_kept() -> None:
    assert floats_a_row(finished(LAYERS.replace("BODY", NORM))) >= 3 * DEPTH * WIDTH


def test_nothing_is_made_again_without_a_gradient() -> None:
    text = LAYERS.replace("BODY", NORM) + "\nfn run(m: Net, x: [b Width]) -> [b Width]:\n    return net(m, x)\n"
    assert not kernels(finished(text, "run"))


def test_what_is_little_is_kept() -> None:
    assert not kernels(finished(LAYERS.replace("BODY", NORM).replace("256", "64")))


@pytest.mark.parametrize("function", ["gelu", "tanh", "sigmoid"])
def test_elementary_functions_are_not_made_again(function: str) -> None:
    """What a gradient computes of their values may be."""
    again = kernels(finished(LAYERS.replace("BODY", f"y + {function}(y @ layer.matrix)")))
    assert not {function, f"{function}_slope"} & {inner.name for op in again for inner in op.regions[0].ops}


def test_it_has_the_same_bits(tmp_path: Path) -> None:
    both = Both(tmp_path, LAYERS.replace("BODY", NORM))
    x = np.random.default_rng(0).standard_normal((300, WIDTH), np.float32)
    m = both.native.Net(seed=1)
    optimiser = shapescript.Sgd(m)
    first = [both.call("step", m, optimiser, x) for _ in range(3)]
    assert first[2] < first[0]
