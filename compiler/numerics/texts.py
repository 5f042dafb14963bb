"""Texts as data: where a program's files lie, which characters a text has, and the number of each.

The checker counts and the runtime reads, both by these functions: a size that the one has found fits what the other makes of the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

PYTHON_PREFIX = "python:"  # before the path of a file in the standard library of the Python that runs
BYTE_VALUES = 256
LINE_END = "\n"


def places_of(path: str | Path, folders: Sequence[str | Path]) -> list[Path]:
    """Where a data file is looked for, in order: in each of the folders, or at its one place in Python's library."""
    text = str(path)
    if text.startswith(PYTHON_PREFIX):
        import sysconfig  # slow to load, and few programs need it

        return [Path(sysconfig.get_path("stdlib")) / text.removeprefix(PYTHON_PREFIX)]
    return list(dict.fromkeys((Path(folder) / path).absolute() for folder in folders))


def decoded(data: bytes) -> str:
    """The text of a UTF-8 file, with "\\n" at the end of each line whatever system wrote it, and without a byte order mark.

    Raises ValueError that says where it isn't UTF-8.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8: byte {error.start} is 0x{data[error.start]:02X}, which can't stand there") from None
    return text.removeprefix("\ufeff").replace("\r\n", LINE_END).replace("\r", LINE_END)


def characters_of(text: str) -> str:
    """Each character of the text once, in the order of code points; a character's place is its number."""
    return "".join(sorted(set(text)))


def lines_of(text: str) -> list[str]:
    """The lines without their ends; behind the last line's end there is no other line."""
    lines = text.split(LINE_END)
    return lines if lines[-1] else lines[:-1]
