"""The exceptions that running programs raise, each with a stable code.

Python users catch what they'd expect: a missing file is a `FileNotFoundError`, a wrong dtype a `TypeError`, a wrong shape a
`ValueError`, a file that can't be written an `OSError`.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from typing import Any, Literal

CheckpointErrorKind = Literal["missing", "unexpected", "shape", "dtype", "optimiser", "value", "truncated", "corrupt", "version", "write"]

_TYPE_CODES = frozenset({"R1001", "R1004", "R1005"})


class ShapeScriptError(Exception):
    """An error with a code: `str(error)` is "R1002: message".

    `span` is the place in the program and `step` the number of the training step, where they are known.
    """

    def __init__(self, code: str, message: str, *, span: object | None = None, step: int | None = None) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.span = span
        self.step = step

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class ArgumentError(ShapeScriptError):
    """An argument that a function, a record or a parameter can't take; nothing has changed.

    What is raised is an `ArgumentTypeError` or an `ArgumentValueError`, whichever fits the code.
    """

    def __new__(cls, code: str, message: str, **_: Any) -> ArgumentError:
        fitting = cls
        if cls is ArgumentError:
            fitting = ArgumentTypeError if code in _TYPE_CODES else ArgumentValueError
        return super().__new__(fitting, code, message)


class ArgumentTypeError(ArgumentError, TypeError):
    """A wrong dtype (R1001), a wrong type of argument (R1004), a missing or unexpected argument (R1005)."""


class ArgumentValueError(ArgumentError, ValueError):
    """A wrong shape (R1002), sizes that disagree (R1003), a number out of its range (R1004), an array that can't be used (R1006)."""


class DataError(ShapeScriptError, ValueError):
    """A dataset without examples or batches (R1102), a data file that is damaged or doesn't fit its record (R1202)."""


class DataFileMissing(DataError, FileNotFoundError):
    """A data file that isn't there (R1201)."""

    def __init__(self, code: str, message: str, *, filename: str | None = None) -> None:
        super().__init__(code, message)
        self.errno, self.filename = errno.ENOENT, filename


class DataRowError(DataError):
    """A row of a data file that can't be used (R1204). `filename` is the file, `row` the number of the example, the first being 0; in a
    CSV file `line` is the number of the line, the first being 1, and `column` the column's name, where there is one to name."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        filename: str | None = None,
        row: int | None = None,
        line: int | None = None,
        column: str | None = None,
    ) -> None:
        super().__init__(code, message)
        self.filename, self.row, self.line, self.column = filename, row, line, column


class PackageMissing(ShapeScriptError, ImportError):
    """A package that an extra installs, and that isn't there (R1502)."""

    def __init__(self, code: str, message: str, *, name: str | None = None) -> None:
        super().__init__(code, message)
        self.name = name


class OutOfMemoryError(ShapeScriptError, MemoryError):
    """A run that needs more memory than there is (R1111)."""


class LogError(ShapeScriptError, OSError):
    """A log that can't be written (R1401), that another run is writing (R1402), or whose columns a record doesn't fit (R1403)."""

    def __init__(self, code: str, message: str, *, number: int | None = None, filename: str | None = None) -> None:
        super().__init__(code, message)
        self.errno, self.filename = number, filename


class CheckpointError(ShapeScriptError):
    """A checkpoint that can't be read or doesn't fit what was asked (R1302, R1303); nothing has changed.

    `kind` says what is wrong, `name` which entry or parameter, `expected` and `found` what was wanted and what is there.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        kind: CheckpointErrorKind = "corrupt",
        name: str | None = None,
        expected: object = None,
        found: object = None,
    ) -> None:
        super().__init__(code, message)
        self.kind = kind
        self.name = name
        self.expected = expected
        self.found = found


class CheckpointMissing(CheckpointError, FileNotFoundError):
    """A checkpoint that isn't there (R1301)."""

    def __init__(self, code: str, message: str, *, filename: str | None = None) -> None:
        super().__init__(code, message, kind="missing")
        self.errno, self.filename = errno.ENOENT, filename


class CheckpointUnwritable(CheckpointError, OSError):
    """A checkpoint that can't be written (R1304); what was at its path is still there, unless the message says otherwise."""

    def __init__(self, code: str, message: str, *, number: int | None = None, filename: str | None = None) -> None:
        super().__init__(code, message, kind="write")
        self.errno, self.filename = number, filename


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like this one, if one is."""
    import difflib  # for a mistake alone

    near = difflib.get_close_matches(name, list(known), n=1)
    return near[0] if near else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint at the nearest known name, to follow a message: "; did you mean 'weight'?", or nothing."""
    near = nearest(name, known)
    return f"; did you mean {near!r}?" if near else ""


def cause_of(error: BaseException) -> str:
    """What an exception of Python or NumPy says, in one line: "No space left on device" rather than "[Errno 28] …"."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split()) or type(error).__name__
