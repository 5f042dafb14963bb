"""Native code from LLVM IR: functions of this process, or object files; and what an object needs from outside.

No pass pipeline is run: the IR that this package emits is already in vectors, so LLVM's passes don't make it faster and take as long as
generating code (measured on whole training steps: 0.22 s without, 0.55 s with, the same speed). Code generation runs at its level 2:
1 to 3 give equal code speed here, 0 is 6 times slower.
"""

from __future__ import annotations

import ctypes
import os
import struct
from typing import Any

import llvmlite.binding as llvm

from shapescript.compiler.codegen.loading import NativeCode, load_object
from shapescript.compiler.codegen.target import Target
from shapescript.compiler.codegen.waiting import interruptible

CODE_LEVEL = 2
_UNDEFINED_SECTION = 0
_SYMBOL_TABLE = 2
_SYMBOL = struct.Struct("<IBBHQQ")


def target_machine(target: Target, *, jit: bool) -> Any:
    """LLVM's code generator for the target; for code of this process, or for position-independent objects."""
    _initialise(target)
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu,
        features=target.features,
        opt=CODE_LEVEL,
        reloc="pic",
        codemodel="jitdefault" if jit else "small",
        jit=jit,
    )


def _initialise(target: Target) -> None:
    """Make a code generator available; may be called any number of times. Those for other processors take 10 MiB more."""
    if target.triple.split("-")[0] == llvm.get_process_triple().split("-")[0]:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()


def parse(module_text: str, target: Target) -> Any:
    """LLVM's own module of the text, verified, for the target. Raises RuntimeError with LLVM's message for text that is wrong."""
    _initialise(target)
    module = llvm.parse_assembly(module_text)
    module.triple = target.triple
    module.verify()
    return module


def compile_module(module_text: str, target: Target) -> NativeCode:
    """Compile LLVM IR for the target, which this machine must be able to run, and load it. Ctrl-C doesn't wait for the end."""
    return load_object(emit_loadable(module_text, target), target)


def emit_object(module_text: str, target: Target) -> bytes:
    """An ELF object file; the target need not be this machine. Ctrl-C doesn't wait for the end."""
    return interruptible(lambda: bytes(target_machine(target, jit=False).emit_object(parse(module_text, target))))


def emit_loadable(module_text: str, target: Target) -> bytes:
    """An object for `load_object`, for this machine. Ctrl-C doesn't wait for the end."""

    def work() -> bytes:
        data = bytes(target_machine(target, jit=True).emit_object(parse(module_text, target)))
        _give_back()
        return data

    return interruptible(work)


def _give_back() -> None:
    """To the system, what LLVM has freed: it lies in the heap of a thread that ends, where nothing else takes it. Only glibc has it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)


def emit_assembly(module_text: str, target: Target) -> str:
    """The machine code as text; the target need not be this machine. Ctrl-C doesn't wait for the end."""
    return interruptible(lambda: str(target_machine(target, jit=False).emit_assembly(parse(module_text, target))))


def load_with_llvm(data: bytes, target: Target) -> Any:
    """Any object for this machine, as LLVM's engine."""
    engine = llvm.create_mcjit_compiler(parse("", target), target_machine(target, jit=True))
    engine.add_object_file(llvm.ObjectFileRef.from_data(data))
    engine.finalize_object()
    return engine


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
