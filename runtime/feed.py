"""The batches of one loop, made on the host and read ahead.

What is read, and when, changes no batch: a batch is a function of its places alone. A row that can't be used is reported at the batch that
needs it, whoever came across it first.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from shapescript.runtime.arrays import NUMPY_DTYPES, Array, Words
from shapescript.runtime.record import Field
from shapescript.runtime.rows_ahead import RowsAhead

if TYPE_CHECKING:
    from shapescript.runtime.examples import Examples
    from shapescript.runtime.sources import Source

CHUNK_ROWS, CHUNK_BYTES = 1024, 1 << 20  # read at once at most, unless a batch is more
AHEAD = 2  # batches, where nobody says
PATIENCE = 1.0  # seconds that the end of a loop, after a Ctrl-C or at the interpreter's end too, waits for a read that has begun


class Piece(NamedTuple):
    """Examples that follow each other: how many, and the record's fields in their order."""

    examples: int
    arrays: tuple[Array, ...]


class Feed:
    """The places start to end - 1 of a dataset or an order, for a loop over batches of `size`.

    What lies in memory is put together by chunks when it is asked for; what doesn't is read by a thread, at most `prefetch` batches ahead
    of what was taken (None: two of them; 0: no thread, a batch at a time). `close` is called when the loop ends, however it ends.
    """

    def __init__(self, examples: Examples, size: int, start: int, end: int, prefetch: int | None = None) -> None:
        source, ahead = examples.dataset.source, AHEAD if prefetch is None else prefetch
        chunk = max(1, min(CHUNK_ROWS, CHUNK_BYTES // max(1, source.record.row_bytes)) // size)
        self._place, self._end = start, end
        self._failure: BaseException | None = None
        self._thread: _Thread | None = None
        # Of what may be ahead half is read at once: the other half is used in the meantime.
        batches = chunk if source.in_memory else min(chunk, max(1, ahead // 2))
        self._pieces: Iterator[Piece] | None = _pieces(examples, size, (start, end), batches)
        if not source.in_memory and ahead and start < end:
            self._read_ahead(_Thread(self._pieces, ahead, size))

    def _read_ahead(self, thread: _Thread) -> None:
        """Whoever could end the thread is known before it starts: a Ctrl-C may come while it does."""
        self._stop = weakref.finalize(self, thread.close, PATIENCE)
        try:
            thread.start()
        except RuntimeError:  # there can't be one more thread; then nothing is read ahead
            self._stop.detach()
            return
        except BaseException:
            thread.close(PATIENCE)
            raise
        self._pieces = self._thread = thread

    def take(self, start: int) -> tuple[int, tuple[Array, ...]]:
        """The examples from place `start` on, where what was taken before ends: how many, whole batches or all to the end, and the fields
        in their order, valid until the next call.

        Raises what reading the first of these batches raises, DataError R1204 for a row that can't be used, and does so again when asked
        again; KeyboardInterrupt gets through.
        """
        if self._failure is not None:
            raise self._failure
        if self._pieces is None or start != self._place or start >= self._end:
            raise ValueError(f"place {start} is asked for, and {self._place} of {self._end} comes next{'' if self._pieces else '; closed'}")
        try:
            piece = next(self._pieces)
        except Exception as failure:
            self._failure = failure
            raise
        self._place += piece.examples
        return piece.examples, piece.arrays

    def close(self, patience: float | None = PATIENCE) -> None:
        """End the reading and join the thread. A read that has begun is waited for, for `patience` seconds at most (None: until it ends);
        then the thread ends behind it by itself."""
        self._pieces = None
        if self._thread is not None:
            self._thread.close(patience)
            self._stop.detach()


def _pieces(examples: Examples, size: int, between: tuple[int, int], batches: int) -> Iterator[Piece]:
    """Pieces of so many batches each; where reading several fails, each batch by itself, up to the one that can't be read."""
    start, end = between
    source, rows = examples.dataset.source, RowsAhead(examples, end)
    for place in range(start, end, batches * size):
        stop = min(place + batches * size, end)
        whole = None
        try:
            whole = _read(source, rows.between(place, stop))
        except Exception:
            if stop - place <= size:
                raise
        if whole is not None:
            yield whole
            continue
        for at in range(place, stop, size):
            yield _read(source, rows.between(at, min(at + size, stop)))


def _read(source: Source, rows: Words) -> Piece:
    taken = source.read(rows)
    return Piece(len(rows), tuple(_checked(field, taken[field.name], len(rows)) for field in source.record.fields))


def _checked(field: Field, array: Array, count: int) -> Array:
    """Native code reads what a source gives, so a source's mistake ends here."""
    if array.dtype != NUMPY_DTYPES[field.dtype] or array.shape != (count, *field.shape) or not array.flags.c_contiguous:
        raise TypeError(f"a source gave {array.dtype} {array.shape} for {count} rows of {field}")
    return array


class _Thread(Iterator[Piece]):
    """Pieces that a thread reads until `most` batches wait. It knows nothing of the feed, so that a feed that is dropped can end it."""

    def __init__(self, pieces: Iterator[Piece], most: int, size: int) -> None:
        self._pieces, self._most, self._size = pieces, most, size
        self._waiting: deque[Piece] = deque()
        self._batches = 0  # of those that wait
        self._failure: BaseException | None = None
        self._closed = False
        self._changed = threading.Condition(threading.RLock())  # a finaliser may come while this very thread holds it
        self._thread = threading.Thread(target=self._work, name="shapescript-feed", daemon=True)

    def start(self) -> None:
        """Raises RuntimeError where there can't be one more thread."""
        self._thread.start()

    def __next__(self) -> Piece:
        with self._changed:
            while not (self._waiting or self._failure or self._closed) and self._thread.is_alive():
                self._changed.wait(0.2)  # on some systems a Ctrl-C reaches no wait without an end
            if self._closed or not (self._waiting or self._failure):
                raise ValueError("the feed is closed")  # or this process was forked from the one with the thread
            if not self._waiting:
                assert self._failure is not None
                raise self._failure
            piece = self._waiting.popleft()
            self._batches -= self._batches_in(piece)
            self._changed.notify_all()
            return piece

    def close(self, patience: float | None) -> None:
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()
        if self._thread is not threading.current_thread() and self._thread.is_alive():
            self._thread.join(patience)

    def _batches_in(self, piece: Piece) -> int:
        return -(-piece.examples // self._size)

    def _work(self) -> None:
        try:
            while self._has_room():
                piece = next(self._pieces, None)
                with self._changed:
                    if piece is None or self._closed:
                        return
                    self._waiting.append(piece)
                    self._batches += self._batches_in(piece)
                    self._changed.notify_all()
        except BaseException as failure:
            with self._changed:
                self._failure = failure
                self._changed.notify_all()

    def _has_room(self) -> bool:
        """Waits until there is room for a piece; false when nobody wants more."""
        with self._changed:
            while self._batches >= self._most and not self._closed:
                self._changed.wait()
            return not self._closed
