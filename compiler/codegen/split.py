"""Kernels shared out to threads: a kernel does units low to high of an outer range, of which each is independent of the others.

    shares = shares_of(low, units, work)                  # how many parts; 1, known at once, where the work can't be worth a thread
    split(low, "name", key, arguments, units, shares, body)

`body(builder, arguments, part)` emits the kernel. `split_elements` does both for elements side by side. How a range is cut changes no
bits: what one unit computes never depends on the others.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from llvmlite import ir

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.context import Word, load_address, load_word
from shapescript.compiler.codegen.emit import I64, PTR, Builder, Size, Value, at
from shapescript.compiler.codegen.lowering import HOST_FAILED, START_WORKERS, Lowering, ask
from shapescript.compiler.codegen.machine import FunctionAt
from shapescript.compiler.codegen.pool import SHARE, give_back, take
from shapescript.compiler.codegen.pool_block import Place
from shapescript.compiler.codegen.pool_rest import is_resting
from shapescript.compiler.codegen.target import Target
from shapescript.compiler.codegen.thread_count import GRAIN
from shapescript.compiler.records.dataclass import dataclass

NOT_ANSWERED = -1
PICOSECONDS_A_BYTE = 50  # of memory that a core reads or writes
STRETCH = 4096  # elements of a unit, where they lie side by side: a multiple of 64 bytes, and of a run of random numbers


@dataclass(frozen=True)
class Part:
    """Units low to high are one share's; `share` is its number, for scratch of its own."""

    low: Size
    high: Size
    share: Size


Body = Callable[[Builder, Sequence[Value], Part], None]
Elements = Callable[[Builder, Sequence[Value], Size, Size], None]


def shares_of(low: Lowering, units: Size, work: Size) -> Size:
    """How many shares to make of so many units, which take one core some `work` picoseconds; may start the workers."""
    if units == 1 or (isinstance(work, int) and work < 2 * GRAIN):
        return 1
    fn = _shares(low.module, low.target)
    found = low.b.call(fn, [low.context, emit.size(units), emit.size(work)])
    with low.b.if_then(low.b.icmp_signed("<", found, I64(0)), likely=False):
        low.leave(HOST_FAILED)
    if low.probes:
        low.probes.shared(found)
    return found


def _shares(module: Any, target: Target) -> Any:
    known = module.globals.get("shares")
    if known is not None:
        return known
    fn, b = emit.function(module, "shares", [PTR, I64, I64], I64)
    context, units, work = fn.args
    threads = load_word(b, context, Word.THREADS)
    with b.if_then(b.icmp_signed("<=", emit.size(extents.least(b, threads, units)), I64(1))):
        b.ret(I64(1))
    grain = load_word(b, context, Word.GRAIN)
    worth = b.udiv(work, grain)
    with b.if_then(b.icmp_unsigned("<=", worth, I64(1))):
        b.ret(I64(1))
    with b.if_then(b.icmp_signed("==", load_word(b, context, Word.POOL), I64(0)), likely=False):
        answered = ask(b, target, context, I64(START_WORKERS))
        with b.if_then(b.not_(answered)):
            b.ret(I64(NOT_ANSWERED))
        with b.if_then(b.icmp_signed("==", load_word(b, context, Word.POOL), I64(0))):
            b.ret(I64(1))
    is_always = b.icmp_signed("==", grain, I64(1))  # as tests want it
    rests = b.and_(b.not_(is_always), is_resting(b, target, load_address(b, context, Word.POOL)))
    with b.if_then(rests, likely=False):
        b.ret(I64(1))
    b.ret(emit.size(extents.least(b, extents.least(b, load_word(b, context, Word.THREADS), units), worth)))
    return fn


def split(low: Lowering, name: str, key: Hashable, arguments: Sequence[Value], units: Size, shares: Size, body: Body) -> None:
    """Have a kernel do all its units, in so many shares. Kernels with equal names, keys and types of arguments are one."""
    if shares == 1:
        if isinstance(units, int):
            low.shared(name, (key, units), arguments, lambda b, given: body(b, given, Part(0, units, 0)))
        else:
            low.shared(name, (key, None), [*arguments, units], lambda b, given: body(b, given[:-1], Part(0, given[-1], 0)))
        return

    def dispatch(b: Builder, given: Sequence[Value]) -> None:
        context, shares, units, *rest = given
        kernel, part = _kernel(b.module, name, [value.type for value in rest], body)
        _fork_or_call(b, context, shares, units, rest, kernel, part)

    low.shared(f"{name}.split", key, [low.context, emit.size(shares), emit.size(units), *arguments], dispatch)


def split_elements(
    low: Lowering, name: str, key: Hashable, arguments: Sequence[Value], count: Size, picoseconds: int, body: Elements
) -> None:
    """Have a kernel do so many elements, each of which takes one core some picoseconds: `body(builder, arguments, start, end)` does those
    of one share, which start at a multiple of STRETCH."""
    units = extents.ceil_quotient(low.b, count, STRETCH)

    def stretches(b: Builder, given: Sequence[Value], part: Part) -> None:
        *own, all_ = given
        start, end = (extents.times(b, unit, STRETCH) for unit in (part.low, part.high))
        body(b, own, start, extents.least(b, end, all_))

    shares = shares_of(low, units, extents.times(low.b, count, picoseconds))
    split(low, name, key, [*arguments, emit.size(count)], units, shares, stretches)


def _kernel(module: Any, name: str, types: Sequence[Any], body: Body) -> tuple[Any, Any]:
    """The kernel, and the job that does one share of it with what lies in its context: shares, units, then the arguments."""
    kernel, b = emit.function(module, name, [*types, I64, I64, I64])
    body(b, kernel.args[: len(types)], Part(*kernel.args[len(types) :]))
    b.ret_void()
    part, b = emit.function(module, f"{name}.part", list(SHARE[1]))
    context, share = part.args
    shares, units = (b.load(at(b, context, place, I64), align=8, typ=I64) for place in range(2))
    arguments = [b.load(at(b, context, 2 + place, I64), align=8, typ=kind) for place, kind in enumerate(types)]
    start, end = (b.udiv(b.mul(units, number), shares) for number in (share, b.add(share, I64(1))))
    b.call(kernel, [*arguments, start, end, share])
    b.ret_void()
    return kernel, part


def _fork_or_call(b: Builder, context: Value, shares: Value, units: Value, arguments: Sequence[Value], kernel: Any, part: Any) -> None:
    """By the pool, where there is more than one share and no other call has it."""
    alone = b.append_basic_block("alone")
    several, taken = b.append_basic_block("several"), b.append_basic_block("taken")
    b.cbranch(b.icmp_signed(">", shares, I64(1)), several, alone)
    b.position_at_end(several)
    pool = load_address(b, context, Word.POOL)
    b.cbranch(take(b, pool), taken, alone)

    b.position_at_end(taken)
    job = emit.stack(b, I64, 2 + len(arguments))
    for place, value in enumerate((shares, units, *arguments)):
        b.store(value, at(b, job, place, I64), align=8)
    fork = FunctionAt(b.load(at(b, pool, int(Place.FORK), I64), align=8, typ=PTR), ir.VoidType(), [PTR, PTR, PTR, I64])
    b.call(fork, [pool, _address_of(b, part), job, shares])
    give_back(b, pool)
    b.ret_void()

    b.position_at_end(alone)
    b.call(kernel, [*arguments, I64(0), units, I64(0)])


def _address_of(b: Builder, fn: Any) -> Value:
    """A function as a pointer: llvmlite gives it a type of its own."""
    return b.bitcast(fn, PTR)
