"""Targets, compilation, objects and their symbols, and the floating-point environment of native code."""

import ctypes
import gc
import weakref
from typing import Any

import numpy as np
import pytest
from kernel_harness import TARGETS, module_of, native
from shapescript.compiler.codegen import emit, jit, optimiser, random, scalars, target
from shapescript.compiler.codegen.contraction import Contraction, emit_contraction
from shapescript.compiler.codegen.emit import F32, F64, I64, PTR
from shapescript.compiler.codegen.reductions import Reduction, loaded, reduce_run
from shapescript.compiler.codegen.reductions_columns import Method, reduce_columns
from shapescript.compiler.codegen.target import Target
from shapescript.compiler.diagnostics.model import CompileError
from shapescript.compiler.numerics import elementary
from shapescript.compiler.numerics.philox import Domain
from shapescript.compiler.numerics.scalar import Argument, Kind

ALLOWED = {"memcpy", "memmove", "memset"}
LEVELS = [target.x86_64_v3(), target.x86_64_v4(), target.aarch64()]
each_level = pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)


def everything(level: Target) -> str:
    """A module that uses every kernel and every elementary function."""

    def body(b: Any, arguments: Any) -> None:
        p, q, r, s, n = arguments
        for element in (F32, F64, I64):
            for shape in (Contraction(element, n, 40, 30, 30, 1, 1, 30, 40), Contraction(element, 7, n, n, 1, n, n, 1, n), Contraction(element, n, n, n, n, 2, n, 3, n)):
                emit_contraction(b, level, shape, p, q, r, s)
            reductions = [Reduction(kind, element) for kind in ("sum", "max", "min")]
            source = loaded(p, element)
            for place, value in enumerate(reduce_run(b, reductions, n, lambda b, i, mask, source=source: [*source(b, i, mask)] * 3)):
                emit.store(b, value, emit.at(b, q, place, element))
            lanes = level.vector_bytes // emit.element_bytes(element)
            for method in Method:
                reduce_columns(
                    b, level, reductions[:1], n, n,
                    lambda b, row, column, mask, e=element, w=lanes: [emit.load(b, emit.at(b, p, b.add(b.mul(row, n), column), e), e, w, mask)],
                    lambda b, values, column, mask, e=element: emit.store(b, values[0], emit.at(b, q, column, e), mask), method=method)
        parameters = [optimiser.Parameter(0, 5000), optimiser.Parameter(20032, 3)]
        optimiser.emit_square_blocks(b, parameters, p, q, 0, n)
        norm = optimiser.emit_norm(b, parameters, q)
        factor = optimiser.emit_clip_factor(b, norm, norm)
        optimiser.emit_adamw(b, p, q, r, s, 0, n, factor, optimiser.emit_adamw_numbers(b, n, norm, norm, norm, norm, norm))
        emit.store(b, b.zext(optimiser.emit_all_finite(b, p, F32, n), emit.I8), q)
        random.emit_kept(b, random.stream(b, n, Domain.DRAW, n), n, n, n, p)
        for kind, element in ((Kind.F32, F32), (Kind.F64, F64)):
            x, y = Argument(0, kind), Argument(1, kind)
            names = ("exp", "expm1", "log", "log1p", "tanh", "sigmoid", "erf", "sin", "cos", "relu")
            roots = [*(getattr(elementary, name)(x) for name in names), elementary.pow(x, y), elementary.to_integer(x, Kind.I64), abs(x)]
            values = [emit.load(b, pointer, element, 16) for pointer in (p, q)]
            for value in scalars.emit_all(b, roots, values):
                emit.store(b, value, r)

    return module_of(level, [PTR] * 4 + [I64], body)


@each_level
def test_objects_need_nothing_but_memory_functions(level: Target) -> None:
    assert jit.undefined_symbols(jit.emit_object(everything(level), level)) <= ALLOWED


def test_a_library_call_would_be_seen() -> None:
    text = 'declare float @llvm.sin.f32(float)\ndefine float @entry(float %x) {\n %y = call float @llvm.sin.f32(float %x)\n ret float %y\n}'
    for level in LEVELS:
        assert jit.undefined_symbols(jit.emit_object(text, level)) == {"sinf"}
    with pytest.raises(ValueError, match="ELF"):
        jit.undefined_symbols(b"MZ")
    with pytest.raises(KeyError):
        emit.intrinsic(None, "sin", None)


@each_level
def test_no_fast_math_and_no_contraction(level: Target) -> None:
    words = set(everything(level).split())
    assert not words & {"fast", "contract", "reassoc", "nnan", "ninf", "nsz", "arcp", "afn"}


def test_an_object_loads_and_runs() -> None:
    level = TARGETS[0]
    text = module_of(level, [I64, I64], lambda b, arguments: b.mul(*arguments), I64)
    call = jit.load_object(jit.emit_object(text, level), level).function("entry", [ctypes.c_int64] * 2, ctypes.c_int64)
    assert call(6, 7) == 42


def test_code_lives_as_long_as_its_functions() -> None:
    level = TARGETS[0]
    code = jit.compile_module(module_of(level, [I64], lambda b, arguments: b.add(arguments[0], I64(1)), I64), level)
    with pytest.raises(KeyError):
        code.address("missing")
    call, seen = code.function("entry", [ctypes.c_int64], ctypes.c_int64), weakref.ref(code)
    del code
    gc.collect()
    assert call(1) == 2
    del call
    gc.collect()
    assert seen() is None


def test_a_machine_without_fused_multiply_add_is_refused() -> None:
    with pytest.raises(CompileError) as caught:
        target.for_machine("x86_64-unknown-linux-gnu", "nehalem", {"fma": False})
    assert [diagnostic.code for diagnostic in caught.value.diagnostics] == ["R1501"]
    assert "--engine=numpy" in (caught.value.diagnostics[0].help or "")
    arm = target.for_machine("aarch64-unknown-linux-gnu", "neoverse-n1", {"neon": True})
    assert (arm.lanes, arm.registers) == (4, 32)
    avx2 = target.for_machine("x86_64-unknown-linux-gnu", "haswell", {"fma": True, "avx2": True})
    assert (avx2.lanes, avx2.registers) == (8, 16)


@pytest.mark.skipif(not TARGETS[0].is_x86, reason="reads the x86 control register")
@pytest.mark.parametrize("caller", [0x1F80, 0x9FC0, 0x7F80], ids=["default", "flush", "toward zero"])
def test_the_environment_is_set_and_restored(caller: int) -> None:
    level = TARGETS[0]
    control = (
        "declare void @llvm.x86.sse.ldmxcsr(ptr)\ndeclare void @llvm.x86.sse.stmxcsr(ptr)\n"
        "define void @set(ptr %p) {\n call void @llvm.x86.sse.ldmxcsr(ptr %p)\n ret void\n}\n"
        "define void @get(ptr %p) {\n call void @llvm.x86.sse.stmxcsr(ptr %p)\n ret void\n}"
    )
    code = jit.compile_module(control, level)
    read, write = (code.function(name, [ctypes.c_void_p]) for name in ("get", "set"))
    half = native(level, [PTR, F64], lambda b, a: emit.store(b, b.fmul(emit.load(b, a[0], F64), a[1]), a[0]))
    third = native(level, [PTR, F64], lambda b, a: emit.store(b, b.fdiv(a[1], emit.load(b, a[0], F64)), a[0]))
    tiny, quotient, before, after = np.array([2.0**-1070]), np.array([-3.0]), np.zeros(1, np.uint32), np.array([caller], np.uint32)
    read(before.ctypes.data)
    try:
        write(after.ctypes.data)
        half(tiny, 0.5)
        third(quotient, 1.0)
        read(after.ctypes.data)
    finally:
        write(before.ctypes.data)
    assert tiny[0] == 2.0**-1071 and quotient[0] == -1.0 / 3.0
    assert after[0] & ~0x3F == caller & ~0x3F  # the flags of what happened aside
