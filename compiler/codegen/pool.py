"""The fork/join pool in native code: workers that wait for a job, and the call that shares a job out to them and itself.

A job is a function of a context and a share's number, and how many shares there are. Whoever is free claims a share: worker w, and the
caller as number 0, begin with share w, so what a share works on stays in its core's caches, and go on with what nobody has claimed yet.
So a job never waits for a worker that sleeps, that hasn't started, or that a fork of the process has lost: the caller does its share.

Claims are the jobs' numbers, which only grow, and a worker reads a job between two looks at EPOCH: so one that comes late finds nothing
left to claim, and never takes the share of one job for that of another.

A worker that has found nothing for SPIN ticks of the clock sleeps: on its ticket where the system has futexes (Linux), else on a pipe of
its own. What this needs of the C library (syscall, read, write, sched_yield) are addresses in the block: the object needs no symbol.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from shapescript.compiler.codegen import emit, environment
from shapescript.compiler.codegen.emit import I32, I64, PTR, VOID, Builder, Value, at
from shapescript.compiler.codegen.machine import FunctionAt, clock, pause
from shapescript.compiler.codegen.pool_block import LINE, WORKER_LINES, Place, Worker
from shapescript.compiler.codegen.pool_rest import end_rest, look_back
from shapescript.compiler.codegen.target import Target

FUTEX_WAIT, FUTEX_WAKE = 128, 129  # of this process alone: with FUTEX_PRIVATE_FLAG
DRAINED = 4096  # bytes that a worker takes from its pipe at once: more than one may have called it
WORKER, FORK, TAKE = "shapescript_worker", "shapescript_fork", "shapescript_take"
CLOCK, NOTHING = "shapescript_clock", "shapescript_nothing"


def pool_module(target: Target) -> ir.Module:
    """The module of WORKER(block, number), which returns when STOP is set; FORK(block, function, context, shares); TAKE(block), which gives
    1 where the caller has the pool now; CLOCK(), the clock that workers read; and NOTHING(context, share), a job."""
    module = ir.Module("pool")
    code = _Pool(module, target)
    code.emit_worker()
    code.emit_fork()
    b = ir.IRBuilder(ir.Function(module, ir.FunctionType(I64, [PTR]), TAKE).append_basic_block("entry"))
    b.ret(b.zext(take(b, b.function.args[0]), I64))
    b = ir.IRBuilder(ir.Function(module, ir.FunctionType(I64, []), CLOCK).append_basic_block("entry"))
    b.ret(clock(b, target))
    ir.IRBuilder(ir.Function(module, ir.FunctionType(*SHARE), NOTHING).append_basic_block("entry")).ret_void()
    return module


def take(b: Builder, block: Value) -> Value:
    """Whether the pool was free and is the caller's now (I1)."""
    return b.extract_value(b.cmpxchg(at(b, block, int(Place.TAKEN), I64), I64(0), I64(1), "acquire", "monotonic"), 1)


def give_back(b: Builder, block: Value) -> None:
    b.atomic_rmw("xchg", at(b, block, int(Place.TAKEN), I64), I64(0), "seq_cst")


SHARE = (VOID, (PTR, I64))  # the type of a job's function: its context and a share's number


class _Pool:
    def __init__(self, module: ir.Module, target: Target) -> None:
        self.module, self.target = module, target
        self.claim = self._claim()

    # ---- words

    def load(self, b: Builder, pointer: Value, order: str = "seq_cst", kind: Any = I64) -> Value:
        return b.load_atomic(pointer, order, 8, typ=kind)

    def store(self, b: Builder, value: Value, pointer: Value) -> None:
        """By an exchange, which is what such a store is on x86-64; llvmlite's own knows only typed pointers."""
        b.atomic_rmw("xchg", pointer, b.ptrtoint(value, I64) if value.type == PTR else value, "seq_cst")

    def word(self, b: Builder, block: Value, place: int) -> Value:
        return at(b, block, int(place), I64)

    def worker(self, b: Builder, block: Value, number: Value, place: Worker) -> Value:
        return at(b, block, b.add(b.mul(number, I64(WORKER_LINES * LINE)), I64(Place.WORKERS + place)), I64)

    def address(self, b: Builder, block: Value, place: Place) -> Value:
        return b.load(self.word(b, block, place), align=8, typ=PTR)

    def number(self, b: Builder, block: Value, place: Place) -> Value:
        return b.load(self.word(b, block, place), align=8, typ=I64)

    # ---- shares

    def _claim(self) -> Any:
        """Do the shares of a job that nobody has claimed, from one's own on; how many they were."""
        fn, b = emit.function(self.module, "claim", [PTR, I64, I64, PTR, PTR, I64], I64)
        block, me, epoch, function, context, shares = fn.args
        done = emit.stack(b, I64, 1)
        b.store(I64(0), done, align=8)

        def turn(i: Value, _: Sequence[Value]) -> None:
            wrapped = b.add(me, i)
            share = b.select(b.icmp_signed("<", wrapped, shares), wrapped, b.sub(wrapped, shares))
            cell = self.worker(b, block, share, Worker.CLAIMED)
            before = self.load(b, cell, "monotonic")
            with b.if_then(b.icmp_signed("<", before, epoch)):
                tried = b.cmpxchg(cell, before, epoch, "seq_cst", "monotonic")
                with b.if_then(b.extract_value(tried, 1)):
                    b.call(FunctionAt(function, *SHARE), [context, share])
                    b.atomic_rmw("add", self.word(b, block, Place.FINISHED), I64(1), "seq_cst")
                    b.store(b.add(b.load(done, align=8, typ=I64), I64(1)), done, align=8)

        emit.loop(b, 0, shares, 1, turn)
        b.ret(b.load(done, align=8, typ=I64))
        return fn

    # ---- the worker

    def emit_worker(self) -> None:
        fn = ir.Function(self.module, ir.FunctionType(VOID, [PTR, I64]), WORKER)
        fn.attributes.add("nounwind")
        b = ir.IRBuilder(fn.append_basic_block("entry"))
        block, me = fn.args
        environment.enter(b, self.target)  # the thread's own: nobody else changes it
        ticket, seen = self.worker(b, block, me, Worker.TICKET), emit.stack(b, I64, 1)
        b.store(I64(0), seen, align=8)
        wait, look, idle, found, out = (b.append_basic_block(name) for name in ("wait", "look", "idle", "found", "out"))
        b.branch(wait)
        b.position_at_end(wait)
        begun, last = clock(b, self.target), b.load(seen, align=8, typ=I64)
        b.branch(look)

        b.position_at_end(look)
        now = self.load(b, ticket, "acquire")
        b.cbranch(b.icmp_signed("!=", now, last), found, idle)

        b.position_at_end(idle)
        pause(b, self.target)
        elapsed = b.sub(clock(b, self.target), begun)
        sleepy = b.icmp_unsigned(">", elapsed, self.number(b, block, Place.SPIN))
        sleep = b.append_basic_block("sleep")
        b.cbranch(sleepy, sleep, look)
        b.position_at_end(sleep)
        b.call(self._sleep(), [block, me, last])
        b.branch(wait)

        b.position_at_end(found)
        stop = self.load(b, self.word(b, block, Place.STOP))
        b.store(now, seen, align=8)
        go = b.append_basic_block("go")
        b.cbranch(b.icmp_signed("!=", stop, I64(0)), out, go)
        b.position_at_end(go)
        self._join_in(b, block, me)
        b.branch(wait)
        b.position_at_end(out)
        b.ret_void()

    def _join_in(self, b: Builder, block: Value, me: Value) -> None:
        """Help with the job that there is, if it is whole and for so many."""
        epoch = self.load(b, self.word(b, block, Place.EPOCH), "acquire")
        function = self.load(b, self.word(b, block, Place.FUNCTION), "acquire", PTR)
        context = self.load(b, self.word(b, block, Place.CONTEXT), "acquire", PTR)
        shares = self.load(b, self.word(b, block, Place.SHARES), "acquire")
        again = self.load(b, self.word(b, block, Place.EPOCH), "acquire")
        is_whole = b.and_(b.icmp_signed("==", epoch, again), b.icmp_signed("==", b.and_(epoch, I64(1)), I64(0)))
        with b.if_then(b.and_(is_whole, b.icmp_signed("<", me, shares))):
            b.call(self.claim, [block, me, epoch, function, context, shares])

    def _sleep(self) -> Any:
        """Until the ticket isn't `last`, or for no reason."""
        fn, b = emit.function(self.module, "sleep", [PTR, I64, I64])
        block, me, last = fn.args
        ticket, asleep = (self.worker(b, block, me, place) for place in (Worker.TICKET, Worker.ASLEEP))
        self.store(b, I64(1), asleep)  # before the ticket is looked at: who writes one looks here after
        with b.if_then(b.icmp_signed("==", self.load(b, ticket), last)):
            futex = self.number(b, block, Place.FUTEX)
            with b.if_else(b.icmp_signed("!=", futex, I64(0))) as (there, elsewhere):
                with there:
                    self._system(b, block, [futex, ticket, I64(FUTEX_WAIT), b.and_(last, I64(0xFFFFFFFF)), ir.Constant(PTR, None)])
                with elsewhere:
                    read = FunctionAt(self.address(b, block, Place.READ), I64, [I64, PTR, I64])
                    end = self.load(b, self.worker(b, block, me, Worker.READ_END))
                    b.call(read, [end, emit.stack(b, I64, DRAINED // 8), I64(DRAINED)])
        self.store(b, I64(0), asleep)
        b.ret_void()
        return fn

    def _system(self, b: Builder, block: Value, arguments: Sequence[Value]) -> None:
        call = FunctionAt(self.address(b, block, Place.SYSCALL), I64, [I64], var_arg=True)
        b.call(call, [*arguments, ir.Constant(PTR, None), I64(0)])

    # ---- the caller

    def emit_fork(self) -> None:
        """Do all shares of a job, with those who come. The caller has the pool: it has set TAKEN, and clears it after."""
        fn = ir.Function(self.module, ir.FunctionType(VOID, [PTR, PTR, PTR, I64]), FORK)
        fn.attributes.add("nounwind")
        b = ir.IRBuilder(fn.append_basic_block("entry"))
        block, function, context, shares = fn.args
        place = self.word(b, block, Place.EPOCH)
        epoch = b.add(b.atomic_rmw("add", place, I64(1), "seq_cst"), I64(2))
        self.store(b, I64(0), self.word(b, block, Place.FINISHED))
        for value, where in ((function, Place.FUNCTION), (context, Place.CONTEXT), (shares, Place.SHARES)):
            self.store(b, value, self.word(b, block, where))
        self.store(b, epoch, place)
        end_rest(b, block)

        def call(number: Value, _: Sequence[Value]) -> None:
            self.store(b, epoch, self.worker(b, block, number, Worker.TICKET))
            with b.if_then(b.icmp_signed("!=", self.load(b, self.worker(b, block, number, Worker.ASLEEP)), I64(0)), likely=False):
                b.call(self._wake(), [block, number])

        emit.loop(b, 1, shares, 1, call)
        begun = clock(b, self.target)
        own = b.call(self.claim, [block, I64(0), epoch, function, context, shares])
        done = clock(b, self.target)
        self._join(b, block, shares, done)
        look_back(b, self.target, block, shares, own, begun, done)
        b.ret_void()

    def _wake(self) -> Any:
        known = self.module.globals.get("wake")
        if known is not None:
            return known
        fn, b = emit.function(self.module, "wake", [PTR, I64])
        block, number = fn.args
        futex = self.number(b, block, Place.FUTEX)
        with b.if_else(b.icmp_signed("!=", futex, I64(0))) as (there, elsewhere):
            with there:
                ticket = self.worker(b, block, number, Worker.TICKET)
                self._system(b, block, [futex, ticket, I64(FUTEX_WAKE), I64(1), ir.Constant(PTR, None)])
            with elsewhere:
                write = FunctionAt(self.address(b, block, Place.WRITE), I64, [I64, PTR, I64])
                byte = emit.stack(b, I64, 1)
                b.store(I64(0), byte, align=8)
                b.call(write, [self.load(b, self.worker(b, block, number, Worker.WRITE_END)), byte, I64(1)])
        b.ret_void()
        return fn

    def _join(self, b: Builder, block: Value, shares: Value, begun: Value) -> None:
        """Wait for the shares that others have claimed; when that takes long, others may have the core."""
        finished = self.word(b, block, Place.FINISHED)
        look, idle, over = (b.append_basic_block(name) for name in ("look", "idle", "over"))
        b.branch(look)
        b.position_at_end(look)
        b.cbranch(b.icmp_signed("==", self.load(b, finished), shares), over, idle)
        b.position_at_end(idle)
        pause(b, self.target)
        elapsed = b.sub(clock(b, self.target), begun)
        with b.if_then(b.icmp_unsigned(">", elapsed, self.number(b, block, Place.SPIN)), likely=False):
            b.call(FunctionAt(self.address(b, block, Place.YIELD), I32, []), [])
        b.branch(look)
        b.position_at_end(over)
