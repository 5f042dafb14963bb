"""Elementwise operations on registers: scalars, or vectors of any number of lanes. A bool is I1 here."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache

from llvmlite import ir

from shapescript.compiler.codegen import emit, scalars
from shapescript.compiler.codegen.emit import Builder, Value
from shapescript.compiler.codegen.lowering import REGISTER_TYPES
from shapescript.compiler.ir import nodes
from shapescript.compiler.ir.nodes import Block, Op
from shapescript.compiler.ir.types import Element
from shapescript.compiler.numerics.bfloat16 import bits_of_number
from shapescript.compiler.numerics.scalar import Argument, Expr
from shapescript.compiler.ops.build import result_type
from shapescript.compiler.ops.elementwise import KINDS
from shapescript.compiler.ops.table import Scalar, View, entry
from shapescript.compiler.records.dataclass import dataclass


@cache
def expression(name: str, elements: tuple[Element, ...]) -> Expr:
    """The scalar expression of an operation of the table on these element types."""
    lowering = entry(name).lowering
    assert isinstance(lowering, Scalar)
    return lowering.build([Argument(place, KINDS[element]) for place, element in enumerate(elements)])


def emit_scalar_op(b: Builder, op: Op, operands: Sequence[Value]) -> Value:
    elements = tuple(result_type(operand).element for operand in op.operands)
    return scalars.emit(b, expression(op.name, elements), operands)


def constant(op: Op) -> Value:
    """Of a `constant` operation."""
    return known_number(op.attributes["value"], op.attributes["element"])


def known_number(value: float, element: Element) -> Value:
    """A number as it is in registers."""
    if element is Element.BF16:
        bits = bits_of_number(value)
        return emit.constant(bits - (1 << 16) if bits >> 15 else bits, REGISTER_TYPES[element])
    return emit.constant(int(value) if element in (Element.I64, Element.BOOL) else value, REGISTER_TYPES[element])


@dataclass(frozen=True)
class Dropped:
    """What a dropout does to elements: `kept` gives which of those at this point stay; the scale, in the element's type; whether it does
    anything (I1), for in Eval it doesn't."""

    kept: Value
    scale: Value
    active: Value


def emit_dropout(b: Builder, x: Value, dropped: Dropped) -> Value:
    if isinstance(dropped.kept.type, ir.VectorType) and not isinstance(x.type, ir.VectorType):  # of one number at every place
        x = emit.like(b, x, emit.vector_of(x.type, dropped.kept.type.count))
    scaled = b.fmul(x, dropped.scale if dropped.scale.type == x.type else emit.like(b, dropped.scale, x.type))
    masked = b.select(dropped.kept, scaled, emit.constant(0.0, x.type))
    return b.select(emit.like(b, dropped.active, _condition_type(x)), masked, x)


def _condition_type(x: Value) -> emit.ElementType:
    return emit.vector_of(emit.I1, x.type.count) if isinstance(x.type, ir.VectorType) else emit.I1


def emit_region(
    b: Builder,
    region: Block,
    inputs: Mapping[nodes.Value, Value],
    *,
    index: Callable[[int], Value] | None = None,
    dropped: Mapping[Op, Dropped] | None = None,
) -> list[Value]:
    """What a region of elementwise operations yields. Scalars and vectors may be mixed.

    `inputs` has its parameters and what it uses from outside; `index(position)` gives the index along an axis of the space.
    What a `by_leaf` gives here is among the inputs too.
    """
    values = dict(inputs)
    for op in region.ops:
        if op.result not in values:
            values[op.result] = _emit_op(b, op, values, index, dropped or {})
    return [values[value] for value in region.yields]


def _emit_op(
    b: Builder, op: Op, values: Mapping[nodes.Value, Value], index: Callable[[int], Value] | None, dropped: Mapping[Op, Dropped]
) -> Value:
    if op.name == "constant":
        return constant(op)
    if op.name == "iota":
        assert index is not None
        return index(op.attributes["position"])
    if op.name == "dropout":
        return emit_dropout(b, values[op.operands[0]], dropped[op])
    if isinstance(entry(op.name).lowering, View):
        return values[op.operands[0]]
    return emit_scalar_op(b, op, [values[operand] for operand in op.operands])


def needed(region: Block, wanted: Sequence[nodes.Value]) -> Block:
    """The part of a region that computes some of its values, which it yields."""
    used, ops = set(wanted), []
    for op in reversed(region.ops):
        if any(result in used for result in op.results):
            ops.append(op)
            used.update(op.operands)
    return Block(region.parameters, tuple(reversed(ops)), tuple(wanted))


def region_key(region: Block, outer: Sequence[nodes.Value]) -> Hashable:
    """Equal for regions that compute the same; `outer` are the values that it uses from outside, in order."""
    numbers: dict[nodes.Value, int] = {}
    for value in (*region.parameters, *outer):
        numbers[value] = len(numbers)
    ops = []
    for op in region.ops:
        numbers.update((result, len(numbers) + place) for place, result in enumerate(op.results))
        kinds = tuple(result_type(operand).element for operand in op.operands)
        ops.append((op.name, tuple(numbers[operand] for operand in op.operands), kinds, _attributes(op)))
    given = tuple(result_type(value).element for value in (*region.parameters, *outer))
    return tuple(ops), tuple(numbers[value] for value in region.yields), given, len(region.parameters)


def _attributes(op: Op) -> Hashable:
    if op.name == "constant":
        return repr(op.attributes["value"]), op.attributes["element"]
    if op.name == "by_leaf":
        return op.attributes["ends"], op.attributes["choice"]
    return op.attributes["position"] if op.name == "iota" else None


def is_short(region: Block) -> bool:
    """Whether the region is worth repeating in each vector of a tile: a few instructions."""
    return len(region.ops) <= MAX_SHORT_OPS and all(op.name in SHORT_OPS for op in region.ops)


def region_work(region: Block) -> int:
    """Picoseconds that an element of the region takes one core, about: a step of arithmetic in vectors, or a function of many."""
    return sum(50 if op.name in SHORT_OPS else 400 for op in region.ops)


MAX_SHORT_OPS = 8
SHORT_OPS = frozenset(
    {
        "constant",
        "add",
        "sub",
        "mul",
        "neg",
        "abs",
        "relu",
        "select",
        "and",
        "or",
        "not",
        "minimum",
        "maximum",
        "lt",
        "le",
        "gt",
        "ge",
        "eq",
        "ne",
        "stop_gradient",
        "dropout",
        "by_leaf",
    }
)
