"""What a running program is doing, for people: one line that changes on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from shapescript.runtime.errors import LogError
from shapescript.runtime.sinks import LogSink

LIVE_SECONDS = 0.1  # between two drawings of the line
PLAIN_SECONDS = 1.0  # between two lines
CLEAR_LINE = "\r\x1b[K"


class Progress:
    """A Watcher that shows epoch, step, loss and steps a second.

    Step and loss are the fields of those names in what the program logs (a record counts as a step where it has none). The epoch is the
    `epoch` that it logs; otherwise each flush of a log ends one, counted on from the `epoch` or `epochs` that the program loads.
    """

    def __init__(self, stream: TextIO, live: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._live, self._clock = stream, live, clock
        self._sinks: list[LogSink] = []
        self._epoch = self._records = 0
        self._in_epoch = False  # whether something was logged since the last flush
        self._step: int | None = None
        self._loss: float | None = None
        self._names_epoch = self._flushed = self._drawn = False
        self._shown_at: float | None = None  # when a line was shown last, and the step that it named
        self._shown_step: int | None = None
        self._dirty = False
        self._resumed: str | None = None  # the checkpoint whose log nothing was written to yet

    # ---- what the host tells

    def opened(self, sink: LogSink) -> None:
        self._sinks.append(sink)

    def wrote(self, fields: Mapping[str, Any]) -> None:
        self._records += 1
        self._dirty, self._resumed = True, None
        step = fields.get("step")
        self._step = step if isinstance(step, int) else self._records
        loss = fields.get("loss")
        if isinstance(loss, float):
            self._loss = loss
        epoch = fields.get("epoch")
        if isinstance(epoch, int):
            self._epoch, self._names_epoch = epoch, True
        self._in_epoch = True
        if self._shown_step is None:
            self._shown_at, self._shown_step = self._clock(), self._step
        if self._live:
            self._show_after(LIVE_SECONDS)

    def flushed(self) -> None:
        self._in_epoch = False
        if not self._names_epoch:
            self._epoch += 1
        if not self._live and self._dirty:
            self._show_after(PLAIN_SECONDS if self._flushed else 0.0)
        self._flushed = True

    def loaded(self, path: str, requests: Mapping[str, Any], results: Mapping[str, Any]) -> None:
        epoch = results.get("epoch", results.get("epochs"))
        if isinstance(epoch, int):
            self._epoch = epoch
        if any(isinstance(request, LogSink) for request in requests.values()):
            self._resumed = path

    def printing(self) -> None:
        self._clear()

    def polled(self) -> None:
        if self._live and self._dirty:
            self._show_after(LIVE_SECONDS)

    # ---- the end

    def close(self) -> None:
        """Show where the run ended, and say so where there was nothing to go on with."""
        if self._dirty:
            self._show()
        if self._drawn:
            self._stream.write("\n")
            self._drawn = False
        if self._resumed is not None:
            self._stream.write(f"{self._resumed}: the run that was saved is finished already; nothing was done\n")
        self._stream.flush()

    def flush_logs(self) -> None:
        """Make durable what the program has logged so far; a log that can't be is left as it is."""
        for sink in self._sinks:
            with contextlib.suppress(LogError):
                sink.flush()

    # ---- the line

    def _show_after(self, seconds: float) -> None:
        if self._shown_at is None or self._clock() - self._shown_at >= seconds:
            self._show()

    def _show(self) -> None:
        text = self._line()
        if self._live:
            width = shutil.get_terminal_size().columns
            self._stream.write(f"{CLEAR_LINE}{text[: width - 1]}")
            self._drawn = True
        else:
            self._stream.write(f"{text}\n")
        self._stream.flush()
        self._dirty = False

    def _line(self) -> str:
        now = self._clock()
        epoch = self._epoch + (self._in_epoch and not self._names_epoch)
        parts = [f"epoch {epoch}"]
        if self._step is not None:
            parts.append(f"step {self._step}")
        if self._loss is not None:
            parts.append(f"loss {self._loss:.4f}")
        if self._step is not None and self._shown_step is not None and self._shown_at is not None:
            done, seconds = self._step - self._shown_step, now - self._shown_at
            if done > 0 and seconds > 0:
                parts.append(f"{done / seconds:.0f} steps/s")
        self._shown_at, self._shown_step = now, self._step
        return "  ".join(parts)

    def _clear(self) -> None:
        if self._drawn:
            self._stream.write(CLEAR_LINE)
            self._stream.flush()
            self._drawn, self._dirty = False, True


def is_terminal(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM") != "dumb"
