"""The command line: run, check, build, cache, inspect, std. Help and checking load neither NumPy nor llvmlite."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NoReturn

from shapescript import measuring
from shapescript.cache_command import add_cache
from shapescript.compiler.check.program import Program, Signature
from shapescript.compiler.codegen.thread_count import MOST_THREADS, asked_for, checked
from shapescript.compiler.diagnostics.model import CompileError, Diagnostic
from shapescript.failures import BAD_USAGE, FAILED, OK, forgiving_streams, say, show, status_of
from shapescript.inspect_command import add_inspect
from shapescript.profile_options import add_profile_options, profiled
from shapescript.signals import Signals
from shapescript.std_command import add_std

STAGES = ("tree", "ir", "grad", "fused", "final", "llvm", "asm")
STATUS_TEXT = """exit status: 0 done; 1 errors in the program or while it ran; 2 bad usage; 70 a mistake of the compiler;
130 after Ctrl-C; 143 after SIGTERM"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; gives the exit status."""
    with Signals() as signals:
        return ended(arguments, signals)


def ended(arguments: Sequence[str] | None, signals: Signals) -> int:
    """The status of a command, whatever ends it. A signal is raised once, so one that comes while a failure is told is caught too."""
    doing = "command line"
    with forgiving_streams():
        try:
            try:
                options = _parser().parse_args(arguments)
                doing = options.command
                status: int = options.action(options)
                sys.stdout.flush()
                signals.over()
            except SystemExit as end:  # argparse: help, version, bad usage
                return end.code if isinstance(end.code, int) else BAD_USAGE
            except Exception as error:  # becomes text and a status
                return _told(signals.cause(error), doing)
        except KeyboardInterrupt as error:
            return _told(signals.cause(error), doing)
    return status


def _told(error: BaseException, doing: str) -> int:
    with contextlib.suppress(BrokenPipeError):
        return status_of(error, doing)
    return FAILED


def _parser() -> argparse.ArgumentParser:
    about = "Check, compile and run ShapeScript programs."
    parser = argparse.ArgumentParser("shapescript", description=about, epilog=STATUS_TEXT, allow_abbrev=False)
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and leave")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="run a program: its function `main`", allow_abbrev=False)
    run.add_argument("--engine", choices=("native", "numpy"), default="native", help="numpy: the reference evaluator, the same bits slowly")
    run.add_argument("--threads", type=_threads, metavar="N", help="the most threads to use (default: the cores that there are)")
    add_profile_options(run)
    _add_dims(run)
    run.add_argument("file", metavar="FILE", help="`run FILE --help` lists the arguments of its main")
    run.add_argument("words", metavar="--name value", nargs=argparse.REMAINDER, help="arguments of main")
    run.set_defaults(action=_run)

    check = commands.add_parser("check", help="tell what is wrong in programs", allow_abbrev=False)
    _add_dims(check)
    check.add_argument("files", metavar="FILE", nargs="+")
    check.set_defaults(action=_check)

    build = commands.add_parser("build", help="show a program at a stage of compiling", allow_abbrev=False)
    build.add_argument("--emit", choices=STAGES, required=True, metavar="STAGE", help=f"one of {', '.join(STAGES)}")
    build.add_argument("--entry", default="main", metavar="NAME", help="the function that is compiled (default: main)")
    _add_dims(build)
    build.add_argument("file", metavar="FILE")
    build.set_defaults(action=_build)

    add_cache(commands)
    add_inspect(commands)
    add_std(commands)
    return parser


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from shapescript import __version__

        print(f"shapescript {__version__}")
        parser.exit()


def _add_dims(parser: argparse.ArgumentParser) -> None:
    about = "a value for a dim of the program"
    parser.add_argument("--dim", dest="dims", metavar="NAME=N", type=_dim, action="append", default=[], help=about)


def _dim(text: str) -> tuple[str, int]:
    name, _, value = text.partition("=")
    if not name or not value.isascii() or not value.isdigit():
        raise argparse.ArgumentTypeError(f"expected NAME=N, got {text!r}")
    return name, int(value)


def _threads(text: str) -> AbstractContextManager[None]:
    """What has calls within use so many."""
    try:
        return asked_for(checked(int(text), "threads"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 to {MOST_THREADS}, got {text!r}") from None


# ---- commands


def _check(options: argparse.Namespace) -> int:
    from shapescript.checking import checked_file

    found = [diagnostic for file in options.files for diagnostic in checked_file(Path(file), dict(options.dims)).diagnostics]
    show(dict.fromkeys(found))
    return FAILED if any(diagnostic.is_error for diagnostic in found) else OK


def _run(options: argparse.Namespace) -> int:
    from shapescript.main_arguments import UsageError

    try:
        with profiled(options), options.threads or contextlib.nullcontext():
            return _run_main(options)
    except UsageError as error:
        say(f"shapescript run {options.file}: error: {error}")
        return BAD_USAGE


def _run_main(options: argparse.Namespace) -> int:
    """Raises UsageError."""
    from shapescript.main_arguments import help_text, parse_arguments, wants_help

    with measuring.part("checking"):
        checked = _checked(options)
    signature = _entry(checked, "main")
    if wants_help(options.words):
        print(help_text(signature, options.file))
        return OK
    arguments = parse_arguments(signature, options.words)

    from shapescript.program import Program as Loaded
    from shapescript.progress import Progress
    from shapescript.progress_line import is_terminal
    from shapescript.runtime.notices import listening

    progress = Progress(sys.stderr, is_terminal(sys.stderr))
    program = Loaded(checked, Path(options.file), options.engine, progress)
    try:
        with listening(progress.told):
            program.main(**arguments)
    except BaseException:
        progress.flush_logs()
        raise
    finally:
        progress.close()
    return OK


def _build(options: argparse.Namespace) -> int:
    from shapescript.emit import emitted

    checked = None if options.emit == "tree" else _checked(options)
    key = "" if checked is None else _compiled_alone(_entry(checked, options.entry)).key
    sys.stdout.write(emitted(options.emit, Path(options.file), checked, key))
    return OK


def _checked(options: argparse.Namespace) -> Program:
    """Shows warnings. Raises CompileError where there are errors."""
    from shapescript.checking import checked_file

    checked = checked_file(Path(options.file), dict(options.dims))
    if checked.module is None:
        raise CompileError(checked.diagnostics)
    show(checked.diagnostics)
    return checked


def _entry(checked: Program, name: str) -> Signature:
    """The function of this name. Raises CompileError where there is none, or more than one."""
    overloads = checked.functions.get(name, ())
    if len(overloads) == 1:
        return overloads[0]
    known = ", ".join(checked.functions) or "none"
    why = "several functions" if overloads else "no function"
    code = "E0305" if overloads else "E0201"
    raise CompileError(Diagnostic(code, f"{checked.path} declares {why} `{name}`; its functions are {known}", None))


def _compiled_alone(signature: Signature) -> Signature:
    """Raises CompileError for a function that is compiled anew for each choice of its parameters in brackets."""
    parameters = [*(symbol.name for symbol in signature.dims), *(parameter.name for parameter in signature.types)]
    if parameters:
        message = f"`{signature.name}` stands for a function for each {', '.join(parameters)}; name a function that calls it"
        raise CompileError(Diagnostic("E0203", message, signature.span))
    return signature
