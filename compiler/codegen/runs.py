"""Runs of adjacent elements moved or added between two dense tensors: what lies side by side along one axis is as many runs as the axes
before it have places."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shapescript.compiler.codegen import emit, extents, scalars
from shapescript.compiler.codegen.elements import expression
from shapescript.compiler.codegen.emit import I64, LANES, Builder, Value, at, load, store
from shapescript.compiler.codegen.leaf_updates import each_vector
from shapescript.compiler.codegen.lowering import MEMORY_TYPES, Lowering
from shapescript.compiler.codegen.nests import SizeArguments
from shapescript.compiler.codegen.split import PICOSECONDS_A_BYTE, STRETCH, Part, shares_of, split, split_elements
from shapescript.compiler.codegen.storage import copy_bytes
from shapescript.compiler.ir.sizes import ONE, Size
from shapescript.compiler.ir.types import Element
from shapescript.compiler.records.dataclass import dataclass

Run = Callable[[Builder, Value, Value, emit.Size], None]  # what is done with one run: target, source, how many elements


@dataclass(frozen=True)
class Runs:
    """`count` runs of `length` elements; from one to the next it is so many elements in the target and in the source."""

    element: Element
    count: Size
    length: Size
    target_step: Size
    source_step: Size


def copy_runs(low: Lowering, runs: Runs, target: Value, source: Value) -> None:
    """The two must not overlap."""
    width = emit.element_bytes(MEMORY_TYPES[runs.element])

    def run(b: Builder, target: Value, source: Value, length: emit.Size) -> None:
        copy_bytes(b, target, source, extents.times(b, length, width))

    _each_run(low, "copy_runs", runs, target, source, run)


def add_runs(low: Lowering, runs: Runs, target: Value, source: Value) -> None:
    """target + source, in the target's place."""
    element = MEMORY_TYPES[runs.element]
    total = expression("add", (runs.element, runs.element))

    def run(b: Builder, target: Value, source: Value, length: emit.Size) -> None:
        if length == 1:
            store(b, scalars.emit(b, total, [load(b, target, element), load(b, source, element)]), target)
            return

        def vector(i: Value, mask: Value | None) -> None:
            operands = [load(b, at(b, place, i, element), element, LANES, mask) for place in (target, source)]
            store(b, scalars.emit(b, total, operands), at(b, target, i, element), mask)

        each_vector(b, length, vector)

    _each_run(low, "add_runs", runs, target, source, run)


def _each_run(low: Lowering, name: str, runs: Runs, target: Value, source: Value, run: Run) -> None:
    """Threads share out the runs, or the elements of one that is long."""
    element = MEMORY_TYPES[runs.element]
    width = emit.element_bytes(element)
    length = low.size(runs.length)
    if runs.count == ONE and not (isinstance(length, int) and length <= STRETCH):

        def stretch(b: Builder, given: Sequence[Value], start: emit.Size, end: emit.Size) -> None:
            there, here = (at(b, tensor, start, element) for tensor in given)
            run(b, there, here, extents.minus(b, end, start))

        split_elements(low, name, runs.element, [target, source], length, 2 * PICOSECONDS_A_BYTE * width, stretch)
        return
    names = SizeArguments()
    sizes = names.names([runs.count, runs.length, runs.target_step, runs.source_step])

    def body(b: Builder, given: Sequence[Value], part: Part) -> None:
        known = names.values(given)
        _, length, target_step, source_step = (known.of(b, size) for size in sizes)
        end = part.high

        def turn(i: Value, _: Sequence[Value]) -> None:
            here, there = (at(b, given[place], extents.times(b, i, step), element) for place, step in enumerate((target_step, source_step)))
            run(b, here, there, length)

        if not isinstance(length, int):  # of no elements there may be any number of runs
            end = b.select(b.icmp_signed("==", length, I64(0)), I64(0), emit.size(end))
        emit.loop(b, part.low, end if length != 0 else 0, 1, turn)

    arguments = [target, source, *(emit.size(low.size(size)) for size in names.run_time)]
    units = low.size(runs.count)
    work = extents.times(low.b, low.size(runs.count * runs.length), 2 * PICOSECONDS_A_BYTE * width)
    split(low, name, (runs.element, sizes), arguments, units, shares_of(low, units, work), body)
