"""Native code in this process, and how an object file becomes it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from shapescript.compiler.codegen.objects import LoadedObject, NotKnown
from shapescript.compiler.codegen.target import Target

OBJECT_FILES = (b"\x7fELF", b"\xcf\xfa\xed\xfe")  # how ELF and Mach-O begin


class NativeCode:
    """Compiled code loaded in this process. Its functions keep it alive; it is freed when it and all of them are dropped. `needs` is other
    code that it keeps alive."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self.needs: Sequence[NativeCode] = ()

    def address(self, name: str) -> int:
        """Where a function begins. Raises KeyError where there is none of the name. Valid while this object lives."""
        address: int = self._engine.get_function_address(name)
        if not address:
            raise KeyError(name)
        return address

    def fill(self, name: str, addresses: Sequence[int]) -> None:
        """Set a table of addresses."""
        table: int = self._engine.get_global_value_address(name)
        if not table:
            raise KeyError(name)
        (ctypes.c_uint64 * len(addresses)).from_address(table)[:] = list(addresses)

    def function(self, name: str, arguments: Sequence[Any], result: Any = None) -> Any:
        """A function as a ctypes one of the given argument and result types; calls release the GIL."""
        call = ctypes.CFUNCTYPE(result, *arguments)(self.address(name))
        call.code = self  # type: ignore[attr-defined]
        return call


def is_object(data: bytes) -> bool:
    """Whether it begins as an object file."""
    return data[:4] in OBJECT_FILES


def load_object(data: bytes, target: Target) -> NativeCode:
    """Load what `emit_loadable` made, or `emit_object` for this machine; through LLVM where we don't know how to.

    Raises ValueError for what is no object file: LLVM would crash.
    """
    if not is_object(data):
        raise ValueError("not an object file")
    try:
        return NativeCode(LoadedObject(data))
    except NotKnown:
        from shapescript.compiler.codegen.jit import load_with_llvm

        return NativeCode(load_with_llvm(data, target))
