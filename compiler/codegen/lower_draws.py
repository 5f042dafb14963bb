"""Random numbers by a mode's stream (ops/draws.py, numerics/sampling.py): an index by its probability, tensors of random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from shapescript.compiler.codegen import emit, extents, scalars
from shapescript.compiler.codegen.arg_extremes import emit_arg_extreme_run
from shapescript.compiler.codegen.elements import expression
from shapescript.compiler.codegen.emit import F32, F64, I32, I64, LANES, Builder, Value, at, constant, load, splat, store
from shapescript.compiler.codegen.indexing import ALL_GOOD
from shapescript.compiler.codegen.leaf_updates import each_vector
from shapescript.compiler.codegen.lowering import MEMORY_TYPES, Lowering, Site, lowers
from shapescript.compiler.codegen.nests import SizeArguments
from shapescript.compiler.codegen.random import Stream, emit_run, emit_words, stream
from shapescript.compiler.codegen.reductions import Reduction, reduce_run
from shapescript.compiler.codegen.split import Part, shares_of, split, split_elements
from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.sizes import product
from shapescript.compiler.ir.types import Element
from shapescript.compiler.numerics.philox import RUN, VECTOR, Domain
from shapescript.compiler.numerics.sampling import MEANS, NUMBERS, UNIT
from shapescript.compiler.ops.build import result_type
from shapescript.compiler.ops.locations import has_storage
from shapescript.compiler.records.dataclass import dataclass

NUMBER_BYTES = 64
PICOSECONDS_A_CHOICE = 1500
PICOSECONDS_A_NUMBER = {"random_uniform": 500, "random_normal": 4000}

# ---- an index by its probability


@lowers("categorical")
def _categorical(low: Lowering, op: Op) -> None:
    b, (logits, seed, draw) = low.b, op.operands
    kind = result_type(logits)
    choices, rows = kind.axes[-1], product(kind.axes[:-1])
    many = emit.size(low.size(choices))
    low.fail_if(b.icmp_signed("==", many, I64(0)), Site("reduction of nothing", op))
    names, shape = SizeArguments(), _Choice(kind.element)
    count, width = names.name(rows), names.name(choices)

    def body(b: Builder, given: Sequence[Value], part: Part) -> None:
        shape.build(b, given[:5], names.values(given).of(b, width), part)

    units = low.size(rows)
    shares = shares_of(low, units, extents.times(b, low.size(product(kind.axes)), PICOSECONDS_A_CHOICE))
    with low.scratch(extents.plus(b, extents.times(b, shape.room(b, low.size(choices)), shares), NUMBER_BYTES)) as scratch:
        target, rooms = low.pointer(op.result) if has_storage(op.result) else scratch, at(b, scratch, NUMBER_BYTES, emit.I8)

        def bad_row(i: Value) -> Value:
            return at(b, rooms, extents.times(b, i, shape.room(b, low.size(choices))), emit.I8)

        emit.loop(b, 0, shares, 1, lambda i, _: store(b, I64(ALL_GOOD), bad_row(i)))
        numbers = [low.pointer(logits), target, rooms, low.number(seed), low.number(draw)]
        arguments = [*numbers, *(emit.size(low.size(size)) for size in names.run_time)]
        split(low, "categorical", (shape, count, width), arguments, units, shares, body)
        (bad,) = emit.loop(b, 0, shares, 1, lambda i, found: [_earlier(b, found[0], load(b, bad_row(i), I64))], [I64(ALL_GOOD)])
        low.fail_if(b.icmp_signed("!=", bad, I64(ALL_GOOD)), Site("no distribution", op), [bad])
        if not has_storage(op.result):
            low.define(op.result, load(b, scratch, I64))


def _earlier(b: Builder, x: Value, y: Value) -> Value:
    """The first of two rows, either of which may be ALL_GOOD."""
    return b.select(b.icmp_unsigned("<", x, y), x, y)


class Greatest(Reduction):
    """max whose zeros' signs don't matter, since only differences to it are used."""

    def combine(self, b: Builder, x: Value, y: Value) -> Value:
        return b.select(b.or_(b.fcmp_ordered(">", x, y), b.fcmp_unordered("uno", x, x)), x, y)


@dataclass(frozen=True)
class _Choice:
    """The shared function."""

    element: Element

    def room(self, b: Builder, choices: emit.Size) -> emit.Size:
        """Bytes for a share: its first row that has no distribution, and a row's running sums."""
        return extents.plus(b, extents.round_up(b, extents.times(b, choices, Element.F64.bytes), NUMBER_BYTES), NUMBER_BYTES)

    def build(self, b: Builder, given: Sequence[Value], choices: emit.Size, part: Part) -> None:
        """given: the addresses of logits, result and the shares' room; seed and draw. A row that has no distribution is written to the
        room, and those after it are left out."""
        logits, result, rooms, seed, draw = given
        bad_row = at(b, rooms, extents.times(b, part.share, self.room(b, choices)), emit.I8)
        kind, source = MEMORY_TYPES[self.element], stream(b, seed, Domain.DRAW, draw)
        draws = b.icmp_signed(">=", draw, I64(0))

        def row(r: Value, _: Sequence[Value]) -> None:
            line = at(b, logits, extents.times(b, r, choices), kind)
            (index,) = emit.choose(
                b, draws, lambda: [self._drawn(b, line, bad_row, choices, (source, r))], lambda: [self._first_of_largest(b, line, choices)]
            )
            store(b, index, at(b, result, r, I64))

        emit.loop(b, part.low, part.high, 1, row)

    def _first_of_largest(self, b: Builder, line: Value, choices: emit.Size) -> Value:
        return emit_arg_extreme_run(b, "argmax", MEMORY_TYPES[self.element], line, choices)

    def _drawn(self, b: Builder, line: Value, bad_row: Value, choices: emit.Size, drawn_by: tuple[Stream, Value]) -> Value:
        kind, (source, r), sums = MEMORY_TYPES[self.element], drawn_by, at(b, bad_row, NUMBER_BYTES, emit.I8)

        def loaded(b: Builder, i: Value, mask: Value | None) -> list[Value]:
            return [load(b, at(b, line, i, kind), kind, LANES, mask)]

        (top,) = reduce_run(b, [Greatest("max", kind)], choices, loaded)
        with b.if_then(b.fcmp_unordered("!=", b.fsub(top, top), constant(0.0, kind)), likely=False):
            store(b, r, bad_row)
            b.ret_void()
        tops = splat(b, top, LANES)

        def power(i: Value, mask: Value | None) -> None:
            found = scalars.emit(b, expression("exp", (self.element,)), [b.fsub(*loaded(b, i, mask), tops)])
            store(b, found if kind == F64 else b.fpext(found, emit.vector_of(F64, LANES)), at(b, sums, i, F64), mask)

        def add(i: Value, total: Sequence[Value]) -> list[Value]:
            here = at(b, sums, i, F64)
            so_far = b.fadd(total[0], load(b, here, F64))
            store(b, so_far, here)
            return [so_far]

        each_vector(b, choices, power)
        (total,) = emit.loop(b, 0, choices, 1, add, [constant(0.0, F64)])
        word = b.extract_element(b.trunc(emit_words(b, source, r, VECTOR), emit.vector_of(I32, VECTOR)), I32(0))
        return self._place(b, sums, b.fmul(scalars.emit(b, UNIT, [word]), total), choices)

    def _place(self, b: Builder, sums: Value, aim: Value, choices: emit.Size) -> Value:
        """The first of the ascending sums that is above the aim: how many are not."""
        aims, lanes = splat(b, aim, LANES), emit.vector_of(I64, LANES)

        def passed(i: Value, mask: Value | None) -> Value:
            below = b.fcmp_ordered("<=", load(b, at(b, sums, i, F64), F64, LANES, mask), aims)
            return b.zext(below if mask is None else b.and_(below, mask), lanes)

        whole = extents.times(b, extents.quotient(b, choices, LANES), LANES)
        (count,) = emit.loop(b, 0, whole, LANES, lambda i, found: [b.add(found[0], passed(i, None))], [constant(0, lanes)])
        rest = extents.minus(b, choices, whole)
        if rest != 0:
            mask = emit.lane_mask(b, rest, LANES)
            count = b.add(count, passed(emit.size(whole), mask))
        return emit.lane_tree(b, count, b.add)


# ---- tensors of random numbers


@lowers("random_uniform", "random_normal")
def _random(low: Lowering, op: Op) -> None:
    seed, draw = map(low.number, op.operands)

    def make(target: Value) -> None:
        count = low.size(product(result_type(op.result).axes))
        split_elements(low, op.name, None, [target, seed, draw], count, PICOSECONDS_A_NUMBER[op.name], partial(_emit_numbers, op.name))

    if has_storage(op.result):
        make(low.pointer(op.result))
        return
    with low.scratch(NUMBER_BYTES) as scratch:
        make(scratch)
        low.define(op.result, load(low.b, scratch, F32))


def _emit_numbers(name: str, b: Builder, given: Sequence[Value], start: emit.Size, end: emit.Size) -> None:
    """Numbers start to end, the first at the beginning of a run of the stream."""
    target, seed, draw = given
    mean = constant(MEANS[name], emit.vector_of(F32, LANES))
    draws = b.icmp_signed(">=", draw, I64(0))
    with b.if_then(b.not_(draws)):
        first = at(b, target, start, F32)
        each_vector(b, extents.minus(b, end, start), lambda i, mask: store(b, mean, at(b, first, i, F32), mask))
    source = stream(b, seed, Domain.DRAW, draw)

    def run(i: Value, is_whole: bool) -> None:
        for place, words in enumerate(emit_run(b, source, b.lshr(i, I64(RUN.bit_length() - 1)))):
            here = b.add(i, I64(place * VECTOR))
            mask = None if is_whole else emit.lane_mask(b, extents.minus(b, end, here), VECTOR)
            numbers = scalars.emit(b, NUMBERS[name], [b.trunc(words, emit.vector_of(I32, VECTOR))])
            store(b, numbers, at(b, target, here, F32), mask)

    with b.if_then(draws):
        whole = b.and_(emit.size(end), I64(-RUN))
        emit.loop(b, start, whole, RUN, lambda i, _: run(i, True))
        emit.loop(b, whole, end, RUN, lambda i, _: run(i, False))
