"""A module as text in parts: each of its functions, the kernels, under a name that says what it does, so that one is compiled once.

A kernel's name is the digest of its text, in which what it calls is named in the same way. Equal names are equal code, wherever it was
made; two functions of a module that turn out to be equal are one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import count

from llvmlite import ir

from shapescript.compiler.records.dataclass import dataclass

PREFIX = "kernel."
TABLE = "shapescript_kernels"  # exported: addresses of the kernels that a module takes from elsewhere
_NAME = re.compile(r'@"([^"]*)"')
_NODE = re.compile(r"!(\d+)")
_INTERNAL = "define internal "
_CALL = re.compile(rf'^.*@"{PREFIX}[0-9a-f]+".*$', re.MULTILINE)


@dataclass(frozen=True)
class Kernel:
    """A function that may be called from other modules. `text` defines it, by names of its own and of what it uses."""

    name: str
    text: str
    uses: tuple[str, ...]


@dataclass(frozen=True)
class ModuleParts:
    """`own` is the text of what is in this module alone, which calls `kernels`; `shared` are the declarations and tables that either may
    use, by their names, and the nodes of metadata."""

    own: str
    uses: tuple[str, ...]
    kernels: Mapping[str, Kernel]
    shared: Mapping[str, str]
    nodes: str

    def own_text(self) -> tuple[str, tuple[str, ...]]:
        """The module without its kernels, and which ones it takes from elsewhere, as its TABLE has them."""
        return self._text([self.own], self.uses, ())

    def kernel_text(self, names: Collection[str]) -> tuple[str, tuple[str, ...]]:
        """A module of these kernels, which others may call, and which ones it takes from elsewhere, as its TABLE has them."""
        kernels = [self.kernels[name] for name in names]
        return self._text([kernel.text for kernel in kernels], _once(use for kernel in kernels for use in kernel.uses), names)

    def _text(self, texts: Sequence[str], uses: Iterable[str], defined: Collection[str]) -> tuple[str, tuple[str, ...]]:
        outside = [use for use in uses if use not in defined]
        taken = tuple(use for use in outside if use in self.kernels)
        shared = [self.shared[use] for use in outside if use in self.shared]
        if taken:
            texts = [f'@"{TABLE}" = dso_local global [{len(taken)} x ptr] zeroinitializer\n', *_through_table(texts, taken)]
        return "\n".join([*shared, *texts, self.nodes]), taken

    @property
    def used_kernels(self) -> list[str]:
        return [use for use in self.uses if use in self.kernels]

    def called(self, kernel: str) -> list[str]:
        """The kernels that one calls."""
        return [use for use in self.kernels[kernel].uses if use in self.kernels]


def _through_table(texts: Sequence[str], taken: Sequence[str]) -> list[str]:
    """The texts with the addresses of these kernels read from the module's table, just where they are wanted."""
    places, numbers = {name: place for place, name in enumerate(taken)}, count()

    def line(found: re.Match[str]) -> str:
        before, text = [], found[0]
        for name in dict.fromkeys(_NAME.findall(text)):
            if name in places:
                slot, address = (f'%"{PREFIX}{next(numbers)}"' for _ in range(2))
                before.append(f'  {slot} = getelementptr ptr, ptr @"{TABLE}", i64 {places[name]}')
                before.append(f"  {address} = load ptr, ptr {slot}")
                text = text.replace(f'@"{name}"', address)
        return "\n".join([*before, text])

    return [_CALL.sub(line, text) for text in texts]


def parts(module: ir.Module, own: Collection[str]) -> ModuleParts:
    """Of a module whose functions of these names are its own."""
    return _Parts(module).all(own)


class _Parts:
    def __init__(self, module: ir.Module) -> None:
        self.texts = {name: str(value) for name, value in module.globals.items()}
        self.defined = {fn.name for fn in module.functions if fn.blocks}
        self.nodes = {str(node.name): str(node) for node in module.metadata}
        self.named: dict[str, str] = {}
        self.kernels: dict[str, Kernel] = {}

    def all(self, own: Collection[str]) -> ModuleParts:
        self.named = {name: name for name in own}
        texts = {name: self._renamed(name) for name in own}
        uses = _once(use for _, found in texts.values() for use in found if use not in own)
        shared = {name: text for name, text in self.texts.items() if name not in self.defined}
        text = "\n".join(text for text, _ in texts.values())
        return ModuleParts(text, uses, self.kernels, shared, "".join(self.nodes.values()))

    def _renamed(self, name: str) -> tuple[str, tuple[str, ...]]:
        """The text of a function in which kernels have their names, and the names that are in it."""
        text = _NAME.sub(lambda found: f'@"{self._name(found[1])}"', self.texts[name])
        return text, _once(_NAME.findall(text))

    def _name(self, name: str) -> str:
        known = self.named.get(name)
        if known is None:
            known = self.named[name] = self._kernel(name) if name in self.defined else name
        return known

    def _kernel(self, name: str) -> str:
        assert self.texts[name].startswith(_INTERNAL), name
        self.named[name] = PREFIX  # of itself, in its own text
        text, uses = self._renamed(name)
        assert text.count(f'@"{PREFIX}"') == 1, f"{name} calls itself"
        digest = hashlib.sha256("\n".join([text, *self._told(text, uses)]).encode()).hexdigest()
        named = PREFIX + digest
        if named not in self.kernels:
            text = "define dso_local " + text.removeprefix(_INTERNAL).replace(f'@"{PREFIX}"', f'@"{named}"')
            self.kernels[named] = Kernel(named, text, tuple(use for use in uses if use != PREFIX))
        return named

    def _told(self, text: str, uses: Iterable[str]) -> Iterator[str]:
        """What a function's text only names, beside kernels: declarations, tables, and nodes of metadata."""
        yield from (self.texts[use] for use in uses if use in self.texts)
        yield from (self.nodes[number] for number in _once(_NODE.findall(text)))


def _once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
