"""What the first call of a process does and leaves out, in counts: its time can't be tested."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_harness import native
from llvmlite import ir

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.emit import F32, I32, I64, PTR, VOID
from shapescript.compiler.codegen.target import host
from shapescript.compiler.records.collection import paused_collection

COMPILES = (
    "llvmlite.binding",
    "shapescript.compiler.passes.pipeline",
    "shapescript.compiler.codegen.lower_function",
    "shapescript.gradient_checks",
)
CALL = """
import sys, json, shapescript, numpy
program = shapescript.load(sys.argv[1])
x = numpy.ones((512, 512), numpy.float32)
with shapescript.threads(2):  # the product is worth two
    assert program.doubled(x, x)[0, 0] == 1024
assert [one.name for one in __import__("threading").enumerate()][1:] == ["shapescript worker 1"]
print(json.dumps(sorted(sys.modules)))
"""


def test_a_call_from_the_cache_loads_nothing_that_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHAPESCRIPT_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "doubled.ss"
    path.write_text("fn doubled(x: [a b], y: [b c]) -> [a c]:\n    return (x @ y) * 2\n", "utf-8")
    command = [sys.executable, "-c", CALL, str(path)]
    first, second = (set(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)) for _ in range(2))
    assert set(COMPILES) <= first
    assert not set(COMPILES) & second


# ---- the collector


@pytest.fixture
def collecting() -> Iterator[None]:
    assert gc.isenabled() and not gc.get_freeze_count()
    yield
    gc.unfreeze()
    gc.enable()


@pytest.mark.usefixtures("collecting")
def test_nothing_is_collected_meanwhile_and_what_is_made_is_old_then() -> None:
    with paused_collection():
        assert not gc.isenabled()
        made = [[]]
        assert any(young is made for young in gc.get_objects(generation=0))
    assert gc.isenabled() and not gc.get_freeze_count()
    assert any(old is made for old in gc.get_objects(generation=2))


@pytest.mark.usefixtures("collecting")
def test_a_collector_that_is_off_stays_off_and_what_is_frozen_frozen() -> None:
    gc.disable()
    with paused_collection():
        pass
    assert not gc.isenabled()
    gc.enable()
    gc.freeze()
    frozen = gc.get_freeze_count()
    with paused_collection():
        pass
    assert gc.isenabled() and gc.get_freeze_count() >= frozen > 0


# ---- the text that LLVM gets


def function() -> tuple[ir.Module, ir.IRBuilder, list[ir.Value]]:
    module = ir.Module()
    fn, b = emit.function(module, "f", [F32, I64], VOID)
    fn.linkage = ""
    return module, b, list(fn.args)


def instructions(module: ir.Module) -> int:
    return sum(len(block.instructions) for fn in module.functions for block in fn.blocks)


def test_numbers_that_are_known_take_no_instructions() -> None:
    module, b, (_, i) = function()
    assert extents.plus(b, i, 0) is extents.plus(b, 0, i) is extents.minus(b, i, 0) is i
    emit.splat(b, emit.constant(2.5, F32), 16)
    assert instructions(module) == 0


def test_a_number_is_spread_over_lanes_once_in_a_block() -> None:
    module, b, (x, _) = function()
    assert emit.splat(b, x, 16) is emit.splat(b, x, 16)
    count = instructions(module)
    assert emit.splat(b, x, 8) is not emit.splat(b, x, 16) and instructions(module) == 2 * count
    first = emit.splat(b, x, 16)
    b.position_at_end(b.append_basic_block("other"))
    assert emit.splat(b, x, 16) is not first  # which another way may lead around


def test_constants_of_vectors_are_what_they_say() -> None:
    """Of those that LLVM is told with one word too; a zero is 0 or -0."""
    numbers = [0.0, -0.0, 1.5]

    def body(b: Any, arguments: Any) -> None:
        for place, number in enumerate(numbers):
            emit.store(b, emit.constant(number, emit.vector_of(F32, 4)), emit.at(b, arguments[0], 4 * place, F32))
        for place, lanes in enumerate([(0, 0, 0, 0), (0, 7, 0, -1)]):
            emit.store(b, emit.lanes_of(32, lanes), emit.at(b, arguments[0], 12 + 4 * place, I32))

    out = np.full(20, np.nan, np.float32)
    native(host(), [PTR], body)(out)
    assert out[:12].tobytes() == np.repeat(np.array(numbers, np.float32), 4).tobytes()
    assert out[12:].view(np.int32).tolist() == [0, 0, 0, 0, 0, 7, 0, -1]
