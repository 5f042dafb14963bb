"""`shapescript std`: list the modules of the standard library, show where one is, copy one to change it."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import BinaryIO

from shapescript.failures import BAD_USAGE, FAILED, OK, say


def add_std(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command `std` with its own commands."""
    std = commands.add_parser("std", help="list, find and copy the modules of the standard library", allow_abbrev=False)
    actions = std.add_subparsers(dest="std_command", required=True, metavar="COMMAND")

    listed = actions.add_parser("list", help="the names of the modules, one a line", allow_abbrev=False)
    listed.set_defaults(action=_list)

    path = actions.add_parser("path", help="the file of a module", allow_abbrev=False)
    path.add_argument("name", metavar="NAME")
    path.set_defaults(action=_path)

    copy = actions.add_parser("copy", help="copy a module's file into a folder, to be changed there", allow_abbrev=False)
    copy.add_argument("--force", action="store_true", help="overwrite a file that is already there")
    copy.add_argument("name", metavar="NAME")
    copy.add_argument("folder", metavar="DIR", type=Path)
    copy.set_defaults(action=_copy)


def _list(options: argparse.Namespace) -> int:
    from shapescript import std

    print(*std.names(), sep="\n")
    return OK


def _path(options: argparse.Namespace) -> int:
    source = _source(options)
    if source is None:
        return BAD_USAGE
    print(source)
    return OK


def _copy(options: argparse.Namespace) -> int:
    """Prints the copy's path. The copy is written beside its name and renamed, so that it is there whole or not at all."""
    from shapescript.runtime.files import replace_file

    source = _source(options)
    if source is None:
        return BAD_USAGE
    if not options.folder.is_dir():
        say(f"shapescript std copy: error: {options.folder} is no folder")
        return FAILED
    target = options.folder / source.name
    if os.path.lexists(target) and not options.force:
        say(f"shapescript std copy: error: {target} is there already; --force overwrites it")
        return FAILED
    text = source.read_bytes()

    def write(file: BinaryIO) -> None:
        file.write(text)

    replace_file(target, write)
    print(target)
    return OK


def _source(options: argparse.Namespace) -> Path | None:
    """The file of the module that is named; None, with a word to the user, where there is none."""
    from shapescript import std
    from shapescript.runtime.errors import ArgumentError

    try:
        return std.path(options.name)
    except ArgumentError as error:
        say(f"shapescript std {options.std_command}: error: {error.message}")
        return None
