"""Speed of the native kernels alone: products beside NumPy's BLAS, column sums beside NumPy's, the optimiser's passes, dropout masks.

    OPENBLAS_NUM_THREADS=1 python bench/kernels.py [v3]

Prints the best of several runs, one thread each. The first five products are those of a step of the 64-128-10 classifier at batch 64.
"""

import ctypes
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from shapescript.compiler.codegen import emit, environment, gradient_norm, jit, optimiser, random, target
from shapescript.compiler.codegen.contraction import Contraction, emit_contraction, plan_contraction, scratch_bytes
from shapescript.compiler.codegen.emit import F32, F64, I64, PTR
from shapescript.compiler.codegen.reductions import Reduction
from shapescript.compiler.codegen.reductions_columns import Method, choose_method, column_lanes, reduce_columns
from shapescript.compiler.codegen.target import Target
from shapescript.compiler.numerics.optimisers import KINDS
from shapescript.compiler.numerics.philox import Domain

ROUNDS = 9
Array = NDArray[Any]


@dataclass(frozen=True)
class Case:
    """A product; the number named `run_time` is given at the call. right: rows (B[k, j]) or transposed (B[j, k])."""

    name: str
    m: int
    n: int
    k: int
    left: tuple[int, int]
    right: str
    row: int
    run_time: str


CASES = [
    Case("x W1'", 64, 128, 64, (64, 1), "transposed", 128, "m"),
    Case("h W2'", 64, 10, 128, (128, 1), "transposed", 10, "m"),
    Case("dz' h", 10, 128, 64, (1, 10), "rows", 128, "k"),
    Case("dz W2", 64, 128, 10, (10, 1), "rows", 128, "m"),
    Case("dh' x", 128, 64, 64, (1, 128), "rows", 64, "k"),
    Case("784-512 forward", 64, 512, 784, (784, 1), "transposed", 512, "m"),
    Case("784-512 dW", 512, 784, 64, (1, 512), "rows", 784, "k"),
    Case("1024-4096 forward", 256, 4096, 1024, (1024, 1), "transposed", 4096, "m"),
    Case("1024-4096 dW", 4096, 1024, 256, (1, 4096), "rows", 1024, "k"),
    Case("4096-1024 forward", 256, 1024, 4096, (4096, 1), "transposed", 1024, "m"),
    Case("one row", 1, 128, 64, (64, 1), "transposed", 128, "m"),
    Case("many steps", 32, 288, 50176, (1, 32), "rows", 288, "k"),
]


def repeated(level: Target, kinds: Sequence[Any], body: Callable[[Any, Sequence[Any]], None]) -> Callable[..., float]:
    """Seconds of one turn of what `body(builder, arguments)` emits; called with the arguments and a number of turns."""
    module = ir.Module()
    fn, b = emit.function(module, "turns", [I64, *kinds])

    def turn(_: Any, __: Any) -> None:
        body(b, fn.args[1:])

    emit.loop(b, 0, fn.args[0], 1, turn)
    b.ret_void()
    environment.emit_entry(module, level, "entry", fn)
    types = {PTR: ctypes.c_void_p, I64: ctypes.c_int64}
    call = jit.compile_module(str(module), level).function("entry", [ctypes.c_int64, *(types[kind] for kind in kinds)])

    def best(turns: int, *arguments: Any) -> float:
        plain = [x.ctypes.data if isinstance(x, np.ndarray) else x for x in arguments]
        call(1, *plain)
        return best_of(lambda: call(turns, *plain)) / turns

    return best


def best_of(call: Callable[[], Any]) -> float:
    """Least CPU seconds of a few calls: other processes on the machine disturb it less than they do the clock."""
    found = []
    for _ in range(ROUNDS):
        start = time.process_time()
        call()
        found.append(time.process_time() - start)
    return min(found)


def aligned(count: int) -> Array:
    raw = np.zeros(4 * count + 64, np.uint8)
    start = -raw.ctypes.data % 64
    values = raw[start : start + 4 * count].view(np.float32)
    values[:] = np.random.default_rng(1).random(count)
    return values


def product(level: Target, case: Case) -> None:
    transposed = case.right == "transposed"
    b_strides = (1, case.k) if transposed else (case.n, 1)
    static = Contraction(F32, case.m, case.n, case.k, *case.left, *b_strides, case.row)

    def body(b: Any, arguments: Any) -> None:
        shape = static.with_values({case.run_time: arguments[4]})
        emit_contraction(b, level, shape, *arguments[:4])

    shape = static.with_values({case.run_time: emit.constant(0, I64)})
    plan = plan_contraction(level, shape)
    a, right, c = aligned(case.m * case.k), aligned(case.k * case.n), aligned(case.m * case.row)
    size = scratch_bytes(level, static, plan=plan)
    assert isinstance(size, int)
    flops = 2 * case.m * case.n * case.k
    turns = max(1, int(1e8 / flops))
    ours = repeated(level, [PTR] * 4 + [I64], body)(turns, a, right, c, aligned(size // 4 + 16), getattr(static, case.run_time))
    left = a.reshape(case.m, case.k) if case.left[1] == 1 else a.reshape(case.k, case.m).T
    matrix, out = right.reshape((case.n, case.k) if transposed else (case.k, case.n)), np.empty((case.m, case.n), np.float32)
    blas = best_of(lambda: [np.matmul(left, matrix.T if transposed else matrix, out=out) for _ in range(turns)]) / turns
    tile = f"{plan.rows}x{plan.vectors} {plan.right.value}{', left packed' if plan.pack_left else ''}"
    print(f"{case.name:18} {tile:28} {ours * 1e6:10.2f} us {flops / ours / 1e9:6.1f} GFLOP/s   BLAS {flops / blas / 1e9:6.1f}", flush=True)


def column_sums(level: Target, rows: int, columns: int) -> None:
    values, out = aligned(rows * columns), aligned(columns)
    lanes, sums = column_lanes(level, [Reduction("sum", F32)]), {}
    for method in Method:

        def body(b: Any, arguments: Any, method: Method = method) -> None:
            def produce(b: Any, row: Any, column: Any, mask: Any) -> list[Any]:
                return [emit.load(b, emit.at(b, arguments[0], b.add(b.mul(row, I64(columns)), column), F32), F32, lanes, mask)]

            def finish(b: Any, found: Any, column: Any, mask: Any) -> None:
                emit.store(b, found[0], emit.at(b, arguments[1], column, F32), mask)

            reduce_columns(b, level, [Reduction("sum", F32)], arguments[2], columns, produce, finish, method=method)

        turns = max(1, int(1e7 / (rows * columns)))
        sums[method] = repeated(level, [PTR, PTR, I64], body)(turns, values, out, rows)
    matrix = values.reshape(rows, columns)
    theirs = best_of(lambda: matrix.sum(0))
    speeds = ", ".join(f"{method.value} {4e-9 * rows * columns / seconds:.0f}" for method, seconds in sums.items())
    chosen = choose_method(columns, rows).value
    print(f"column sums {rows}x{columns}: GB/s {speeds} (chosen: {chosen}), NumPy {4e-9 * rows * columns / theirs:.0f}")


def flat_passes(level: Target, count: int) -> None:
    parameters, adamw = [gradient_norm.Parameter(0, count)], KINDS["AdamW"]

    def norm(b: Any, arguments: Any) -> None:
        gradient, parts = arguments
        gradient_norm.emit_square_blocks(b, parameters, gradient, parts, 0, gradient_norm.block_total(parameters))
        emit.store(b, gradient_norm.emit_norm(b, parameters, parts), parts)

    def update(b: Any, arguments: Any) -> None:
        half = emit.constant(0.5, F64)
        given = optimiser.emit_given(b, adamw, [half] * len(adamw.constants), I64(10))
        numbers = optimiser.emit_numbers(b, adamw, given, F32, half)
        optimiser.emit_update(b, optimiser.Form(adamw, F32), arguments, [emit.constant(1.0, F32)], numbers, 0, count)

    def mask(b: Any, arguments: Any) -> None:
        random.emit_kept(b, random.stream(b, I64(1), Domain.DRAW, I64(2)), I64(1 << 30), 0, count // 64, arguments[0])

    turns, buffers = max(1, int(1e7 / count)), [aligned(count) for _ in range(4)]
    seconds = {
        "norm": repeated(level, [PTR] * 2, norm)(turns, buffers[0], aligned(gradient_norm.norm_scratch_bytes(parameters) // 4)),
        "AdamW": repeated(level, [PTR] * 4, update)(turns, *buffers),
        "dropout mask": repeated(level, [PTR], mask)(turns, buffers[0]),
    }
    print(f"{count} elements: " + ", ".join(f"{name} {value * 1e6:.2f} us" for name, value in seconds.items()))


def main() -> None:
    level = target.x86_64_v3() if "v3" in sys.argv[1:] else target.host()
    print(f"{level.name}: {level.cpu}, {level.lanes} lanes")
    for case in CASES:
        product(level, case)
    for rows, columns in ((64, 10), (64, 128), (64, 512), (256, 4096), (4096, 512), (20000, 32)):
        column_sums(level, rows, columns)
    for count in (8192, 9600, 406528):
        flat_passes(level, count)


if __name__ == "__main__":
    main()
