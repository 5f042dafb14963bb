"""What a running program is doing, for people: one line that changes on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, TextIO

from shapescript.compiler.diagnostics.render import printable
from shapescript.progress_line import LiveLine, PlainLines, ProgressLine
from shapescript.runtime.errors import LogError
from shapescript.runtime.sinks import LogSink

LIVE_SECONDS = 0.1  # between two drawings of the line
PLAIN_SECONDS = 1.0  # between two lines
RATE_SECONDS = 1.0  # steps a second are those of this time and up to twice as much


class Progress:
    """A Watcher that shows epoch, step, loss and steps a second; on a terminal the time since the start too.

    Step and loss are the fields of those names in what the program logs (a record counts as a step where it has none). The epoch is the
    `epoch` that it logs; otherwise each flush of a log ends one, counted on from the `epoch` or `epochs` that the program loads.
    """

    def __init__(self, stream: TextIO, live: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._live, self._clock = stream, live, clock
        self._line: ProgressLine = LiveLine(stream) if live else PlainLines(stream)
        self._sinks: list[LogSink] = []
        self._epoch = self._records = 0
        self._in_epoch = False  # whether something was logged since the last flush
        self._step: int | None = None
        self._loss: float | None = None
        self._rate = StepRate()
        self._names_epoch = self._flushed = False
        self._began = clock()
        self._shown_at: float | None = None  # when the line was shown last, or the first record came
        self._news = False  # since a line was left standing
        self._resumed: str | None = None  # the checkpoint whose log nothing was written to yet

    # ---- what the host tells

    def opened(self, sink: LogSink) -> None:
        self._sinks.append(sink)

    def wrote(self, fields: Mapping[str, Any]) -> None:
        now = self._clock()
        self._records += 1
        self._news, self._resumed = True, None
        step = fields.get("step")
        self._step = step if isinstance(step, int) else self._records
        self._rate.reached(self._step, now)
        loss = fields.get("loss")
        if isinstance(loss, float):
            self._loss = loss
        epoch = fields.get("epoch")
        if isinstance(epoch, int):
            self._epoch, self._names_epoch = epoch, True
        self._in_epoch = True
        if self._shown_at is None:
            self._shown_at = now
        if self._live and self._is_due(LIVE_SECONDS):
            self._show()

    def flushed(self) -> None:
        self._in_epoch = False
        if not self._names_epoch:
            self._epoch += 1
        if not self._live and self._news and (not self._flushed or self._is_due(PLAIN_SECONDS)):
            self._leave()
        self._flushed = True

    def loaded(self, path: str, requests: Mapping[str, Any], results: Mapping[str, Any]) -> None:
        epoch = results.get("epoch", results.get("epochs"))
        if isinstance(epoch, int):
            self._epoch = epoch
        if any(isinstance(request, LogSink) for request in requests.values()):
            self._resumed = path

    def printing(self) -> None:
        """What the program prints comes below the line of an epoch that has ended, and in the place of one that goes on."""
        stands = not self._in_epoch or (not self._live and self._is_due(PLAIN_SECONDS))
        if self._news and stands:
            self._leave()
        else:
            self._line.hide()

    def told(self, text: str) -> None:
        """A notice has a line of its own; a line that is drawn gives way to it, and is drawn again. Names of a file's stand in it."""
        self._line.hide()
        self._stream.write(f"note: {printable(text)}\n")
        self._stream.flush()

    def polled(self) -> None:
        if self._live and self._news and self._is_due(LIVE_SECONDS):
            self._show()

    # ---- the end

    def close(self) -> None:
        """Show where the run ended, and say so where there was nothing to go on with."""
        if self._news:
            self._leave()
        if self._resumed is not None:
            self._stream.write(f"{self._resumed}: the run that was saved is finished already; nothing was done\n")
        self._stream.flush()

    def flush_logs(self) -> None:
        """The run ends with an error: make durable what it has logged so far; a log that can't be is left as it is. Nor is it finished."""
        self._resumed = None
        for sink in self._sinks:
            with contextlib.suppress(LogError):
                sink.flush()

    # ---- the line

    def _is_due(self, seconds: float) -> bool:
        return self._shown_at is None or self._clock() - self._shown_at >= seconds

    def _show(self) -> None:
        self._shown_at = self._clock()
        self._line.show(self._parts(self._shown_at))

    def _leave(self) -> None:
        self._show()
        self._line.keep()
        self._news = False

    def _parts(self, now: float) -> list[str]:
        epoch = self._epoch + (self._in_epoch and not self._names_epoch)
        parts = [f"epoch {epoch}"]
        if self._step is not None:
            parts.append(f"step {self._step}")
        if self._loss is not None:
            parts.append(f"loss {self._loss:.4f}")
        rate = self._rate.value
        if rate is not None:
            parts.append(f"{rate:.0f} steps/s" if rate >= 10 else f"{rate:.2g} steps/s")
        if self._live:
            parts.append(str(timedelta(seconds=int(now - self._began))))
        return parts


class StepRate:
    """Steps a second between records; it stands while none come."""

    def __init__(self) -> None:
        self._marks: list[tuple[int, float]] = []  # one or two records, at least RATE_SECONDS apart: the first is counted from
        self._last = (0, 0.0)

    def reached(self, step: int, now: float) -> None:
        self._last = (step, now)
        if not self._marks or step < self._marks[-1][0]:  # a new count of steps
            self._marks = [self._last]
        elif now - self._marks[-1][1] >= RATE_SECONDS:
            self._marks = [self._marks[-1], self._last]

    @property
    def value(self) -> float | None:
        if not self._marks:
            return None
        steps, seconds = self._last[0] - self._marks[0][0], self._last[1] - self._marks[0][1]
        return steps / seconds if steps > 0 and seconds > 0 else None
