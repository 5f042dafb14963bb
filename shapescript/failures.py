"""How the command line ends: exceptions as text and exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper

from shapescript.compiler.diagnostics.model import CompileError, Diagnostic, InternalError, Span
from shapescript.compiler.diagnostics.render import render_text
from shapescript.runtime.errors import ShapeScriptError, cause_of
from shapescript.signals import Terminated

OK, FAILED, BAD_USAGE, COMPILER_BUG, INTERRUPTED, BROKEN_PIPE, TERMINATED = 0, 1, 2, 70, 130, 141, 143

DEBUG_VARIABLE = "SHAPESCRIPT_DEBUG"


@contextmanager
def forgiving_streams() -> Iterator[None]:
    """Output that never fails for what it says: a stream that is closed swallows it, a character that it can't encode is escaped."""
    given = sys.stdout, sys.stderr
    with open(os.devnull, "w") as nowhere:
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if stream is None:
                setattr(sys, name, nowhere)
            elif isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        try:
            yield
        finally:
            sys.stdout, sys.stderr = given


def say(text: str) -> None:
    print(text, file=sys.stderr)


def show(diagnostics: Iterable[Diagnostic]) -> None:
    found = tuple(diagnostics)
    if found:
        colour = sys.stderr.isatty() and "NO_COLOR" not in os.environ
        say(render_text(found, colour))


def status_of(error: BaseException, doing: str) -> int:
    """Tell what went wrong; gives the exit status. `doing` is the stage that a mistake of the compiler's is put down to."""
    if os.environ.get(DEBUG_VARIABLE):
        import traceback

        traceback.print_exception(error)
    match error:
        case Terminated():
            say("shapescript: terminated")
            return TERMINATED
        case KeyboardInterrupt():
            say("shapescript: interrupted")
            return INTERRUPTED
        case BrokenPipeError():
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that the flush at exit doesn't fail once more
            return BROKEN_PIPE
        case CompileError(diagnostics=diagnostics):
            show(diagnostics)
            return FAILED
        case ShapeScriptError(code=code, message=message, span=span):
            show([Diagnostic(code, message, span if isinstance(span, Span) else None)])
            return FAILED
        case MemoryError():
            say("shapescript: error: out of memory")
            return FAILED
        case OSError():
            say(f"shapescript: error: {error.filename or doing}: {cause_of(error)}")
            return FAILED
        case InternalError():
            _report_bug(str(error))
        case _:
            _report_bug(str(InternalError(doing, f"{type(error).__name__}: {error}")))
    return COMPILER_BUG


def _report_bug(text: str) -> None:
    say(f"shapescript: {text}")
    say(f"This is a mistake of ShapeScript's, not of the program. {DEBUG_VARIABLE}=1 shows where it happened.")
