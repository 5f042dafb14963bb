"""Builds one native function around emitted code and calls it with NumPy arrays; arrays that fault when touched outside."""

import ctypes
import mmap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from shapescript.compiler.codegen import emit, environment, jit, target
from shapescript.compiler.codegen.target import Target

Array = NDArray[Any]
C_TYPES = {
    emit.PTR: ctypes.c_void_p,
    emit.I64: ctypes.c_int64,
    emit.F64: ctypes.c_double,
    emit.F32: ctypes.c_float,
}
ELEMENTS = {np.dtype(np.float32): emit.F32, np.dtype(np.float64): emit.F64, np.dtype(np.int64): emit.I64}


def runnable_targets() -> list[Target]:
    """The levels that this machine runs: two widths of vectors where it has them."""
    host = target.host()
    found = [host]
    if host.is_x86:
        found.append(target.x86_64_v3())
        if host.lanes == 16:
            found.append(target.x86_64_v4())
    return found


TARGETS = runnable_targets()
WIDTHS = TARGETS[:2]  # one target for each width of vectors


def module_of(level: Target, kinds: Sequence[Any], body: Callable[[Any, Sequence[Any]], Any], result: Any = None) -> str:
    """IR of a module with `entry(arguments)` that runs what `body(builder, arguments)` emits and returns what it gives."""
    module = ir.Module()
    fn, builder = emit.function(module, "body", kinds, result or emit.VOID)
    value = body(builder, fn.args)
    if value is None:
        builder.ret_void()
    else:
        builder.ret(value)
    environment.emit_entry(module, level, "entry", fn)
    return str(module)


def native(level: Target, kinds: Sequence[Any], body: Callable[[Any, Sequence[Any]], Any], result: Any = None) -> Callable[..., Any]:
    """The compiled function; arrays are passed by address, numbers as their kind says."""
    code = jit.compile_module(module_of(level, kinds, body, result), level)
    call = code.function("entry", [C_TYPES[kind] for kind in kinds], C_TYPES[result] if result else None)
    return lambda *arguments: call(*(x.ctypes.data if isinstance(x, np.ndarray) else x for x in arguments))


def same_bytes(x: Array, y: Array) -> bool:
    """Equal shapes, element types and bits; NaN equals NaN."""
    if x.shape != y.shape or x.dtype != y.dtype:
        return False
    if x.dtype.kind != "f":
        return bool((x == y).all())
    word = {4: np.uint32, 8: np.uint64}[x.dtype.itemsize]
    bits = np.ascontiguousarray(x).view(word) == np.ascontiguousarray(y).view(word)
    return bool((bits | (np.isnan(x) & np.isnan(y))).all())


class Fenced:
    """Memory whose pages before and after can't be touched: an access outside it ends the process."""

    def __init__(self, size: int) -> None:
        page = mmap.PAGESIZE
        self.room = -(-max(size, 1) // page) * page
        self.map = mmap.mmap(-1, self.room + 2 * page)
        self.start = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        for address in (self.start, self.start + page + self.room):
            assert protect(address, page, 0) == 0
        self.bytes = np.frombuffer(self.map, np.uint8)[page : page + self.room]


def fenced(array: Array, at_end: bool) -> Array:
    """A copy with the same strides that ends (or begins) at memory that can't be touched."""
    low, high = np.lib.array_utils.byte_bounds(array)
    span = high - low if array.size else 0
    memory = Fenced(span)
    start = memory.room - span if at_end else 0
    copy = np.ndarray(array.shape, array.dtype, memory.bytes, start, array.strides)
    copy[...] = array
    return copy


# What other libraries leave behind: flush-to-zero (with denormals-are-zero), and rounding toward zero.
CONTROL_WORDS = [0x1F80, 0x9FC0, 0x7F80] if TARGETS[0].is_x86 else [0, 1 << 24, 3 << 22]
EXCEPTION_FLAGS = 0x3F if TARGETS[0].is_x86 else 0


def control_function(write: bool) -> Any:
    """Reads the control register to a number in memory, or sets it from there."""
    level, module = TARGETS[0], ir.Module()
    fn = ir.Function(module, ir.FunctionType(emit.VOID, [emit.PTR]), "control")
    b = ir.IRBuilder(fn.append_basic_block())
    if level.is_x86:
        name = f"llvm.x86.sse.{'ldmxcsr' if write else 'stmxcsr'}"
        b.call(ir.Function(module, ir.FunctionType(emit.VOID, [emit.PTR]), name), fn.args)
    elif write:
        b.call(ir.Function(module, ir.FunctionType(emit.VOID, [emit.I64]), "llvm.aarch64.set.fpcr"), [emit.load(b, fn.args[0], emit.I64)])
    else:
        emit.store(b, b.call(ir.Function(module, ir.FunctionType(emit.I64, []), "llvm.aarch64.get.fpcr"), []), fn.args[0])
    b.ret_void()
    return jit.compile_module(str(module), level).function("control", [ctypes.c_void_p])
