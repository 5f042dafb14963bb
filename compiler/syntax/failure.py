"""Where the parser stopped, with what is needed to say why, and how tokens are called in messages."""

from __future__ import annotations

from functools import cached_property

from shapescript.compiler.diagnostics.model import Diagnostic, Source
from shapescript.compiler.records.dataclass import dataclass
from shapescript.compiler.syntax.layout import CLOSING, CLOSING_OF, place
from shapescript.compiler.syntax.read_error import diagnose
from shapescript.compiler.syntax.tokens import Token

LINE_ENDS = frozenset(("_NEWLINE", "_INDENT", "_DEDENT"))
KEYWORDS = frozenset(("AS", "IN", "AND", "OR", "NOT", "MUT", "TRUE", "FALSE", "RETURN", "IF", "ELIF", "ELSE", "WHILE", "FOR"))
# What may end an expression, and so what makes the next word one too many.
EXPRESSION_ENDS = frozenset(("NAME", "INT", "FLOAT", "STRING", "TRUE", "FALSE", "RPAR", "RSQB", "RBRACE"))
WITHOUT_TEXT = {
    "_NEWLINE": "the end of the line",
    "_INDENT": "a line that is indented further",
    "_DEDENT": "the end of the block",
    "$END": "the end of the file",
}
LONGEST_SHOWN = 60


@dataclass(frozen=True)
class Failure:
    """The parser took `tokens[:index]`, not `found`; `allowed` are the kinds of tokens that it would have taken."""

    source: Source
    tokens: list[Token]
    index: int
    allowed: frozenset[str]

    @property
    def found(self) -> Token:
        return self.tokens[self.index]

    @property
    def before(self) -> Token:
        """The token before, or an empty one at the start."""
        return self.tokens[self.index - 1] if self.index else Token("", "", 0, 0)

    @property
    def after(self) -> Token:
        return self.tokens[min(self.index + 1, len(self.tokens) - 1)]

    @cached_property
    def line(self) -> list[Token]:
        """What stands before `found` on its line; the lines that a bracket or a pipe joins are one."""
        start = self.index
        while start and self.tokens[start - 1].kind not in LINE_ENDS:
            start -= 1
        return self.tokens[start : self.index]

    @cached_property
    def rest(self) -> list[Token]:
        """`found` and what follows it on its line."""
        end = self.index
        while end < len(self.tokens) and self.tokens[end].kind not in LINE_ENDS:
            end += 1
        return self.tokens[self.index : end]

    @cached_property
    def line_above(self) -> list[Token]:
        """The line before this one, without marks of layout."""
        end = self.index - len(self.line)
        while end and self.tokens[end - 1].kind in LINE_ENDS:
            end -= 1
        start = end
        while start and self.tokens[start - 1].kind not in LINE_ENDS:
            start -= 1
        return self.tokens[start:end]

    @cached_property
    def opening(self) -> int | None:
        """Index in `line` of the innermost bracket that is open at `found`."""
        depth = 0
        for index in range(len(self.line) - 1, -1, -1):
            kind = self.line[index].kind
            depth += (kind in CLOSING) - (kind in CLOSING_OF)
            if depth < 0:
                return index
        return None

    @property
    def level(self) -> list[Token]:
        """What stands before `found` in the same brackets, brackets within left out."""
        kept: list[Token] = []
        depth = 0
        for token in reversed(self.line):
            depth += (token.kind in CLOSING) - (token.kind in CLOSING_OF)
            if depth < 0:
                break
            if depth == 0:
                kept.append(token)
        return kept[::-1]

    @property
    def is_at_line_start(self) -> bool:
        return not self.line

    @property
    def takes_expression(self) -> bool:
        return {"NAME", "STRING", "MINUS", "TRUE"} <= self.allowed

    @property
    def follows_expression(self) -> bool:
        """An expression, or a part of one, has just ended."""
        return self.before.kind in EXPRESSION_ENDS and "AND" in self.allowed

    @property
    def touches(self) -> bool:
        """Nothing stands between the token before and `found`."""
        return self.index > 0 and self.before.end == self.found.start

    def text(self, first: Token, last: Token) -> str:
        return self.source.text[first.start : last.end]

    def say(
        self,
        code: str,
        message: str,
        at: Token | tuple[Token, Token] | None = None,
        help: str | None = None,
        labels: tuple[tuple[Token, str], ...] = (),
    ) -> Diagnostic:
        """A diagnostic at `found`, at another token, or from one token to another."""
        first, last = (self.found, self.found) if at is None else (at, at) if isinstance(at, Token) else at
        marked = tuple((place(token), text) for token, text in labels)
        return diagnose(self.source, code, message, (first.start, last.end), help=help, labels=marked)


def described(token: Token) -> str:
    """A token as a message names it."""
    if token.kind in WITHOUT_TEXT:
        return WITHOUT_TEXT[token.kind]
    text = str(token) if len(token) <= LONGEST_SHOWN else f"{token[:LONGEST_SHOWN]}…"
    if token.kind == "STRING":
        return f"the string {text}"
    if token.kind in ("INT", "FLOAT"):
        return f"the number {text}"
    if token.kind in KEYWORDS:
        return f"the keyword `{text}`"
    return f"`{text}`" if text else "a pattern"
