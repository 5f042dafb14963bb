"""A steady step allocates nothing, and compiles nothing: told by our pool, by tracemalloc and by malloc's own statistics."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import steady_run
from api_programs import digits

import shapescript
from shapescript.compiler.codegen.memory import ARENAS


@pytest.mark.parametrize("mode", ["Eval", "Train"])
def test_steady_steps_allocate_and_compile_nothing(tmp_path: Path, mode: str) -> None:
    subprocess.run([sys.executable, steady_run.__file__, str(tmp_path), mode], check=True)


def test_calls_that_follow_allocate_nothing_that_stays(tmp_path: Path) -> None:
    loaded, (pixels, label) = steady_run.program(tmp_path), digits()
    m, sink = loaded.Mlp(seed=1), shapescript.MemorySink()
    opt, batch = shapescript.AdamW(m), loaded.Digit.batch(pixels=pixels[:64], label=label[:64])
    for _ in range(3):
        loaded.train_step(m, opt, batch, sink, shapescript.Eval)
    grows, held = ARENAS.grows, ARENAS.bytes
    for _ in range(50):
        loaded.train_step(m, opt, batch, sink, shapescript.Eval)
    assert (ARENAS.grows, ARENAS.bytes) == (grows, held)
