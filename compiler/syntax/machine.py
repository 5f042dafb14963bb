"""The parser: an LALR machine that goes by the tables and builds each node of the tree where its rule is complete.

What lark's machine does, without a tree of lark's between (measured: half of its time), and with its rules of places: a node begins where
its first part with all its brackets does, and ends where its last part does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from shapescript.compiler.syntax.tables import ABSENT, Reduction, Tables
from shapescript.compiler.syntax.tokens import Token


class Part:
    """What a rule has become. `start` and `end` are None where it has no text; they go to the brackets around it, once those are read.

    An inlined rule has `parts`; any other's `value` is a node of the tree, of so many `levels`.
    """

    __slots__ = ("end", "levels", "parts", "start", "value")

    def __init__(self, start: int | None, end: int | None) -> None:
        self.start, self.end = start, end
        self.value: Any = None
        self.levels = 0
        self.parts: list[Entry] | None = None


Entry: TypeAlias = Part | Token | None  # None: an optional part that isn't there
Build: TypeAlias = Callable[[str, Part, list[Entry]], None]  # gives a part its value, by its rule's name and the parts of that


class Stuck(Exception):
    """The token of this index can't stand where it does."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


def run(tables: Tables, tokens: Iterable[Token], build: Build) -> Any:
    """The value of the whole; the last token is the end's. Raises Stuck."""
    table, reductions = tables.states, tables.reductions
    states, entries = [tables.start], list[Entry]()
    for index, token in enumerate(tokens):
        kind = token.kind
        while True:
            action = table[states[-1]].get(kind)
            if action is None:
                raise Stuck(index)
            if action >= 0:
                states.append(action)
                entries.append(token)
                break
            reduction = reductions[~action]
            length = reduction.length
            if reduction.passes_on:
                del states[-1]
            else:
                taken = entries[len(entries) - length :]
                del entries[len(entries) - length :]
                del states[len(states) - length :]
                entries.append(_reduced(reduction, taken, build))
            states.append(table[states[-1]][reduction.origin])
            if states[-1] == tables.end:
                (whole,) = entries
                assert isinstance(whole, Part)
                return whole.value
    raise AssertionError("the tokens end without their end")


def _reduced(reduction: Reduction, taken: list[Entry], build: Build) -> Entry:
    kept: list[Entry] = []
    for index in reduction.kept:
        entry = None if index == ABSENT else taken[index]
        if isinstance(entry, Part) and entry.parts is not None:
            kept += entry.parts
        else:
            kept.append(entry)
    start, end = _place(taken)
    if reduction.transparent and len(kept) == 1:
        (only,) = kept
        if isinstance(only, Part):
            only.start, only.end = start, end
        return only
    part = Part(start, end)
    if reduction.inlined:
        part.parts = kept
    else:
        build(reduction.name, part, kept)
    return part


def _place(taken: list[Entry]) -> tuple[int | None, int | None]:
    """Where the first of these that has a text begins, and the last ends."""
    start = end = None
    for entry in taken:
        if entry is not None:
            start = entry.start
            if start is not None:
                break
    for entry in reversed(taken):
        if entry is not None:
            end = entry.end
            if end is not None:
                break
    return start, end


def what_may_stand(tables: Tables, tokens: Iterable[Token]) -> frozenset[str]:
    """The kinds of tokens that the grammar takes after these, which it takes."""
    states = [tables.start]
    for token in tokens:
        found = _after(tables, states, token.kind)
        assert found is not None
        states = found
    return frozenset(kind for kind in tables.states[states[-1]] if kind.isupper() and _after(tables, states, kind) is not None)


def _after(tables: Tables, states: list[int], kind: str) -> list[int] | None:
    """The machine's states behind one token more, None where it can't stand there."""
    states = list(states)
    while True:
        action = tables.states[states[-1]].get(kind)
        if action is None:
            return None
        if action >= 0:
            return [*states, action]
        reduction = tables.reductions[~action]
        del states[len(states) - reduction.length :]
        states.append(tables.states[states[-1]][reduction.origin])
        if states[-1] == tables.end:
            return states
