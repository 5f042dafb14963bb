"""The runtime's package: its names, and what loading it loads."""

from __future__ import annotations

import subprocess
import sys

import pytest

from shapescript import runtime


def test_every_public_name_can_be_loaded() -> None:
    assert all(getattr(runtime, name).__name__ == name for name in runtime.__all__ if name != "Eval")
    assert runtime.Eval is runtime.mode.Eval and "save_checkpoint" in dir(runtime)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = runtime.nothing


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import shapescript.runtime.errors", ["numpy", "shapescript.runtime.arrays"]),
        ("import shapescript.runtime.checkpoint, shapescript.runtime.npz", ["torch", "llvmlite", "lark", "rich"]),
    ],
)
def test_what_loading_the_runtime_does_not_load(statement: str, absent: list[str]) -> None:
    code = f"{statement}\nimport sys\nprint([name for name in {absent!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_the_runtime_knows_only_what_every_room_may_know_of_the_compiler() -> None:
    code = """
import sys
import shapescript.runtime as runtime
for name in runtime.__all__:
    getattr(runtime, name)
rooms = {name.split(".")[2] for name in sys.modules if name.startswith("shapescript.compiler.")}
print(sorted(rooms - {"numerics", "diagnostics", "records"}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
