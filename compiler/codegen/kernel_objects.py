"""Machine code in pieces: objects that take kernels from each other; and the kernels that a process has, which what it compiles later uses.

A compilation makes an object of the kernels that are new, and one of what is no kernel. An object with all that it needs is data that loads
alone: who uses a kernel takes its object with it, so nothing depends on what a process or a cache still has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shapescript.compiler.codegen.context import ENTRY
from shapescript.compiler.codegen.loading import NativeCode, load_object
from shapescript.compiler.codegen.module_parts import TABLE, ModuleParts
from shapescript.compiler.codegen.target import Target
from shapescript.compiler.records.dataclass import dataclass

MOST_NEEDED = 8  # objects that one may need: each takes a while to load
LIMIT_BYTES = 32 << 20


@dataclass(frozen=True)
class Code:
    """An object file; the functions that it has for others; those that it takes from elsewhere, as its table has them; and the objects that
    have these."""

    data: bytes
    names: tuple[str, ...]
    uses: tuple[str, ...]
    needs: tuple[Code, ...]


def with_needs(objects: Iterable[Code]) -> list[Code]:
    """The objects and all that they need, each behind what it needs."""
    found: dict[bytes, Code] = {}
    for one in objects:
        found.update((code.data, code) for code in [*with_needs(one.needs), one] if code.data not in found)
    return list(found.values())


def load(code: Code, target: Target) -> NativeCode:
    """Load an object with all that it needs. Raises ValueError for what is no object file."""
    loaded = [(one, load_object(one.data, target)) for one in with_needs([code])]
    places = {name: native for one, native in loaded for name in one.names}
    for one, native in loaded:
        if one.uses:
            native.fill(TABLE, [places[name].address(name) for name in one.uses])
    native.needs = [native for _, native in loaded[:-1]]
    return native


class KnownKernels:
    """The kernels that this process has compiled or loaded, by target. When there are too many it begins anew."""

    def __init__(self, limit: int = LIMIT_BYTES) -> None:
        self.limit = limit
        self.clear()

    def clear(self) -> None:
        self._objects: dict[tuple[Target, str], Code] = {}
        self._bytes = 0

    def add(self, target: Target, code: Code) -> None:
        """An object's kernels, and those of what it needs."""
        for one in with_needs([code]):
            new = [name for name in one.names if name != ENTRY and (target, name) not in self._objects]
            if not new:
                continue
            if self._bytes + len(one.data) > self.limit:
                self.clear()
            self._bytes += len(one.data)
            self._objects.update(((target, name), one) for name in new)

    def provided(self, parts: ModuleParts, target: Target) -> tuple[list[Code], list[str]]:
        """Objects with kernels of a module, and the kernels that must be made: they are in none of the objects, nor are their callers."""
        known = self._objects  # which another thread may replace
        taken: list[Code] = []
        missing: dict[str, None] = {}

        def visit(names: Iterable[str]) -> None:
            for name in names:
                if name in missing or any(name in one.names for one in taken):
                    continue
                one = known.get((target, name))
                if one is not None and len(with_needs([*taken, one])) < MOST_NEEDED:  # what is missing is one object more
                    taken.append(one)
                else:
                    missing[name] = None
                    visit(parts.called(name))

        visit(sorted(parts.used_kernels, key=lambda name: -len(parts.kernels[name].text)))
        return taken, list(missing)


KNOWN = KnownKernels()


def compiled(parts: ModuleParts, target: Target, known: KnownKernels = KNOWN) -> Code:
    """A module, with the kernels that are known and those that aren't, which are known from then on."""
    taken, missing = known.provided(parts, target)
    if missing:
        made = _made(parts.kernel_text(missing), missing, taken, target)
        known.add(target, made)
        taken = [*taken, made]
    return _made(parts.own_text(), [ENTRY], taken, target)


def _made(module: tuple[str, tuple[str, ...]], names: Sequence[str], others: Sequence[Code], target: Target) -> Code:
    from shapescript.compiler.codegen import jit  # LLVM

    text, uses = module
    return Code(jit.emit_loadable(text, target), tuple(names), uses, tuple(one for one in others if not set(uses).isdisjoint(one.names)))
