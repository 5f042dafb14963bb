"""Places of a tensor that a loop carries are changed where they lie, and places of several axes move no more than themselves."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from both_engines import Both
from evaluating import axis, function_of, tensor
from native_harness import assert_same, check, finished
from native_samples import F32, I64, block, some
from test_places import int_constant, window

from shapescript.compiler.check.checker import check_source
from shapescript.compiler.ir.nodes import Function, Value, walk
from shapescript.compiler.ir.sizes import number
from shapescript.compiler.ops.build import Builder, result_type
from shapescript.compiler.passes.pipeline import compile_entry

# ---- what a loop on a carried tensor costs


def recurrence(b: Builder, x: Value, start: Value) -> list[Value]:
    """h = tanh(h + x[t]); tape[t] = h; then backwards: g = (g + 1) * (1 - tape[t]²), acc[t] += g."""
    steps, width = x.type.axes  # type: ignore[union-attr]
    row = tensor(width)

    def forward(inner: Builder, t: Value, h: Value, tape: Value) -> list[Value]:
        given = inner.op("reshape", inner.op("slice", x, t, position=0, length=number(1)), axes=(width,))
        grown = inner.op("tanh", inner.op("add", h, given))
        return [grown, inner.op("put", tape, inner.op("reshape", grown, axes=(number(1), width)), t, position=0)]

    zero, stop = int_constant(b, 0), b.size(steps)
    region = block([tensor(element=I64), row, tensor(steps, width)], forward)
    last, tape = b.emit("for_range", zero, stop, start, b.full(0.0, tensor(steps, width)), regions=[region], name="t")

    def backward(inner: Builder, i: Value, g: Value, acc: Value) -> list[Value]:
        t = inner.op("sub", inner.op("sub", stop, i), int_constant(inner, 1))
        h = inner.op("reshape", inner.op("slice", tape, t, position=0, length=number(1)), axes=(width,))
        gate = inner.op("sub", inner.full(1.0, row), inner.op("mul", h, h))
        flowing = inner.op("mul", inner.op("add", g, inner.full(1.0, row)), gate)
        return [flowing, inner.op("add_slice", acc, inner.op("reshape", flowing, axes=(number(1), width)), t, position=0)]

    region = block([tensor(element=I64), row, tensor(steps, width)], backward)
    _, acc = b.emit("for_range", zero, stop, b.full(0.0, row), b.full(0.0, tensor(steps, width)), regions=[region], name="i")
    return [last, acc]


def counts_inside_loops(function: Function) -> Counter[str]:
    return Counter(op.name for loop in walk(function.body) if loop.name == "for_range" for region in loop.regions for op in walk(region))


@pytest.mark.parametrize("fused", [False, True])
def test_a_carried_tensor_is_changed_in_place(fused: bool) -> None:
    steps, width = axis("s"), axis("w")
    function = finished(function_of([tensor(steps, width), tensor(width)], recurrence), fused)
    counts = counts_inside_loops(function)
    assert (counts["put"], counts["add_slice"], counts["slice"], counts["copy"]) == (1, 1, 2, 0)
    assert_same(function, [[some(F32, s, w), some(F32, w, seed=1)] for s, w in ((0, 3), (1, 1), (5, 4), (9, 33))])


def test_what_reads_the_carried_tensor_comes_before_it_is_changed() -> None:
    """Fusion and sinking leave the readers of the old rows before the put: else the whole tensor were copied in each turn."""
    steps, width = axis("s"), axis("w")

    def build(b: Builder, x: Value) -> list[Value]:
        def body(inner: Builder, t: Value, table: Value) -> list[Value]:
            old = inner.op("slice", table, t, position=0, length=number(1))
            scaled = inner.op("exp", table)
            top = inner.op("sum", scaled, positions=(0,))
            new = inner.op("put", table, inner.op("neg", old), t, position=0)
            joined = inner.op("mul", inner.op("add", new, scaled), inner.broadcast(top, (steps, width), (1,)))
            return [joined]

        region = block([tensor(element=I64), tensor(steps, width)], body)
        return list(b.emit("for_range", int_constant(b, 0), b.size(steps), x, regions=[region], name="t"))

    function = finished(function_of([tensor(steps, width)], build), fused=True)
    assert counts_inside_loops(function)["copy"] == 0
    assert_same(function, [[some(F32, s, w)] for s, w in ((0, 3), (1, 1), (3, 20))])


def test_a_slice_of_the_old_after_the_put_costs_a_copy_and_is_right() -> None:
    def build(b: Builder, x: Value) -> list[Value]:
        new = b.op("put", x, b.full(7.0, tensor(1, 3)), int_constant(b, 1), position=0)
        return [b.op("concat", new, b.op("slice", x, int_constant(b, 1), position=0, length=number(2)), position=0)]

    x = some(F32, 4, 3)
    results, *_ = check(build, x)
    put = x.copy()
    put[1] = 7.0
    assert results[0][2] == np.concatenate([put, x[1:3]]).tobytes()


@pytest.mark.parametrize("fused", [False, True])
def test_a_view_of_the_carried_tensor_is_read_before_it_is_changed(fused: bool) -> None:
    """The put goes through one view of the tensor and its reader through another."""
    steps, width = axis("s"), axis("w")

    def build(b: Builder, x: Value) -> list[Value]:
        def body(inner: Builder, t: Value, table: Value) -> list[Value]:
            flat = inner.op("reshape", table, axes=(steps * width,))
            scaled = inner.op(
                "mul", inner.op("exp", inner.op("reshape", table, axes=(width, steps))), inner.full(0.5, tensor(width, steps))
            )
            changed = inner.op("put", flat, inner.full(1.0, tensor(1)), t, position=0)
            return [inner.op("add", inner.op("reshape", changed, axes=(steps, width)), inner.op("reshape", scaled, axes=(steps, width)))]

        region = block([tensor(element=I64), tensor(steps, width)], body)
        return list(b.emit("for_range", int_constant(b, 0), b.size(steps), x, regions=[region], name="t"))

    function = finished(function_of([tensor(steps, width)], build), fused)
    assert counts_inside_loops(function)["copy"] == 0
    assert_same(function, [[some(F32, s, w)] for s, w in ((0, 3), (1, 1), (3, 20))])


# ---- places of several axes


def places_of_several_axes(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[list[int], list[int], list[int]]:
    """Axes in some order; for each a start, often outside, and a length that fits."""
    positions = rng.permutation(len(shape))[: rng.integers(1, len(shape) + 1)].tolist()
    starts = [int(rng.choice([-(2**63), -2, 0, 1, 2, shape[place] - 1, shape[place] + 1, 2**63 - 1])) for place in positions]
    lengths = [int(rng.choice([1, 1, rng.integers(0, shape[place] + 1)])) if shape[place] else 0 for place in positions]
    return positions, starts, lengths


@pytest.mark.parametrize("seed", range(40))
def test_places_of_several_axes(seed: int) -> None:
    """However slices and puts nest: simplified and not, in both engines, beside NumPy."""
    rng = np.random.default_rng(seed)
    shape = tuple(rng.choice([1, 2, 3, 5], rng.integers(2, 5)).tolist())
    positions, starts, lengths = places_of_several_axes(rng, shape)
    x, box, region = some(F32, *shape), list(shape), [slice(None)] * len(shape)
    for position, start, length in zip(positions, starts, lengths, strict=True):
        box[position] = length
        region[position] = window(shape, position, start, length)[position]
    part = some(F32, *box, seed=1)

    def build(b: Builder, x: Value, part: Value, *starts: Value) -> list[Value]:
        taken = x
        for position, start, length in zip(positions, starts, lengths, strict=True):
            taken = b.op("slice", taken, start, position=position, length=number(length))

        def put(whole: Value, rest: list[tuple[int, Value, int]]) -> Value:
            (position, start, length), *more = rest
            inside = put(b.op("slice", whole, start, position=position, length=number(length)), more) if more else part
            return b.op("put", whole, inside, start, position=position)

        return [taken, put(x, list(zip(positions, starts, lengths, strict=True)))]

    function = function_of([tensor(*shape), tensor(*box), *[tensor(element=I64)] * len(starts)], build)
    expected = x.copy()
    expected[tuple(region)] = part
    for fused in (False, True):
        ((results, *_),) = assert_same(finished(function, fused), [[x, part, *starts]])
        assert [found[2] for found in results] == [np.ascontiguousarray(x[tuple(region)]).tobytes(), expected.tobytes()]


def test_one_element_costs_one_element(tmp_path: Path) -> None:
    """In a loop `y[n=t, c=s] = y[c=t, n=s]` moves no row: whatever the order in which the axes are named."""
    program = """
fn mirrored(x: [n c d]) -> [n c d]:
    mut y = x
    for t in 0..n:
        for s in 0..t:
            y[d=0, n=t, c=s] = y[c=t, d=d-1, n=s] * 2.0
    return y
"""
    function = final("mirrored", program)
    moved = [op for op in walk(function.body) if op.name in ("slice", "put", "copy")]
    assert [op.name for op in moved] == ["copy", "slice", "put"]
    assert all(result_type(op.operands[1] if op.name == "put" else op.result).axes == (number(1),) for op in moved[1:])
    x = some(F32, 5, 5, 2)
    expected = x.copy()
    for t in range(5):
        for s in range(t):
            expected[t, s, 0] = expected[s, t, 1] * 2
    np.testing.assert_array_equal(Both(tmp_path, program).call("mirrored", x), expected)


# ---- programs


PROGRAM = """
fn shifted(x: [n c]) -> [n c]:
    mut y = x
    for t in 1..n:
        y[n=t] = y[n=t] + y[n=t-1] * 0.5
    return y

fn columns(x: [b n], k: int) -> [b n]:
    mut y = x
    for t in 0..k:
        y[n=t] = x[n=t] * x[n=n-1-t]
    return y
"""


def final(name: str, program: str = PROGRAM) -> Function:
    """A function of the program as an engine gets it."""
    module = check_source(program, "program.ss").module
    return compile_entry(module, next(key for key in module.functions if f":{name}#" in key), {}, verify=True)


def test_assigned_places_are_changed_in_place(tmp_path: Path) -> None:
    for name, slices in (("shifted", 2), ("columns", 2)):
        counts = counts_inside_loops(final(name))
        assert (counts["put"], counts["slice"], counts["copy"]) == (1, slices, 0), name
    both = Both(tmp_path, PROGRAM)
    x = some(F32, 6, 4)
    expected = x.copy()
    for t in range(1, 6):
        expected[t] = expected[t] + expected[t - 1] * np.float32(0.5)
    np.testing.assert_array_equal(both.call("shifted", x), expected)
    columns = x.copy()
    columns[:, :3] = x[:, :3] * x[:, :0:-1]
    np.testing.assert_array_equal(both.call("columns", x, 3), columns)
