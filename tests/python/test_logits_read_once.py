"""A loss of labels, its gradient and the accuracy of the same logits are one walk over their rows, with the bits of each alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import shapescript
import shapescript.checking
from shapescript.compiler.ir.nodes import Function, Op, Value, walk
from shapescript.compiler.ir.types import TensorType
from shapescript.compiler.passes import pipeline
from shapescript.compiler.passes.pipeline import compile_entry

CLASSES = 33  # two vectors and a single number
TEXT = """
dim C = 33

model Net:
    weight: T[C C] = normal(0, 1)

fn plain(x: T[b C], y: int[b]) -> (T[], T[b C], float):
    l, g = value_and_grad(cross_entropy(x, y), wrt=x)
    return l, g, accuracy(x, y)

fn accuracy_first(x: T[b C], y: int[b]) -> (float, T[], T[b C]):
    share = accuracy(x, y)
    l, g = value_and_grad(cross_entropy(x, y), wrt=x)
    return share, l, g

fn of_sequences(x: T[b n C], y: int[b n]) -> (T[], T[b n C], float):
    l, g = value_and_grad(cross_entropy(x, y), wrt=x)
    return l, g, accuracy(x, y)

fn smoothed(x: T[b C], y: int[b]) -> (T[], T[b C], float):
    l, g = value_and_grad(cross_entropy(x, y, smoothing=0.1), wrt=x)
    return l, g, accuracy(x, y)

fn total(x: T[b C], y: int[b], m: bool[b], w: T[C]) -> (T[], T[b C], float):
    l, g = value_and_grad(cross_entropy(x, y, mask=m, weight=w, reduction="sum"), wrt=x)
    return l, g, accuracy(x, y, mask=m)

fn likelihood(x: T[b C], y: int[b]) -> (T[], T[b C], float):
    l, g = value_and_grad(nll(log_softmax(x, over=C), y), wrt=x)
    return l, g, accuracy(x, y)

fn picked(x: T[b C], y: int[b]) -> (T[], T[b C]):
    l, g = value_and_grad(-mean(pick(log_softmax(x, over=C), y, over=C), over=b), wrt=x)
    return l, g

fn alone(x: T[b C], y: int[b]) -> (T[], float):
    return cross_entropy(x, y), accuracy(x, y)

fn square(x: T[]) -> T[]:
    return x * x

fn squared(x: T[b C], y: int[b]) -> (T[], T[b C]):
    l, g = value_and_grad(square(cross_entropy(x, y)), wrt=x)
    return l, g

fn largest(x: T[b C]) -> (int[b], int[b], T[b]):
    return argmax(x, over=C), argmin(x, over=C), max(x, over=C)
"""


def whole(function: Function) -> list[tuple[str, str]]:
    """Which operations read and write tensors of the logits' size, and how often."""
    size = next(value.type for value in function.body.parameters if isinstance(value.type, TensorType)).axes

    def has_size(value: Value) -> bool:
        return isinstance(value.type, TensorType) and value.type.axes == size

    ops: list[Op] = [op for op in walk(function.body)]
    reads = [("read", op.name) for op in ops for operand in dict.fromkeys(op.operands) if has_size(operand)]
    return reads + [("write", op.name) for op in ops for result in op.results if has_size(result)]


def compiled(folder: Path, name: str, element: str = "f32") -> Function:
    path = folder / "logits.ss"
    path.write_text(TEXT.replace("T[", f"{element}["))
    checked = shapescript.checking.checked_file(path, None)
    assert checked.module is not None
    (signature,) = checked.functions[name]
    return compile_entry(checked.module, signature.key, {}, verify=True)


READ, WRITTEN = ("read", "fused_reduction"), ("write", "fused_reduction")


@pytest.mark.parametrize("element", ["f32", "f64", "bf16"])
@pytest.mark.parametrize("name", ["plain", "accuracy_first", "of_sequences", "smoothed", "likelihood", "picked"])
def test_logits_are_read_once_and_their_gradient_is_written_once(tmp_path: Path, name: str, element: str) -> None:
    assert whole(compiled(tmp_path, name, element)) == [READ, WRITTEN]


def test_so_it_is_where_rows_do_not_count_and_have_weights(tmp_path: Path) -> None:
    assert whole(compiled(tmp_path, "total")) == [READ, WRITTEN]


@pytest.mark.parametrize("name", ["alone", "largest"])
def test_without_a_gradient_nothing_of_the_logits_size_is_written(tmp_path: Path, name: str) -> None:
    assert whole(compiled(tmp_path, name)) == [READ]


def test_a_gradient_whose_weight_depends_on_the_loss_is_a_walk_of_its_own(tmp_path: Path) -> None:
    assert [kind for kind, _ in whole(compiled(tmp_path, "squared"))] == ["read", "read", "write", "write"]


def programs(folder: Path, element: str) -> list[Any]:
    """Native code, the reference evaluator, and the reference evaluator of what isn't fused."""
    path = folder / "logits.ss"
    path.write_text(TEXT.replace("T[", f"{element}["))
    return [shapescript.load(path), shapescript.load(path, engine="numpy"), shapescript.load(path, engine="numpy")]


OF_BOTH = ("plain", "accuracy_first", "smoothed", "likelihood", "picked", "alone", "squared")  # logits and labels


def outcome(function: Any, arguments: Sequence[Any]) -> list[bytes] | str:
    try:
        return [np.asarray(value).tobytes() for value in function(*arguments)]
    except shapescript.ShapeScriptError as error:
        return str(error)


def logits(element: str, rows: int, strange: bool) -> np.ndarray:
    rng = np.random.default_rng(rows)
    x = (3 * rng.standard_normal((rows, CLASSES))).astype(np.float64 if element == "f64" else np.float32)
    if strange:  # ties, zeros of both signs, and numbers that aren't finite
        x[0] = np.round(x[0])
        x[1 % rows] = -0.0
        x[1 % rows, 1::2] = 0.0
        x[2 % rows, 5:] = -np.inf
        x[3 % rows, 9::4] = np.inf
        x[4 % rows, [7, 30]] = np.nan
        x[5 % rows] = -np.inf
    return (x.view(np.uint32) & 0xFFFF0000).view(np.float32) if element == "bf16" else x


@pytest.mark.parametrize("element", ["f32", "f64", "bf16"])
def test_the_bits_are_those_of_what_is_not_fused(tmp_path: Path, element: str) -> None:
    native, reference, unfused = programs(tmp_path, element)
    steps = tuple((name, () if name == "fused" else passes) for name, passes in pipeline.STEPS)
    rng = np.random.default_rng(0)
    for rows, strange in ((1, False), (6, False), (40, False), (6, True)):
        x, y = logits(element, rows, strange), rng.integers(0, CLASSES, rows)
        weights = logits(element, rows, False)[0]
        given: dict[str, list[Any]] = {
            name: [x, y] for name in ("plain", "accuracy_first", "smoothed", "likelihood", "picked", "alone", "squared")
        }
        given |= {"of_sequences": [x.reshape(2, -1, CLASSES), y.reshape(2, -1)]} if rows % 2 == 0 else {}
        given |= {"total": [x, y, np.arange(rows) % 3 != 1, weights], "largest": [x]}
        for name, arguments in given.items():
            expected = outcome(getattr(reference, name), arguments)
            assert outcome(getattr(native, name), arguments) == expected, (name, rows, strange)
            with patch.object(pipeline, "STEPS", steps):
                assert outcome(getattr(unfused, name), arguments) == expected, (name, rows, strange)


def test_rows_of_one_class(tmp_path: Path) -> None:
    path = tmp_path / "logits.ss"
    path.write_text(TEXT.replace("T[", "f32[").replace(f"dim C = {CLASSES}", "dim C = 1"))
    native, reference = shapescript.load(path), shapescript.load(path, engine="numpy")
    for name in OF_BOTH:
        arguments = [np.float32([[0.5], [-0.0], [np.nan]]), np.zeros(3, np.int64)]
        for rows in (2, 3):
            given = [argument[:rows] for argument in arguments]
            assert outcome(getattr(native, name), given) == outcome(getattr(reference, name), given), (name, rows)
