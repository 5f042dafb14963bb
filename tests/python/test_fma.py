"""The NumPy fused multiply-add against the machine's, through LLVM, on inputs chosen to be hard; and against exact fractions."""

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from numpy.typing import NDArray

from shapescript.compiler.numerics.fma import fma

Array = NDArray[Any]
Fma = Callable[[Array, Array, Array], Array]

WORDS: dict[type[Any], type[Any]] = {np.float32: np.uint32, np.float64: np.uint64}

LOOP = """
declare {kind} @llvm.fma.{suffix}({kind}, {kind}, {kind})
define void @fma_all(ptr %a, ptr %b, ptr %c, ptr %out, i64 %n) {{
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %pa = getelementptr {kind}, ptr %a, i64 %i
  %pb = getelementptr {kind}, ptr %b, i64 %i
  %pc = getelementptr {kind}, ptr %c, i64 %i
  %po = getelementptr {kind}, ptr %out, i64 %i
  %x = load {kind}, ptr %pa
  %y = load {kind}, ptr %pb
  %z = load {kind}, ptr %pc
  %r = call {kind} @llvm.fma.{suffix}({kind} %x, {kind} %y, {kind} %z)
  store {kind} %r, ptr %po
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}}"""


@pytest.fixture(scope="module")
def machine_fma() -> Iterator[dict[type[Any], Fma]]:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    engines: list[Any] = []
    functions: dict[type[Any], Fma] = {}
    for dtype, kind, suffix in ((np.float32, "float", "f32"), (np.float64, "double", "f64")):
        target = llvm.Target.from_default_triple().create_target_machine(cpu=llvm.get_host_cpu_name(), opt=2)
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(LOOP.format(kind=kind, suffix=suffix)), target)
        engine.finalize_object()
        engines.append(engine)
        call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, ctypes.c_int64)(engine.get_function_address("fma_all"))

        def run(a: Array, b: Array, c: Array, call: Any = call) -> Array:
            a, b, c = (np.ascontiguousarray(x) for x in (a, b, c))
            out = np.empty_like(a)
            call(a.ctypes.data, b.ctypes.data, c.ctypes.data, out.ctypes.data, a.size)
            return out

        functions[dtype] = run
    yield functions
    for engine in engines:
        engine.close()


def operands(case: str, dtype: type[Any], count: int) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(1)
    word = WORDS[dtype]
    info = np.finfo(dtype)

    def bits() -> Array:
        return rng.integers(0, np.iinfo(word).max, count, dtype=word).view(dtype)

    a, b = (rng.standard_normal(count).astype(dtype) for _ in range(2))
    with np.errstate(all="ignore"):
        if case == "any bits":
            return bits(), bits(), bits()
        if case == "cancelling":
            return a, b, (-a.astype(np.float64) * b).astype(dtype)
        if case == "near ties":
            half = np.sqrt(np.spacing(np.abs(a)) / 2)
            return half, (half * (1 + rng.integers(-3, 4, count) * info.eps)).astype(dtype), a
        if case == "small integers":
            x, y, z = (rng.integers(-9, 10, count).astype(dtype) for _ in range(3))
            return x, y, z * dtype(2.0 ** (info.nmant - 1))
        if case == "subnormal results":
            return a * dtype(info.tiny), b, (a * dtype(info.tiny) * info.eps * 3).astype(dtype)
        assert case == "zeros and limits"
        special = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, info.max, -info.max, info.tiny, info.smallest_subnormal], dtype)
        x, y, z = np.meshgrid(special, special, special)
        return x.ravel(), y.ravel(), z.ravel()


@pytest.mark.parametrize("case", ["any bits", "cancelling", "near ties", "small integers", "subnormal results", "zeros and limits"])
@pytest.mark.parametrize(("dtype", "count"), [(np.float32, 200_000), (np.float64, 10_000)])
def test_the_bits_are_the_machines(machine_fma: dict[type[Any], Fma], dtype: type[Any], count: int, case: str) -> None:
    a, b, c = operands(case, dtype, count)
    ours, theirs = fma(a, b, c), machine_fma[dtype](a, b, c)
    both_nan = np.isnan(ours) & np.isnan(theirs)
    word = WORDS[dtype]
    assert ((ours.view(word) == theirs.view(word)) | both_nan).all()


def test_operands_broadcast_and_may_be_single_numbers() -> None:
    a = np.array([[1.0], [2.0]])
    assert fma(a, np.float64(3), np.array([10.0, 20.0])).tolist() == [[13.0, 23.0], [16.0, 26.0]]
    assert fma(np.float64(1e308), np.float64(10), np.float64(-1e308)).item() == np.inf
    assert fma(np.float32(3), np.float32(2), np.float32(1)).item() == 7.0
