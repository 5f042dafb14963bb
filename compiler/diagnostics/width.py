"""How wide text is on a terminal, and how it is shortened. Used by the renderer alone."""

from __future__ import annotations

import re
import unicodedata

TAB = "    "
REPLACEMENT = "\ufffd"
ELLIPSIS = "…"
LONGEST_WORD = 160


def visible(character: str) -> str:
    """What is printed for a character: a tab as spaces, and a replacement for what would move the cursor or reorder the line."""
    if character == "\t":
        return TAB
    return REPLACEMENT if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") else character


def columns(text: str) -> int:
    """Columns that printable text takes: two for wide characters, none for marks that combine with the one before."""
    return sum(character_columns(character) for character in text)


def character_columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def shortened(text: str, longest: int) -> str:
    """The text, or its beginning and end with an ellipsis between, at most `longest` characters."""
    if len(text) <= longest:
        return text
    kept = longest - len(ELLIPSIS)
    return text[: kept - kept // 3] + ELLIPSIS + text[len(text) - kept // 3 :]


def bounded(text: str, longest: int) -> str:
    """A message of bounded length: long words first, so that one long name doesn't hide the sentence, then the whole."""
    printable = "".join(character if character == "\n" else visible(character) for character in text)
    words = re.sub(rf"\S{{{LONGEST_WORD + 1},}}", lambda word: shortened(word.group(), LONGEST_WORD), printable)
    return shortened(words, longest)
