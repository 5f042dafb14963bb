"""Objects that are loaded without LLVM, and those that are left to it."""

from __future__ import annotations

import ctypes
import re
import struct
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from shapescript.compiler.codegen import jit, loading
from shapescript.compiler.codegen.loading import load_object
from shapescript.compiler.codegen.objects import LoadedObject, NotKnown, Reference
from shapescript.compiler.codegen.target import Target, host, x86_64_v3

TABLE = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
@near = internal constant [4 x i64] [i64 3, i64 5, i64 7, i64 11]
@places = internal constant [2 x ptr] [ptr @one, ptr @two]
define internal i64 @one(i64 %x) noinline { ret i64 %x }
define internal i64 @two(i64 %x) noinline {
  %y = mul i64 %x, 2
  %z = call i64 @one(i64 %y)
  ret i64 %z
}
define i64 @entry(ptr %to, ptr %from, i64 %count, i64 %i) {
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %count, i1 false)
  %p = getelementptr i64, ptr @near, i64 %i
  %x = load i64, ptr %p
  %q = getelementptr ptr, ptr @places, i64 1
  %f = load ptr, ptr %q
  %y = call i64 %f(i64 %x)
  ret i64 %y
}"""
READ_ONLY = TABLE.replace("@places = internal constant [2 x ptr] [ptr @one, ptr @two]", "").replace(
    "  %q = getelementptr ptr, ptr @places, i64 1\n  %f = load ptr, ptr %q\n  %y = call i64 %f(i64 %x)", "  %y = call i64 @two(i64 %x)"
)

READ_COUNT = """
define i64 @count() {
  %x = load i64, ptr @x
  %y = add i64 %x, 1
  store i64 %y, ptr @x
  ret i64 %y
}"""

OURS = host().is_x86 and sys.platform == "linux"  # elsewhere no object is known, and LLVM loads all


def loaded(data: bytes) -> LoadedObject | None:
    if OURS:
        return LoadedObject(data)
    with pytest.raises(NotKnown):
        LoadedObject(data)
    return None


@pytest.fixture
def by_llvm(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The objects that LLVM has loaded."""
    found: list[bytes] = []
    load = jit.load_with_llvm

    def noted(data: bytes, target: Target) -> Any:
        found.append(data)
        return load(data, target)

    monkeypatch.setattr(jit, "load_with_llvm", noted)
    return found


def run(function: Callable[..., int]) -> None:
    source, copy = np.arange(1000), np.zeros(1000, np.int64)
    assert function(copy.ctypes.data, source.ctypes.data, 8000, 2) == 14
    assert (copy == source).all()


def entry(code: loading.NativeCode) -> Callable[..., int]:
    found: Callable[..., int] = code.function("entry", [ctypes.c_void_p] * 2 + [ctypes.c_int64] * 2, ctypes.c_int64)
    return found


def test_an_object_is_loaded_without_llvm(by_llvm: list[bytes]) -> None:
    data = jit.emit_loadable(READ_ONLY, host())
    run(entry(load_object(data, host())))
    assert by_llvm == ([] if OURS else [data])
    found = loaded(data)
    assert found is None or found.get_function_address("missing") == 0


@pytest.mark.parametrize("text", [TABLE, READ_ONLY])
@pytest.mark.parametrize("emit", [jit.emit_object, jit.emit_loadable])
def test_what_is_not_known_is_left_to_llvm(text: str, emit: Callable[..., bytes]) -> None:
    """References of the small code model; tables of addresses, which the loader fills, are known."""
    run(entry(load_object(emit(text, host()), host())))


def changed(data: bytes, place: int, form: str, value: int) -> bytes:
    return data[:place] + struct.pack(form, value) + data[place + struct.calcsize(form) :]


def test_other_files_are_not_known() -> None:
    data = jit.emit_loadable(READ_ONLY, host())
    for other in (b"", b"\x7fELF", data[:100], data[:-200], changed(data, 16, "<H", 2), changed(data, 18, "<H", 183)):
        with pytest.raises(NotKnown):
            LoadedObject(other)
    with pytest.raises(NotKnown, match="it needs sinf" if OURS else "no object"):
        text = "declare float @llvm.sin.f32(float)\ndefine float @f(float %x) {\n %y = call float @llvm.sin.f32(float %x)\n ret float %y\n}"
        LoadedObject(jit.emit_loadable(text, host()))
    with pytest.raises(NotKnown, match="section of another kind" if OURS else "no object"):
        LoadedObject(jit.emit_loadable("@x = thread_local global i64 0\ndefine ptr @f() { ret ptr @x }", host()))


@pytest.mark.parametrize("first", [0, 7])
def test_what_is_written_is_written(first: int, by_llvm: list[bytes]) -> None:
    """Memory that begins as zeros or as something else; what runs lies before it, and may not be written to."""
    data = jit.emit_loadable(f"@x = dso_local global [3 x i64] [i64 {first}, i64 0, i64 0]\n{READ_COUNT}", host())
    code = load_object(data, host())
    assert by_llvm == ([] if OURS else [data])
    count = code.function("count", [], ctypes.c_int64)
    assert [count(), count()] == [first + 1, first + 2]
    code.fill("x", [40, 1])
    assert count() == 41
    with pytest.raises(KeyError):
        code.fill("missing", [1])


def test_a_reference_of_another_kind_is_not_known() -> None:
    data = jit.emit_loadable(READ_ONLY, host())
    kinds = re.finditer(re.escape(struct.pack("<I", Reference.ENTRY)) + rb".\0\0\0", data, re.DOTALL)
    (place,) = [found.start() for found in kinds] if OURS else [0]
    with pytest.raises(NotKnown, match="kind 2" if OURS else "no object"):
        LoadedObject(changed(data, place, "<I", 2))


def test_memory_that_may_run_may_not_be_written_to() -> None:
    found = loaded(jit.emit_loadable(READ_ONLY, host()))
    if found is None:
        return
    address = found.get_function_address("entry")
    with open("/proc/self/maps") as file:
        ranges = [line.split()[:2] for line in file]
    (allowed,) = (rights for place, rights in ranges if int(place.split("-")[0], 16) <= address < int(place.split("-")[1], 16))
    assert allowed == "r-xp"


def test_objects_of_other_machines_are_compiled_too() -> None:
    assert jit.undefined_symbols(jit.emit_loadable(READ_ONLY, x86_64_v3())) <= {"memcpy", "_GLOBAL_OFFSET_TABLE_"}
