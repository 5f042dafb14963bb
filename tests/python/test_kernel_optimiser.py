"""The native gradient norm and AdamW update against their definitions in NumPy, byte for byte."""

import math
from typing import Any

import numpy as np
import pytest
from kernel_harness import WIDTHS, Array, native, same_bytes
from test_kernel_reductions import total

from shapescript.compiler.codegen import gradient_norm, optimiser
from shapescript.compiler.codegen.emit import F32, F64, I64, PTR, constant
from shapescript.compiler.codegen.gradient_norm import Parameter
from shapescript.compiler.codegen.target import Target
from shapescript.compiler.numerics.elementary import power_of_step
from shapescript.compiler.numerics.optimisers import KINDS

each_target = pytest.mark.parametrize("level", WIDTHS, ids=lambda level: level.name)
ADAMW = KINDS["AdamW"]
COUNTS = [5, 4096, 16, 20000, 0, 4097, 1]


def aligned(count: int, dtype: Any = np.float32) -> Array:
    raw = np.zeros(count * np.dtype(dtype).itemsize + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + count * np.dtype(dtype).itemsize].view(dtype)


def flat(counts: list[int]) -> tuple[list[Parameter], Array]:
    parameters, end = [], 0
    for count in counts:
        parameters.append(Parameter(4 * end, count))
        end += -(-count // 16) * 16
    values, rng = aligned(end), np.random.default_rng(4)
    for parameter in parameters:
        start = parameter.offset // 4
        values[start : start + parameter.count] = rng.standard_normal(parameter.count) * 2.0 ** rng.integers(-30, 30)
    return parameters, values


def part(values: Array, parameter: Parameter) -> Array:
    return values[parameter.offset // 4 : parameter.offset // 4 + parameter.count]


def norm_by_definition(parameters: list[Parameter], values: Array) -> float:
    sums = [total(part(values, parameter).astype(np.float64) ** 2) for parameter in parameters]
    while len(sums) > 1:
        sums = [sums[i] + sums[i + 1] if i + 1 < len(sums) else sums[i] for i in range(0, len(sums), 2)]
    return float(np.sqrt(sums[0]))


@each_target
@pytest.mark.parametrize("workers", [1, 3])
def test_norm(level: Target, workers: int) -> None:
    for counts in (COUNTS, [7], [0], [4096 * 9 + 3, 2]):
        parameters, values = flat(counts)
        blocks = gradient_norm.block_total(parameters)

        def body(b: Any, arguments: Any, parameters: list[Parameter] = parameters, blocks: int = blocks) -> Any:
            for w in range(workers):
                low, high = (blocks * part // workers for part in (w, w + 1))
                gradient_norm.emit_square_blocks(b, parameters, arguments[0], arguments[1], low, high)
            return gradient_norm.emit_norm(b, parameters, arguments[1])

        scratch = np.full(gradient_norm.norm_scratch_bytes(parameters) // 8 + 1, 77.0)
        found = native(level, [PTR, PTR], body, F64)(values, scratch)
        assert found == norm_by_definition(parameters, values) and scratch[-1] == 77.0, counts


@each_target
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_all_finite(level: Target, dtype: Any) -> None:
    element = F32 if dtype == np.float32 else F64

    def body(b: Any, arguments: Any) -> Any:
        return b.zext(gradient_norm.emit_all_finite(b, arguments[0], element, arguments[1]), I64)

    call = native(level, [PTR, I64], body, I64)
    for count in (0, 1, 16, 37):
        values = np.full(count, np.finfo(dtype).max, dtype)
        assert call(values, count) == 1
        for place in range(0, count, 7):
            for bad in (np.nan, np.inf, -np.inf):
                values[place], kept = bad, values[place]
                assert call(values, count) == 0
                values[place] = kept


def adamw_by_definition(buffers: list[Array], t: int, constants: tuple[float, float, float, float, float], factor: Any) -> None:
    f, (rate, *betas, eps, decay) = np.float32, constants
    p, g, m, v = buffers
    g = g * factor
    m[:] = (g - m) * f(1 - betas[0]) + m
    m[np.abs(m) < f(2.0**-100)] = 0
    v[:] = (g * g) * f(1 - betas[1]) + v * f(betas[1])
    root = f(1.0 / math.sqrt(1.0 - power_of_step(betas[1], t)))
    p[:] = p * f(1.0 - rate * decay) - (m / (np.sqrt(v) * root + f(eps))) * f(rate / (1.0 - power_of_step(betas[0], t)))


@each_target
def test_adamw(level: Target) -> None:
    def body(b: Any, arguments: Any) -> None:
        buffers, (t, cut, end, factor, rate, *constants) = arguments[:4], arguments[4:]
        given = optimiser.emit_given(b, ADAMW, [*constants, constant(0.0, F64)], t)
        numbers = optimiser.emit_numbers(b, ADAMW, given, F32, rate)
        for low, high in ((0, cut), (cut, end)):
            optimiser.emit_update(b, optimiser.Form(ADAMW, F32), buffers, [factor], numbers, low, high)

    call = native(level, [PTR] * 4 + [I64] * 3 + [F32] + [F64] * 5, body)
    rng = np.random.default_rng(9)
    ours = [aligned(320) for _ in range(4)]
    ours[0][:] = rng.standard_normal(320)
    theirs = [x.copy() for x in ours]
    for t in (1, 2, 3, 1000, 123457):
        gradient = (rng.standard_normal(320) * 2.0 ** rng.integers(-120, 10, 320)).astype(np.float32)
        gradient[::7] = 0
        ours[1][:], theirs[1][:] = gradient, gradient
        constants = (3e-4 / t, 0.9, 0.999, 1e-8, 0.01)
        call(*ours, t, 48, 320, 0.37, *constants)
        adamw_by_definition(theirs, t, constants, np.float32(0.37))
        assert all(same_bytes(x, y) for x, y in zip(ours, theirs, strict=True)), t
    assert (ours[2][np.abs(ours[2]) < 2.0**-100] == 0).all()


@each_target
def test_power_of_step(level: Target) -> None:
    call = native(level, [F64, I64], lambda b, arguments: optimiser.emit_power_of_step(b, *arguments), F64)
    for base, t in ((0.9, 0), (0.9, 1), (0.999, 12345), (0.5, 2000), (0.0, 3)):
        assert call(base, t) == power_of_step(base, t)
