"""Kinds of options that the commands share."""

from __future__ import annotations

from argparse import ArgumentTypeError

from shapescript.compiler.codegen.thread_count import MOST_THREADS


def count(text: str) -> int:
    """Of something that there is at least one of."""
    number = int(text)
    if number < 1:
        raise ArgumentTypeError(f"expected 1 or more, got {number}")
    return number


def thread_count(text: str) -> int:
    if not 1 <= int(text) <= MOST_THREADS:
        raise ArgumentTypeError(f"expected 1 to {MOST_THREADS}, got {text}")
    return int(text)
