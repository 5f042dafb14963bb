"""Native code beside the reference evaluator, byte for byte: control flow, storage, models, data, handles, training programs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from built_programs import MLP
from evaluating import RecordingHost, dataset, fresh_state, function_of, mode, tensor
from hypothesis import given, settings
from hypothesis import strategies as st
from native_harness import TARGETS, NotingHost, assert_same, check, finished, natives
from native_samples import (
    DIGITS,
    F32,
    I64,
    RECORD,
    SMALL,
    StepHost,
    block,
    digits,
    digits_of_classes,
    model_of,
    normal,
    trained,
)
from random_programs import MODEL, random_program

from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ir.sizes import fresh, number, of
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
from shapescript.compiler.ops.build import Builder

# ---- control flow


def test_conditions_choose_numbers_tensors_and_handles() -> None:
    n = of(fresh("n"))

    def build(b: Builder, x: Value, y: Value, go: Value) -> Sequence[Value]:
        yes = block([], lambda i: [i.op("add", x, y), i.constant(1, I64), x, y, i.op("mul", y, y)])
        no = block([], lambda i: [x, i.constant(2, I64), x, x, i.op("mul", x, y)])
        made = b.emit("if", go, regions=[yes, no])
        return [*made, b.op("sub", made[0], made[3])]

    function = finished(function_of([tensor(n), tensor(n), BOOL], build))
    assert_same(function, [[normal(count), normal(count, seed=1), go] for count in (0, 1, 33) for go in (True, False)])


def test_a_condition_changes_a_mutable_argument_in_one_branch() -> None:
    def build(b: Builder, x: Value, go: Value) -> Sequence[Value]:
        return b.emit("if", go, regions=[block([], lambda i: [i.op("add", x, x)]), block([], lambda i: [x])])

    for go in (True, False):
        check(build, normal(5), np.bool_(go), mutable=(0,))


def test_loops_carry_numbers_and_tensors() -> None:
    n = of(fresh("n"))

    def build(b: Builder, x: Value, y: Value, count: Value) -> Sequence[Value]:
        def turn(i: Builder, index: Value, p: Value, q: Value, total: Value) -> Sequence[Value]:
            grown = i.op("add", p, i.op("mul", q, i.spread(i.convert(index, F32), p.type)))
            return [q, grown, i.op("add", total, index)]

        made = b.emit(
            "for_range", b.constant(0, I64), count, x, y, b.constant(0, I64), name="i", regions=[block([INT, x.type, y.type, INT], turn)]
        )
        return [*made, x]

    for fused in (False, True):
        function = finished(function_of([tensor(n), tensor(n), INT], build), fused)
        assert_same(function, [[normal(size), normal(size, seed=1), count] for size in (0, 1, 40) for count in (-1, 0, 1, 2, 7)])


def test_a_recurrence() -> None:
    n = of(fresh("n"))

    def build(b: Builder, x: Value, w: Value, steps: Value) -> Sequence[Value]:
        def turn(i: Builder, _: Value, h: Value) -> Sequence[Value]:
            return [i.op("tanh", i.op("add", i.op("contraction", h, w, left=(0, 1), right=(2, 1), out=(0, 2)), x))]

        zero = b.full(0.0, x.type)
        return b.emit("for_range", b.constant(0, I64), steps, zero, regions=[block([INT, x.type], turn)], name="t")

    function = finished(function_of([tensor(n, 20), tensor(20, 20), INT], build), fused=True)
    assert_same(function, [[normal(size, 20), normal(20, 20, seed=1), 5] for size in (0, 1, 9)])


def test_while_loops() -> None:
    n = of(fresh("n"))

    def build(b: Builder, x: Value, limit: Value) -> Sequence[Value]:
        def goes_on(i: Builder, v: Value, count: Value) -> Sequence[Value]:
            small = i.op("lt", i.op("sum", v, positions=(0,)), limit)
            return [i.op("and", small, i.op("lt", count, i.constant(50, I64)))]

        def turn(i: Builder, v: Value, count: Value) -> Sequence[Value]:
            return [i.op("add", v, v), i.op("add", count, i.constant(1, I64))]

        types = [x.type, INT]
        return b.emit("while", x, b.constant(0, I64), regions=[block(types, goes_on), block(types, turn)])

    function = finished(function_of([tensor(n), tensor()], build))
    assert_same(function, [[np.abs(normal(count)), 1000.0] for count in (0, 1, 20)])


def test_nested_regions_use_outer_values() -> None:
    def build(b: Builder, x: Value, count: Value) -> Sequence[Value]:
        def outer(i: Builder, j: Value, total: Value) -> Sequence[Value]:
            def inner(k: Builder, t: Value, running: Value) -> Sequence[Value]:
                even = k.op("eq", k.op("mod", k.op("add", t, j), k.constant(2, I64)), k.constant(0, I64))
                branches = [block([], lambda m: [m.op("add", running, x)]), block([], lambda m: [m.op("mul", running, x)])]
                return [k.op("sub", k.emit("if", even, regions=branches)[0], total)]

            return i.emit("for_range", i.constant(0, I64), j, i.op("copy", total), regions=[block([INT, x.type], inner)], name="t")

        return b.emit("for_range", b.constant(0, I64), count, x, regions=[block([INT, x.type], outer)], name="j")

    check(build, normal(7), 5)


def test_integer_division_fails_as_the_reference_does() -> None:
    function = finished(function_of([INT, INT], lambda b, x, y: [b.op("floordiv", x, y), b.op("mod", x, y)]))
    pairs = [(7, 2), (-7, 2), (7, -2), (-7, -2), (0, 5), (5, 0), (-(2**63), -1), (-(2**63), 1)]
    assert_same(function, [list(pair) for pair in pairs])


def test_sizes_that_are_not_whole_or_below_zero_fail() -> None:
    n = of(fresh("n"))
    function = finished(function_of([tensor(n)], lambda b, x: [b.size(n / number(2)), b.size(n - number(3)), b.size(n * n)]))
    codes = [outcome[0].__name__ if isinstance(outcome[0], type) else "fine" for outcome in assert_same(function, [[normal(4)]])]
    assert codes == ["fine"]
    for native in natives(function):
        for count in (3, 2, 0):
            with pytest.raises(Exception, match="R1003"):
                native.run([normal(count)], RecordingHost())


def test_sizes_of_a_branch_that_is_not_taken_may_be_anything() -> None:
    n = of(fresh("n"))

    def build(b: Builder, x: Value) -> Sequence[Value]:
        enough = b.op("ge", b.size(n), b.constant(4, I64))
        shorter = (n - number(3), n / number(2))
        yes = block([], lambda i: [i.op("sum", i.full(1.0, tensor(*shorter)), positions=(0, 1))])
        no = block([], lambda i: [i.op("sum", x, positions=(0,))])
        return b.emit("if", enough, regions=[yes, no])

    assert_same(finished(function_of([tensor(n)], build)), [[normal(count)] for count in (0, 1, 3, 4, 8)])


# ---- data and handles


@pytest.mark.parametrize("shuffled", [False, True])
def test_batches(shuffled: bool) -> None:
    rows = fresh("b")

    def turn(i: Builder, pixels: Value, labels: Value, flags: Value, exact: Value, total: Value, code: Value) -> Sequence[Value]:
        added = i.op("add", total, i.op("sum", pixels, positions=(0,)))
        code = i.op("add", i.op("mul", code, i.constant(31, I64)), i.op("sum", labels, positions=(0,)))
        flagged = i.op("sum", i.op("to_i64", flags), positions=(0, 1))
        wide = i.op("to_i64", i.op("mul", i.op("sum", exact, positions=(0, 1, 2)), i.float_constant(1000.0)))
        return [added, i.op("add", i.op("add", code, flagged), i.op("mul", wide, i.size(of(rows))))]

    def build(b: Builder, data: Value, size: Value, drop_last: Value, k: Value) -> Sequence[Value]:
        seen = b.op("order", data, k, b.constant(7, I64)) if shuffled else data
        fields = [TensorType(kind.element, (of(rows), *kind.axes)) for _, kind in RECORD.fields]
        start = [b.full(0.0, tensor(37)), b.constant(0, I64)]
        limits = [b.constant(0, I64), b.constant(-1, I64)]
        made = b.emit("for_batches", seen, size, drop_last, *limits, *start, regions=[block([*fields, tensor(37), INT], turn, [rows])])
        return [*made, *b.emit("dataset_all", data)]

    function = finished(function_of([DIGITS, INT, BOOL, INT], build))
    sizes = [(1, 1), (5, 2), (5, 5), (64, 16), (100, 64), (3, 2**62), (257, 256)]
    calls = [[digits(count), size, drop, k] for count, size in sizes for drop in (False, True) for k in (0, 3)]
    assert_same(function, [*calls, [digits(5), 0, False, 0], [digits(5), -3, True, 0], [digits(0), 4, False, 0]])


def test_fields_that_nobody_reads_are_not_gathered() -> None:
    rows = fresh("b")

    def turn(i: Builder, pixels: Value, labels: Value, flags: Value, exact: Value, code: Value) -> Sequence[Value]:
        return [i.op("add", i.op("mul", code, i.constant(3, I64)), i.op("sum", labels, positions=(0,)))]

    def build(b: Builder, data: Value) -> Sequence[Value]:
        fields = [TensorType(kind.element, (of(rows), *kind.axes)) for _, kind in RECORD.fields]
        order = b.op("order", data, b.constant(1, I64), b.constant(2, I64))
        return b.emit(
            "for_batches",
            order,
            b.constant(4, I64),
            b.constant(False, Element.BOOL),
            b.constant(0, I64),
            b.constant(-1, I64),
            b.constant(0, I64),
            regions=[block([*fields, INT], turn, [rows])],
        )

    assert_same(finished(function_of([DIGITS], build)), [[digits(10)]])


def test_draws_move_the_stream_in_train_only() -> None:
    def build(b: Builder, m: Value, x: Value) -> Sequence[Value]:
        first = b.emit("mode_draw", m)
        second = b.emit("mode_draw", m)
        other = b.emit("mode_draw", b.op("mode_eval"))
        return [*first, *second, other[1], b.op("dropout", x, b.float_constant(0.3), *second)]

    function = finished(function_of([MODE, tensor(50)], build))
    assert_same(function, [[mode(1, 5, 2), normal(50)], [mode(0), normal(50)]], lambda: NotingHost(mode_eval=[mode(0)]))


def test_handles_are_chosen_and_returned() -> None:
    def build(b: Builder, m: Value, sink: Value, go: Value) -> Sequence[Value]:
        chosen = b.emit(
            "if",
            go,
            regions=[
                block([], lambda i: [m, sink, i.op("string", value="yes")]),
                block([], lambda i: [i.op("mode_train", i.constant(9, I64)), sink, i.op("string", value="no")]),
            ],
        )
        draw = b.emit("mode_draw", chosen[0])
        b.emit("write", chosen[1], draw[0], draw[1], chosen[2], record="R", fields=("seed", "draw", "word"))
        return [*chosen, *draw]

    function = finished(function_of([MODE, SINK, BOOL], build))
    for go in (True, False):
        for native in natives(function):
            host = RecordingHost(mode_train=lambda seed: [mode(1, seed)], string=["word"])
            chosen, sink, word, seed, draw = native.run([mode(1, 3), "a sink", go], host)
            assert chosen.block[:3].tolist() == [1, 3 if go else 9, 1]
            assert (sink, word, seed, draw) == ("a sink", "word", 3 if go else 9, 0)


def test_the_host_gives_tensors_models_and_data() -> None:
    rows = of(fresh("loaded"))
    data_type = DatasetType(RecordType("R", (("x", tensor(4)),)), rows)
    n = of(fresh("n"))

    def build(b: Builder, path: Value, x: Value) -> Sequence[Value]:
        m, opt, y, count, ok = b.emit(
            "load", path, names=("m", "opt", "y", "count", "ok"), asked=(SMALL, OptimiserType("AdamW", SMALL), x.type, INT, BOOL)
        )
        data = b.op("load_data", path, dataset=data_type)
        (field,) = b.emit("dataset_all", data)
        started = b.op("model_start", count, model=SMALL)
        b.emit("save", path, m, opt, y, x, count, data, names=("m", "opt", "y", "x", "count", "data"))
        b.emit("print", x, count, path)
        return [m, opt, b.op("add", x, y), count, ok, b.op("sum", field, positions=(0,)), field, b.size(rows), started]

    state = fresh_state(SMALL)
    state.block[0], state.slots[0][:4], state.slots[1][4:8] = 3, 1, 2
    loaded = dataset(normal(11, 4))

    def host() -> NotingHost:
        return NotingHost(
            load=lambda *_: [model_of(SMALL, 4), state, normal(6, seed=9), 17, True],
            load_data=lambda _: [loaded],
            model_start=lambda seed: [model_of(SMALL, seed)],
        )

    function = finished(function_of([STRING, tensor(n)], build))
    assert_same(function, [["a.pt", normal(6)]], host)


# ---- random programs


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**9))
def test_random_programs_keep_what_is_still_needed(seed: int) -> None:
    for fused in (False, True):
        function = finished(random_program(seed), fused)
        arguments = [normal(3, 4), normal(3, 4, seed=1), model_of(MODEL), model_of(MODEL, 1), fresh_state(MODEL)]
        assert_same(function, [[*arguments, count] for count in (0, 1)], targets=TARGETS[:1])


# ---- whole programs


def test_a_training_program_and_its_logs() -> None:
    state = fresh_state(MLP)
    calls = [[model_of(MLP), state, digits_of_classes(count), "a sink", 0, 2, mode(1, 7)] for count in (64, 150)]
    calls.append([model_of(MLP), state, digits_of_classes(10), "a sink", 1, 3, mode(0)])
    outcomes = assert_same(trained("run"), calls, StepHost)
    assert [len([name for name, _ in calls if name == "write"]) for _, _, calls in outcomes] == [2, 6, 2]


def test_a_step_and_inference_at_every_batch_size() -> None:
    step, forward = trained("train_step"), trained("forward")
    for rows in (1, 2, 17):
        labels = np.random.default_rng(rows).integers(0, 10, rows)
        assert_same(step, [[model_of(MLP), fresh_state(MLP), normal(rows, 64), labels, "a sink", mode(1, 3, 5)]], StepHost, targets=())
    sizes = (1, 0, 2, 64, 65)
    assert_same(forward, [[model_of(MLP), normal(rows, 64), mode(kind, 3)] for rows in sizes for kind in (0, 1)])
    calls = [[model_of(MLP), fresh_state(MLP), normal(rows, 64), np.full(rows, 3), "a sink", mode(1, 3)] for rows in (1, 7, 64)]
    assert_same(step, calls, StepHost)


def test_a_label_out_of_range_changes_nothing() -> None:
    step = trained("train_step")
    for native in natives(step):
        model, state, handle, host = model_of(MLP), fresh_state(MLP), mode(1, 3), StepHost()
        with pytest.raises(Exception, match="R1101: label 10 at position 2"):
            native.run([model, state, normal(4, 64), np.int64([1, 2, 10, 3]), "a sink", handle], host)
        assert model.tobytes() == model_of(MLP).tobytes() and not state.slots[0].any() and state.block[0] == 0 and host.calls == []
