"""Tensors multiplied by patterns, put side by side, written out, or made of axes: which bits they have, and what is refused in a run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shapescript
from shapescript.compiler.check.checker import check_source
from shapescript.compiler.ir.nodes import walk
from shapescript.compiler.ir.sizes import divide, fresh, number, of
from shapescript.compiler.passes.pipeline import compile_entry

PROGRAM = """
dim D = 3
dim Two = 2
dim Gates = 4
dim Classes = 5

fn chain(x: [a b], y: [b c], z: [c e]) -> [e a]:
    return einsum(x, y, z: a b, b c, c e -> e a)

fn chain_by_hand(x: [a b], y: [b c], z: [c e]) -> [e a]:
    return einsum(einsum(x, y: a b, b c -> a c), z: a c, c e -> e a)

fn early(x: [a b c], y: [b], z: [c]) -> [a]:
    return einsum(x, y, z: a b c, b, c -> a)

fn early_by_hand(x: [a b c], y: [b], z: [c]) -> [a]:
    return einsum(einsum(x, y: a b c, b -> a c), z: a c, c -> a)

fn late(x: [a], y: [b c], z: [c a k]) -> [b]:
    return einsum(x, y, z: a, b c, c a k -> b)

fn late_by_hand(x: [a], y: [b c], z: [c a k]) -> [b]:
    return einsum(einsum(x, y: a, b c -> a b c), sum(z, over=k): a b c, c a -> b)

fn alone(x: [a b c], y: [c e f]) -> [e a]:
    return einsum(x, y: a b c, c e f -> e a)

fn alone_by_hand(x: [a b c], y: [c e f]) -> [e a]:
    return einsum(sum(x, over=b), sum(y, over=f): a c, c e -> e a)

fn reduced(x: [a b c]) -> [c]:
    return einsum(x: a b c -> c)

fn reduced_by_hand(x: [a b c]) -> [c]:
    return sum(x, over=(a, b))

fn diagonal(x: f64[n b n]) -> f64[b n]:
    return einsum(x: n b n -> b n)

fn of_dims(x: [D D D]) -> [D]:
    return einsum(x: D D D -> D)

fn grouped(x: [b n*n], like: [n]) -> [b n]:
    return einsum(x: b (n n) -> b n)

fn by_a_sum(x: [b 2*n+2]) -> [n+1 b 2]:
    return rearrange(x: b (2 n+1) -> n+1 b 2)

fn gates(x: [b Gates*D]) -> [b D]:
    i, f, g, o = x |> split(b (Gates D) -> b D)
    return i * f + g * o

fn only_one(x: [1 n]) -> [n]:
    return split(x: 1 n -> n)

fn repeated(x: [b n], y: [m]) -> [b m D n]:
    return repeat(x: b n -> b m D n) + rearrange(y: m -> m)

fn tiled(x: int[b n]) -> int[b 3*n]:
    return repeat(x: b n -> b (r n), r=3)

fn paired(x: bool[n], y: bool[n]) -> (bool[Two n], bool[n 2]):
    return stack(x, y, over=Two), stack(x, y: n, n -> n 2)

fn named(x: [n], y: [n]) -> [n]:
    both = stack(x, y, over=side)
    return sum(both, over=side) * side

fn with_groups(x: [b (Two D)], y: [c Two*D]) -> [b+c Two D]:
    return rearrange(concat(x, y, over=b): b+c (Two D) -> b+c Two D)

fn joined(x: [..s n], y: [..s m]) -> [..s n+m]:
    return concat(x, y, over=(n, m))

fn to_length(x: [b n], like: [m]) -> [b m]:
    return pad(x, n=(0, m-n), value=-1.5)

fn masks(x: bool[n], k: int[n]) -> (bool[n+1], bool[n+D], int[n+2]):
    return pad(x, n=(1, 0)), pad(x, n=(0, D), value=true), pad(k, n=(1, 1), value=-3)

fn written() -> ([3], int[2 2], bool[1 3]):
    return [1, 2.5, -0.0], [[1, -2], [3, 4]], [[true, false, 1 < 2]]

fn of_variables(a: float, n: int, x: [], y: f64[]) -> ([3], f64[2]):
    return [a, n, x], [y, 0.1]

fn as_dim(x: [b D]) -> [b D]:
    return x * rearrange([1, 2, 3.0]: D -> D)

fn hot(label: int[b n]) -> [b n Classes]:
    return one_hot(label, over=Classes)

fn hot_number(label: int, x: [k]) -> [k]:
    return one_hot(label, over=k)

fn seen(x: [n m]) -> bool[n m]:
    return causal[n m]

fn seen_alone(x: [n]) -> bool[n n]:
    return causal[n n]

fn others(x: [n]) -> (f64[n], int[n], int[n], [n D], [D D]):
    return f64(ones[n]), int(zeros[n]), arange[n], eye[n D], eye[D]

fn equal(x: bool, y: bool) -> (bool, bool):
    return x == y, x != y

fn equal_masks(x: bool[b n], y: bool[n]) -> (bool[b n], bool[b n]):
    return x == y, y != x
"""


def normal(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


same = np.testing.assert_array_equal

# ---- einsum: the order of its sums

SHAPES = {
    "chain": ((5, 300), (300, 33), (33, 4)),
    "early": ((3, 70, 90), (70,), (90,)),
    "late": ((40,), (3, 50), (50, 40, 6)),
    "alone": ((3, 20, 60), (60, 5, 7)),
    "reduced": ((30, 40, 5),),
}


@pytest.mark.parametrize("name", SHAPES)
def test_einsum_goes_from_left_to_right(program: Any, name: str) -> None:
    for shapes in (SHAPES[name], [(1,) * len(shape) for shape in SHAPES[name]], [(0,) * len(shape) for shape in SHAPES[name]]):
        arguments = [normal(*shape, seed=seed) for seed, shape in enumerate(shapes)]
        found, expected = getattr(program, name)(*arguments), getattr(program, f"{name}_by_hand")(*arguments)
        assert found.tobytes() == expected.tobytes() and found.shape == expected.shape


def test_a_diagonal_keeps_every_bit(program: Any) -> None:
    special = [0.0, -0.0, 5e-324, -1e308, np.inf, -np.inf, np.nan, 0.1]
    x = np.full((8, 2, 8), np.nan)
    x[::2] = np.inf
    x[np.arange(8), 0, np.arange(8)], x[np.arange(8), 1, np.arange(8)] = special, special[::-1]
    assert program.diagonal(x).tobytes() == np.array([special, special[::-1]]).tobytes()
    assert program.diagonal(x[:0, :, :0]).shape == (2, 0)
    y = normal(3, 3, 3)
    same(program.of_dims(y), [y[i, i, i] for i in range(3)])
    z = normal(2, 9)
    same(program.grouped(z, z[0, :3]), z.reshape(2, 3, 3)[:, range(3), range(3)])


# ---- other patterns


def test_axes_opened_unpacked_and_repeated(program: Any) -> None:
    x = normal(3, 12)
    same(program.by_a_sum(normal(2, 10)), normal(2, 10).reshape(2, 2, 5).transpose(2, 0, 1))
    i, f, g, o = x.reshape(3, 4, 3).transpose(1, 0, 2)
    same(program.gates(x), i * f + g * o)
    same(program.only_one(x[:1]), x[0])
    y = normal(5)
    same(program.repeated(x, y), x[:, None, None, :] + np.zeros((3, 5, 3, 12), np.float32) + y[None, :, None, None])
    same(program.tiled(np.arange(6).reshape(2, 3)), np.tile(np.arange(6).reshape(2, 3), 3))


def test_an_exact_quotient_by_a_sum_cancels() -> None:
    n, k, m = (of(fresh(name)) for name in "nkm")
    one = number(1)
    assert divide(number(2) * n + number(2), n + one) == number(2)
    assert divide(n * n - one, n + one) == n - one
    assert divide(n * k + k + n * m + m, n + one) == k + m
    assert str(divide(k, n + one)) == "k/(n+1)"
    assert str(divide(n + number(2), n + one)) == "(n+2)/(n+1)"


def test_parts_side_by_side(program: Any) -> None:
    x, y = np.array([True, False, True]), np.array([False, False, True])
    for found, axis in zip(program.paired(x, y), (0, 1), strict=True):
        same(found, np.stack([x, y], axis))
    same(program.named(normal(4), normal(4, seed=1)), (normal(4) + normal(4, seed=1)) * np.float32(2))
    for shape in ((2, 3), (), (0,), (2, 0, 4)):
        a, b = normal(*shape, 3), normal(*shape, 2, seed=1)
        same(program.joined(a, b), np.concatenate([a, b], -1))
        same(program.joined(a, b[..., :0]), a)
    for n in (4, 3, 0):
        same(program.to_length(normal(2, n), normal(4)), np.pad(normal(2, n), ((0, 0), (0, 4 - n)), constant_values=-1.5))
    with pytest.raises(shapescript.ShapeScriptError, match="R1003"):
        program.to_length(normal(2, 5), normal(4))
    k = np.array([1, 2, 3])
    front, behind, both = program.masks(x, k)
    same(front, [False, *x])
    same(behind, [*x, True, True, True])
    same(both, [-3, 1, 2, 3, -3])


def test_a_group_and_its_product_join_as_the_group(program: Any) -> None:
    x, y = normal(2, 6), normal(3, 6, seed=1)
    same(program.with_groups(x, y), np.concatenate([x, y]).reshape(5, 2, 3))


# ---- tensors written out, and made of axes


def test_tensors_written_out(program: Any) -> None:
    floats, ints, bools = program.written()
    assert floats.tobytes() == np.array([1, 2.5, -0.0], np.float32).tobytes()
    same(ints, [[1, -2], [3, 4]])
    same(bools, [[True, False, True]])
    assert (floats.dtype, ints.dtype, bools.dtype) == (np.float32, np.int64, np.bool_)
    single, double = program.of_variables(0.1, 2**60 + 1, 0.5, 0.25)
    assert single.tobytes() == np.array([0.1, 2**60 + 1, 0.5], np.float32).tobytes()
    same(double, [0.25, 0.1])
    same(program.as_dim(normal(2, 3)), normal(2, 3) * np.float32([1, 2, 3]))


def test_the_largest_tensor_written_out() -> None:
    row = f"[{', '.join(['1'] * 64)}]"
    assert codes(f"fn f() -> int[64 64]:\n    return [{', '.join([row] * 64)}]\n") == []
    assert codes(f"fn f() -> int[65 64]:\n    return [{', '.join([row] * 65)}]\n") == ["E0503"]


def codes(text: str) -> list[str]:
    return [diagnostic.code for diagnostic in check_source(text).diagnostics]


def test_hot_labels(program: Any) -> None:
    label = np.array([[0, 4, 2], [1, 1, 3]])
    same(program.hot(label), np.eye(5, dtype=np.float32)[label])
    same(program.hot_number(1, normal(3)), np.float32([0, 1, 0]))
    assert program.hot(label[:0]).shape == (0, 3, 5)
    for wrong, message in ((5, "index 5 at position 4"), (-1, "index -1 at position 4")):
        label[1, 1] = wrong
        with pytest.raises(shapescript.ShapeScriptError, match=f"R1101: {message}.*axis Classes has 5 elements"):
            program.hot(label)
    with pytest.raises(shapescript.ShapeScriptError, match="R1101"):
        program.hot_number(0, normal(0))


def test_masks_and_numbers_of_axes(program: Any) -> None:
    for n, m in ((3, 3), (2, 5), (5, 2), (1, 4), (0, 3), (3, 0)):
        expected = [[j - m <= i - n for j in range(m)] for i in range(n)]
        same(program.seen(normal(n, m)), np.array(expected, np.bool_).reshape(n, m))
    same(program.seen_alone(normal(4)), np.tri(4, dtype=np.bool_))
    ones, zeros, places, wide, square = program.others(normal(4))
    same(ones, np.ones(4))
    same(zeros, np.zeros(4, np.int64))
    same(places, np.arange(4))
    same(wide, np.eye(4, 3, dtype=np.float32))
    same(square, np.eye(3, dtype=np.float32))


def test_a_converted_constant_is_folded() -> None:
    program = check_source("fn f(x: f64[n]) -> f64[n]:\n    return x * f64(ones[n]) + f64(zeros[n])\n")
    assert program.module is not None
    found = compile_entry(program.module, program.functions["f"][0].key, {}, stop_after="simplified")
    assert "to_f64" not in [op.name for op in walk(found.body)]


def test_truth_values_are_compared(program: Any) -> None:
    for x in (False, True):
        for y in (False, True):
            assert program.equal(x, y) == (x == y, x != y)
    a, b = normal(3, 4) > 0, normal(4, seed=1) > 0
    equal, different = program.equal_masks(a, b)
    same(equal, a == b)
    same(different, a != b)
