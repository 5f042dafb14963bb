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
from shapescript.compiler.ir.sizes import LARGEST
from shapescript.compiler.records.collection import paused_collection
from shapescript.known_gradients import KnownGradients
from shapescript.runtime.host_numbers import checked_int

LONGEST_REASON = 300


def check(path: str | os.PathLike[str], dims: Mapping[str, int] | None = None) -> list[Diagnostic]:
    """What is wrong in a program, sorted by place; each has `.code`, `.message` and `.span`. An empty list: nothing.

    dims: values in the place of those that the file declares. Raises ArgumentError R1004 or R1006 for one that is no size.
    """
    return list(checked_file(Path(path), dims).diagnostics)


def checked_file(path: Path, dims: Mapping[str, int] | None) -> Program:
    sizes = {name: checked_int(f"dims: {name}", value, 0, LARGEST) for name, value in (dims or {}).items()}
    with stage("check"), paused_collection():
        program = check_file(path, sizes)
    if program.module is None:
        return program
    found = _found_by_gradients(program, program.module)
    if not found:
        return program
    module = None if any(diagnostic.is_error for diagnostic in found) else program.module
    return replace(program, diagnostics=(*program.diagnostics, *found), module=module)


def _found_by_gradients(program: Program, module: Module) -> list[Diagnostic]:
    """Nothing is looked for again in a program that is known to be right."""
    known = KnownGradients(program, module)
    if known.are_right():
        return []
    from shapescript.gradient_checks import found_by_gradients  # only here are passes needed

    found = found_by_gradients(program, module)
    if not found:
        known.remember()
    return found


@contextmanager
def stage(name: str, span: Span | None = None) -> Iterator[None]:
    """A mistake of the compiler's inside is reported as one, with its stage and the place in the program that was compiled."""
    try:
        yield
    except (CompileError, InternalError, MemoryError):
        raise
    except Exception as error:
        raise InternalError(name, bounded(f"{type(error).__name__}: {error}", LONGEST_REASON), span) from error
