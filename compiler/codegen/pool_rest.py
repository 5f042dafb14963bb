"""When callers of the pool keep to themselves.

A job that took more than twice as long as its caller had needed alone, since another process has a worker's core, makes all callers of
this process keep to themselves for RESTED times what was lost, LONGEST_REST at most; then it's tried again. Such a core comes and goes in
spells of many jobs. It never changes a bit.
"""

from __future__ import annotations

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.emit import I64, Builder, Value, at
from shapescript.compiler.codegen.machine import clock
from shapescript.compiler.codegen.pool_block import Place
from shapescript.compiler.codegen.target import Target

RESTED = 8
LONGEST_REST = 1000  # times SPIN: some 0.2 s


def look_back(b: Builder, target: Target, block: Value, shares: Value, own: Value, begun: Value, done: Value) -> None:
    """At a job's end: rest, where this thread had done all shares, at the speed of its own, in less than half the time. `begun` and `done`
    are the clock's readings when the workers had been called, and when no share was left to claim."""
    ended, spin = clock(b, target), _spin(b, block)
    alone = b.udiv(b.mul(b.sub(done, begun), shares), emit.size(extents.most(b, own, 1)))
    lost = b.sub(b.sub(ended, begun), alone)
    is_worse = b.icmp_signed(">", lost, emit.size(extents.most(b, alone, spin)))
    with b.if_then(b.and_(is_worse, b.icmp_signed(">", own, I64(0))), likely=False):
        rest = emit.size(extents.least(b, b.mul(lost, I64(RESTED)), _longest_rest(b, spin)))
        b.atomic_rmw("xchg", at(b, block, int(Place.REST), I64), b.add(ended, rest), "monotonic")


def end_rest(b: Builder, block: Value) -> None:
    """At a job's start: none is left of it."""
    with b.if_then(b.icmp_signed("!=", _until(b, block), I64(0)), likely=False):
        b.atomic_rmw("xchg", at(b, block, int(Place.REST), I64), I64(0), "monotonic")


def is_resting(b: Builder, target: Target, block: Value) -> Value:
    """Whether callers keep to themselves for now (I1). A clock that goes back doesn't make that longer."""
    until = _until(b, block)

    def look() -> list[Value]:
        left = b.sub(until, clock(b, target))
        return [b.and_(b.icmp_signed(">", left, I64(0)), b.icmp_signed("<=", left, _longest_rest(b, _spin(b, block))))]

    return emit.choose(b, b.icmp_signed("!=", until, I64(0)), look, lambda: [emit.I1(0)])[0]


def _until(b: Builder, block: Value) -> Value:
    return b.load_atomic(at(b, block, int(Place.REST), I64), "monotonic", 8, typ=I64)


def _spin(b: Builder, block: Value) -> Value:
    return b.load(at(b, block, int(Place.SPIN), I64), align=8, typ=I64)


def _longest_rest(b: Builder, spin: Value) -> Value:
    return b.mul(spin, I64(LONGEST_REST))
