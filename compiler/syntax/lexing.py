"""Text to the lexer's tokens, and what to say about a character that begins none."""

from __future__ import annotations

from shapescript.compiler.diagnostics.model import Diagnostic, Source
from shapescript.compiler.syntax.read_error import ReadError, diagnose
from shapescript.compiler.syntax.tables import Tables
from shapescript.compiler.syntax.tokens import Token

BYTE_ORDER_MARK = "\ufeff"

# Characters of other languages and of word processors: what to write instead.
MENDS = {
    ";": "write one statement on a line",
    "\\": "a line goes on inside brackets, or where the next line begins with `|>`",
    "^": "a power is written `**`",
    "~": "a mask is inverted with `!`, a condition with `not`",
    "?": "remove it",
    "$": "remove it",
    "`": 'a string is written with double quotes, `"…"`',
    "\u00a0": "this is a non-breaking space: replace it by an ordinary one",
    "\u2212": "write the minus sign of the keyboard, `-`",
    "\u2013": "write the minus sign of the keyboard, `-`",
    "\u2014": "write the minus sign of the keyboard, `-`",
    "\u00d7": "a product is written `*`",
    "\u22c5": "a product is written `*`",
    "\u2264": "write `<=`",
    "\u2265": "write `>=`",
    "\u2260": "write `!=`",
    "\u2192": "write `->`",
    "\u2026": "write `..`",
    "\uff08": "write `(`",
    "\uff09": "write `)`",
    "\uff0c": "write `,`",
    "\uff1a": "write `:`",
    "\r": "this is a carriage return without a line feed: end lines with LF or CRLF",
}
OPENING_QUOTES = {"'": "'", "\u2018": "\u2019", "\u2019": "\u2019", "\u201c": "\u201d", "\u201d": "\u201d", "\u00ab": "\u00bb"}


def lex(tables: Tables, source: Source, start: int, end: int) -> list[Token]:
    """The tokens of a part of a source that begins at a line's start. Raises ReadError at a character that begins none."""
    text = source.text[start:end]
    if start == 0 and text.startswith(BYTE_ORDER_MARK):
        text = "\n" + text[1:]  # an empty line: takes as much room, and what follows begins at the margin
    match, keywords, ignored = tables.pattern.match, tables.keywords, tables.ignored
    tokens: list[Token] = []
    at, length = 0, len(text)
    while at < length:
        found = match(text, at)
        if found is None:
            raise ReadError(explain_character(source, start + at))
        kind, word, after = found.lastgroup or "", found.group(), found.end()
        if kind not in ignored:
            if kind == "NAME":
                kind = keywords.get(word, kind)
            tokens.append(Token(kind, word, start + at, start + after, at == 0 or text[at - 1] == "\n"))
        at = after
    return tokens


def explain_character(source: Source, at: int) -> Diagnostic:
    character = source.text[at]
    line = source.position(at)[0]
    line_end = source.line_start(line) + len(source.line_text(line))
    if character == '"':
        return explain_open_string(source, at, line_end)
    if character in OPENING_QUOTES:
        return explain_quotes(source, at, line_end)
    if character.isalpha():
        word = word_around(source.text, at)
        message = f"the letter {shown(character)} can't stand in a name"
        return diagnose(source, "E0101", message, word, help="names are made of a to z, A to Z, 0 to 9 and `_`")
    message = f"the character {shown(character)} can't stand here"
    return diagnose(source, "E0101", message, (at, at + 1), help=MENDS.get(character))


def word_around(text: str, at: int) -> tuple[int, int]:
    start = end = at
    while start and is_of_word(text[start - 1]):
        start -= 1
    while end < len(text) and is_of_word(text[end]):
        end += 1
    return start, end


def is_of_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def shown(character: str) -> str:
    """A character as a message shows it: what can't be seen by its number and name."""
    if character.isascii() and character.isprintable():
        return f"`{character}`"
    import unicodedata  # its tables are large, and few programs need them

    name = unicodedata.name(character, "no name")
    visible = f"`{character}` " if character.isprintable() and not character.isspace() else ""
    return f"{visible}(U+{ord(character):04X}, {name.lower()})"


def explain_open_string(source: Source, at: int, line_end: int) -> Diagnostic:
    if source.text[max(at - 2, 0) : at + 1] == '"""':
        help = "a string stands on one line, between single double quotes; a comment begins with `#`"
        return diagnose(source, "E0122", "there are no strings in three quotes", (at - 2, at + 1), help=help)
    help = "add the closing `\"`; a string can't go on over the end of a line, write `\\n` for a line break in it"
    return diagnose(source, "E0102", "this string isn't closed on its line", (at, max(line_end, at + 1)), help=help)


def explain_quotes(source: Source, at: int, line_end: int) -> Diagnostic:
    closing = source.text.find(OPENING_QUOTES[source.text[at]], at + 1, line_end)
    help = 'write `"…"`'
    end = at + 1
    if closing > 0:
        end = closing + 1
        inside = source.text[at + 1 : closing]
        if '"' not in inside and "\\" not in inside:
            help = f'write `"{inside}"`'
    return diagnose(source, "E0122", "strings are written with double quotes", (at, end), help=help)
