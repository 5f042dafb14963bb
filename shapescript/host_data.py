"""Datasets and their orders, as an engine's host makes them, and the examples that only the host can give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ops.protocol import Feed
from shapescript.handles import DatasetHandle, OrderHandle
from shapescript.runtime.arrays import Array, engine_array
from shapescript.runtime.dataset import Dataset
from shapescript.runtime.errors import ShapeScriptError
from shapescript.runtime.feed import Feed as Reader
from shapescript.runtime.orders import Ordered

Handles = Sequence[Any]
Handle = DatasetHandle | OrderHandle

NOT_GIVEN = -1  # as a number of batches to read ahead


def _part(data: DatasetHandle, start: int, stop: int) -> Handles:
    return (DatasetHandle(data.dataset.part(start, stop)),)


def _concat(first: DatasetHandle, *others: DatasetHandle) -> Handles:
    return (DatasetHandle(first.dataset.concat(*(other.dataset for other in others))),)


def _split(data: DatasetHandle, fraction: float, seed: int) -> Handles:
    return [DatasetHandle(part) for part in data.dataset.random_split(fraction, seed)]


def _filter(data: DatasetHandle, keep: Array) -> Handles:
    return (DatasetHandle(data.dataset.filter(keep)),)


def _order(examples: Handle, k: int, seed: int) -> Handles:
    return (OrderHandle(_examples(examples).shuffle(k, seed), _dataset(examples)),)


def _sample(examples: Handle, count: int, k: int, seed: int, weights: Array | None = None) -> Handles:
    return (OrderHandle(_examples(examples).sample(count, k, seed, weights), _dataset(examples)),)


def _order_part(examples: OrderHandle, start: int, stop: int) -> Handles:
    return (OrderHandle(examples.ordered.part(start, stop), examples.dataset),)


def _examples(handle: Handle) -> Dataset | Ordered:
    return handle.ordered if isinstance(handle, OrderHandle) else handle.dataset


def _dataset(handle: Handle) -> DatasetHandle:
    return handle.dataset if isinstance(handle, OrderHandle) else handle


MAKERS: Mapping[str, Callable[..., Handles]] = {
    "dataset_part": _part,
    "dataset_concat": _concat,
    "dataset_split": _split,
    "dataset_filter": _filter,
    "order": _order,
    "sample_order": _sample,
    "order_part": _order_part,
}


class DataHost:
    """What a program's host does for data; errors get the place in the program."""

    def __init__(self) -> None:
        self.handlers: dict[str, Callable[[Op, Sequence[Any]], Handles]] = {name: _made(maker) for name, maker in MAKERS.items()}

    def feed(self, op: Op, examples: Handle, size: int, start: int, end: int, prefetch: int) -> Feed:
        return _Fed(Reader(_examples(examples), size, start, end, None if prefetch == NOT_GIVEN else prefetch), op)

    def gather(self, op: Op, data: DatasetHandle, rows: Any) -> Sequence[Array]:
        with placed(op):
            columns = data.dataset.gather(rows).columns
            return [engine_array(columns[name]) for name in data.dataset.record.field_names]

    def columns(self, op: Op, data: DatasetHandle, fields: Sequence[int]) -> Sequence[Array]:
        source = data.dataset.source
        with placed(op):
            return [engine_array(source.column(source.record.fields[field].name, 0, len(source))) for field in fields]


class _Fed:
    """A feed for an engine."""

    def __init__(self, reader: Reader, op: Op) -> None:
        self._reader, self._op = reader, op

    def take(self, start: int) -> tuple[int, Sequence[Array]]:
        with placed(self._op):
            count, arrays = self._reader.take(start)
        return count, [engine_array(array) for array in arrays]

    def close(self) -> None:
        self._reader.close()


def _made(maker: Callable[..., Handles]) -> Callable[[Op, Sequence[Any]], Handles]:
    return lambda op, operands: maker(*operands)


class placed:  # noqa: N801  # a context manager; a class, since a generator's takes three times as long, at each record of a log
    """What is raised inside without a place in the program gets the operation's."""

    __slots__ = ("_op",)

    def __init__(self, op: Op) -> None:
        self._op = op

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ShapeScriptError) and error.span is None:
            error.span = self._op.span
