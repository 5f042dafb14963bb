"""What it costs to share work out to threads: `python -m bench.fork_join [THREADS]`."""

from __future__ import annotations

import ctypes
import statistics
import sys
import time
from dataclasses import dataclass
from functools import cache

from llvmlite import ir

from shapescript.compiler.codegen import emit, jit
from shapescript.compiler.codegen.emit import I64, PTR, VOID, at
from shapescript.compiler.codegen.machine import FunctionAt
from shapescript.compiler.codegen.pool import SHARE
from shapescript.compiler.codegen.pool_block import Place
from shapescript.compiler.codegen.target import host
from shapescript.compiler.codegen.workers import Pool

FORKS_A_ROUND, ROUNDS, SLEEPS = 2000, 15, 15


@dataclass(frozen=True)
class Latency:
    """Medians in microseconds: a fork and join of jobs that do nothing, one after another, and of one while the workers sleep."""

    awake: float
    asleep: float


@cache
def measure(threads: int = 2) -> Latency:
    """Of a pool of so many threads, which is made for it; measured once."""
    pool = Pool(host())
    pool.ensure(threads)
    code = jit.compile_module(str(_module(threads)), host())
    fork = code.function("forks", [ctypes.c_void_p, ctypes.c_int64])

    def microseconds(count: int) -> float:
        begun = time.perf_counter()
        fork(pool.address, count)
        return (time.perf_counter() - begun) / count * 1e6

    awake = statistics.median(microseconds(FORKS_A_ROUND) for _ in range(ROUNDS))
    sleeping = []
    for _ in range(SLEEPS):
        time.sleep(0.01)
        sleeping.append(microseconds(1))
    pool.stop()
    return Latency(awake, statistics.median(sleeping))


def _module(threads: int) -> ir.Module:
    """forks(pool, count): so many jobs of a share for each thread, one after another, without Python in between."""
    module = ir.Module("forks")
    job, b = emit.function(module, "job", list(SHARE[1]))
    b.ret_void()
    b = ir.IRBuilder(ir.Function(module, ir.FunctionType(VOID, [PTR, I64]), "forks").append_basic_block("entry"))
    pool, count = b.function.args
    fork = FunctionAt(b.load(at(b, pool, int(Place.FORK), I64), align=8, typ=PTR), VOID, [PTR, PTR, PTR, I64])
    address = b.bitcast(job, PTR)
    emit.loop(b, 0, count, 1, lambda _i, _: b.call(fork, [pool, address, pool, I64(threads)]) and None)
    b.ret_void()
    return module


if __name__ == "__main__":
    found = measure(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
    print(f"fork and join: {found.awake:.2f} µs; from sleep {found.asleep:.1f} µs")
