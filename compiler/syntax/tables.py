"""What the parser goes by, made from the grammar: the words' patterns, and the LALR tables. They are shipped, for making them takes longer
than checking a program; they carry the grammar's checksum, and are made anew where it is another's."""

from __future__ import annotations

import json
import re
from binascii import crc32
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

GRAMMAR = Path(__file__).with_name("grammar.lark")
SHIPPED = Path(__file__).with_name("grammar_tables.json")

# By the next token's kind, or the rule that was just reduced: the state that follows, or ~n to reduce by rule n.
Actions: TypeAlias = dict[str, int]

ABSENT = -1  # in a reduction's parts: an optional part that isn't there


class Reduction:
    """How the last `length` parts on the parser's stack become one that stands for the rule `origin`.

    `kept` says which of them are parts of the tree, ABSENT among them. A `transparent` rule with one part is that part. An `inlined` one
    gives its parts to what is built around it. `name` is the rule's, or its alias: what the tree's building goes by.
    """

    __slots__ = ("inlined", "kept", "length", "name", "origin", "passes_on", "transparent")

    def __init__(self, origin: str, name: str, length: int, kept: list[int], transparent: bool) -> None:
        self.origin, self.name, self.length, self.kept = origin, name, length, kept
        self.transparent = transparent
        self.inlined = origin.startswith("_")
        self.passes_on = transparent and length == 1 and kept == [0]  # an expression alone climbs a dozen of such rules


class Tables:
    """`pattern` finds a word, its kind as the group's name; `keywords` are the names that are kinds of their own."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.pattern = re.compile(data["pattern"])
        self.keywords: dict[str, str] = data["keywords"]
        self.ignored = frozenset(data["ignored"])
        self.reductions = [Reduction(*rule) for rule in data["rules"]]
        self.states: list[Actions] = data["states"]
        self.start: int = data["start"]
        self.end: int = data["end"]


@lru_cache(maxsize=1)
def tables() -> Tables:
    """Read, or made, at the first use."""
    grammar = GRAMMAR.read_text("utf-8")
    shipped = json.loads(SHIPPED.read_text("utf-8")) if SHIPPED.exists() else {}
    if shipped.get("grammar") == checksum(grammar):
        return Tables(shipped)
    from shapescript.compiler.syntax.make_tables import made_tables  # loads lark

    return Tables(made_tables(grammar))


def checksum(grammar: str) -> int:
    return crc32(grammar.encode("utf-8"))
