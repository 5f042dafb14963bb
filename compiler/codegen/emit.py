"""Small helpers that build LLVM IR: loops, vectors, masks, memory. They hold no state beside the builder.

Values are LLVM values; a size may also be a Python int (`Size`), which is baked in. Element types are F32, F64, I32, I64, for bf16 I16
that holds its bits, and for bool in memory I8 that holds 0 or 1; conditions are I1. Pointers are opaque. A mask is a vector of I1, constant
or computed; None is all lanes. Nothing here sets a fast-math or contraction flag.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir

Value: TypeAlias = ir.Value
Builder: TypeAlias = ir.IRBuilder
ElementType: TypeAlias = ir.Type
Size: TypeAlias = "int | ir.Value"

F32, F64 = ir.FloatType(), ir.DoubleType()
I1, I8, I16, I32, I64 = ir.IntType(1), ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64)
PTR, VOID = ir.PointerType(), ir.VoidType()
LANES = 16  # lanes of a reduction, and the width that elementwise code is vectorised with on every target
BLOCK = 4096  # elements of a reduction's block, k of a contraction's block

_F64_BITS = struct.Struct("<d")
_ZEROS = (0, _F64_BITS.pack(0.0))

_ELEMENTS = {"f32": F32, "f64": F64, "bf16": I16, "u16": I16, "i32": I32, "u32": I32, "i64": I64, "u64": I64, "bool": I8}


def element_type(name: str) -> ElementType:
    """The type in memory of an element kind: f32, f64, bf16 and u16 (I16), i32, u32, i64, u64 or bool (I8)."""
    return _ELEMENTS[name]


def element_bytes(element: ElementType) -> int:
    return {F32: 4, F64: 8, I8: 1, I16: 2, I32: 4, I64: 8}[element]


def is_float(element: ElementType) -> bool:
    return element in (F32, F64)


def vector_of(element: ElementType, count: int) -> Any:
    return ir.VectorType(element, count)


def scalar_of(kind: ElementType) -> ElementType:
    """The element of a vector type; a scalar type is its own."""
    return kind.element if isinstance(kind, ir.VectorType) else kind


def size(value: Size) -> Value:
    """A size as an I64 value."""
    return I64(value) if isinstance(value, int) else value


class _Word(ir.Constant):  # type: ignore[misc]  # llvmlite has no types
    """A constant that LLVM has a word for. llvmlite's own would tell a vector lane by lane, which is half of a module's text."""

    def __init__(self, kind: ElementType, lane: Any, word: str) -> None:
        super().__init__(kind, lane)
        self._word = word

    def _get_reference(self) -> str:
        return self._word


def constant(value: float, kind: ElementType) -> Value:
    """A number of a scalar type, or the same one in all lanes of a vector type."""
    element = scalar_of(kind)
    if not is_float(element):
        return _same_lanes(kind, int(value))
    if element == F32:
        with np.errstate(over="ignore"):
            value = float(np.float32(value))
    return _same_lanes(kind, _F64_BITS.pack(value))


@lru_cache(maxsize=4096)
def _same_lanes(kind: ElementType, number: int | bytes) -> Value:
    """A float is given by its bits, which set -0 apart from 0. Each is made once, and so is its text, which of a vector is long."""
    value: float = _F64_BITS.unpack(number)[0] if isinstance(number, bytes) else number
    one = ir.Constant(scalar_of(kind), value)
    if not isinstance(kind, ir.VectorType):
        return one
    return _Word(kind, 0, "zeroinitializer") if number in _ZEROS else ir.Constant(kind, [one] * kind.count)


def iota(count: int, element: ElementType = I64) -> Value:
    """The vector 0, 1, 2, ..."""
    return lanes_of(element.width, tuple(range(count)))


@lru_cache(maxsize=4096)
def lanes_of(width: int, numbers: tuple[int, ...]) -> Value:
    """A constant vector of whole numbers of so many bits, made once: their lanes were four in five of a module's constants."""
    kind = vector_of(ir.IntType(width), len(numbers))
    return ir.Constant(kind, list(numbers)) if any(numbers) else _Word(kind, 0, "zeroinitializer")


@lru_cache(maxsize=64)
def undefined(kind: ElementType) -> Value:
    return _Word(kind, ir.Undefined, "undef")


# ---- functions, blocks, loops


def function(module: ir.Module, name: str, arguments: Sequence[ElementType], result: ElementType = VOID) -> tuple[Any, Builder]:
    """A new internal function whose name begins with `name`, and a builder at its entry."""
    fn = ir.Function(module, ir.FunctionType(result, list(arguments)), module.get_unique_name(name))
    fn.attributes.add("nounwind")
    fn.linkage = "internal"
    return fn, ir.IRBuilder(fn.append_basic_block("entry"))


def untyped(pointer: Value) -> Value:
    """llvmlite still gives allocations and globals typed pointers, which LLVM no longer has."""
    pointer.type = PTR
    return pointer


def constant_table(module: ir.Module, name: str, numbers: Sequence[int]) -> Value:
    """The address of these I64 numbers; equal tables of a module are one."""
    name = f"{name}.{hashlib.sha256(repr(list(numbers)).encode()).hexdigest()[:16]}"
    if name in module.globals:
        return module.globals[name]
    kind = ir.ArrayType(I64, len(numbers))
    table = ir.GlobalVariable(module, kind, name)
    table.linkage, table.global_constant, table.initializer = "internal", True, ir.Constant(kind, list(numbers))
    return untyped(table)


def stack(b: Builder, element: ElementType, count: int) -> Value:
    """Room for `count` elements on the stack, 64-byte aligned, allocated once on entering the function."""
    with b.goto_entry_block():
        room = b.alloca(ir.ArrayType(element, count))
    room.align = 64
    return untyped(room)


def loop(
    b: Builder,
    start: Size,
    stop: Size,
    step: Size,
    body: Callable[[Value, Sequence[Value]], Sequence[Value] | None],
    carried: Sequence[Value] = (),
) -> list[Value]:
    """`for i in range(start, stop, step): carried = body(i, carried)`, step > 0; returns the carried values after the last turn."""
    before, head, inside, after = b.block, *(b.append_basic_block(name) for name in ("head", "body", "after"))
    b.branch(head)
    b.position_at_end(head)
    i = b.phi(I64)
    i.add_incoming(size(start), before)
    phis = [b.phi(value.type) for value in carried]
    for phi, value in zip(phis, carried, strict=True):
        phi.add_incoming(value, before)
    b.cbranch(b.icmp_signed("<", i, size(stop)), inside, after)
    b.position_at_end(inside)
    grown = body(i, phis) or ()
    i.add_incoming(b.add(i, size(step), flags=["nsw"]), b.block)
    for phi, value in zip(phis, grown, strict=True):
        phi.add_incoming(value, b.block)
    b.branch(head)
    b.position_at_end(after)
    return phis


def while_loop(
    b: Builder,
    condition: Callable[[Sequence[Value]], Value],
    body: Callable[[Sequence[Value]], Sequence[Value]],
    carried: Sequence[Value],
) -> list[Value]:
    """`while condition(carried): carried = body(carried)`; returns the last carried values."""
    before, head, inside, after = b.block, *(b.append_basic_block(name) for name in ("test", "turn", "done"))
    b.branch(head)
    b.position_at_end(head)
    phis = [b.phi(value.type) for value in carried]
    for phi, value in zip(phis, carried, strict=True):
        phi.add_incoming(value, before)
    b.cbranch(condition(phis), inside, after)
    b.position_at_end(inside)
    for phi, value in zip(phis, body(phis), strict=True):
        phi.add_incoming(value, b.block)
    b.branch(head)
    b.position_at_end(after)
    return phis


def choose(b: Builder, condition: Value, then: Callable[[], Sequence[Value]], otherwise: Callable[[], Sequence[Value]]) -> list[Value]:
    """Values of one of two branches, only one of which runs; both give the same number of values of the same types."""
    taken, other, join = (b.append_basic_block(name) for name in ("then", "else", "join"))
    b.cbranch(condition, taken, other)
    arrived = []
    for block, branch in ((taken, then), (other, otherwise)):
        b.position_at_end(block)
        values = branch()
        arrived.append((values, b.block))
        b.branch(join)
    b.position_at_end(join)
    phis = [b.phi(value.type) for value in arrived[0][0]]
    for values, block in arrived:
        for phi, value in zip(phis, values, strict=True):
            phi.add_incoming(value, block)
    return phis


# ---- vectors


def splat(b: Builder, scalar: Value, count: int) -> Value:
    """A scalar in all lanes: of a constant a constant, of another number made once in a block, since each costs LLVM some 50 µs."""
    vector = vector_of(scalar.type, count)
    if isinstance(scalar, ir.Constant) and isinstance(scalar.constant, int | float):
        return constant(scalar.constant, vector)
    made: dict[tuple[Value, int], Value] = vars(b.block).setdefault("splats", {})  # instructions are only ever added at a block's end
    found = made.get((scalar, count))
    if found is None:
        first = b.insert_element(undefined(vector), scalar, I32(0))
        found = made[scalar, count] = b.shuffle_vector(first, undefined(vector), lanes_of(32, (0,) * count))
    return found


def like(b: Builder, scalar: Value, kind: ElementType) -> Value:
    """The scalar, or a vector of it where `kind` is a vector type."""
    return splat(b, scalar, kind.count) if isinstance(kind, ir.VectorType) else scalar


def shuffle(b: Builder, x: Value, y: Value, lanes: Sequence[int]) -> Value:
    return b.shuffle_vector(x, y, lanes_of(32, tuple(lanes)))


def lane_tree(b: Builder, vector: Value, combine: Callable[[Value, Value], Value]) -> Value:
    """Combines the lanes of a vector to a scalar: (l, l+8), (l, l+4), (l, l+2), (l, l+1) for 16 of them."""
    width = vector.type.count
    while width > 1:
        half = width // 2
        vector = combine(shuffle(b, vector, vector, range(half)), shuffle(b, vector, vector, range(half, width)))
        width = half
    return b.extract_element(vector, I32(0))


_FLOAT_INTRINSICS = frozenset({"fma", "sqrt", "fabs", "copysign", "roundeven", "floor", "ceil", "trunc"})


def intrinsic(b: Builder, name: str, *arguments: Value) -> Value:
    """Call a floating-point intrinsic overloaded on its first argument's type. Raises KeyError for one that may become a library call."""
    if name not in _FLOAT_INTRINSICS:
        raise KeyError(name)
    kind = arguments[0].type
    width = f"v{kind.count}" if isinstance(kind, ir.VectorType) else ""
    full = f"llvm.{name}.{width}{'f32' if scalar_of(kind) == F32 else 'f64'}"
    return b.call(declared(b, full, kind, [kind] * len(arguments)), arguments)


def declared(b: Builder, name: str, result: ElementType, arguments: Sequence[ElementType]) -> Any:
    """A function from outside of the module, such as one of LLVM's own."""
    known = b.module.globals.get(name)
    return known if known is not None else ir.Function(b.module, ir.FunctionType(result, list(arguments)), name)


def multiply_add(b: Builder, x: Value, y: Value, total: Value) -> Value:
    """A step of a contraction: fused for floats; integers wrap."""
    return intrinsic(b, "fma", x, y, total) if is_float(scalar_of(x.type)) else b.add(total, b.mul(x, y))


def lane_mask(b: Builder, valid: Size, count: int) -> Value | None:
    """The first `valid` of `count` lanes; a Python int gives a constant, None where it is all of them."""
    if isinstance(valid, int):
        return None if valid >= count else lanes_of(1, tuple(int(lane < valid) for lane in range(count)))
    return b.icmp_signed("<", iota(count), splat(b, valid, count))


def masked(b: Builder, mask: Value | None, value: Value, otherwise: Value) -> Value:
    """The value in the mask's lanes, the other one elsewhere."""
    return value if mask is None else b.select(mask, value, otherwise)


# ---- memory


def at(b: Builder, pointer: Value, index: Size, element: ElementType) -> Value:
    """The address of an element; 0 and negative indices are fine."""
    if isinstance(index, int) and index == 0:
        return pointer
    return b.gep(pointer, [size(index)], inbounds=True, source_etype=element)


def load(
    b: Builder, pointer: Value, element: ElementType, count: int | None = None, mask: Value | None = None, align: int | None = None
) -> Value:
    """A scalar (count None) or a vector of adjacent elements; lanes outside the mask are not read and give 0."""
    align = align or element_bytes(element)
    kind = element if count is None else vector_of(element, count)
    if mask is None:
        return b.load(pointer, align=align, typ=kind)
    name = f"llvm.masked.load.v{count}{_suffix(element)}.p0"
    fn = declared(b, name, kind, [PTR, I32, mask.type, kind])
    return b.call(fn, [pointer, I32(align), mask, constant(0, kind)])


def store(b: Builder, value: Value, pointer: Value, mask: Value | None = None, align: int | None = None) -> None:
    """A scalar, or a vector to adjacent elements; lanes outside the mask are not written."""
    element = scalar_of(value.type)
    align = align or element_bytes(element)
    if mask is None:
        b.store(value, pointer, align=align)
        return
    lane = _single_lane(mask)
    if lane is not None:  # of a masked one of a single known lane LLVM 22 writes 4 bytes where the value was cut to 2
        store(b, b.extract_element(value, I32(lane)), at(b, pointer, lane, element))
        return
    name = f"llvm.masked.store.v{value.type.count}{_suffix(element)}.p0"
    b.call(declared(b, name, VOID, [value.type, PTR, I32, mask.type]), [value, pointer, I32(align), mask])


def _single_lane(mask: Value) -> int | None:
    """The lane of a constant mask that has one."""
    lanes = mask.constant if isinstance(mask, ir.Constant) and isinstance(mask.constant, list) else []
    taken = [place for place, lane in enumerate(lanes) if lane.constant]
    return taken[0] if len(taken) == 1 else None


def prefetch(b: Builder, pointer: Value, *, to_write: bool = False) -> None:
    """Have the line at an address, which need not be valid, on its way to a near cache."""
    fn = declared(b, "llvm.prefetch.p0", VOID, [PTR, I32, I32, I32])
    b.call(fn, [pointer, I32(int(to_write)), I32(3 if to_write else 2), I32(1)])


def load_strided(b: Builder, pointer: Value, stride: Size, element: ElementType, count: int, valid: Size | None = None) -> Value:
    """A vector of elements `stride` apart. Of lanes from `valid` (at least 1) on nothing is read: they hold the first element."""
    vector = undefined(vector_of(element, count))
    for lane in range(count):
        place = size(stride) if lane == 1 else b.mul(size(stride), I64(lane)) if lane else I64(0)
        if lane and valid is not None:
            place = b.select(b.icmp_signed("<", I64(lane), size(valid)), place, I64(0))
        vector = b.insert_element(vector, load(b, at(b, pointer, place, element), element), I32(lane))
    return vector


def store_strided(b: Builder, value: Value, pointer: Value, stride: Size, mask: Value | None = None) -> None:
    """The lanes of a vector to elements `stride` apart; lanes outside the mask are not written."""
    element = value.type.element
    for lane in range(value.type.count):
        place = at(b, pointer, b.mul(size(stride), I64(lane)), element)
        one = b.extract_element(value, I32(lane))
        if mask is None:
            store(b, one, place)
        else:
            with b.if_then(b.extract_element(mask, I32(lane))):
                store(b, one, place)


def condition_of(b: Builder, stored: Value) -> Value:
    """I1 (or a vector of it) from bools as they lie in memory (I8)."""
    return b.icmp_signed("!=", stored, constant(0, stored.type))


def stored_condition(b: Builder, condition: Value) -> Value:
    """I8 (or a vector of it) holding 0 or 1."""
    kind = condition.type
    return b.zext(condition, vector_of(I8, kind.count) if isinstance(kind, ir.VectorType) else I8)


def _suffix(element: ElementType) -> str:
    return {F32: "f32", F64: "f64", I8: "i8", I16: "i16", I32: "i32", I64: "i64"}[element]
