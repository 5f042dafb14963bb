"""Control flow, data, handles, the host's border, and the promises about arguments in the reference evaluator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from evaluating import RecordingHost, apply, axis, dataset, evaluate, fresh_state, function_of, mlp, mode, tensor

from shapescript.compiler.ir.nodes import Block, Value
from shapescript.compiler.ir.sizes import Size, dim, fresh, number, of
from shapescript.compiler.ir.types import (
    BOOL,
    INT,
    MODE,
    SINK,
    STRING,
    DatasetType,
    Element,
    OptimiserType,
    RecordType,
    TensorType,
)
from shapescript.compiler.numerics.random import Domain, dropout_threshold, order, stream_words
from shapescript.compiler.ops.build import Builder
from shapescript.compiler.ops.protocol import ExecutionError
from shapescript.compiler.reference import frame
from shapescript.compiler.reference.engine import Evaluator
from shapescript.compiler.reference.layouts import Layout, aligned

I64 = Element.I64


def block(types: Sequence[TensorType], body: Callable[..., Sequence[Value]], symbols: Sequence[Any] = ()) -> Block:
    inner, parameters = Builder(), [Value(type_) for type_ in types]
    return inner.block(parameters, body(inner, *parameters), symbols)


# ---- control flow


@pytest.mark.parametrize(("x", "expected"), [(3, 6), (-3, 3)])
def test_if(x: int, expected: int) -> None:
    def build(b: Builder, v: Value) -> Sequence[Value]:
        positive = b.op("gt", v, b.constant(0, I64))
        return b.emit("if", positive, regions=[block([], lambda i: [i.op("add", v, v)]), block([], lambda i: [i.op("neg", v)])])

    assert evaluate(build, x) == expected


def test_while_counts_collatz_steps() -> None:
    def next_number(i: Builder, n: Value, steps: Value) -> Sequence[Value]:
        two, one = i.constant(2, I64), i.constant(1, I64)
        even = i.op("eq", i.op("mod", n, two), i.constant(0, I64))
        odd_next = i.op("add", i.op("mul", n, i.constant(3, I64)), one)
        return [i.op("select", even, i.op("floordiv", n, two), odd_next), i.op("add", steps, one)]

    def build(b: Builder, n: Value) -> Sequence[Value]:
        more = block([INT, INT], lambda i, n, steps: [i.op("ne", n, i.constant(1, I64))])
        return b.emit("while", n, b.constant(0, I64), regions=[more, block([INT, INT], next_number)])

    assert evaluate(build, 27) == [1, 111]


@pytest.mark.parametrize(("start", "stop"), [(0, 5), (3, 4), (4, 4), (5, 2)])
def test_nested_ranges(start: int, stop: int) -> None:
    def inner(i: Builder, index: Value, total: Value) -> Sequence[Value]:
        body = block([INT, INT], lambda j, k, running: [j.op("add", running, j.op("mul", index, k))])
        return i.emit("for_range", i.constant(0, I64), index, total, regions=[body], name="k")

    def build(b: Builder, low: Value, high: Value) -> Sequence[Value]:
        return b.emit("for_range", low, high, b.constant(0, I64), regions=[block([INT, INT], inner)], name="i")

    assert evaluate(build, start, stop) == sum(i * k for i in range(start, stop) for k in range(i))


def test_a_loop_carries_tensors_without_touching_the_first() -> None:
    def build(b: Builder, x: Value) -> Sequence[Value]:
        body = block([INT, x.type], lambda i, _, running: [i.op("add", running, x)])
        return [*b.emit("for_range", b.constant(0, I64), b.constant(3, I64), x, regions=[body], name="i"), x]

    x = np.float32([1, 2])
    total, same = evaluate(build, x)
    assert total.tolist() == [4, 8] and same.tolist() == [1, 2]


# ---- datasets


ROWS = axis("rows")
RECORD = RecordType("Digit", (("pixels", tensor(2)), ("label", tensor(element=I64))))
DIGITS = DatasetType(RECORD, ROWS)


def digits(count: int) -> Any:
    return dataset(np.arange(2 * count, dtype=np.float32).reshape(count, 2), np.arange(count) * 10)


def batch_sums(shuffled: bool = False) -> Evaluator:
    """(data, size, drop_last, k) to the batches' sums of labels in base 1000, and of rows times pixels."""
    rows = fresh("b")

    def body(i: Builder, pixels: Value, labels: Value, code: Value, total: Value) -> Sequence[Value]:
        added = i.op("sum", labels, positions=(0,))
        weighted = i.op("mul", i.op("sum", pixels, positions=(0, 1)), i.size(of(rows), Element.F32))
        return [i.op("add", i.op("mul", code, i.constant(1000, I64)), added), i.op("add", total, weighted)]

    def build(b: Builder, data: Value, size: Value, drop_last: Value, k: Value) -> Sequence[Value]:
        seen = b.op("order", data, k, b.constant(7, I64)) if shuffled else data
        types = [tensor(of(rows), 2), tensor(of(rows), element=I64), INT, tensor()]
        limits = [b.constant(0, I64), b.constant(-1, I64)]
        start = [b.constant(0, I64), b.constant(0.0, Element.F32)]
        return b.emit("for_batches", seen, size, drop_last, *limits, *start, regions=[block(types, body, [rows])])

    return Evaluator(function_of([DIGITS, INT, BOOL, INT], build))


def test_batches_end_with_a_smaller_one() -> None:
    run = batch_sums().run
    assert run([digits(5), 2, False, 0], RecordingHost()) == [10050040, 2.0 * 6 + 2.0 * 22 + 1.0 * 17]
    assert run([digits(5), 2, True, 0], RecordingHost()) == [10050, 2.0 * 6 + 2.0 * 22]
    assert run([digits(2), 64, False, 0], RecordingHost()) == [10, 2.0 * 6]


def test_shuffled_batches_follow_the_order() -> None:
    for k in (0, 1):
        places = order(5, seed=7, k=k)
        code, _ = batch_sums(shuffled=True).run([digits(5), 5, False, k], RecordingHost())
        assert code == 100
        code, _ = batch_sums(shuffled=True).run([digits(5), 4, True, k], RecordingHost())
        assert code == 10 * int(places[:4].sum())


@pytest.mark.parametrize(
    ("count", "size", "drop_last", "message"),
    [
        (5, 0, False, "batches of 0 examples"),
        (0, 4, False, "the dataset is empty"),
        (3, 4, True, "3 examples give no batch of 4"),
    ],
)
def test_no_batches(count: int, size: int, drop_last: bool, message: str) -> None:
    with pytest.raises(ExecutionError, match=message) as caught:
        batch_sums().run([digits(count), size, drop_last, 0], RecordingHost())
    assert caught.value.code == "R1102"


def test_all_examples_and_data_from_the_host() -> None:
    def build(b: Builder, path: Value) -> Sequence[Value]:
        data = b.op("load_data", path, dataset=DIGITS)
        pixels, labels = b.emit("dataset_all", data)
        return [pixels, labels, b.size(ROWS)]

    data = digits(3)
    pixels, labels, count = Evaluator(function_of([STRING], build)).run(["d.npz"], RecordingHost(load_data=lambda _: [data]))
    assert count == 3 and labels.tolist() == [0, 10, 20]
    pixels[:] = -1
    assert data.arrays[0][0, 1] == 1


# ---- modes and dropout


def masked(x: np.ndarray, rate: float, handle: Any) -> list[Any]:
    def build(b: Builder, v: Value, drop: Value, m: Value) -> Sequence[Value]:
        twice = [b.op("dropout", v, drop, *b.emit("mode_draw", m)) for _ in range(2)]
        return [*twice, *b.emit("mode_draw", m)]

    kinds = [tensor(*x.shape, element=Element.F64 if x.dtype == np.float64 else Element.F32), TensorType(Element.F64), MODE]
    return Evaluator(function_of(kinds, build)).run([x, rate, handle], RecordingHost())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dropout_takes_the_streams_next_draw(dtype: type) -> None:
    x, train = np.full((40, 50), 3, dtype), mode(1, seed=9, draws=4)
    first, second, seed, draw = masked(x, 0.25, train)
    assert (seed, draw, train.block[2]) == (9, 6, 7)
    for found, number_of_draw in ((first, 4), (second, 5)):
        kept = stream_words(9, Domain.DRAW, number_of_draw, 0, 2000).reshape(40, 50) >= dropout_threshold(0.25)
        np.testing.assert_array_equal(found, np.where(kept, dtype(3) * dtype(np.float32(4 / 3)), 0))
    assert 0.2 < (first == 0).mean() < 0.3 and not np.array_equal(first, second)


def test_eval_draws_nothing() -> None:
    x, handle = np.float32([[1, 2]]), mode(0)
    first, _, _, draw = masked(x, 0.5, handle)
    assert first.tolist() == [[1, 2]] and draw == -1 and handle.block.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(("rate", "expected"), [(0.0, [1, 2, 3]), (1.0, [0, 0, 0])])
def test_dropout_at_its_ends(rate: float, expected: list[float]) -> None:
    assert masked(np.float32([1, 2, 3]), rate, mode(1))[0].tolist() == expected


# ---- the host


def test_the_host_sees_python_numbers_and_its_errors_pass() -> None:
    def build(b: Builder, sink: Value, x: Value) -> Sequence[Value]:
        total = b.op("sum", x, positions=(0,))
        b.emit("write", sink, total, b.size(number(3)), b.op("string", value="hello"), record="Logs", fields=("a", "b", "c"))
        return [total]

    host = RecordingHost(string=["hello"])
    function = function_of([SINK, tensor(3)], build)
    assert Evaluator(function).run(["a sink", np.float32([1, 2, 4])], host) == [7.0]
    name, operands = host.calls[1]
    assert name == "write" and operands == ["a sink", 7.0, 3, "hello"] and [type(value) for value in operands[1:3]] == [float, int]

    def refuse(*_: Any) -> Any:
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        Evaluator(function).run(["a sink", np.float32([1, 2, 4])], RecordingHost(string=["hello"], write=refuse))


def test_the_host_sees_the_dataset_behind_an_order() -> None:
    def build(b: Builder, path: Value, data: Value) -> Sequence[Value]:
        ordered = b.op("order", data, b.constant(1, I64), b.constant(0, I64))
        b.emit("save", path, ordered, names=("data",))
        return []

    data, host = digits(3), RecordingHost()
    Evaluator(function_of([STRING, DIGITS], build)).run(["x.pt", data], host)
    assert [name for name, _ in host.calls] == ["order", "save"] and host.calls[1][1][1].dataset is data


def test_the_host_is_polled_and_may_end_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame, "POLL_SECONDS", -1.0)

    class Impatient(RecordingHost):
        def poll(self) -> None:
            self.polls += 1
            if self.polls > 100:
                raise KeyboardInterrupt

    forever = function_of([BOOL], lambda b, go: b.emit("while", go, regions=[block([BOOL], lambda i, go: [go])] * 2))
    host = Impatient()
    with pytest.raises(KeyboardInterrupt):
        Evaluator(forever).run([True], host)
    assert host.polls == 101


# ---- sizes from arguments


def sized(*types: Any, wanted: Size) -> Callable[..., Any]:
    function = function_of(types, lambda b, *_: b.size(wanted), hints=["x", "y"][: len(types)])
    return lambda *arguments: Evaluator(function).run(arguments, RecordingHost())[0]


def test_axis_variables_are_found_inside_sums_and_quotients() -> None:
    n, m, d = axis("n"), axis("m"), of(dim("D", 4))
    run = sized(tensor(n + number(1), m * number(3) * d), tensor(m / number(2)), wanted=n * number(100) + m)
    assert run(np.zeros((6, 24), np.float32), np.zeros(1, np.float32)) == 502
    assert sized(tensor(n / number(2)), wanted=n)(np.zeros(3, np.float32)) == 6
    assert sized(tensor(n + m), tensor(m), wanted=n)(np.zeros(7, np.float32), np.zeros(7, np.float32)) == 0


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ((4, 16), (15,), "axis 0 of y is n and has 15 elements: it should have 16; n is 16 by axis 1 of x"),
        ((5, 16), (16,), "axis 0 of x is 2*b and has 5 elements: 5 is not a multiple of 2"),
        ((4, 16, 1), (16,), "x has 3 axes, not 2"),
    ],
)
def test_arguments_that_disagree(first: tuple[int, ...], second: tuple[int, ...], message: str) -> None:
    b, n = axis("b"), axis("n")
    with pytest.raises(ExecutionError) as caught:
        sized(tensor(b * number(2), n), tensor(n), wanted=n)(np.zeros(first, np.float32), np.zeros(second, np.float32))
    assert caught.value.code == "R1003" and caught.value.message == message


def test_sizes_below_zero_and_inexact_quotients_fail() -> None:
    n = axis("n")
    with pytest.raises(ExecutionError, match="n would be -1"):
        sized(tensor(n + number(3)), wanted=n)(np.zeros(2, np.float32))
    with pytest.raises(ExecutionError, match="axis n-3 would have -1 elements"):
        sized(tensor(n), wanted=n - number(3))(np.zeros(2, np.float32))
    with pytest.raises(ExecutionError, match=r"axis n/2: 3 is not a multiple of 2"):
        sized(tensor(n), wanted=n / number(2))(np.zeros(3, np.float32))


# ---- values and mutable arguments


def test_mutable_arguments_take_the_last_values() -> None:
    first, second = np.float32([1, 2]), np.float32([3, 4])
    swap = Evaluator(function_of([tensor(2), tensor(2)], lambda b, x, y: [b.op("add", x, y), y, x], mutable=(0, 1)))
    (total,) = swap.run([first, second], RecordingHost())
    assert (total.tolist(), first.tolist(), second.tolist()) == ([4, 6], [3, 4], [1, 2])


def test_models_and_optimisers_swap_too() -> None:
    model = mlp(2, 3, 2)
    buffers = [aligned(Layout(model).total) for _ in range(2)]
    buffers[1][:4] = 7
    states = [fresh_state(model), fresh_state(model, betas=(0.5, 0.6))]
    states[1].slots[0][:4], states[1].block[0] = 9, 3
    addresses = [state.block[1:3].tolist() for state in states]
    types = [model, model, *[OptimiserType("AdamW", model)] * 2]
    swap = Evaluator(function_of(types, lambda b, m, n, o, p: [n, m, p, o], mutable=(0, 1, 2, 3)))
    assert swap.run([*buffers, *states], RecordingHost()) == []
    assert buffers[0][0] == 7 and buffers[1][0] == 0
    assert [int(state.block[0]) for state in states] == [3, 0] and states[0].slots[0][0] == 9 and states[1].slots[0][0] == 0
    assert states[0].block[8:10].view(np.float64).tolist() == [0.5, 0.6]
    assert [state.block[1:3].tolist() for state in states] == addresses


def test_an_error_changes_no_argument() -> None:
    def build(b: Builder, x: Value, n: Value) -> Sequence[Value]:
        doubled = b.op("add", x, x)
        b.op("floordiv", n, n)
        return [doubled]

    x = np.float32([1, 2])
    function = function_of([tensor(2), INT], build, mutable=(0,))
    with pytest.raises(ExecutionError):
        Evaluator(function).run([x, 0], RecordingHost())
    assert x.tolist() == [1, 2]
    Evaluator(function).run([x, 1], RecordingHost())
    assert x.tolist() == [2, 4]


def test_results_share_memory_with_nothing() -> None:
    x = np.float32([[1, 2]])
    results = evaluate(lambda b, v: [v, v, b.op("reshape", v, axes=(number(2),)), b.op("copy", v)], x)
    arrays = [x, *results]
    assert not any(np.shares_memory(a, b) for place, a in enumerate(arrays) for b in arrays[:place])


# ---- what the fusion pass makes


def test_a_kernel_is_its_region_at_every_point() -> None:
    x, bias, scale = np.random.default_rng(0).standard_normal((3, 4, 5)).astype(np.float32), np.float32([1, 2, 3, 4]), np.float32(0.5)

    def build(b: Builder, v: Value, w: Value, s: Value) -> Sequence[Value]:
        def body(i: Builder, p: Value, q: Value, r: Value) -> Sequence[Value]:
            shifted = i.op("add", p, q)
            return [i.op("mul", shifted, r), i.op("relu", shifted), q]

        region = block([tensor()] * 3, body)
        space = (number(4), number(5), number(3))
        return b.emit("kernel", v, w, s, regions=[region], space=space, maps=((2, 0, 1), (0,), ()))

    scaled, rectified, spread = evaluate(build, x, bias, scale)
    shifted = (x + bias[:, None]).transpose(1, 2, 0)
    np.testing.assert_array_equal(scaled, shifted * scale)
    np.testing.assert_array_equal(rectified, np.maximum(shifted, 0))
    np.testing.assert_array_equal(spread, np.broadcast_to(bias[:, None, None], (4, 5, 3)))


def test_dropout_in_a_kernel_counts_the_points_of_its_space() -> None:
    def build(b: Builder, v: Value, rate: Value, seed: Value, draw: Value) -> Sequence[Value]:
        region = block([tensor(), TensorType(Element.F64), INT, INT], lambda i, *operands: [i.op("dropout", *operands)])
        return b.emit("kernel", v, rate, seed, draw, regions=[region], space=(number(3), number(40)), maps=((1,), (), (), ()))

    row = np.arange(1, 41, dtype=np.float32)
    found = evaluate(build, row, np.float64(0.5), np.int64(3), np.int64(0))
    np.testing.assert_array_equal(found, apply("dropout", np.tile(row, (3, 1)), np.float64(0.5), np.int64(3), np.int64(0)))


def test_a_fused_contraction_is_the_contraction_and_its_epilogue() -> None:
    generator = np.random.default_rng(1)
    x, y, bias = (generator.standard_normal(shape).astype(np.float32) for shape in ((6, 7), (5, 7), (5,)))

    def fused(b: Builder, v: Value, w: Value, c: Value) -> Sequence[Value]:
        region = block([tensor()] * 2, lambda i, p, q: [i.op("relu", i.op("add", p, q)), p])
        return b.emit("fused_contraction", v, w, c, regions=[region], left=(0, 1), right=(2, 1), out=(0, 2), maps=((1,),))

    def plain(b: Builder, v: Value, w: Value, c: Value) -> Sequence[Value]:
        product = b.op("contraction", v, w, left=(0, 1), right=(2, 1), out=(0, 2))
        return [b.op("relu", b.op("add", product, b.broadcast(c, product.type.axes, (1,)))), product]

    for found, expected in zip(evaluate(fused, x, y, bias), evaluate(plain, x, y, bias), strict=True):
        assert found.tobytes() == expected.tobytes()
