"""Native code beside the reference evaluator, byte for byte: control flow, storage, models, data, handles, training programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from built_programs import MLP, train_mlp
from evaluating import RecordingHost, dataset, flat_model, fresh_state, function_of, mlp, mode, tensor
from hypothesis import given, settings
from hypothesis import strategies as st
from native_harness import TARGETS, NotingHost, assert_same, check, finished, natives
from random_programs import MODEL, random_program

from shapescript.compiler.ir.nodes import Block, Function, Value
from shapescript.compiler.ir.sizes import fresh, number, of
from shapescript.compiler.ir.types import (
    BOOL,
    FLOAT,
    INT,
    MODE,
    SINK,
    STRING,
    DatasetType,
    Element,
    Member,
    ModelType,
    OptimiserType,
    RecordType,
    TensorType,
    Type,
    sorted_leaves,
)
from shapescript.compiler.ops.build import Builder
from shapescript.compiler.passes.pipeline import compile_entry
from shapescript.compiler.reference.layouts import Layout

I64, F32, F64 = Element.I64, Element.F32, Element.F64


def block(types: Sequence[Type], body: Callable[..., Sequence[Value]], symbols: Sequence[Any] = ()) -> Block:
    inner, parameters = Builder(), [Value(type_) for type_ in types]
    return inner.block(parameters, body(inner, *parameters), symbols)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


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


# ---- models and optimisers

SMALL = mlp(3, 5, 2)
MIXED = ModelType(
    "Mixed",
    "main",
    (),
    (
        Member("steps", TensorType(I64, (number(3),))),
        Member("scale", tensor()),
        Member("wide", TensorType(F64, (number(40),))),
        Member("inner", SMALL),
        Member("flag", TensorType(Element.BOOL, (number(5),))),
        Member("last", tensor(2, 33)),
    ),
)


def model_of(kind: ModelType, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    places = Layout(kind).places
    return flat_model(
        kind,
        {
            name: (rng.standard_normal(place.shape) * 3).astype(place.view(np.zeros(place.stop, np.uint8)).dtype)
            for name, place in places.items()
        },
    )


@pytest.mark.parametrize("kind", [SMALL, MIXED], ids=["small", "mixed"])
def test_parts_of_models(kind: ModelType) -> None:
    def build(b: Builder, m: Value, other: Value) -> Sequence[Value]:
        leaves = [b.op("leaf", m, path=leaf.name) for leaf in sorted_leaves(kind)]
        swapped = [b.op("leaf", other, path=leaf.name) for leaf in sorted_leaves(kind)]
        return [*leaves, b.op("pack", *swapped[:2], *leaves[2:], model=kind), b.op("copy", m)]

    assert_same(finished(function_of([kind, kind], build)), [[model_of(kind), model_of(kind, 1)]])


def test_replacing_parts() -> None:
    def build(b: Builder, m: Value, other: Value, x: Value) -> Sequence[Value]:
        inner = b.op("submodel", other, path="inner")
        changed = b.op("replace_submodel", m, inner, path="inner")
        changed = b.op("replace_submodel", changed, x, path="scale")
        deep = b.op("replace_submodel", changed, b.op("leaf", other, path="inner.hidden.weight"), path="inner.hidden.weight")
        return [deep, b.op("submodel", deep, path="inner.output"), m, b.op("leaf", changed, path="scale")]

    assert_same(finished(function_of([MIXED, MIXED, tensor()], build)), [[model_of(MIXED), model_of(MIXED, 1), 2.5]])


@pytest.mark.parametrize("kind", [SMALL, MIXED, mlp(70, 130, 9)], ids=["small", "mixed", "large"])
def test_norms_scaling_and_updates(kind: ModelType) -> None:
    def build(b: Builder, m: Value, opt: Value, g: Value, rate: Value, factor: Value) -> Sequence[Value]:
        norm, before = b.op("global_norm", g), b.op("optimiser_step", opt)
        b.emit("check_finite", g, what="gradient")
        scaled = b.op("scale_model", g, factor)
        changed, state = b.emit("update", m, opt, scaled, rate, factor, kind="AdamW")
        again, last = b.emit("update", changed, state, g, rate, factor, kind="AdamW")
        return [norm, before, b.op("optimiser_step", last), scaled, m, again, last]

    function = finished(function_of([kind, OptimiserType("AdamW", kind), kind, FLOAT, tensor()], build, mutable=(0, 1)))
    states = [fresh_state(kind), fresh_state(kind, (0.5, 0.25), 0.0, 0.0), fresh_state(kind, eps=1e-3, decay=0.5)]
    states[0].block[0] = 12345
    assert_same(function, [[model_of(kind), state, model_of(kind, 1), 0.01, 0.3] for state in states])


def test_a_new_optimiser_goes_through_a_loop() -> None:
    def build(b: Builder, m: Value, g: Value, count: Value) -> Sequence[Value]:
        opt = b.op("optimiser", m, *(b.float_constant(value) for value in (0.8, 0.95, 1e-6, 0.1)), kind="AdamW")

        def turn(i: Builder, _: Value, p: Value, o: Value) -> Sequence[Value]:
            return i.emit("update", p, o, g, i.float_constant(0.1), i.constant(0.5, F32), kind="AdamW")

        made = b.emit("for_range", b.constant(0, I64), count, m, opt, regions=[block([INT, SMALL, opt.type], turn)], name="i")
        return [*made, opt]

    function = finished(function_of([SMALL, SMALL, INT], build))
    assert_same(function, [[model_of(SMALL), model_of(SMALL, 1), count] for count in (0, 1, 4)])


def test_the_best_model_is_kept() -> None:
    def build(b: Builder, m: Value, opt: Value, g: Value) -> Sequence[Value]:
        def turn(i: Builder, index: Value, p: Value, o: Value, best: Value) -> Sequence[Value]:
            changed, state = i.emit("update", p, o, g, i.float_constant(0.1), i.constant(1.0, F32), kind="AdamW")
            better = i.op("lt", index, i.constant(2, I64))
            kept = i.emit("if", better, regions=[block([], lambda j: [changed]), block([], lambda j: [best])])
            return [changed, state, kept[0]]

        types = [INT, SMALL, opt.type, SMALL]
        return b.emit("for_range", b.constant(0, I64), b.constant(5, I64), m, opt, m, regions=[block(types, turn)], name="i")

    function = finished(function_of([SMALL, OptimiserType("AdamW", SMALL), SMALL], build))
    assert_same(function, [[model_of(SMALL), fresh_state(SMALL), model_of(SMALL, 1)]])


@pytest.mark.parametrize("bad", ["hidden.bias", "output.weight", ""])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_named(bad: str, value: float) -> None:
    def build(b: Builder, m: Value, opt: Value, g: Value, loss: Value, x: Value) -> Sequence[Value]:
        b.emit("check_finite", x, what="loss")
        b.emit("check_finite", loss, what="loss")
        b.op("global_norm", g)
        return b.emit("update", m, opt, g, b.float_constant(0.1), b.constant(1.0, F32), kind="AdamW")

    function = finished(function_of([SMALL, OptimiserType("AdamW", SMALL), SMALL, tensor(), tensor(40)], build, mutable=(0, 1)))
    gradient, x, state = model_of(SMALL, 1), normal(40), fresh_state(SMALL)
    state.block[0] = 6
    if bad:
        Layout(SMALL).places[bad].view(gradient).reshape(-1)[1] = value
    calls = [[model_of(SMALL), state, gradient, loss, x] for loss in (1.0, value)]
    x = x.copy()
    x[37] = value
    outcomes = assert_same(function, [*calls, [model_of(SMALL), state, gradient, 1.0, x]])
    assert all("at step 7" in outcome[1] for outcome in outcomes if isinstance(outcome[0], type)) and isinstance(outcomes[1][0], type)


def test_a_norm_that_overflows_names_the_parameter_that_does_so() -> None:
    exact = ModelType("Exact", "main", (), tuple(Member(name, tensor(3, element=F64), None) for name in ("a", "b", "c")))
    function = finished(function_of([exact], lambda b, g: b.op("global_norm", g)))
    calls = []
    for culprits in ((), ("b",), ("c", "b")):
        gradient = model_of(exact)
        for name in culprits:
            Layout(exact).places[name].view(gradient)[1] = 1e200
        calls.append([gradient])
    outcomes = assert_same(function, calls)
    assert not isinstance(outcomes[0][0], type) and all("gradient of b" in outcome[1] for outcome in outcomes[1:])


# ---- data and handles

ROWS = of(fresh("rows"))
RECORD = RecordType(
    "Digit",
    (
        ("pixels", tensor(37)),
        ("label", TensorType(I64)),
        ("flag", TensorType(Element.BOOL, (number(3),))),
        ("exact", TensorType(F64, (number(2), number(2)))),
    ),
)
DIGITS = DatasetType(RECORD, ROWS)


def digits(count: int) -> Any:
    rng = np.random.default_rng(count)
    flags, exact = rng.integers(0, 2, (count, 3)).astype(np.bool_), rng.standard_normal((count, 2, 2))
    return dataset(normal(count, 37), np.arange(count) * 10, flags, exact)


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
        made = b.emit("for_batches", seen, size, drop_last, *start, regions=[block([*fields, tensor(37), INT], turn, [rows])])
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
    state.block[0], state.first[:4], state.second[4:8] = 3, 1, 2
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


class StepHost(NotingHost):
    def __init__(self) -> None:
        super().__init__(string=["ckpt.pt"])


def trained(key: str, verify: bool = True) -> Function:
    return compile_entry(train_mlp(), key, {}, verify=verify)


def digits_of_classes(count: int) -> Any:
    return dataset(normal(count, 64), np.random.default_rng(1).integers(0, 10, count))


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
        assert model.tobytes() == model_of(MLP).tobytes() and not state.first.any() and state.block[0] == 0 and host.calls == []
