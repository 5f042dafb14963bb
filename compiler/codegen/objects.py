"""Object files put into this process's memory without LLVM, whose library takes 50 MiB and a tenth of a second to load.

Only what our own code generator makes for x86-64 is known: sections that are read, run or written, and references between them as the
large code model has them, each a distance of 64 bits. Any other object raises NotKnown, and LLVM loads it.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
import sys
from collections.abc import Iterator, Mapping
from enum import IntEnum
from functools import cache
from typing import Any

from shapescript.compiler.records.dataclass import dataclass

IDENTITY = b"\x7fELF\x02\x01\x01"  # 64 bits, little-endian
RELOCATABLE, X86_64 = 1, 62
OUTSIDE = ("memcpy", "memmove", "memset")  # what an object may need from elsewhere
OFFSET_TABLE = "_GLOBAL_OFFSET_TABLE_"
ENTRY_BYTES = 8

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_REFERENCE = struct.Struct("<QQq")


class NotKnown(Exception):
    """An object that isn't such a one; the text says why."""


class Kind(IntEnum):
    """Of sections."""

    CONTENT = 1
    SYMBOLS = 2
    REFERENCES = 4
    ZEROS = 8
    UNWINDING = 0x70000001  # how exceptions leave functions: ours let none through


class Flag(IntEnum):
    WRITTEN = 1
    LOADED = 2
    RUN = 4
    THREADS_OWN = 0x400


class Reference(IntEnum):
    """R_X86_64_…: what is written for a symbol at S with an addend A, at a place P; G is the entry of the symbol in the offset table."""

    ADDRESS = 1  # 64: S + A
    DISTANCE = 24  # PC64: S + A - P
    FROM_TABLE = 25  # GOTOFF64: S + A - table
    ENTRY = 27  # GOT64: G + A - table
    TABLE = 29  # GOTPC64: table + A - P
    CALL_FROM_TABLE = 31  # PLTOFF64: as GOTOFF64; what is far away needs no stub


@dataclass(frozen=True)
class Section:
    """A section of an object file. `start` is where its content begins there."""

    kind: int
    flags: int
    start: int
    size: int
    link: int
    about: int
    alignment: int

    @property
    def is_run(self) -> bool:
        return bool(self.flags & Flag.RUN)

    @property
    def is_written(self) -> bool:
        return bool(self.flags & Flag.WRITTEN)


@dataclass(frozen=True)
class Symbol:
    name: str
    section: int
    value: int


class LoadedObject:
    """An object in memory, which is freed with it. Raises NotKnown, and OSError where the system gives no memory that may run."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._sections = _sections(data)
        symbols = self._symbols()
        far = [symbol.name for symbol in symbols if not symbol.section and symbol.name not in ("", OFFSET_TABLE)]
        if not set(far) <= set(OUTSIDE):
            raise NotKnown(f"it needs {', '.join(sorted(set(far) - set(OUTSIDE)))}")
        self._entries = {name: place * ENTRY_BYTES for place, name in enumerate(far)}  # in the offset table, which begins the memory
        places, runs_from, written_from, end = self._placed(ENTRY_BYTES * len(far))
        self._memory = mmap.mmap(-1, max(end, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        self._view = (ctypes.c_char * len(self._memory)).from_buffer(self._memory)
        self._start = ctypes.addressof(self._view)
        self._fill(places, symbols)
        _protect(self._start, runs_from, mmap.PROT_READ)
        _protect(self._start + runs_from, written_from - runs_from, mmap.PROT_READ | mmap.PROT_EXEC)
        self._addresses = {one.name: self._start + places[one.section] + one.value for one in symbols if one.name and one.section in places}

    def get_function_address(self, name: str) -> int:
        """0 where there is none of the name; as LLVM's engine does."""
        return self._addresses.get(name, 0)

    get_global_value_address = get_function_address

    def _symbols(self) -> list[Symbol]:
        found: list[Symbol] = []
        for section in self._sections:
            if section.kind == Kind.SYMBOLS:
                names = self._sections[section.link].start
                for name, _, _, number, value, _ in _SYMBOL.iter_unpack(self._data[section.start : section.start + section.size]):
                    end = self._data.index(b"\0", names + name)
                    found.append(Symbol(self._data[names + name : end].decode(), number, value))
        return found

    def _placed(self, first: int) -> tuple[Mapping[int, int], int, int, int]:
        """Where sections lie, by their numbers: what is only read, then from pages of their own on what runs and what is written; and where
        that ends."""
        places: dict[int, int] = {}
        begins, end = [], first
        for is_run, is_written in ((False, False), (True, False), (False, True)):
            begins.append(end)
            for number, section in enumerate(self._sections):
                if section.flags & Flag.LOADED and (section.is_run, section.is_written) == (is_run, is_written):
                    places[number] = _rounded(end, max(section.alignment, 1))
                    end = places[number] + section.size
            end = _rounded(end, mmap.PAGESIZE)
        return places, begins[1], begins[2], end

    def _fill(self, places: Mapping[int, int], symbols: list[Symbol]) -> None:
        memory = self._memory
        for name, place in self._entries.items():
            struct.pack_into("<Q", memory, place, _outside()[name])
        for number, place in places.items():
            section = self._sections[number]
            if section.kind == Kind.CONTENT:
                memory[place : place + section.size] = self._data[section.start : section.start + section.size]
        for about, place, kind, number, addend in self._references():
            if about in places:
                symbol = symbols[number]
                is_here = symbol.section in places
                if not is_here and symbol.name not in self._entries and symbol.name != OFFSET_TABLE:
                    raise NotKnown(f"it refers to {symbol.name or 'a section that is not loaded'}")
                at = places[about] + place
                # Places in the memory, and distances in it; the table is its start.
                there = places[symbol.section] + symbol.value if is_here else _outside().get(symbol.name, 0) - self._start
                match kind:
                    case Reference.ADDRESS:
                        value = self._start + there + addend
                    case Reference.DISTANCE:
                        value = there + addend - at
                    case Reference.FROM_TABLE | Reference.CALL_FROM_TABLE:
                        value = there + addend
                    case Reference.ENTRY if symbol.name in self._entries:
                        value = self._entries[symbol.name] + addend
                    case Reference.TABLE:
                        value = addend - at
                    case _:
                        raise NotKnown(f"it has a reference of kind {kind}")
                struct.pack_into("<Q", memory, at, value & (1 << 64) - 1)

    def _references(self) -> Iterator[tuple[int, int, int, int, int]]:
        """The section that has it, where in it, its kind, the number of the symbol, the addend."""
        for section in self._sections:
            if section.kind == Kind.REFERENCES:
                content = self._data[section.start : section.start + section.size]
                for place, info, addend in _REFERENCE.iter_unpack(content):
                    yield section.about, place, info & 0xFFFFFFFF, info >> 32, addend


def _sections(data: bytes) -> list[Section]:
    if sys.platform != "linux" or not data.startswith(IDENTITY) or len(data) < _HEADER.size:
        raise NotKnown("it is no object of this system's")
    _, kind, machine, _, _, _, table, _, _, _, _, size, count, _ = _HEADER.unpack_from(data)
    if (kind, machine, size) != (RELOCATABLE, X86_64, _SECTION.size) or table + size * count > len(data):
        raise NotKnown("it is no object file for x86-64")
    found = []
    for number in range(count):
        _, kind, flags, _, start, length, link, about, alignment, _ = _SECTION.unpack_from(data, table + number * size)
        if kind == Kind.UNWINDING:
            flags = 0
        both = flags & Flag.WRITTEN and flags & Flag.RUN
        if flags & Flag.LOADED and (both or flags & Flag.THREADS_OWN or kind not in (Kind.CONTENT, Kind.ZEROS)):
            raise NotKnown("it has a section of another kind")
        if kind != Kind.ZEROS and start + length > len(data):
            raise NotKnown("it is cut off")
        found.append(Section(kind, flags, start, length, link, about, alignment))
    return found


@cache
def _outside() -> Mapping[str, int]:
    library = ctypes.CDLL(None)
    return {name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in OUTSIDE}


@cache
def _mprotect() -> Any:
    function = ctypes.CDLL(None, use_errno=True).mprotect
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return function


def _protect(start: int, count: int, allowed: int) -> None:
    if count and _mprotect()(start, count, allowed):
        raise OSError(ctypes.get_errno(), "memory can't be made to run")


def _rounded(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple


__all__ = ["LoadedObject", "NotKnown"]
