"""Python's side of the loops that the host feeds (codegen/feeds.py): the feeds of one call, and the fields of whole datasets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shapescript.compiler.codegen.pointers import DTYPES, address_of
from shapescript.compiler.diagnostics.model import InternalError
from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.types import TensorType
from shapescript.compiler.ops.datasets import dataset_of, field_types
from shapescript.compiler.ops.protocol import Feed, Host


class Feeds:
    """The open feeds of a call, that of the innermost loop last. What each gave last stays alive until it gives more."""

    def __init__(self) -> None:
        self._open: list[tuple[Feed, int, int]] = []  # with the size of its batches, and the end
        self._given: list[Sequence[Any]] = []

    def open(self, host: Host, op: Op, examples: Any, numbers: Sequence[int]) -> int:
        """`numbers`: the batch's size, the first place, the end, how many batches to read ahead. Gives the feed's number."""
        size, start, end, prefetch = numbers
        self._open.append((host.feed(op, examples, size, start, end, prefetch), size, end))
        self._given.append(())
        return len(self._open) - 1

    def take(self, op: Op, number: int, start: int) -> list[int]:
        """How many examples there are from this place on, and where each field's lie."""
        feed, size, end = self._open[number]
        self._given[number] = ()
        count, arrays = feed.take(start)
        if not min(size, end - start) <= count <= end - start or (count % size and start + count < end):
            raise InternalError("a feed", f"{count} examples at {start} of {end}, in batches of {size}", op.span)
        self._given[number] = arrays
        return [count, *_addresses(op, range(len(arrays)), arrays, count)]

    def close(self, number: int) -> None:
        """This feed, and what was opened behind it."""
        while len(self._open) > number:
            feed = self._open.pop()[0]
            del self._given[len(self._open) :]
            try:
                feed.close()
            except BaseException:  # Ctrl-C once more, say: the others are closed all the same
                self.close(number)
                raise

    def close_all(self) -> None:
        if self._open:
            self.close(0)


def columns(host: Host, op: Op, data: Any, fields: Sequence[int]) -> tuple[Sequence[Any], list[int]]:
    """These fields of all examples, and where they lie."""
    arrays = host.columns(op, data, fields)
    return arrays, _addresses(op, fields, arrays, int(data.block[0]))


def _addresses(op: Op, fields: Sequence[int], arrays: Sequence[Any], count: int) -> list[int]:
    """Raises InternalError for arrays that aren't what the record says: native code reads them unchecked."""
    dataset = dataset_of(op.operands[0].type)
    assert dataset is not None
    kinds = field_types(dataset)
    for field, array in zip(fields, arrays, strict=True):
        if not fits(array, kinds[field], count):
            raise InternalError("a feed", f"field {field} of {count} examples came as {array.shape} {array.dtype}", op.span)
    return [address_of(array) for array in arrays]


def fits(array: Any, kind: TensorType, count: int) -> bool:
    """Whether these are so many rows of a field, one behind the other."""
    known = [size.constant() for size in kind.axes[1:]]
    shaped = len(array.shape) == len(kind.axes) and array.shape[0] == count
    rows = all(size in (None, found) for size, found in zip(known, array.shape[1:], strict=True)) if shaped else False
    return rows and array.dtype == DTYPES[kind.element] and isinstance(array, np.ndarray) and array.flags.c_contiguous
