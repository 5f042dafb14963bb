"""SIGINT and SIGTERM of the command line: the first one is an exception in the main thread, a second one ends the process at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType, TracebackType

STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143}


class Interrupted(KeyboardInterrupt):
    """SIGINT, as Ctrl-C sends it."""


class Terminated(KeyboardInterrupt):
    """SIGTERM: what runs is left as after Ctrl-C."""


_RAISED: dict[int, type[KeyboardInterrupt]] = {signal.SIGINT: Interrupted, signal.SIGTERM: Terminated}


class Signals:
    """A context in which signals are handled so. One that was ignored stays ignored: a shell does that for what runs in its background."""

    _current: Signals | None = None

    def __init__(self) -> None:
        self._first: int | None = None
        self._over = False
        self._before: dict[int, object] = {}
        self._outer: Signals | None = None
        self._hook = sys.unraisablehook

    def __enter__(self) -> Signals:
        self._hook, sys.unraisablehook = sys.unraisablehook, self._dropped
        if threading.current_thread() is threading.main_thread():  # Python lets no other thread handle signals
            for number in STATUS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._arrived)
        self._outer, Signals._current = Signals._current, self
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over = True
        Signals._current, sys.unraisablehook = self._outer, self._hook
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def over(self) -> None:
        """All is done and said: a first signal that comes now changes nothing any more."""
        self._over = True

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        if self._first is not None:
            os._exit(STATUS[signal.Signals(number)])
        if not self._over:
            self._first = number
            raise _RAISED[number]

    def _dropped(self, unraisable: sys.UnraisableHookArgs) -> None:
        """Nothing is said of a signal that Python drops: `again` raises it once more."""
        if not isinstance(unraisable.exc_value, Interrupted | Terminated):
            self._hook(unraisable)

    def again(self) -> None:
        """Raise what has been raised before, if anything was: Python drops an exception that a finaliser raises."""
        if self._first is not None:
            raise _RAISED[self._first]

    def cause(self, error: BaseException) -> BaseException:
        """What ended the command: the signal, where one came, whatever else that has led to."""
        return error if self._first is None else _RAISED[self._first]()


def raise_pending() -> None:
    """For work that goes on although a signal came."""
    if Signals._current is not None and threading.current_thread() is threading.main_thread():
        Signals._current.again()
