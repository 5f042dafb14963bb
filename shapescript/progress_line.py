"""Where progress is shown: on a terminal a line that changes, drawn by rich; elsewhere plain lines."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from rich.live import Live

NUMBERS = r"\d[\d.:]*"


class ProgressLine(Protocol):
    """`show` shows parts such as "epoch 3"; `keep` lets a line that is drawn stand, `hide` takes it away. What comes next is below."""

    def show(self, parts: Sequence[str]) -> None: ...
    def keep(self) -> None: ...
    def hide(self) -> None: ...


class PlainLines:
    """A line each time; what was written stands."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def show(self, parts: Sequence[str]) -> None:
        self._stream.write(f"{'  '.join(parts)}\n")
        self._stream.flush()

    def keep(self) -> None: ...

    def hide(self) -> None: ...


class LiveLine:
    """One line that is drawn again and again, as wide as the terminal at most. The cursor is hidden while it is there.

    It is drawn only when it is told to: no thread of its own, and no stream of the program's is redirected.
    """

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console  # here and below: a run that shows no live line doesn't load rich

        self._console = Console(file=stream, force_terminal=True)
        self._live: Live | None = None

    def show(self, parts: Sequence[str]) -> None:
        from rich.live import Live
        from rich.text import Text

        text = Text("  ".join(parts), no_wrap=True, overflow="ellipsis")
        text.highlight_regex(NUMBERS, "bold")
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
            self._live.start()
        self._live.update(text, refresh=True)

    def keep(self) -> None:
        self._stop(transient=False)

    def hide(self) -> None:
        self._stop(transient=True)

    def _stop(self, transient: bool) -> None:
        if self._live is not None:
            self._live.transient = transient
            self._live.stop()
            self._live = None


def is_terminal(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM") != "dumb"
