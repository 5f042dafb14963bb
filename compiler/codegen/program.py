"""Native functions: compiled once for all sizes of their axis variables, called from any number of threads at once."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shapescript.compiler.codegen import jit
from shapescript.compiler.codegen.arguments import marshaller
from shapescript.compiler.codegen.callbacks import Frame
from shapescript.compiler.codegen.context import ContextLayout, Word
from shapescript.compiler.codegen.failures import failure
from shapescript.compiler.codegen.lower_function import ENTRY, lower_function
from shapescript.compiler.codegen.lowering import HOST_FAILED, Lowering, Site
from shapescript.compiler.codegen.memory import ARENAS, ArenaPool
from shapescript.compiler.codegen.target import Target
from shapescript.compiler.ir.nodes import Function, walk
from shapescript.compiler.ops.locations import argument_symbols
from shapescript.compiler.ops.protocol import Host

NO_OP = -1


@dataclass(frozen=True)
class Artifact:
    """A compiled function as data: what a cache keeps. Sites are (kind, number of the operation in program order, data)."""

    code: bytes
    sites: tuple[tuple[str, int, tuple[str | int, ...]], ...]
    exchange_words: int


class NativeFunction:
    """One entry function in machine code. `arenas` counts what memory its calls have asked for."""

    def __init__(
        self,
        function: Function,
        target: Target,
        code: jit.NativeCode,
        sites: Sequence[Site],
        exchange_words: int,
        arenas: ArenaPool = ARENAS,
    ) -> None:
        symbols = argument_symbols(function)
        self.function, self.target, self.arenas = function, target, arenas
        self._layout = ContextLayout(len(function.body.parameters), len(symbols), function.results, exchange_words)
        self._sites = tuple(sites)
        self._enter = code.function(ENTRY, [ctypes.c_void_p], ctypes.c_int64)
        self._marshal = marshaller(function, self._layout, symbols)
        declared = enumerate(function.body.yields[: function.results])
        self._kinds = [(value.type, self._layout.first_result + place) for place, value in declared]
        self._frames: list[Frame] = []

    def run(self, arguments: Sequence[Any], host: Host) -> list[Any]:
        """The declared results, in memory of their own, for arguments as ops/protocol.py describes them; `mut` arguments change in place.

        Raises ExecutionError, and what the host raises.
        """
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = Frame(self._layout, self._sites, self.target.is_x86)
        arena = self.arenas.take()
        try:
            try:
                storages = self._marshal(arguments, frame.block)
            except ValueError as error:  # NumPy's, of a result with more elements than it counts
                raise MemoryError(f"a result of so many elements: {error}") from None
            frame.begin(host, list(arguments), storages, arena)
            if self._enter(frame.address):
                raise self._failure(frame)
            return [frame.result(*kind) if storage is None else storage for kind, storage in zip(self._kinds, storages, strict=True)]
        finally:
            frame.end()
            self.arenas.give_back(arena)
            if frame.serves:
                self._frames.append(frame)

    def _failure(self, frame: Frame) -> BaseException:
        number = frame.words[Word.SITE]
        if number == HOST_FAILED:
            return frame.error or KeyboardInterrupt()
        return failure(self.function, self._sites[number], frame.words[Word.DETAIL : Word.ARENA_NEXT].tolist())


def compile_function(function: Function, target: Target) -> NativeFunction:
    """Compile one entry function, after all passes, for this machine."""
    low = lower_function(function, target)
    return NativeFunction(function, target, jit.compile_module(str(low.module), target), low.sites, low.exchange_words)


def compile_artifact(function: Function, target: Target) -> Artifact:
    """Compile a function to data from which `load_artifact` makes it again without compiling."""
    low = lower_function(function, target)
    return Artifact(jit.emit_object(str(low.module), target), _site_data(low), low.exchange_words)


def load_artifact(function: Function, target: Target, artifact: Artifact) -> NativeFunction:
    """`function` must be the one that was compiled, or one made by the same passes from the same program."""
    ops = list(walk(function.body))
    sites = [Site(kind, None if number == NO_OP else ops[number], tuple(data)) for kind, number, data in artifact.sites]
    return NativeFunction(function, target, jit.load_object(artifact.code, target), sites, artifact.exchange_words)


def _site_data(low: Lowering) -> tuple[tuple[str, int, tuple[str | int, ...]], ...]:
    numbers = {op: number for number, op in enumerate(walk(low.function.body))}
    return tuple((site.kind, NO_OP if site.op is None else numbers[site.op], site.data) for site in low.sites)


def llvm_text(function: Function, target: Target) -> str:
    """The LLVM IR of a function."""
    return str(lower_function(function, target).module)


def assembly(function: Function, target: Target) -> str:
    """The machine code of a function as text, for a target that need not be this machine."""
    return jit.emit_assembly(llvm_text(function, target), target)


def object_bytes(function: Function, target: Target) -> bytes:
    """The machine code of a function as an ELF object file, for a target that need not be this machine."""
    return jit.emit_object(llvm_text(function, target), target)
