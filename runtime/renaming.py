"""`rename={"old": "new"}`: names of parameters in a file, or prefixes of them, as the program calls them now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shapescript.runtime.errors import ArgumentError, CheckpointError, did_you_mean


class Renaming:
    """The entries of one load, and which of them have renamed something. The longest entry that fits a name is the one that counts.

    An entry fits a name that it equals, and names that go on behind it with a point. An empty old name fits all, an empty new one
    takes the prefix away.
    """

    def __init__(self, entries: Mapping[str, str] | None = None) -> None:
        """Raises ArgumentError R1004 for what is no mapping of strings."""
        entries = {} if entries is None else entries
        if not isinstance(entries, Mapping) or not all(isinstance(part, str) for pair in entries.items() for part in pair):
            raise ArgumentError("R1004", "rename: expected a mapping of names to names, all strings")
        self._entries = dict(sorted(entries.items(), key=lambda entry: len(entry[0]), reverse=True))
        self._used: set[str] = set()
        self._seen: dict[str, None] = {}

    def __bool__(self) -> bool:
        return bool(self._entries)

    def name(self, name: str) -> str:
        """What a name of the file is called in the program."""
        self._seen[name] = None
        for old, new in self._entries.items():
            rest = _behind(old, name)
            if rest is not None:
                self._used.add(old)
                return f"{new}.{rest}" if new and rest else new or rest
        return name

    def keys(self, where: str, values: Mapping[Any, Any]) -> dict[Any, Any]:
        """The mapping under its new names. Raises CheckpointError R1303 of kind "unexpected" where two names end up the same."""
        if not self._entries:
            return dict(values)
        renamed: dict[Any, Any] = {}
        origin: dict[Any, Any] = {}
        for key, value in values.items():
            new = self.name(key) if isinstance(key, str) else key
            if new in renamed or new == "":
                what = f"both {origin[new]!r} and {key!r} are called {new!r} then" if new in renamed else f"{key!r} has no name then"
                raise CheckpointError("R1303", f"{where}: rename: {what}", kind="unexpected", name=str(new), expected=new, found=key)
            renamed[new], origin[new] = value, key
        return renamed

    def check_used(self, where: str) -> None:
        """Raises CheckpointError R1303 of kind "missing" for an entry that has renamed nothing."""
        for old in self._entries:
            if old not in self._used:
                hidden = any(_behind(old, name) is not None for name in self._seen)
                near = did_you_mean(old, _prefixes(self._seen))
                reason = "longer entries rename all that it fits" if hidden else f"nothing in the file has that name{near}"
                message = f"{where}: rename: {old!r} renames nothing: {reason}"
                raise CheckpointError("R1303", message, kind="missing", name=old, expected=old, found=tuple(self._seen))


def _behind(prefix: str, name: str) -> str | None:
    """What follows a prefix and its point, "" where they are equal, None where it is no prefix of whole parts."""
    if not prefix or name == prefix:
        return name[len(prefix) :]
    return name[len(prefix) + 1 :] if name.startswith(f"{prefix}.") else None


def _prefixes(names: Iterable[str]) -> list[str]:
    """The names, and all that they begin with, up to a point."""
    found = {name: None for name in names}
    for name in names:
        parts = name.split(".")
        found.update({".".join(parts[:count]): None for count in range(1, len(parts))})
    return list(found)
