"""Checking a file: all that `shapescript check` needs. Neither NumPy nor llvmlite is loaded here."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from shapescript.compiler.check.checker import check_file
from shapescript.compiler.check.program import Program
from shapescript.compiler.diagnostics.model import CompileError, Diagnostic, InternalError, Span
from shapescript.compiler.diagnostics.width import bounded
from shapescript.compiler.ir.nodes import Function, Module, Value, walk
from shapescript.compiler.ir.sizes import LARGEST
from shapescript.compiler.ops.table import Scalar, entry
from shapescript.compiler.passes.differentiate import differentiate
from shapescript.compiler.passes.leafwise import split_leafwise
from shapescript.compiler.passes.specialise import specialise
from shapescript.runtime.host_numbers import checked_int

LONGEST_REASON = 300


def check(path: str | os.PathLike[str], dims: Mapping[str, int] | None = None) -> list[Diagnostic]:
    """What is wrong in a program, sorted by place; each has `.code`, `.message` and `.span`. An empty list: nothing.

    dims: values in the place of those that the file declares. Raises ArgumentError R1004 or R1006 for one that is no size.
    """
    return list(checked_file(Path(path), dims).diagnostics)


def checked_file(path: Path, dims: Mapping[str, int] | None) -> Program:
    sizes = {name: checked_int(f"dims: {name}", value, 0, LARGEST) for name, value in (dims or {}).items()}
    with stage("check"):
        program = check_file(path, sizes)
    if program.module is None:
        return program
    found = _gradient_errors(program, program.module)
    return replace(program, diagnostics=(*program.diagnostics, *found), module=None) if found else program


def _gradient_errors(program: Program, module: Module) -> list[Diagnostic]:
    """What only inlining and differentiation see, each mistake once, sorted by place; functions with dim or type parameters have to
    wait for a call."""
    alone = {one.key: one.span for overloads in program.functions.values() for one in overloads if not one.dims and not one.types}
    found: dict[tuple[str, tuple[str, int, int]], Diagnostic] = {}
    too_large: set[str] = set()
    for key in _callees_first(module):
        if not too_large.isdisjoint(_callees(module.functions[key])):
            too_large.add(key)  # one report is enough, and finding it out again for each caller takes seconds
            continue
        if key not in alone:
            continue
        try:
            with stage("gradients", alone[key]):
                function = split_leafwise(specialise(module, key, {}))
            diagnostics = _gradients_of(module, key, function)
        except CompileError as error:
            diagnostics = error.diagnostics
            if any(diagnostic.code == "E0901" for diagnostic in diagnostics):
                too_large.add(key)
        for diagnostic in diagnostics:
            found.setdefault((diagnostic.code, diagnostic.place), diagnostic)
    return sorted(found.values(), key=lambda diagnostic: diagnostic.place)


def _callees(function: Function) -> set[str]:
    return {op.attributes["callee"] for op in walk(function.body) if op.name == "call"}


def _callees_first(module: Module) -> list[str]:
    """All functions, each behind those that it calls. No function reaches itself, but chains of calls may be long."""
    order: dict[str, None] = {}
    stack = list(module.functions)[::-1]
    while stack:
        key = stack[-1]
        waiting = [] if key in order else [callee for callee in sorted(_callees(module.functions[key])) if callee not in order]
        if waiting:
            stack += waiting
        else:
            order[stack.pop()] = None
    return list(order)


def _gradients_of(module: Module, key: str, function: Function) -> tuple[Diagnostic, ...]:
    if _has_known_condition(function):
        return _after_folding(module, key, function.span)
    try:
        with stage("gradients", function.span):
            differentiate(function)
    except CompileError as error:
        return error.diagnostics
    return ()


def _has_known_condition(function: Function) -> bool:
    """Whether a branch may be gone when gradients are taken: its condition is computed of constants and sizes."""
    known: set[Value] = set()
    for op in walk(function.body):
        if op.name == "if" and op.operands[0] in known:
            return True
        if op.name in ("constant", "size") or (isinstance(entry(op.name).lowering, Scalar) and known.issuperset(op.operands)):
            known.update(op.results)
    return False


def _after_folding(module: Module, key: str, span: Span | None) -> tuple[Diagnostic, ...]:
    """The same once known conditions have been decided: that needs NumPy, which is loaded only where it may change the answer."""
    from shapescript.compiler.passes.pipeline import compile_entry

    try:
        with stage("gradients", span):
            compile_entry(module, key, {}, stop_after="grad")
    except CompileError as error:
        return error.diagnostics
    return ()


@contextmanager
def stage(name: str, span: Span | None = None) -> Iterator[None]:
    """A mistake of the compiler's inside is reported as one, with its stage and the place in the program that was compiled."""
    try:
        yield
    except (CompileError, InternalError, MemoryError):
        raise
    except Exception as error:
        raise InternalError(name, bounded(f"{type(error).__name__}: {error}", LONGEST_REASON), span) from error
