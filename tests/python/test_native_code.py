"""Targets, compilation, objects and their symbols, and the floating-point environment of native code."""

import ctypes
import gc
import weakref
from typing import Any

import numpy as np
import pytest
from kernel_harness import CONTROL_WORDS, EXCEPTION_FLAGS, TARGETS, control_function, module_of, native

from shapescript.compiler.codegen import emit, gradient_norm, jit, loading, optimiser, random, scalars, target
from shapescript.compiler.codegen.contraction import Contraction, emit_contraction
from shapescript.compiler.codegen.emit import F32, F64, I64, PTR
from shapescript.compiler.codegen.reductions import Reduction, loaded, reduce_run
from shapescript.compiler.codegen.reductions_columns import Method, reduce_columns
from shapescript.compiler.codegen.target import Target
from shapescript.compiler.diagnostics.model import CompileError
from shapescript.compiler.numerics import elementary
from shapescript.compiler.numerics.optimisers import KINDS
from shapescript.compiler.numerics.philox import Domain
from shapescript.compiler.numerics.scalar import Argument, Kind

ALLOWED = {"memcpy", "memmove", "memset"}
LEVELS = [target.x86_64_v3(), target.x86_64_v4(), target.aarch64()]
each_level = pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)


def products_and_reductions(b: Any, level: Target, element: Any, pointers: Any, n: Any) -> None:
    p, q, r, s = pointers
    emit_contraction(b, level, Contraction(element, n, 40, 30, 30, 1, 1, 30, 40), p, q, r, s)
    emit_contraction(b, level, Contraction(element, 7, n, n, 1, n, n, 1, n), p, q, r, s)
    emit_contraction(b, level, Contraction(element, n, n, n, n, 2, n, 3, n), p, q, r, s)
    reductions, source = [Reduction(kind, element) for kind in ("sum", "max", "min")], loaded(p, element)
    for place, value in enumerate(reduce_run(b, reductions, n, lambda b, i, mask: [*source(b, i, mask)] * 3)):
        emit.store(b, value, emit.at(b, q, place, element))
    lanes = level.vector_bytes // emit.element_bytes(element)

    def produce(b: Any, row: Any, column: Any, mask: Any) -> list[Any]:
        return [emit.load(b, emit.at(b, p, b.add(b.mul(row, n), column), element), element, lanes, mask)]

    def finish(b: Any, values: Any, column: Any, mask: Any) -> None:
        emit.store(b, values[0], emit.at(b, q, column, element), mask)

    for method in Method:
        reduce_columns(b, level, reductions[:1], n, n, produce, finish, method=method)


def optimiser_and_random(b: Any, pointers: Any, n: Any) -> None:
    p, q, r, s = pointers
    parameters = [gradient_norm.Parameter(0, 5000), gradient_norm.Parameter(20032, 3)]
    gradient_norm.emit_square_blocks(b, parameters, p, q, 0, n)
    norm = gradient_norm.emit_norm(b, parameters, q)
    for kind in KINDS.values():
        given = optimiser.emit_given(b, kind, [norm] * len(kind.constants), n)
        for element, factor in ((F32, b.fptrunc(norm, F32)), (F64, norm)):
            numbers = optimiser.emit_numbers(b, kind, given, element, norm)
            for has_optional in (False, True):
                buffers = [p, q, *([r, s, p][: len(kind.slots_with(has_optional))])]
                optimiser.emit_update(b, optimiser.Form(kind, element, has_optional), buffers, [factor], numbers, 0, n)
    emit.store(b, b.zext(gradient_norm.emit_all_finite(b, p, F32, n), emit.I8), q)
    random.emit_kept(b, random.stream(b, n, Domain.DRAW, n), n, n, n, p)


def elementary_functions(b: Any, kind: Kind, element: Any, pointers: Any) -> None:
    x, y = Argument(0, kind), Argument(1, kind)
    names = ("exp", "expm1", "log", "log1p", "tanh", "sigmoid", "erf", "sin", "cos", "relu")
    roots = [*(getattr(elementary, name)(x) for name in names), elementary.pow(x, y), elementary.to_integer(x, Kind.I64), abs(x)]
    values = [emit.load(b, pointer, element, 16) for pointer in pointers[:2]]
    for value in scalars.emit_all(b, roots, values):
        emit.store(b, value, pointers[2])


def everything(level: Target) -> str:
    """A module that uses every kernel and every elementary function."""

    def body(b: Any, arguments: Any) -> None:
        *pointers, n = arguments
        for element in (F32, F64, I64):
            products_and_reductions(b, level, element, pointers, n)
        optimiser_and_random(b, pointers, n)
        for kind, element in ((Kind.F32, F32), (Kind.F64, F64)):
            elementary_functions(b, kind, element, pointers)

    return module_of(level, [PTR] * 4 + [I64], body)


@each_level
def test_objects_need_nothing_but_memory_functions(level: Target) -> None:
    assert jit.undefined_symbols(jit.emit_object(everything(level), level)) <= ALLOWED


def test_a_library_call_would_be_seen() -> None:
    text = "declare float @llvm.sin.f32(float)\ndefine float @entry(float %x) {\n %y = call float @llvm.sin.f32(float %x)\n ret float %y\n}"
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
    call = loading.load_object(jit.emit_object(text, level), level).function("entry", [ctypes.c_int64] * 2, ctypes.c_int64)
    assert call(6, 7) == 42


def test_a_loaded_object_reaches_memory_functions_and_constants() -> None:
    level = TARGETS[0]
    text = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
@table = internal constant [4 x i64] [i64 3, i64 5, i64 7, i64 11]
define i64 @entry(ptr %to, ptr %from, i64 %count, i64 %i) {
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %count, i1 false)
  %p = getelementptr i64, ptr @table, i64 %i
  %x = load i64, ptr %p
  ret i64 %x
}"""
    data = jit.emit_object(text, level)
    assert jit.undefined_symbols(data) == {"memcpy"}
    call = loading.load_object(data, level).function("entry", [ctypes.c_void_p] * 2 + [ctypes.c_int64] * 2, ctypes.c_int64)
    source, copy = np.arange(1000), np.zeros(1000, np.int64)
    assert call(copy.ctypes.data, source.ctypes.data, 8000, 2) == 7
    assert (copy == source).all()


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


@pytest.mark.parametrize("caller", CONTROL_WORDS, ids=["default", "flush", "toward zero"])
def test_the_environment_is_set_and_restored(caller: int) -> None:
    read, write = control_function(False), control_function(True)
    multiply = native(TARGETS[0], [PTR, F64, F64], lambda b, a: emit.store(b, b.fmul(a[1], a[2]), a[0]))
    divide = native(TARGETS[0], [F64, F64], lambda b, a: b.fdiv(*a), F64)
    tiny, before, during, after = np.zeros(1), np.zeros(1, np.int64), np.array([caller]), np.zeros(1, np.int64)
    read(before.ctypes.data)
    try:
        write(during.ctypes.data)
        multiply(tiny, 2.0**-600, 2.0**-470)
        third = divide(-1.0, 3.0)
        read(after.ctypes.data)
    finally:
        write(before.ctypes.data)
    assert tiny.view(np.int64)[0] == 16 and third == -1.0 / 3.0
    assert int(after[0]) & ~EXCEPTION_FLAGS == caller & ~EXCEPTION_FLAGS
