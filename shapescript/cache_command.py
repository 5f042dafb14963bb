"""`shapescript cache`: tell where compiled code is kept and how much there is; remove it."""

from __future__ import annotations

import argparse

from shapescript.cache_settings import FOLDER_VARIABLE, SWITCH_VARIABLE, cache_folder, is_off
from shapescript.failures import FAILED, OK, say
from shapescript.object_cache import LIMIT_BYTES, ObjectCache

MIB = 1 << 20


def add_cache(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command `cache` with its own commands."""
    cache = commands.add_parser("cache", help="tell what compiled code is kept, or remove it", allow_abbrev=False)
    actions = cache.add_subparsers(dest="cache_command", required=True, metavar="COMMAND")

    info = actions.add_parser("info", help="where it is kept, and how much there is", allow_abbrev=False)
    info.set_defaults(action=_info)

    clear = actions.add_parser("clear", help="remove all of it", allow_abbrev=False)
    clear.set_defaults(action=_clear)


def _info(options: argparse.Namespace) -> int:
    cache = _cache(options)
    if cache is None:
        return FAILED
    entries, problem = cache.entries(), cache.problem()
    state = f"off ({SWITCH_VARIABLE}=off)" if is_off() else f"can't be used: {problem}" if problem else "on"
    print(f"folder   {cache.folder}")
    print(f"state    {state}")
    print(f"entries  {len(entries)}")
    print(f"size     {_mib(sum(entry.size for entry in entries))} of at most {LIMIT_BYTES // MIB} MiB")
    return OK


def _clear(options: argparse.Namespace) -> int:
    cache = _cache(options)
    if cache is None:
        return FAILED
    count, size = cache.clear()
    print(f"removed {count} {'entry' if count == 1 else 'entries'}, {_mib(size)}")
    left = len(cache.entries())
    if left:
        say(f"shapescript cache clear: error: {left} could not be removed from {cache.folder}")
    return FAILED if left else OK


def _cache(options: argparse.Namespace) -> ObjectCache | None:
    """The folder's, whether or not it is used now; None, with a word to the user, where there is no folder."""
    folder = cache_folder()
    if folder is None:
        say(f"shapescript cache {options.cache_command}: error: you have no home; {FOLDER_VARIABLE} names a folder")
        return None
    return ObjectCache(folder)


def _mib(size: int) -> str:
    return f"{size / MIB:.1f} MiB"
