"""Sizes that no memory holds: a coded error, the same kind from both engines, and the next call goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import shapescript
from shapescript.engines import EngineName
from shapescript.host import out_of_memory

PROGRAM = """
fn inner(x: [n]) -> []:
    y = repeat(x: n -> n a b c, a=n, b=n, c=n)
    return sum(cumsum(y, over=c), over=(n, a, b, c))

fn shown(x: [n]) -> [n n*n*n*n*n*n*n]:
    y = repeat(x: n -> n a b c d e f g, a=n, b=n, c=n, d=n, e=n, f=n, g=n)
    return rearrange(y: n a b c d e f g -> n (a b c d e f g))

fn decided(x: [n], i: int) -> []:
    part = x[n=..i] |> rearrange(p -> p)
    y = repeat(part: p -> p a b c d e f g, a=p, b=p, c=p, d=p, e=p, f=p, g=p)
    return max(sort(y, over=g), over=(p, a, b, c, d, e, f, g))
"""


@pytest.mark.parametrize("engine", get_args(EngineName))
@pytest.mark.parametrize("call", ["inner", "shown", "decided"])
def test_more_memory_than_there_is(tmp_path: Path, engine: EngineName, call: str) -> None:
    path = tmp_path / "large.ss"
    path.write_text(PROGRAM)
    function: Any = getattr(shapescript.load(path, engine=engine), call)
    more = (3000,) if call == "decided" else ()
    with pytest.raises(shapescript.OutOfMemoryError, match=f"^R1111: `{call}` needs more memory than there is: ..") as caught:
        function(np.ones(3000, np.float32), *more)
    assert isinstance(caught.value, MemoryError) and caught.value.span is not None
    assert np.all(np.asarray(function(np.ones(2, np.float32), *(2 for _ in more))) > 0)


BATCHES = """
dim Nothing = 0
data Row:
    x: []
data Empty:
    x: bool[Nothing]

fn sampled(rows: Dataset[Row], count: int, size: int) -> int:
    mut batches_seen = 0
    for batch in rows |> sample(count, 0) |> batches(size):
        batches_seen = batches_seen + 1
    return batches_seen

fn stored(rows: Dataset[Empty], size: int) -> int:
    mut batches_seen = 0
    for batch in rows |> batches(size):
        batches_seen = batches_seen + 1
    return batches_seen
"""


def batch_program(folder: Path, engine: EngineName) -> Any:
    path = folder / "batches.ss"
    path.write_text(BATCHES)
    return shapescript.load(path, engine=engine)


@pytest.mark.parametrize("engine", get_args(EngineName))
@pytest.mark.parametrize("count", [2**60 + 2**58, 2**61, (2**64 - 1) // 3, 2**63 - 1])
def test_a_batch_of_a_sample_larger_than_memory(tmp_path: Path, engine: EngineName, count: int) -> None:
    """Its numbers alone, of which some of these counts would wrap to a few bytes: no field is used."""
    program = batch_program(tmp_path, engine)
    rows = program.Row.dataset(x=np.zeros(3, np.float32))
    with pytest.raises(shapescript.OutOfMemoryError, match=r"^R1111: `sampled` needs more memory than there is: "):
        program.sampled(rows, count, count)
    assert program.sampled(rows, 7, 3) == 3


@pytest.mark.parametrize("engine", get_args(EngineName))
def test_places_of_batches_do_not_wrap(tmp_path: Path, engine: EngineName) -> None:
    program = batch_program(tmp_path, engine)
    assert program.stored(program.Empty.dataset(x=np.zeros((2**63 - 1, 0), np.bool_)), 2**62 + 1) == 2


WINDOWS = """
dim Nothing = 0

fn far(y: [m], x: bool[n Nothing]) -> []:
    return max(max_pool(y, over=m, size=5, dilation=n*n) |> rearrange(p -> p), over=p)

fn padded(y: [m], x: bool[n Nothing]) -> []:
    return max(max_pool(y, over=m, size=3, padding=n*n) |> rearrange(p -> p), over=p)

fn apart(y: [m], x: bool[n Nothing]) -> []:
    return max(max_pool(y, over=m, size=3, stride=n*n) |> rearrange(p -> p), over=p)

fn long(y: [m], x: bool[n Nothing]) -> []:
    return max(max_pool(y, over=m, size=n*n, stride=1) |> rearrange(p -> p), over=p)

fn mapped(y: [b c m], w: [c d k], x: bool[n Nothing]) -> []:
    return sum(convolve_transposed(y, w, over=m, stride=n*n) |> rearrange(b d p -> b d p), over=(b, d, p))
"""
CODES = {"far": "R1110", "padded": "R1111", "apart": "R1111", "long": "R1110", "mapped": "R1111"}


@pytest.mark.parametrize("engine", get_args(EngineName))
@pytest.mark.parametrize("n", [2**24, 2**31, 3037000500, 2**32, 2**62])
def test_steps_of_windows_that_would_wrap(tmp_path: Path, engine: EngineName, n: int) -> None:
    """n * n is 2^62, a little above 2^63, 2^64 and more."""
    path = tmp_path / "windows.ss"
    path.write_text(WINDOWS)
    program = shapescript.load(path, engine=engine)
    y, large = np.arange(7, dtype=np.float32), np.zeros((n, 0), np.bool_)
    for name, code in CODES.items():
        values = (y.reshape(1, 1, 7), np.ones((1, 1, 3), np.float32)) if name == "mapped" else (y,)
        with pytest.raises(shapescript.ShapeScriptError, match=f"^{code}: "):
            getattr(program, name)(*values, large)


def test_the_command_line_says_so(tmp_path: Path) -> None:
    path = tmp_path / "large.ss"
    path.write_text("dim D = 10000000\ndim E = 10000000\n\nfn main():\n    print(sum(cumsum(ones[D E], over=E), over=(D, E)))\n")
    done = subprocess.run([sys.executable, "-m", "shapescript", "run", path], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "error[R1111]: `main` needs more memory than there is" in done.stderr


def test_a_failure_without_words_is_told_in_some() -> None:
    assert out_of_memory(MemoryError(), "f", None).message == "`f` needs more memory than there is: an allocation failed"
    assert out_of_memory(MemoryError("7 bytes"), "f", None).message == "`f` needs more memory than there is: 7 bytes"
