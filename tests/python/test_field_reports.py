"""What breaks elsewhere, and what must hold here. Each test is named after what must hold; both engines where something runs."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import pytest

import shapescript
from shapescript.compiler.check.checker import check_source
from shapescript.compiler.diagnostics.model import Diagnostic
from shapescript.engines import EngineName

Array = npt.NDArray[Any]
ENGINES = get_args(EngineName)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def load(tmp_path: Path, text: str, engine: str, **dims: int) -> Any:
    path = tmp_path / "program.ss"
    path.write_text(text)
    return shapescript.load(path, engine=engine, dims=dims)  # type: ignore[arg-type]


def diagnostics(text: str) -> tuple[Diagnostic, ...]:
    return check_source(text).diagnostics


def numbers(*shape: int) -> Array:
    return np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape)


# ---- 1. a prediction [N, 1] against a target [N] never becomes an N x N loss

LOSS = "dim One = 1\n\nfn mse(pred: [b], y: [b]) -> []:\n    return mean((pred - y) ** 2, over=b)\n\n"


def test_prediction_with_an_axis_of_one_is_refused_at_the_call() -> None:
    (found,) = diagnostics(LOSS + "fn f(pred: [b One], y: [b]) -> []:\n    return mse(pred, y)\n")
    assert found.code == "E0405" and "[b One]" in found.message and "[b]" in found.message
    assert found.span is not None and found.span.text == "pred"


def test_array_with_an_axis_too_many_is_refused_from_python(tmp_path: Path, engine: str) -> None:
    program = load(tmp_path, LOSS, engine)
    with pytest.raises(shapescript.ArgumentError) as caught:
        program.mse(numbers(100), numbers(100, 1))
    assert caught.value.code == "R1002" and "y: expected 1 axis [b], got shape (100, 1)" in str(caught.value)


def test_explicit_squeeze_compiles_and_equals_numpy(tmp_path: Path, engine: str) -> None:
    program = load(tmp_path, LOSS + "fn f(pred: [b One], y: [b]) -> []:\n    return mse(pred |> rearrange(b One -> b), y)\n", engine)
    pred, y = numbers(7, 1), numbers(7)[::-1].copy()
    assert program.f(pred, y) == pytest.approx(np.mean((pred[:, 0].astype(np.float64) - y) ** 2), rel=1e-6)


# ---- 2. operands are aligned by name, never by position


@pytest.mark.parametrize("rows", [5, 7])
def test_alignment_is_by_name_whatever_the_sizes(tmp_path: Path, engine: str, rows: int) -> None:
    text = "dim D = 5\n\nfn f(x: [b D], v: [D]) -> [b D]:\n    return x + v\n\nfn g(x: [b D], w: [b]) -> [b D]:\n    return x + w\n"
    program = load(tmp_path, text, engine)
    x, v, w = numbers(rows, 5), 10 * numbers(5), 100 * numbers(rows)
    np.testing.assert_array_equal(program.f(x, v), x + v[None, :])
    np.testing.assert_array_equal(program.g(x, w), x + w[:, None])


def test_outer_sum_needs_an_explicit_product(tmp_path: Path, engine: str) -> None:
    (found,) = diagnostics("fn f(x: [b], v: [d]) -> [b d]:\n    return x + v\n")
    assert found.code == "E0401"
    program = load(tmp_path, "fn f(x: [b], v: [d]) -> [b d]:\n    return einsum(x, v: b, d -> b d)\n", engine)
    np.testing.assert_array_equal(program.f(numbers(2), numbers(3)), np.outer(numbers(2), numbers(3)))


# ---- 3. a regrouping that needs a transpose does one; an order of elements alone never passes for it


@pytest.mark.parametrize("heads", [1, 2])
def test_regrouping_transposes(tmp_path: Path, engine: str, heads: int) -> None:
    program = load(tmp_path, "fn f(x: [b h n d]) -> [b n (h d)]:\n    return rearrange(x: b h n d -> b n (h d))\n", engine)
    x = np.arange(heads * 4, dtype=np.float32).reshape(1, heads, 2, 2)
    by_hand = {1: [[[0, 1], [2, 3]]], 2: [[[0, 1, 4, 5], [2, 3, 6, 7]]]}[heads]
    np.testing.assert_array_equal(program.f(x), np.array(by_hand, np.float32))


def test_reshape_between_these_types_does_not_compile() -> None:
    for text in ("fn f(x: [b h n d]) -> [b n (h d)]:\n    return x\n", "fn f(x: [b h (n d)]) -> [b n (h d)]:\n    return x\n"):
        assert [d.code for d in diagnostics(text)] == ["E0404"]
    swapped = "fn f(x: [b h n d]) -> [b n (h d)]:\n    return rearrange(x: b n h d -> b n (h d))\n"
    assert [d.code for d in diagnostics(swapped)] == ["E0408"]


# ---- 4. the order inside a merged axis means something


def test_the_order_of_factors_is_kept(tmp_path: Path, engine: str) -> None:
    text = """
dim P = 2
dim Q = 2

fn pq(x: [P*Q]) -> [Q P]:
    return rearrange(x: (P Q) -> Q P)

fn qp(x: [P*Q]) -> [Q P]:
    return rearrange(x: (Q P) -> Q P)

fn merged_and_split(x: [P Q]) -> [Q P]:
    merged = rearrange(x: P Q -> (P Q))
    return forget(merged)

fn forget(x: [P*Q]) -> [Q P]:
    return rearrange(x: (Q P) -> Q P)
"""
    program = load(tmp_path, text, engine)
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(program.pq(x), [[0, 2], [1, 3]])
    np.testing.assert_array_equal(program.qp(x), [[0, 1], [2, 3]])
    np.testing.assert_array_equal(program.merged_and_split(x.reshape(2, 2)), [[0, 1], [2, 3]])


def test_a_group_is_not_opened_in_another_order() -> None:
    text = "fn f(x: [(p q)]) -> [q p]:\n    return rearrange(x: (q p) -> q p)\n"
    (found,) = diagnostics(text)
    assert found.code == "E0408" and "[p q]" in found.message


# ---- 5. sizes 0 and 1 are sizes like others, and nothing is compiled for them


@pytest.mark.parametrize("order", list(itertools.permutations((1, 2, 0, 7)))[::5])
def test_every_batch_size_in_every_order(tmp_path: Path, engine: str, order: tuple[int, ...]) -> None:
    text = "dim D = 3\n\nfn f[E](x: [b D], w: [D E]) -> [b E]:\n    return relu(x @ w) + 1\n\n"
    text += "fn total(x: [b D]) -> [D]:\n    return sum(x, over=b)\n"
    program = load(tmp_path, text, engine)
    w = numbers(3, 2)
    for rows in order:
        x = numbers(rows, 3) - 4
        np.testing.assert_array_equal(program.f(x, w), np.maximum(x @ w, 0) + 1)
        np.testing.assert_array_equal(program.total(x), x.sum(0))


def test_reductions_without_an_identity_refuse_nothing_as_input(tmp_path: Path, engine: str) -> None:
    program = load(tmp_path, "fn f(x: [b]) -> []:\n    return mean(x, over=b)\n\nfn g(x: [b]) -> []:\n    return max(x, over=b)\n", engine)
    for function in (program.f, program.g):
        with pytest.raises(shapescript.ShapeScriptError) as caught:
            function(numbers(0))
        assert caught.value.code == "R1103"
        assert function(numbers(1)) == 1.0


# ---- 6. softmax and cross entropy know their axis


def test_softmax_names_its_axis() -> None:
    (found,) = diagnostics("fn f(x: [b n V]) -> [b n V]:\n    return softmax(x)\n".replace("V", "v"))
    assert found.code == "E0406" and all(axis in found.message for axis in "bnv")


def test_class_axis_is_the_one_that_the_labels_lack(tmp_path: Path, engine: str) -> None:
    text = """
dim V = 5

fn f(x: [b n V], y: int[b n]) -> []:
    return cross_entropy(x, y)

fn g(x: [V b n], y: int[b n]) -> []:
    return cross_entropy(x, y)
"""
    program = load(tmp_path, text, engine)
    generator = np.random.default_rng(3)
    x, y = generator.standard_normal((4, 3, 5)).astype(np.float32), generator.integers(0, 5, (4, 3))
    first, second = program.f(x, y), program.g(np.ascontiguousarray(x.transpose(2, 0, 1)), y)
    assert np.float32(first).tobytes() == np.float32(second).tobytes()
    logs = x.astype(np.float64) - np.log(np.exp(x.astype(np.float64)).sum(-1, keepdims=True))
    assert first == pytest.approx(-np.take_along_axis(logs, y[..., None], -1).mean(), rel=1e-5)
    (found,) = diagnostics("dim V = 5\n\nfn f(x: [b n V], y: int[b]) -> []:\n    return cross_entropy(x, y)\n")
    assert found.code == "E0406" and "n, V" in found.message


# ---- 7. equal sizes in a run never make two names one axis


def test_swapped_axes_do_not_compile_though_the_run_would_use_equal_sizes() -> None:
    text = "dim D = 2\n\nfn f(q: [b n D], k: [b m D]) -> [b n m]:\n    return einsum({}: b n D, b m D -> b n m)\n"
    assert diagnostics(text.format("q, k")) == ()
    assert [d.code for d in diagnostics(text.format("k, q"))] == ["E0401"]
    dims = "dim A = 4\ndim B = 4\n\nfn f(x: [A B]) -> [B A]:\n    return x\n"
    assert [d.code for d in diagnostics(dims)] == ["E0404"]


# ---- 8. sizes that disagree between arguments name both arguments, before anything runs


def test_sizes_that_disagree_name_both_arguments(tmp_path: Path, engine: str) -> None:
    program = load(tmp_path, "fn f[D, E](x: [b D], w: [D E]) -> [b E]:\n    return x @ w\n", engine)
    with pytest.raises(shapescript.ArgumentError) as caught:
        program.f(numbers(8, 16), numbers(15, 4))
    text = str(caught.value)
    assert caught.value.code == "R1003"
    assert "D = 16 from x" in text and "15 from w" in text and "(8, 16)" in text and "(15, 4)" in text and "b = 8" in text
