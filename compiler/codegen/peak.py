"""What one core of this machine can do, measured by small kernels in a tenth of a second; and its clock.

The product: chains of fused multiply-adds in registers, as many as hide their latency. Memory: a triad, x = y + s z, over tensors of 16 MiB
each, every one read or written once. Cached tensors are faster than that.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir

from shapescript.compiler.codegen import emit, environment, jit, machine
from shapescript.compiler.codegen.emit import F32, F64, I64, LANES, PTR, VOID, Builder, ElementType, Value, at
from shapescript.compiler.codegen.loading import NativeCode
from shapescript.compiler.codegen.target import Target, host
from shapescript.compiler.records.dataclass import dataclass

CHAIN_TURNS = 100_000
CHAIN_TRIES = 20
TRIAD_ELEMENTS = 1 << 22
TRIAD_TRIES = 3
REGISTERS_LEFT = 4  # to the factor, and to what else a turn needs


@dataclass(frozen=True)
class Peak:
    """Operations and bytes a second of one core. `flops` in f32, `flops_f64` in f64."""

    flops: float
    flops_f64: float
    bytes: float


@cache
def measured_peak() -> Peak:
    code = _compiled()
    arguments = [ctypes.c_void_p, ctypes.c_int64]
    scratch = np.zeros(64, np.float64)

    def flops(name: str, element: ElementType) -> float:
        chain = code.function(name, arguments)
        seconds = _best(CHAIN_TRIES, lambda: chain(scratch.ctypes.data, CHAIN_TURNS))
        return 2 * CHAIN_TURNS * _chains(host()) * _lanes(host(), element) / seconds

    triad = code.function("triad", [ctypes.c_void_p] * 3 + [ctypes.c_int64])
    tensors = [np.ones(TRIAD_ELEMENTS, np.float32) for _ in range(3)]
    seconds = _best(TRIAD_TRIES, lambda: triad(*(tensor.ctypes.data for tensor in tensors), TRIAD_ELEMENTS))
    return Peak(flops("chain_f32", F32), flops("chain_f64", F64), sum(tensor.nbytes for tensor in tensors) / seconds)


def clock() -> int:
    """The reading of the clock that measured functions read."""
    ticks: int = _clock()()
    return ticks


@cache
def _clock() -> Any:
    return _compiled().function("ticks", [], ctypes.c_int64)


def _best(tries: int, act: Callable[[], object]) -> float:
    found = []
    for _ in range(tries):
        before = time.perf_counter_ns()
        act()
        found.append(time.perf_counter_ns() - before)
    return max(min(found), 1) / 1e9


# ---- the kernels


@cache
def _compiled() -> NativeCode:
    target, module = host(), ir.Module("peak")
    kernels: tuple[tuple[str, Sequence[ElementType], ElementType, Callable[[Builder, Sequence[Value]], Value | None]], ...] = (
        ("ticks", [], I64, lambda b, _: machine.clock(b, target)),
        ("chain_f32", [PTR, I64], VOID, lambda b, given: _emit_chains(b, target, F32, *given)),
        ("chain_f64", [PTR, I64], VOID, lambda b, given: _emit_chains(b, target, F64, *given)),
        ("triad", [PTR, PTR, PTR, I64], VOID, lambda b, given: _emit_triad(b, *given)),
    )
    for name, arguments, result, body in kernels:
        fn, b = emit.function(module, f"{name}.body", arguments, result)
        value = body(b, fn.args)
        if value is None:
            b.ret_void()
        else:
            b.ret(value)
        environment.emit_entry(module, target, name, fn)
    return jit.compile_module(str(module), target)


def _chains(target: Target) -> int:
    return target.registers - REGISTERS_LEFT


def _lanes(target: Target, element: ElementType) -> int:
    return target.vector_bytes // emit.element_bytes(element)


def _emit_chains(b: Builder, target: Target, element: ElementType, scratch: Value, turns: Value) -> None:
    """x = x y + y for as many independent x as registers hold; what they end as is stored, so that they are computed."""
    kind = emit.vector_of(element, _lanes(target, element))
    factor = emit.load(b, scratch, element, kind.count)

    def turn(_: Value, sums: Sequence[Value]) -> list[Value]:
        return [emit.intrinsic(b, "fma", one, factor, factor) for one in sums]

    sums = emit.loop(b, 0, turns, 1, turn, [emit.constant(place + 1, kind) for place in range(_chains(target))])
    total = sums[0]
    for one in sums[1:]:
        total = b.fadd(total, one)
    emit.store(b, total, scratch)


def _emit_triad(b: Builder, x: Value, y: Value, z: Value, count: Value) -> None:
    factor = emit.constant(3.0, emit.vector_of(F32, LANES))

    def turn(i: Value, _: Sequence[Value]) -> None:
        left, right = (emit.load(b, at(b, tensor, i, F32), F32, LANES) for tensor in (y, z))
        emit.store(b, emit.intrinsic(b, "fma", right, factor, left), at(b, x, i, F32))

    emit.loop(b, 0, count, LANES, turn)
