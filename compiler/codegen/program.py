"""Native functions: compiled once for all sizes of their axis variables, called from any number of threads at once."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from shapescript.compiler.codegen.arguments import crossing
from shapescript.compiler.codegen.callbacks import Frame
from shapescript.compiler.codegen.context import DETAILS, ENTRY, ContextLayout, Word
from shapescript.compiler.codegen.failures import failure
from shapescript.compiler.codegen.kernel_objects import KNOWN, Code, compiled, load
from shapescript.compiler.codegen.late_records import block_words
from shapescript.compiler.codegen.loading import NativeCode
from shapescript.compiler.codegen.lowering import HOST_FAILED, Lowering, Site
from shapescript.compiler.codegen.measurement import Recorder, Row, Table
from shapescript.compiler.codegen.memory import ARENAS, ArenaPool
from shapescript.compiler.codegen.module_parts import parts
from shapescript.compiler.codegen.target import Target
from shapescript.compiler.ir.nodes import Block, Function, Op
from shapescript.compiler.ops.locations import argument_symbols
from shapescript.compiler.ops.protocol import Host
from shapescript.compiler.records.collection import paused_collection
from shapescript.compiler.records.dataclass import dataclass

NO_OP = -1


@dataclass(frozen=True)
class Artifact:
    """A compiled function as data: what a cache keeps.

    `function` is what running it needs: its operations are those that sites and rows mention, with regions only where a row tells of them,
    and it yields its declared results alone. Sites are (kind, number of the operation, data), the rows of one that measures itself (number
    of the operation, part).
    """

    code: Code
    function: Function
    sites: tuple[tuple[str, int, tuple[str | int, ...]], ...]
    exchange_words: int
    rows: tuple[tuple[int, str], ...] = ()


class NativeFunction:
    """One entry function in machine code. `arenas` counts what memory its calls have asked for."""

    def __init__(
        self,
        function: Function,
        target: Target,
        code: NativeCode,
        sites: Sequence[Site],
        exchange_words: int,
        arenas: ArenaPool = ARENAS,
        rows: Sequence[Row] = (),
    ) -> None:
        symbols = argument_symbols(function)
        self.function, self.target, self.arenas = function, target, arenas
        counts = len(function.body.parameters), len(symbols), function.results
        self._layout = ContextLayout(*counts, exchange_words, block_words(sites))
        self._sites, self._rows = tuple(sites), tuple(rows)
        self._enter = code.function(ENTRY, [ctypes.c_void_p], ctypes.c_int64)
        self._marshal, self._results = crossing(function, self._layout, symbols)
        self._frames: list[Frame] = []
        self.has_host_operations = any(site.kind == "host" for site in self._sites)

    def run(self, arguments: Sequence[Any], host: Host, recorder: Recorder | None = None) -> list[Any]:
        """The declared results, in memory of their own, for arguments as ops/protocol.py describes them; `mut` arguments change in place.

        What a function that measures itself has measured goes to the recorder, however the call ends. Raises ExecutionError, and what the
        host raises.
        """
        try:
            frame = self._frames.pop()
        except IndexError:
            table = Table(self.function, self._rows) if self._rows else None
            frame = Frame(self._layout, self._sites, self.target, table)
        arena = self.arenas.take()
        try:
            try:
                storages = self._marshal(arguments, frame.words, arena.chunks[0])
            except ValueError as error:  # NumPy's, of a result with more elements than it counts
                raise MemoryError(f"a result of so many elements: {error}") from None
            frame.begin(host, arguments, storages, arena)
            if frame.table:
                frame.table.begin(recorder)
            if self._enter(frame.address):
                raise self._failure(frame)
            return self._results(frame, storages)
        finally:
            if frame.table and recorder:
                frame.table.end(recorder)
            frame.end()
            self.arenas.give_back(arena)
            if frame.serves:
                self._frames.append(frame)

    def _failure(self, frame: Frame) -> BaseException:
        number = frame.words[Word.SITE]
        if number == HOST_FAILED:
            return frame.error or KeyboardInterrupt()
        return failure(self.function, self._sites[number], frame.words[Word.DETAIL : Word.DETAIL + DETAILS].tolist())


def compile_function(function: Function, target: Target, profile: bool = False) -> NativeFunction:
    """Compile one entry function, after all passes, for this machine; with `profile`, to measure itself."""
    return load_artifact(compile_artifact(function, target, profile), target)


def compile_artifact(function: Function, target: Target, profile: bool = False, lowered: Callable[[], None] = lambda: None) -> Artifact:
    """Compile a function for this machine, to data from which `load_artifact` makes it. `lowered` is called when LLVM's part begins."""
    with paused_collection():
        low = _lower(function, target, profile)
        pieces = parts(low.module, (low.native.name, ENTRY))
    lowered()
    rows, told = (low.probes.rows, low.probes.told) if low.probes else ((), set())
    numbers = _numbered([*(site.op for site in low.sites), *(row.op for row in rows)])
    sites = tuple((site.kind, NO_OP if site.op is None else numbers[site.op], site.data) for site in low.sites)
    row_data = tuple((NO_OP if row.op is None else numbers[row.op], row.part) for row in rows)
    outline = _outline(function, numbers, told)
    return Artifact(compiled(pieces, target), outline, sites, low.exchange_words, row_data)


def load_artifact(artifact: Artifact, target: Target) -> NativeFunction:
    """What `compile_artifact` has compiled for this target."""
    ops = artifact.function.body.ops
    sites = [Site(kind, None if number == NO_OP else ops[number], tuple(data)) for kind, number, data in artifact.sites]
    rows = [Row(None if number == NO_OP else ops[number], part) for number, part in artifact.rows]
    code = load(artifact.code, target)
    KNOWN.add(target, artifact.code)
    return NativeFunction(artifact.function, target, code, sites, artifact.exchange_words, rows=rows)


def _numbered(ops: Iterable[Op | None]) -> dict[Op, int]:
    return {op: number for number, op in enumerate(dict.fromkeys(op for op in ops if op is not None))}


def _outline(function: Function, ops: Iterable[Op], whole: Collection[Op]) -> Function:
    kept = tuple(op if op in whole else replace(op, regions=()) for op in ops)
    return replace(function, body=Block(function.body.parameters, kept, function.body.yields[: function.results]))


def _lower(function: Function, target: Target, profile: bool = False) -> Lowering:
    """Only here is the lowering loaded: what a cache gives does without."""
    from shapescript.compiler.codegen.lower_function import lower_function

    return lower_function(function, target, profile)


def llvm_text(function: Function, target: Target) -> str:
    """The LLVM IR of a function."""
    return str(_lower(function, target).module)


def assembly(function: Function, target: Target) -> str:
    """The machine code of a function as text, for a target that need not be this machine."""
    from shapescript.compiler.codegen import jit

    return jit.emit_assembly(llvm_text(function, target), target)


def object_bytes(function: Function, target: Target) -> bytes:
    """The machine code of a function as an ELF object file, for a target that need not be this machine."""
    from shapescript.compiler.codegen import jit

    return jit.emit_object(llvm_text(function, target), target)
