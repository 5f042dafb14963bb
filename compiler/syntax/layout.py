"""Between the lexer and the parser: layout, words that are keywords only where a declaration begins, where a pattern begins.

The parser sees three marks without a text of their own, _NEWLINE, _INDENT and _DEDENT. Each has the place where the last token
before it ends, so that the span of a statement or a block ends with its last word and not with the space after it.
"""

from __future__ import annotations

from collections.abc import Iterator

from shapescript.compiler.diagnostics.model import Source
from shapescript.compiler.records.dataclass import dataclass
from shapescript.compiler.syntax.read_error import ReadError, diagnose
from shapescript.compiler.syntax.tokens import Token, mark

CLOSING_OF = {"LPAR": "RPAR", "LSQB": "RSQB", "LBRACE": "RBRACE"}
CLOSING = frozenset(CLOSING_OF.values())
TEXT_OF = {"LPAR": "(", "RPAR": ")", "LSQB": "[", "RSQB": "]", "LBRACE": "{", "RBRACE": "}"}
BLOCKS_ARE_INDENTED = "blocks are indented, without braces: what begins one ends with `:`"

# Keywords where a line begins at the left margin; anywhere else the same words are ordinary names.
DECLARATION_WORDS = {
    "import": "_IMPORT",
    "from": "_FROM",
    "dim": "_DIM",
    "const": "_CONST",
    "data": "_DATA",
    "model": "_MODEL",
    "fn": "_FN",
}
# Keywords where an indented line begins and a name or a string follows, which no statement or field does.
MEMBER_WORDS = {"NAME": {"buffer": "_BUFFER", "requires": "_REQUIRES"}, "STRING": {"group": "_GROUP"}}


def lay_out(source: Source, tokens: list[Token]) -> list[Token]:
    """The lexer's tokens as the parser wants them. Raises ReadError for a mistake of layout or brackets."""
    return list(mark_blocks(source, mark_keywords(mark_patterns(join_lines(source, tokens)))))


def place(token: Token) -> tuple[int, int]:
    return token.start, token.end


def join_lines(source: Source, tokens: list[Token]) -> list[Token]:
    """Drop newlines inside brackets and before a line that begins with |>; refuse brackets that don't match."""
    kept: list[Token] = []
    open_brackets: list[Token] = []
    for index, token in enumerate(tokens):
        if token.kind in CLOSING_OF:
            open_brackets.append(token)
        elif token.kind in CLOSING:
            close_bracket(source, open_brackets, token)
        elif token.kind == "_NEWLINE":
            goes_on = index + 1 < len(tokens) and tokens[index + 1].kind == "_PIPE"
            if open_brackets or goes_on:
                continue
        kept.append(token)
    if open_brackets:
        opening = open_brackets[-1]
        raise ReadError(
            diagnose(
                source,
                "E0107",
                f"this `{opening}` is never closed",
                place(opening),
                help=BLOCKS_ARE_INDENTED if opens_block(tokens, opening) else f"add the missing `{TEXT_OF[CLOSING_OF[opening.kind]]}`",
            )
        )
    return kept


def opens_block(tokens: list[Token], opening: Token) -> bool:
    """Whether a bracket is a brace that ends its line, as in other languages a block begins."""
    at = next(index for index, token in enumerate(tokens) if token is opening)
    return opening.kind == "LBRACE" and (at + 1 == len(tokens) or tokens[at + 1].kind == "_NEWLINE")


def close_bracket(source: Source, open_brackets: list[Token], closing: Token) -> None:
    if not open_brackets:
        raise ReadError(diagnose(source, "E0108", f"this `{closing}` closes no bracket", place(closing), help="remove it"))
    opening = open_brackets.pop()
    wanted = CLOSING_OF[opening.kind]
    if closing.kind != wanted:
        raise ReadError(
            diagnose(
                source,
                "E0108",
                f"`{closing}` stands where `{TEXT_OF[wanted]}` must close the bracket",
                place(closing),
                labels=((place(opening), f"this `{opening}` is still open"),),
            )
        )


def mark_patterns(tokens: list[Token]) -> list[Token]:
    """A call whose own brackets hold -> is a pattern call, whatever its name: nothing else has an arrow inside brackets.

    The pattern begins at the colon in the same brackets, or right after the opening one.
    """
    marks: dict[int, Token] = {}  # index of the token -> the mark that replaces it (a colon) or follows it (a bracket)
    open_brackets: list[int] = []
    colons: list[int | None] = []
    for index, token in enumerate(tokens):
        if token.kind in CLOSING_OF:
            open_brackets.append(index)
            colons.append(None)
        elif token.kind in CLOSING:
            open_brackets.pop()
            colons.pop()
        elif token.kind == "COLON" and open_brackets and colons[-1] is None:
            colons[-1] = index
        elif token.kind == "_ARROW" and open_brackets and tokens[open_brackets[-1]].kind == "LPAR":
            colon = colons[-1]
            if colon is None:
                marks[open_brackets[-1]] = mark("_PATTERN", tokens[open_brackets[-1]].end)
            else:
                marks[colon] = tokens[colon].retyped("_PATTERN")
    marked: list[Token] = []
    for index, token in enumerate(tokens):
        if index not in marks:
            marked.append(token)
        elif token.kind == "COLON":
            marked.append(marks[index])
        else:
            marked += [token, marks[index]]
    return marked


def mark_keywords(tokens: list[Token]) -> list[Token]:
    """Turn names into keywords where a line begins; `import` also after `from a.b`."""
    marked: list[Token] = []
    before = "_NEWLINE"
    in_from_line = False
    for index, token in enumerate(tokens):
        kind = token.kind
        follows = tokens[index + 1].kind if index + 1 < len(tokens) else ""
        if token.kind == "NAME" and before == "_NEWLINE":
            in_from_line = token == "from" and token.at_margin
            words = DECLARATION_WORDS if token.at_margin else MEMBER_WORDS.get(follows, {})
            kind = words.get(token, "NAME")
        elif token.kind == "NAME" and token == "import" and in_from_line:
            kind = "_IMPORT"
        marked.append(token if kind == token.kind else token.retyped(kind))
        before = token.kind
    return marked


@dataclass(frozen=True, slots=True)
class Margin:
    """An indentation in use: its width and the first token that stands at it."""

    width: int
    first: Token


def mark_blocks(source: Source, tokens: list[Token]) -> Iterator[Token]:
    """Indentation becomes _INDENT and _DEDENT; the text ends with a newline and every block closed."""
    if not tokens:
        return
    refuse_indented_start(source, tokens)
    margins = [Margin(0, tokens[0])]
    end = tokens[0].start  # where the last token that has a text ends
    for index, token in enumerate(tokens):
        if token.kind != "_NEWLINE":
            yield token
            end = token.end
            continue
        yield mark("_NEWLINE", end)
        if index + 1 < len(tokens):
            yield from step_margin(source, token, tokens[index + 1], margins, end)
    if tokens[-1].kind != "_NEWLINE":
        yield mark("_NEWLINE", end)
    for _ in margins[1:]:
        yield mark("_DEDENT", end)


def refuse_indented_start(source: Source, tokens: list[Token]) -> None:
    first = tokens[0] if tokens[0].kind != "_NEWLINE" else tokens[1] if len(tokens) > 1 else None
    if first is None:
        return
    line_start = source.line_start(source.position(first.start)[0])
    margin = source.text[line_start : first.start]
    if "\t" in margin:
        raise tab_refusal(source, line_start, margin)
    if margin.strip("\ufeff"):
        message = "the first line is indented, but a declaration begins at the left margin"
        raise ReadError(diagnose(source, "E0105", message, place(first), help="remove the spaces before it"))


def tab_refusal(source: Source, line_start: int, margin: str) -> ReadError:
    first = line_start + margin.index("\t")
    length = len(margin) - len(margin[first - line_start :].lstrip("\t")) - (first - line_start)
    return ReadError(
        diagnose(
            source,
            "E0103",
            "this line is indented with a tab, but indentation is written with spaces",
            (first, first + max(length, 1)),
            help="replace each tab by four spaces",
        )
    )


def step_margin(source: Source, newline: Token, first: Token, margins: list[Margin], end: int) -> Iterator[Token]:
    margin = newline.rsplit("\n", 1)[1]
    if "\t" in margin:
        raise tab_refusal(source, newline.end - len(margin), margin)
    width = len(margin)
    if width > margins[-1].width:
        margins.append(Margin(width, first))
        yield mark("_INDENT", end)
        return
    used = [line.width for line in margins]
    while width < margins[-1].width:
        inner = margins.pop()
        if width > margins[-1].width:
            raise margin_refusal(source, first, width, used, inner)
        yield mark("_DEDENT", end)


def margin_refusal(source: Source, first: Token, width: int, used: list[int], inner: Margin) -> ReadError:
    choices = f"{', '.join(str(choice) for choice in used[:-1])} or {used[-1]}"
    return ReadError(
        diagnose(
            source,
            "E0104",
            f"this line is indented by {width} {'space' if width == 1 else 'spaces'}, which fits no block that is open above it",
            place(first),
            help=f"indent it by {choices}, as the block that it belongs to",
            labels=((place(inner.first), f"this block is indented by {inner.width}"),),
        )
    )
