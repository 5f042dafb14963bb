"""The arena: scratch memory of a call, handed out by moving a pointer, in blocks that end when they were begun last.

An arena is a chain of chunks. A chunk begins with a header of 64 bytes: the next chunk's address or 0, and its own end. What doesn't fit
the chunk in use is taken from the next; only where there is none, or one too small, Python is asked for another. So pointers stay valid,
and a loop that needed more chunks in its first turn finds them in the next ones. When a call has ended its arena becomes one chunk that
holds all, and waits for the next call: calls that follow allocate nothing.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.context import WORD_BYTES, Word, load_address, load_word, store_word
from shapescript.compiler.codegen.emit import I64, PTR, Builder, Size, Value, at, function, load

ALIGNMENT = 64
HEADER_BYTES = 64
FIRST_CHUNK_BYTES = 1 << 16
MOST_IN_ADVANCE = 1 << 20  # of what is still to be asked for

Bytes = npt.NDArray[np.uint8]
_CHUNK = struct.Struct("3q")  # the words from ARENA_NEXT on

# ---- native code


ArenaMark = tuple[Value, Value, Value]
_MARKED = (Word.ARENA_NEXT, Word.ARENA_END, Word.ARENA_CHUNK)


def mark(b: Builder, context: Value) -> ArenaMark:
    """How far the arena is used; `reset` goes back to here."""
    used, end, chunk = (load_word(b, context, index) for index in _MARKED)
    return used, end, chunk


def reset(b: Builder, context: Value, to: ArenaMark) -> None:
    for value, index in zip(to, _MARKED, strict=True):
        store_word(b, value, context, index)


def take(b: Builder, context: Value, count: Size, ask: Callable[[Builder, Value], Value]) -> Value:
    """The address of `count` more bytes, 64-byte aligned; null where Python couldn't give them.

    `ask(builder, bytes)` emits the question for another chunk, and gives whether it was answered (I1).
    """
    return b.call(_take(b.module, ask), [context, emit.size(extents.round_up(b, count, ALIGNMENT))])


def _take(module: Any, ask: Callable[[Builder, Value], Value]) -> Any:
    known = module.globals.get("arena.take")
    if known is not None:
        return known
    fn, b = function(module, "arena.take", [PTR, I64], PTR)
    context, count = fn.args
    fast, slow = b.append_basic_block("fits"), b.append_basic_block("full")
    start, end = load_word(b, context, Word.ARENA_NEXT), load_word(b, context, Word.ARENA_END)
    b.cbranch(b.icmp_signed("<=", count, b.sub(end, start)), fast, slow)
    b.position_at_end(fast)
    store_word(b, b.add(start, count), context, Word.ARENA_NEXT)
    b.ret(b.inttoptr(start, PTR))

    b.position_at_end(slow)
    following = load(b, load_address(b, context, Word.ARENA_CHUNK), I64)
    with b.if_then(b.icmp_signed("!=", following, I64(0))):
        begin, limit = b.add(following, I64(HEADER_BYTES)), load(b, at(b, b.inttoptr(following, PTR), 1, I64), I64)
        with b.if_then(b.icmp_signed("<=", count, b.sub(limit, begin))):
            store_word(b, following, context, Word.ARENA_CHUNK)
            store_word(b, limit, context, Word.ARENA_END)
            store_word(b, b.add(begin, count), context, Word.ARENA_NEXT)
            b.ret(b.inttoptr(begin, PTR))
    answered = ask(b, count)
    with b.if_then(b.not_(answered)):
        b.ret(ir.Constant(PTR, None))
    start = load_word(b, context, Word.ARENA_NEXT)
    store_word(b, b.add(start, count), context, Word.ARENA_NEXT)
    b.ret(b.inttoptr(start, PTR))
    return fn


# ---- Python


def aligned(count: int) -> Bytes:
    """That many bytes, not set to anything, at an address that is a multiple of 64."""
    room = np.empty(count + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    return room[start : start + count]


class Chunk:
    def __init__(self, count: int) -> None:
        self.bytes = count
        self.memory = aligned(HEADER_BYTES + count)
        self.address: int = self.memory.ctypes.data
        self.start = self.address + HEADER_BYTES
        self.end = self.start + count
        self.header = self.memory[:16].view(np.int64)
        self.header[:] = 0, self.end


class Arena:
    """The memory of one call at a time."""

    def __init__(self, pool: ArenaPool) -> None:
        self.pool = pool
        self.chunks = [Chunk(FIRST_CHUNK_BYTES)]

    @property
    def bytes(self) -> int:
        return sum(chunk.bytes for chunk in self.chunks)

    def grow(self, words: Any, count: int) -> None:
        """Put a chunk with room for `count` bytes behind the one in use, and use it. `words`: the context's."""
        chunk = Chunk(max(count, min(self.bytes // 8, MOST_IN_ADVANCE)))
        current = next(chunk for chunk in self.chunks if chunk.address == words[Word.ARENA_CHUNK])
        current.header[0] = chunk.address
        self.chunks.append(chunk)
        self.pool.grows += 1
        self.use(words, chunk)

    def use(self, words: Any, chunk: Chunk) -> None:
        _CHUNK.pack_into(words, WORD_BYTES * Word.ARENA_NEXT, chunk.start, chunk.end, chunk.address)

    def settle(self) -> None:
        """After a call: one chunk in the place of several."""
        count = self.bytes
        self.chunks = []
        self.chunks = [Chunk(count)]


class ArenaPool:
    """Arenas that no call uses now. `grows` counts the chunks that calls asked for, `bytes` what all arenas hold."""

    def __init__(self) -> None:
        self.grows = 0
        self._free: list[Arena] = []
        self._made: list[Arena] = []
        self._making = threading.Lock()

    @property
    def bytes(self) -> int:
        return sum(arena.bytes for arena in self._made)

    def take(self) -> Arena:
        try:
            return self._free.pop()
        except IndexError:
            arena = Arena(self)
            with self._making:
                self._made.append(arena)
            return arena

    def give_back(self, arena: Arena) -> None:
        if len(arena.chunks) > 1:
            arena.settle()
        self._free.append(arena)


ARENAS = ArenaPool()
