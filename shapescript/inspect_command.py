"""`shapescript inspect`: tell what checkpoints and files of arrays hold."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from shapescript.failures import FAILED, OK, status_of

if TYPE_CHECKING:
    from shapescript.runtime.inspection import Inspection


def add_inspect(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    about = "tell what checkpoints (.pt, .safetensors) and files of arrays (.npz, .npy) hold"
    inspect = commands.add_parser("inspect", help=about, allow_abbrev=False)
    inspect.add_argument("--json", action="store_true", help="one JSON object a line and file, for programs")
    inspect.add_argument("files", metavar="FILE", nargs="+")
    inspect.set_defaults(action=_inspect)


def _inspect(options: argparse.Namespace) -> int:
    """Each file is told, whatever is wrong with one before it."""
    from shapescript.runtime.errors import ShapeScriptError
    from shapescript.runtime.inspection import inspect
    from shapescript.runtime.inspection_texts import as_json, as_text

    status = OK
    told: Inspection | None = None
    for file in options.files:
        if told is not None and not options.json:
            print()
        try:
            told = inspect(file)
        except (ShapeScriptError, MemoryError) as error:
            status = status_of(error, options.command)
            continue
        print(as_json(told) if options.json else as_text(told))
        if told.error is not None:
            sys.stdout.flush()
            status = status_of(told.error, options.command)
    return FAILED if status else OK
