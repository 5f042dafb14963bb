"""The reference evaluator, operation by operation, beside NumPy in f64, PyTorch, exact rational numbers and values by hand."""

from __future__ import annotations

import ast
import itertools
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from evaluating import RecordingHost, apply, axis, evaluate, function_of, tensor, type_of
from hypothesis import given, settings
from hypothesis import strategies as st

from shapescript.compiler.diagnostics.model import InternalError
from shapescript.compiler.ir.sizes import dim, number, of
from shapescript.compiler.ir.types import Element
from shapescript.compiler.ops.protocol import ExecutionError
from shapescript.compiler.ops.table import Composite, entries
from shapescript.compiler.passes.expand import expand
from shapescript.compiler.reference import engine
from shapescript.compiler.reference.engine import HANDLERS, Evaluator

GONE_BEFORE_ENGINES = {
    *("call", "for_list", "value_and_grad", "checkpoint"),
    *("zip_leaves", "fill_leaves", "dot_leaves"),
}
NAN, INF = float("nan"), float("inf")


def normal(*shape: int, seed: int = 0, dtype: type = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def sizes(*values: int) -> tuple:
    return tuple(number(value) for value in values)


def test_every_operation_that_reaches_an_engine_has_a_handler() -> None:
    reaching = {name for name, entry in entries().items() if not isinstance(entry.lowering, Composite)} - GONE_BEFORE_ENGINES
    assert reaching == set(HANDLERS)


def test_an_operation_that_should_be_gone_is_an_internal_error() -> None:
    with pytest.raises(InternalError, match="softmax"):
        apply("softmax", normal(2, 3), positions=(1,))


NUMPY_ALLOWED = {
    "abs",
    "arange",
    "array",
    "asarray",
    "ascontiguousarray",
    "bool_",
    "broadcast_shapes",
    "broadcast_to",
    "concatenate",
    "copyto",
    "dtype",
    "errstate",
    "flatnonzero",
    "float32",
    "float64",
    "int64",
    "isfinite",
    "isnan",
    "nan",
    "reshape",
    "sqrt",
    "transpose",
    "uint16",
    "uint64",
    "uint8",
    "where",
    "zeros",
    # moves and fills: no arithmetic
    *("empty", "flip", "full", "ix_", "moveaxis", "ndindex", "take", "take_along_axis"),
    "argsort",  # stable only, as its one caller has it: then comparisons alone decide
}
METHODS_REFUSED = {"sum", "mean", "dot", "prod", "cumsum", "std", "var"}


def test_numpy_is_used_only_for_what_is_fixed_to_the_bit() -> None:
    """docs/exactness.md, rule 10."""
    for path in Path(engine.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            assert not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)), path.name
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert node.value.id != "np" or node.attr in NUMPY_ALLOWED, f"{path.name}: np.{node.attr}"
                assert node.value.id == "math" or node.attr not in METHODS_REFUSED, f"{path.name}: {node.attr}"


# ---- elementwise

UNARY = {
    "neg": np.negative,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "relu": lambda x: np.maximum(x, 0),
}
BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "minimum": np.minimum, "maximum": np.maximum}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str, dtype: type) -> None:
    for shape in ((5, 7), (3, 0), (1, 1)):
        x = np.abs(normal(*shape, dtype=dtype)) if name in ("sqrt", "log") else normal(*shape, dtype=dtype)
        found = apply(name, x)
        assert found.dtype == dtype and found.shape == shape
        np.testing.assert_allclose(found, UNARY[name](x.astype(np.float64)), rtol=4 * np.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str, dtype: type) -> None:
    x, y = normal(4, 6, dtype=dtype), normal(4, 6, seed=1, dtype=dtype)
    found = apply(name, x, y)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, BINARY[name](x, y))


def test_integers_wrap_and_compare() -> None:
    x, y = np.array([2**62, -5, 7]), np.array([2**62, 3, 7])
    np.testing.assert_array_equal(apply("add", x, y), [-(2**63), -2, 14])
    np.testing.assert_array_equal(apply("neg", x), [-(2**62), 5, -7])
    np.testing.assert_array_equal(apply("le", x, y), [True, True, True])
    np.testing.assert_array_equal(apply("ne", x, y), [False, True, False])


def test_scalars_are_python_numbers_at_the_border() -> None:
    third = apply("div", np.float32(1), np.float32(3))
    assert type(third) is float and third == float(np.float32(1 / 3))
    assert apply("lt", np.int64(2), np.int64(3)) is True
    assert type(apply("mul", np.int64(2), np.int64(3))) is int


@pytest.mark.parametrize(
    ("source", "name", "expected"),
    [
        (np.float32([2.9, -2.9, NAN, INF, -1e30]), "to_i64", [2, -2, 0, 2**63 - 1, -(2**63)]),
        (np.float64([1 + 2**-24, 1e300, NAN]), "to_f32", np.float32([1, INF, NAN])),
        (np.array([2**53 + 1, -3]), "to_f64", [float(2**53), -3.0]),
        (np.array([2**24 + 1, 2**60 + 2**36 + 1]), "to_f32", np.float32([2**24, 2**60 + 2**37])),
        (np.array([True, False]), "to_f32", [1.0, 0.0]),
        (np.float32([0.0, -0.0, NAN, 2.0]), "to_bool", [False, False, True, True]),
    ],
)
def test_conversions(source: np.ndarray, name: str, expected: object) -> None:
    np.testing.assert_array_equal(apply(name, source), expected)


def test_select_and_logic() -> None:
    chosen, x, y = np.array([True, False, True]), normal(3), normal(3, seed=1)
    np.testing.assert_array_equal(apply("select", chosen, x, y), np.where(chosen, x, y))
    np.testing.assert_array_equal(apply("and", chosen, ~chosen), [False] * 3)
    np.testing.assert_array_equal(apply("not", chosen), ~chosen)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1).filter(bool))
@settings(max_examples=50, deadline=None)
def test_integer_division_is_pythons(left: int, right: int) -> None:
    if (left, right) != (-(2**63), -1):
        assert apply("floordiv", left, right) == left // right
        assert apply("mod", left, right) == left % right


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        (7, 0, "7 // 0 divides by zero"),
        (-(2**63), -1, "-9223372036854775808 // -1 overflows 64 bits"),
    ],
)
def test_integer_division_fails_with_a_code(left: int, right: int, message: str) -> None:
    with pytest.raises(ExecutionError, match=message) as caught:
        apply("floordiv", left, right)
    assert caught.value.code == "R1106" and caught.value.span.text == "line"


def test_constants_and_sizes() -> None:
    n = axis("n")
    function = function_of([tensor(n)], lambda b, x: [b.constant(0.1, Element.F32), b.size(n * number(3) + of(dim("D", 4)))])
    assert Evaluator(function).run([np.zeros(5, np.float32)], RecordingHost()) == [float(np.float32(0.1)), 19]


def test_iota() -> None:
    np.testing.assert_array_equal(apply("iota", axes=sizes(2, 3), position=1), [[0, 1, 2]] * 2)
    np.testing.assert_array_equal(apply("iota", axes=sizes(2, 3), position=0), [[0] * 3, [1] * 3])


def test_nan_is_canonical_in_what_is_returned() -> None:
    odd = np.array([0xFFC00123, 0x7FC00000], np.uint32).view(np.float32)
    assert apply("stop_gradient", odd).view(np.uint32).tolist() == [0x7FC00000] * 2


# ---- moves and views


@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 3, 1), (0, 3, 2)])
def test_moves(shape: tuple[int, ...]) -> None:
    x = normal(*shape)
    found = apply("transpose", x, permutation=(2, 0, 1))
    np.testing.assert_array_equal(found, x.transpose(2, 0, 1))
    assert found.flags.c_contiguous and found.flags.owndata
    np.testing.assert_array_equal(
        apply("reshape", x, axes=sizes(shape[0], shape[1] * shape[2])), x.reshape(shape[0], -1, order="C") if x.size else np.zeros((0, 6))
    )
    spread = apply("broadcast", x, axes=sizes(5, *shape[:2], 2, shape[2]), positions=(1, 2, 4))
    np.testing.assert_array_equal(spread, np.broadcast_to(x[None, :, :, None, :], (5, *shape[:2], 2, shape[2])))


def test_a_transposed_tensor_is_reshaped_in_its_new_order() -> None:
    x = np.arange(6).reshape(2, 3)
    found = evaluate(lambda b, v: b.op("reshape", b.op("transpose", v, permutation=(1, 0)), axes=sizes(6)), x)
    np.testing.assert_array_equal(found, [0, 3, 1, 4, 2, 5])


# ---- reductions


def exact_order(values: list[np.float32]) -> np.float32:
    """Rule 2 in plain Python, one element at a time."""
    blocks = []
    for start in range(0, len(values), 4096):
        lanes = [np.float32(-0.0)] * 16
        for place, value in enumerate(values[start : start + 4096]):
            lanes[place % 16] += value
        for half in (8, 4, 2, 1):
            lanes = [lanes[lane] + lanes[lane + half] for lane in range(half)]
        blocks.append(lanes[0])
    while len(blocks) > 1:
        blocks = [sum(blocks[i + 1 : i + 2], blocks[i]) for i in range(0, len(blocks), 2)]
    return blocks[0]


@pytest.mark.parametrize("positions", [subset for count in range(4) for subset in itertools.combinations(range(3), count)])
def test_sums_along_any_axes(positions: tuple[int, ...]) -> None:
    x = normal(5, 4, 37)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(apply("sum", x, positions=positions), wide.sum(axis=positions), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(apply("mean", x, positions=positions), wide.mean(axis=positions), rtol=1e-5, atol=1e-5)


def test_a_sum_has_the_order_of_the_definition() -> None:
    x = normal(3, 5000, 2) * np.float32(100)
    found = apply("sum", x, positions=(0, 1))
    expected = [exact_order(list(x[:, :, column].reshape(-1))) for column in range(2)]
    assert found.tobytes() == np.array(expected, np.float32).tobytes()


def test_sums_of_little() -> None:
    assert apply("sum", np.zeros((0, 3), np.float32), positions=(0,)).tobytes() == np.zeros(3, np.float32).tobytes()
    assert str(apply("sum", np.float32([-0.0]), positions=(0,))) == "-0.0"
    np.testing.assert_array_equal(apply("sum", np.array([[2**62] * 3, [1, 2, 3]]), positions=(1,)), [3 * 2**62 - 2**64, 6])
    assert apply("sum", np.zeros((0, 3), np.float32), positions=(1,)).shape == (0,)


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
@pytest.mark.parametrize("place", [0, 1])
def test_extremes(name: str, place: int) -> None:
    x = np.random.default_rng(2).integers(-3, 4, (7, 9)).astype(np.float32)
    np.testing.assert_array_equal(apply(name, x, positions=(place,)), getattr(np, name)(x, axis=place))


def test_extremes_of_nan_and_zeros() -> None:
    x = np.float32([[1, NAN, 3, NAN], [-0.0, 0.0, -0.0, 0.0], [0.0, -0.0, 0.0, -1.0], [-INF, -INF, -INF, -INF]])
    np.testing.assert_array_equal(apply("argmax", x, positions=(1,)), [1, 0, 0, 0])
    np.testing.assert_array_equal(apply("argmin", x, positions=(1,)), [1, 0, 3, 0])
    assert [str(value) for value in apply("max", x, positions=(1,)).tolist()] == ["nan", "0.0", "0.0", "-inf"]


@pytest.mark.parametrize("name", ["mean", "max", "argmin"])
def test_reductions_of_nothing_fail(name: str) -> None:
    with pytest.raises(ExecutionError, match=f"{name} of nothing") as caught:
        apply(name, np.zeros((3, 0), np.float32), positions=(1,))
    assert caught.value.code == "R1103"
    assert apply(name, np.zeros((0, 3), np.float32), positions=(1,)).shape == (0,)


# ---- contractions

CONTRACTIONS = ["ab,bc->ac", "ba,cb->ca", "bhnd,bhmd->bhnm", "ab,b->a", "a,a->", "a,b->ab", "a,a->a", "abc,cbd->ad", "nab,bna->n"]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("pattern", CONTRACTIONS)
def test_contractions(pattern: str, dtype: type) -> None:
    left, right, out = pattern.replace("->", ",").split(",")
    lengths = {letter: 2 + place for place, letter in enumerate(sorted(set(left + right)))}
    x, y = (normal(*(lengths[letter] for letter in letters), dtype=dtype) for letters in (left, right))
    found = apply("contraction", x, y, **letters_of(left, right, out))
    np.testing.assert_allclose(found, np.einsum(pattern, x.astype(np.float64), y.astype(np.float64)), rtol=1e-5, atol=1e-6)


def letters_of(left: str, right: str, out: str) -> dict[str, tuple[int, ...]]:
    return {name: tuple(ord(letter) for letter in letters) for name, letters in (("left", left), ("right", right), ("out", out))}


def chain(left: np.ndarray, right: np.ndarray) -> np.float32:
    """Fused multiply-adds over ascending k, each rounded once from the exact number."""
    total = Fraction(0)
    for x, y in zip(left.tolist(), right.tolist(), strict=True):
        exact = Fraction(x) * Fraction(y) + total
        near = np.float32(float(exact))
        around = [near, np.nextafter(near, np.float32(INF)), np.nextafter(near, np.float32(-INF))]
        total = Fraction(float(min(around, key=lambda value: (abs(Fraction(float(value)) - exact), int(value.view(np.uint32)) & 1))))
    return np.float32(float(total))


def test_a_contraction_sums_in_the_order_of_its_left_operand() -> None:
    x, y = normal(4, 5, 6), normal(6, 4, seed=3) * np.float32(30)
    found = apply("contraction", x, y, left=(0, 1, 2), right=(2, 0), out=(1,))
    expected = [chain(x[:, row, :].reshape(-1), y.T.reshape(-1)) for row in range(5)]
    assert found.tobytes() == np.array(expected, np.float32).tobytes()


def test_contractions_of_nothing() -> None:
    letters = letters_of("ab", "bc", "ac")
    assert apply("contraction", np.zeros((2, 0), np.float32), np.zeros((0, 3), np.float32), **letters).tobytes() == bytes(24)
    assert apply("contraction", np.zeros((0, 2), np.float32), np.zeros((2, 3), np.float32), **letters).shape == (0, 3)


# ---- cross entropy


def cross_entropy(logits: np.ndarray, labels: np.ndarray) -> Any:
    kinds = [type_of(logits), type_of(labels)]
    function = expand(function_of(kinds, lambda b, *operands: b.emit("cross_entropy", *operands)))
    return Evaluator(function).run([logits, labels], RecordingHost())


@pytest.mark.parametrize("shape", [(7, 10), (2, 3, 5), (1, 1), (4,)])
def test_cross_entropy(shape: tuple[int, ...]) -> None:
    logits = normal(*shape) * np.float32(5)
    labels = np.random.default_rng(1).integers(0, shape[-1], shape[:-1])
    loss, probabilities = cross_entropy(logits, labels)
    rows = torch.from_numpy(logits.reshape(-1, shape[-1]))
    expected = torch.nn.functional.cross_entropy(rows, torch.from_numpy(np.asarray(labels).reshape(-1)))
    assert loss == pytest.approx(expected.item(), rel=1e-6, abs=1e-7)
    np.testing.assert_allclose(probabilities, torch.softmax(torch.from_numpy(logits), -1), rtol=1e-5)


@pytest.mark.parametrize(("labels", "index", "value"), [([0, 3, 1], 1, 3), ([0, 2, -1], 2, -1), ([2**40, 9, 0], 0, 2**40)])
def test_labels_out_of_range(labels: list[int], index: int, value: int) -> None:
    with pytest.raises(ExecutionError, match=f"label {value} at position {index}.*has 3 classes") as caught:
        cross_entropy(normal(3, 3), np.array(labels))
    assert caught.value.code == "R1101"


def test_cross_entropy_of_no_rows_fails() -> None:
    with pytest.raises(ExecutionError) as caught:
        cross_entropy(np.zeros((0, 3), np.float32), np.zeros(0, np.int64))
    assert caught.value.code == "R1103"
