"""`with shapescript.threads(n):`, and the number of threads that a call uses without it."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager

from shapescript.compiler.codegen.thread_count import asked_for, checked, default_threads
from shapescript.runtime.errors import ArgumentError

CODE = "R1007"


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Calls made within use at most `count` threads, the caller's own counted; 1 to 256. The results' bits don't depend on it.

    It holds for the calls of this Python thread (and of this asynchronous task), and ends with the block. Work that is too small to
    be worth a thread stays on one. Raises ArgumentError with R1007 for another number.
    """
    with asked_for(_checked(count, "threads")):
        yield


def check_default() -> None:
    """Raises ArgumentError with R1007 where the environment asks for a number of threads that can't be."""
    try:
        default_threads()
    except ValueError as error:
        raise ArgumentError(CODE, str(error)) from None


def _checked(count: object, name: str) -> int:
    try:
        return checked(operator.index(count), name)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise ArgumentError(CODE, f"{name}: expected a whole number from 1 to 256, got {count!r}") from None
