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
from shapescript.compiler.ir.nodes import Module
from shapescript.compiler.passes.differentiate import differentiate
from shapescript.compiler.passes.specialise import specialise
from shapescript.runtime.host_numbers import checked_int

LARGEST_DIM = 2**48
LONGEST_REASON = 300


def check(path: str | os.PathLike[str], dims: Mapping[str, int] | None = None) -> list[Diagnostic]:
    """What is wrong in a program, sorted by place; each has `.code`, `.message` and `.span`. An empty list: nothing.

    dims: values in the place of those that the file declares. Raises ArgumentError R1004 or R1006 for one that is no size.
    """
    return list(checked_file(Path(path), dims).diagnostics)


def checked_file(path: Path, dims: Mapping[str, int] | None) -> Program:
    sizes = {name: checked_int(f"dims: {name}", value, 0, LARGEST_DIM) for name, value in (dims or {}).items()}
    with stage("check"):
        program = check_file(path, sizes)
    if program.module is None:
        return program
    found = list(program.diagnostics) + list(_gradient_errors(program, program.module))
    return program if len(found) == len(program.diagnostics) else replace(program, diagnostics=tuple(found), module=None)


def _gradient_errors(program: Program, module: Module) -> Iterator[Diagnostic]:
    """What only differentiation sees, each mistake once; functions with dim or type parameters have to wait for a call."""
    seen: set[tuple[str, tuple[str, int, int]]] = set()
    for signature in (one for overloads in program.functions.values() for one in overloads):
        if signature.dims or signature.types:
            continue
        for diagnostic in _gradients_of(module, signature.key, signature.span):
            if (diagnostic.code, diagnostic.place) not in seen:
                seen.add((diagnostic.code, diagnostic.place))
                yield diagnostic


def _gradients_of(module: Module, key: str, span: Span) -> tuple[Diagnostic, ...]:
    try:
        with stage("gradients", span):
            differentiate(specialise(module, key, {}))
    except CompileError as error:
        if all(diagnostic.code != "E0901" for diagnostic in error.diagnostics):
            return error.diagnostics
        return _after_folding(module, key, span)
    return ()


def _after_folding(module: Module, key: str, span: Span) -> tuple[Diagnostic, ...]:
    """The same once conditions that are known have been decided: that needs NumPy, which is loaded only where it may change the answer."""
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
