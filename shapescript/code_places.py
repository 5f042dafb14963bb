"""Where machine code lies in the cache: under the digests of all that it depends on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from shapescript.compile_keys import Key, compiler_digest
from shapescript.object_cache import Damaged, ObjectCache

T = TypeVar("T")


class CodePlace:
    """The place of what has this key."""

    def __init__(self, cache: ObjectCache, key: Key) -> None:
        self.cache, self.key = cache, key
        self.name = file_name(key)

    def found(self, load: Callable[[bytes], T]) -> tuple[T | None, str]:
        """What is made of the bytes that are there; where they are damaged or nothing can be made of them, how."""
        try:
            data = self.cache.read(self.name)
            return None if data is None else load(data), ""
        except Exception as error:  # whatever bytes are there, the program runs
            return None, _no_use(error)

    def cause(self) -> str:
        """Why there is nothing."""
        same = [_parts(name) for name in self.cache.made_for(self.key.who)]
        program, machine, compiler = _parts(self.name)
        if not same:
            return "it isn't in the cache"
        if (program, machine) in [known[:2] for known in same]:
            return "another version of ShapeScript or LLVM compiled it last"
        if (program, compiler) in [known[::2] for known in same]:
            return "it was compiled for another CPU"
        return "its sources or dims have changed"

    def before(self) -> bytes | None:
        """What the same was last, compiled by the same compiler for the same machine."""
        rest = _parts(self.name)[1:]
        same = [name for name in self.cache.made_for(self.key.who) if _parts(name)[1:] == rest and name != self.name]
        return self.cache.read(same[-1]) if same else None

    def keep(self, content: bytes) -> str | None:
        """Gives why it can't be kept."""
        if compiler_digest() != self.key.compiler:
            return "the compiler's files have changed"
        return self.cache.write(self.name, self.key.who, content)


def code_place(cache: ObjectCache, key: Key | None) -> CodePlace | str:
    """Or why there is none; the key is None where the compiler's files aren't those that this process runs."""
    problem = cache.problem()
    if problem:
        return f"the cache can't be used: {cache.folder}: {problem}"
    return "the compiler's files have changed since it was loaded" if key is None else CodePlace(cache, key)


def _no_use(error: Exception) -> str:
    kind = "" if isinstance(error, Damaged) else f"{type(error).__name__}: "
    return f"what the cache has is no use: {kind}{error}"


def file_name(key: Key) -> str:
    return f"{key.program.hex()}-{key.machine.hex()}-{key.compiler.hex()}"


def _parts(name: str) -> tuple[str, ...]:
    return tuple(name.split("-"))
