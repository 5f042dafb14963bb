"""Native code from LLVM IR: functions of this process, or object files; and what an object needs from outside.

No pass pipeline is run: the IR that this package emits is already in vectors, so LLVM's passes don't make it faster and take as long as
generating code (measured on whole training steps: 0.22 s without, 0.55 s with, the same speed). Code generation runs at its level 2:
1 to 3 give equal code speed here, 0 is 6 times slower.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any

import llvmlite.binding as llvm

from shapescript.compiler.codegen.target import Target, initialise_llvm
from shapescript.compiler.codegen.waiting import interruptible

CODE_LEVEL = 2
_OBJECT_FILES = (b"\x7fELF", b"\xcf\xfa\xed\xfe")  # how ELF and Mach-O begin
_UNDEFINED_SECTION = 0
_SYMBOL_TABLE = 2
_SYMBOL = struct.Struct("<IBBHQQ")


def target_machine(target: Target, *, jit: bool) -> Any:
    """LLVM's code generator for the target; for code of this process, or for position-independent objects."""
    initialise_llvm()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu,
        features=target.features,
        opt=CODE_LEVEL,
        reloc="pic",
        codemodel="jitdefault" if jit else "small",
        jit=jit,
    )


def parse(module_text: str, target: Target) -> Any:
    """LLVM's own module of the text, verified, for the target. Raises RuntimeError with LLVM's message for text that is wrong."""
    initialise_llvm()
    module = llvm.parse_assembly(module_text)
    module.triple = target.triple
    module.verify()
    return module


class NativeCode:
    """Compiled code loaded in this process. Its functions keep it alive; it is freed when it and all of them are dropped."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def address(self, name: str) -> int:
        """Where a function begins. Raises KeyError where there is none of the name. Valid while this object lives."""
        address: int = self._engine.get_function_address(name)
        if not address:
            raise KeyError(name)
        return address

    def function(self, name: str, arguments: Sequence[Any], result: Any = None) -> Any:
        """A function as a ctypes one of the given argument and result types; calls release the GIL."""
        call = ctypes.CFUNCTYPE(result, *arguments)(self.address(name))
        call.code = self  # type: ignore[attr-defined]
        return call


def compile_module(module_text: str, target: Target) -> NativeCode:
    """Compile LLVM IR for the target, which this machine must be able to run, and load it. Ctrl-C doesn't wait for the end."""

    def work() -> NativeCode:
        engine = llvm.create_mcjit_compiler(parse(module_text, target), target_machine(target, jit=True))
        engine.finalize_object()
        return NativeCode(engine)

    return interruptible(work)


def emit_object(module_text: str, target: Target) -> bytes:
    """An ELF object file; the target need not be this machine. Ctrl-C doesn't wait for the end."""
    return interruptible(lambda: bytes(target_machine(target, jit=False).emit_object(parse(module_text, target))))


def emit_loadable(module_text: str, target: Target) -> bytes:
    """An object for `load_object`: for this machine, with the same code as `compile_module` makes. Ctrl-C doesn't wait for the end."""
    return interruptible(lambda: bytes(target_machine(target, jit=True).emit_object(parse(module_text, target))))


def emit_assembly(module_text: str, target: Target) -> str:
    """The machine code as text; the target need not be this machine. Ctrl-C doesn't wait for the end."""
    return interruptible(lambda: str(target_machine(target, jit=False).emit_assembly(parse(module_text, target))))


def load_object(data: bytes, target: Target) -> NativeCode:
    """Load what `emit_loadable` made, or `emit_object` for this machine. Raises ValueError for what is no object file: LLVM would crash."""
    if data[:4] not in _OBJECT_FILES:
        raise ValueError("not an object file")
    engine = llvm.create_mcjit_compiler(parse("", target), target_machine(target, jit=True))
    engine.add_object_file(llvm.ObjectFileRef.from_data(data))
    engine.finalize_object()
    return NativeCode(engine)


def undefined_symbols(data: bytes) -> set[str]:
    """The symbols that a 64-bit little-endian ELF object needs from elsewhere. Raises ValueError for other files."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF file")
    (table_start,) = struct.unpack_from("<Q", data, 0x28)
    entry_size, entries = struct.unpack_from("<HH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table_start + i * entry_size) for i in range(entries)]
    found: set[str] = set()
    for _, kind, _, _, start, length, link, *_ in sections:
        if kind != _SYMBOL_TABLE:
            continue
        strings = sections[link][4]
        for name, _, _, section, _, _ in _SYMBOL.iter_unpack(data[start : start + length]):
            if section == _UNDEFINED_SECTION and name:
                end = data.index(b"\0", strings + name)
                found.add(data[strings + name : end].decode())
    return found
