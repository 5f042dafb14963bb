"""Words of a program, as the lexer makes them and the parser takes them."""

from __future__ import annotations


class Token(str):
    """A word's text, with its kind, the offsets of its place, and whether it stands at the left margin."""

    __slots__ = ("at_margin", "end", "kind", "start")

    kind: str
    start: int
    end: int
    at_margin: bool

    def __new__(cls, kind: str, text: str, start: int, end: int, at_margin: bool = False) -> Token:
        token = str.__new__(cls, text)
        token.kind = kind
        token.start = start
        token.end = end
        token.at_margin = at_margin
        return token

    def retyped(self, kind: str) -> Token:
        """The same word as one of another kind."""
        return Token(kind, self, self.start, self.end, self.at_margin)


def mark(kind: str, offset: int) -> Token:
    """A token that stands at an offset and takes no room there."""
    return Token(kind, "", offset, offset)
