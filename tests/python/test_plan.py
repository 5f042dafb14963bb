"""The memory plan: values computed where they end, slots shared, and nothing put where it would be overwritten while it is needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from built_programs import MLP, train_mlp
from evaluating import function_of, mlp, tensor
from planned_bytes import planned_bytes, rows

from shapescript.compiler.ir.flat import flat_layout
from shapescript.compiler.ir.nodes import Block, Function, Op, Value, walk
from shapescript.compiler.ir.sizes import fresh, number, of
from shapescript.compiler.ir.types import (
    BOOL,
    INT,
    STRING,
    DatasetType,
    Element,
    Member,
    ModelType,
    OptimiserType,
    RecordType,
    sorted_leaves,
)
from shapescript.compiler.ops.build import Builder, result_type
from shapescript.compiler.ops.locations import Borrowed, Location, ParameterStorage, Plan, ResultStorage, SlotStorage, storage_bytes
from shapescript.compiler.passes.copies import insert_copies
from shapescript.compiler.passes.fuse import fuse
from shapescript.compiler.passes.pipeline import compile_entry
from shapescript.compiler.passes.plan import plan_memory

SMALL = mlp(3, 5, 2)


def block(types: Sequence[Any], body: Callable[..., Sequence[Value]]) -> Block:
    inner, parameters = Builder(), [Value(type_) for type_ in types]
    return inner.block(parameters, body(inner, *parameters))


def planned(function: Function) -> tuple[Function, Plan]:
    done = insert_copies(function)
    return done, plan_memory(done)


def ops(function: Function, name: str) -> list[Op]:
    return [op for op in walk(function.body) if op.name == name]


def test_gradients_are_computed_in_the_packed_model() -> None:
    function = compile_entry(train_mlp(), "run", {})
    plan = plan_memory(function)
    (pack,) = ops(function, "pack")
    model = plan.locations[pack.result]
    assert isinstance(model.storage, SlotStorage)
    for part, operand in zip(flat_layout(MLP).leaves, pack.operands, strict=True):
        assert plan.locations[operand] == model.part(part.offset)


def test_an_update_works_in_the_callers_model() -> None:
    function = compile_entry(train_mlp(), "run", {})
    plan = plan_memory(function)
    (update,) = ops(function, "update")
    for place, value in enumerate(update.results):
        assert plan.locations[value] == plan.locations[function.body.parameters[place]] == Location(ParameterStorage(place))


def test_results_are_computed_in_the_callers_arrays() -> None:
    n = of(fresh("n"))

    def build(b: Builder, x: Value) -> Sequence[Value]:
        y = b.op("add", x, x)
        z = b.op("mul", y, y)
        return [z, x, z, b.op("reshape", b.op("relu", z), axes=(n * number(4),))]

    function, plan = planned(function_of([tensor(n, 4)], build))
    z, x, _, flat = (plan.locations[value] for value in function.body.yields)
    assert (z, x, flat) == (Location(ResultStorage(0)), Location(ParameterStorage(0)), Location(ResultStorage(3)))


def test_a_recurrence_is_computed_in_place_where_elements_allow_it() -> None:
    n = of(fresh("n"))

    def loop(turn: Callable[[Builder, Value, Value], Value]) -> tuple[Location, Location]:
        def build(b: Builder, x: Value) -> Sequence[Value]:
            start = b.op("add", x, x)
            return b.emit(
                "for_range",
                b.constant(0, Element.I64),
                b.constant(3, Element.I64),
                start,
                name="i",
                regions=[block([INT, x.type], lambda i, _, h: [turn(i, x, h)])],
            )

        function, plan = planned(function_of([tensor(n, n)], build))
        (op,) = ops(function, "for_range")
        return plan.locations[op.regions[0].yields[0]], plan.locations[op.results[0]]

    inside, carried = loop(lambda i, x, h: i.op("add", h, x))
    assert inside == carried == Location(ResultStorage(0))
    inside, carried = loop(lambda i, x, h: i.op("contraction", h, x, left=(0, 1), right=(1, 2), out=(0, 2)))
    assert inside != carried and isinstance(inside.storage, SlotStorage)
    inside, carried = loop(lambda i, x, h: i.op("add", i.op("transpose", h, permutation=(1, 0)), h))
    assert inside == carried


def test_swapped_values_are_moved_not_computed_over_each_other() -> None:
    def build(b: Builder, x: Value, y: Value) -> Sequence[Value]:
        turn = block([INT, x.type, y.type], lambda i, _, p, q: [i.op("add", q, q), i.op("add", p, q)])
        return b.emit("for_range", b.constant(0, Element.I64), b.constant(3, Element.I64), x, y, regions=[turn], name="i")

    function, plan = planned(function_of([tensor(4), tensor(4)], build))
    (op,) = ops(function, "for_range")
    first, second = (plan.locations[value] for value in op.regions[0].yields)
    assert first != plan.locations[op.results[0]] and second == plan.locations[op.results[1]]


def test_a_mutable_argument_stays_as_it_is_while_something_may_fail() -> None:
    def build(b: Builder, x: Value, k: Value) -> Sequence[Value]:
        doubled = b.op("add", x, x)
        b.op("floordiv", k, k)
        return [doubled]

    function, plan = planned(function_of([tensor(2), INT], build, mutable=(0,)))
    assert isinstance(plan.locations[function.body.yields[0]].storage, SlotStorage)
    function, plan = planned(function_of([tensor(2)], lambda b, x: [b.op("add", x, x)], mutable=(0,)))
    assert plan.locations[function.body.yields[0]] == Location(ParameterStorage(0))


def test_a_part_of_a_mutable_model_stays_as_it_is_while_something_may_fail() -> None:
    def function(fails_between: bool) -> tuple[Function, Plan]:
        def build(b: Builder, m: Value, x: Value, k: Value) -> Sequence[Value]:
            first = b.op("exp", x)
            if fails_between:
                b.op("floordiv", k, k)
            others = [b.full(0.0, leaf.type) for leaf in sorted_leaves(SMALL)[1:]]
            return [b.op("pack", first, *others, model=SMALL)]

        return planned(function_of([SMALL, sorted_leaves(SMALL)[0].type, INT], build, mutable=(0,)))

    for fails_between, storage in ((False, ParameterStorage), (True, SlotStorage)):
        done, plan = function(fails_between)
        (first,) = ops(done, "exp")
        assert isinstance(plan.locations[first.result].storage, storage)


def test_a_row_of_a_mutable_argument_is_made_apart() -> None:
    """It is made before the `put`, and what fails in between must leave the argument as it was."""

    def build(b: Builder, x: Value, y: Value, k: Value) -> Sequence[Value]:
        place = b.constant(1, Element.I64)
        row = b.op("exp", y)
        b.op("floordiv", k, k)
        return [b.op("put", x, row, place, position=0)]

    function, plan = planned(function_of([tensor(5, 3), tensor(1, 3), INT], build, mutable=(0,)))
    (put,) = ops(function, "put")
    assert isinstance(plan.locations[put.operands[1]].storage, SlotStorage)


def test_a_part_of_a_carried_model_is_made_apart_while_the_model_is_read() -> None:
    """The last one, of what was read before, has its place there at once."""

    def turn(b: Builder, _: Value, m: Value) -> Sequence[Value]:
        first, *others = (b.op("leaf", m, path=leaf.name) for leaf in sorted_leaves(SMALL))
        made = [b.op("add", first, first)]
        total = b.op("sum", first, positions=(0,))
        made += [b.op("add", other, b.spread(total, result_type(other))) for other in others[:-1]]
        kept = b.op("cumsum", others[-1], position=0, reverse=False)
        return [b.op("pack", *made, b.op("exp", kept), model=SMALL)]

    def build(b: Builder, m: Value) -> Sequence[Value]:
        bounds = b.constant(0, Element.I64), b.constant(3, Element.I64)
        return b.emit("for_range", *bounds, b.op("copy", m), name="i", regions=[block([INT, SMALL], turn)])

    function, plan = planned(function_of([SMALL], build))
    (loop,), (pack,) = ops(function, "for_range"), ops(function, "pack")
    carried = plan.locations[loop.results[0]]
    assert plan.locations[pack.operands[-1]] == carried.part(flat_layout(SMALL).leaves[-1].offset)
    assert plan.locations[pack.operands[0]].storage != carried.storage


def test_a_tensor_is_not_made_in_the_slot_of_a_model_whose_part_it_is_made_of() -> None:
    pair = ModelType("Pair", "main", (), (Member("a", tensor(40)), Member("b", tensor(40))))

    def build(b: Builder, x: Value) -> Sequence[Value]:
        model = b.op("pack", b.op("exp", x), b.op("neg", x), model=pair)
        made = b.op("tanh", b.op("leaf", model, path="b"))
        return [b.op("concat", made, made, position=0)]

    function, plan = planned(function_of([tensor(40)], build))
    (pack,), (made,) = ops(function, "pack"), ops(function, "tanh")
    assert plan.locations[made.result].storage != plan.locations[pack.result].storage


def test_branches_compute_in_the_place_of_the_result() -> None:
    def build(b: Builder, x: Value, go: Value) -> Sequence[Value]:
        made = b.emit("if", go, regions=[block([], lambda i: [i.op("add", x, x)]), block([], lambda i: [i.op("mul", x, x)])])
        return [made[0], b.op("sum", made[0], positions=(0,))]

    function, plan = planned(function_of([tensor(4), BOOL], build))
    (op,) = ops(function, "if")
    assert {plan.locations[region.yields[0]] for region in op.regions} == {plan.locations[op.results[0]]}


def test_values_that_are_not_needed_together_share_slots() -> None:
    n = of(fresh("n"))

    def chain(length: int) -> int:
        def build(b: Builder, x: Value) -> Sequence[Value]:
            for _ in range(length):
                x = b.op("transpose", x, permutation=(1, 0))
            return [b.op("sum", x, positions=(0, 1))]

        return planned_bytes(planned(function_of([tensor(n, n)], build))[1], rows(100))

    assert chain(3) == chain(30) == 2 * 100 * 100 * 4


def test_a_smaller_value_takes_the_slot_of_a_larger_one_of_the_same_axes() -> None:
    n = of(fresh("n"))

    def build(b: Builder, x: Value, w: Value, v: Value) -> Sequence[Value]:
        wide = b.op("contraction", x, w, left=(0, 1), right=(1, 2), out=(0, 2))
        narrow = b.op("contraction", wide, v, left=(0, 1), right=(1, 2), out=(0, 2))
        small = b.op("exp", b.op("transpose", narrow, permutation=(1, 0)))
        return [b.op("sum", small, positions=(0, 1))]

    function = function_of([tensor(n, 8), tensor(8, 100), tensor(100, 10)], build)
    assert planned_bytes(planned(function)[1], rows(64)) == 64 * 100 * 4 + 64 * 10 * 4


def test_no_slot_waits_for_a_size_that_its_first_value_does_not_need() -> None:
    rows = of(fresh("rows"))
    data = DatasetType(RecordType("Row", (("x", tensor()),)), rows)

    def build(b: Builder, x: Value, path: Value) -> Sequence[Value]:
        early = b.op("sum", b.op("exp", x), positions=(0,))
        b.op("load_data", path, dataset=data)
        late = b.full(0.0, tensor(rows + number(64)))
        return [early, b.op("sum", b.op("exp", late), positions=(0,))]

    function, plan = planned(function_of([tensor(64), STRING], build))
    late = {slot.size for slots in plan.slots.values() for slot in slots if slot.size.constant() is None}
    first, *_ = ops(function, "exp")
    location = plan.locations[first.result]
    assert isinstance(location.storage, SlotStorage) and late
    assert next(slot.size for slot in plan.slots[function.body] if slot.number == location.storage.slot) == number(256)


def test_slots_of_sizes_that_are_known_late_lie_apart() -> None:
    count = of(fresh("rows"))
    data = DatasetType(RecordType("Row", (("x", tensor()),)), count)

    def build(b: Builder, path: Value) -> Sequence[Value]:
        b.op("load_data", path, dataset=data)
        late = b.full(0.0, tensor(count))
        parts = [b.op("cumsum", late, position=0, reverse=False), b.op("exp", late)]
        return [b.op("sum", part, positions=(0,)) for part in parts]

    _, plan = planned(function_of([STRING], build))
    assert planned_bytes(plan, rows(100)) == 2 * 100 * 4


def test_batches_in_the_datasets_order_and_unread_fields_have_no_slot() -> None:
    function = compile_entry(train_mlp(), "run", {})
    plan, (loop,) = plan_memory(function), ops(function, "for_batches")
    pixels, label = loop.regions[0].parameters[:2]
    assert isinstance(plan.locations[pixels].storage, SlotStorage) and isinstance(plan.locations[label].storage, SlotStorage)
    order = ops(function, "order")[0]
    plain = Op("for_batches", (order.operands[0], *loop.operands[1:]), loop.attributes, loop.results, loop.regions, loop.span)
    body = Block(function.body.parameters, tuple(_replaced(op, loop, plain) for op in function.body.ops), function.body.yields)
    other = plan_memory(Function(function.name, (), body, function.mutable, function.results))
    assert other.locations[pixels] == Location(Borrowed(pixels)) and other.locations[label] == Location(Borrowed(label))


def _replaced(op: Op, old: Op, new: Op) -> Op:
    if op is old:
        return new
    regions = tuple(Block(r.parameters, tuple(_replaced(inner, old, new) for inner in r.ops), r.yields, r.symbols) for r in op.regions)
    return Op(op.name, op.operands, op.attributes, op.results, regions, op.span)


def test_elementwise_work_lies_upon_what_it_reads_last() -> None:
    n = of(fresh("n"))

    def build(b: Builder, x: Value) -> Sequence[Value]:
        y = b.op("transpose", x, permutation=(1, 0))
        z = b.op("tanh", b.op("exp", y))
        return [b.op("sum", z, positions=(1,))]

    _, plan = planned(fuse(function_of([tensor(n, n)], build)))
    assert planned_bytes(plan, rows(64)) == 64 * 64 * 4


def test_bytes_of_storages() -> None:
    total = flat_layout(SMALL).total
    kinds = [SMALL, OptimiserType("AdamW", SMALL), tensor(3, 4), tensor(3, element=Element.F64), tensor(3, element=Element.BOOL)]
    assert [storage_bytes(kind).constant() for kind in kinds] == [total, 128 + 3 * total, 48, 24, 3]
