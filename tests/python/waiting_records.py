"""How long records for logs wait in native code, set for a test so that no clock decides it."""

from __future__ import annotations

from typing import Any

import pytest

from shapescript.compiler.codegen import callbacks
from shapescript.compiler.codegen.context import Word

FOREVER, NEVER = 1 << 60, 0  # ticks between polls


def let_wait(monkeypatch: pytest.MonkeyPatch, ticks: int) -> None:
    begin = callbacks.Frame.begin

    def begun(frame: callbacks.Frame, *arguments: Any) -> None:
        begin(frame, *arguments)
        frame.words[Word.BUDGET] = ticks

    monkeypatch.setattr(callbacks.Frame, "begin", begun)
    monkeypatch.setattr(callbacks, "LEAST_BUDGET", ticks)
    monkeypatch.setattr(callbacks, "MOST_BUDGET", ticks)
