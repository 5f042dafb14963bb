"""What is wrong with a file that holds values, as its reader finds it; whoever asked for the file adds the path and a code."""

from __future__ import annotations

from typing import Literal

FileErrorKind = Literal["truncated", "corrupt", "version", "dtype"]


class UnusableFileError(Exception):
    """A file that holds what such files don't hold, or what isn't supported. `verdict` says what follows for the file."""

    verdict = "can't be used"

    def __init__(self, message: str, kind: FileErrorKind = "corrupt") -> None:
        super().__init__(message)
        self.kind: FileErrorKind = kind


class TruncatedFileError(UnusableFileError):
    """The file ends before what it begins to hold."""

    verdict = "is truncated"

    def __init__(self, message: str) -> None:
        super().__init__(message, "truncated")


class DamagedFileError(UnusableFileError):
    """The file isn't of its format, or bytes in it have changed."""

    verdict = "is damaged, or no checkpoint"
