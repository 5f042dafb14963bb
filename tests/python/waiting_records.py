"""How long records for logs wait in native code, set for a test so that no clock decides it."""

from __future__ import annotations

import pytest

from shapescript.compiler.codegen import callbacks

FOREVER, NEVER = 1 << 60, 0  # ticks between polls


def let_wait(monkeypatch: pytest.MonkeyPatch, ticks: int) -> None:
    monkeypatch.setattr(callbacks, "FIRST_BUDGETS", {True: ticks, False: ticks})
    monkeypatch.setattr(callbacks, "LEAST_BUDGET", ticks)
    monkeypatch.setattr(callbacks, "MOST_BUDGET", ticks)
