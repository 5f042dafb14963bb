"""`training(mode)`: a condition in both engines, known where the mode is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from both_engines import Both

import shapescript
from shapescript.compiler.check.checker import check_file
from shapescript.compiler.ir.nodes import walk
from shapescript.compiler.passes.pipeline import compile_entry

PROGRAM = """
model M:
    w: [3] = ones

fn asked(mode: Mode) -> bool:
    return training(mode)

fn scaled(x: [b], mode: Mode) -> [b]:
    if training(mode) and sum(x, over=b) > 0.0:
        return dropout(x, 0.5, mode) * 2.0
    return x

fn alternating(x: [b], mode: Mode, turns: int) -> [b]:
    mut y = x
    for turn in 0..turns:
        y = scaled(y, mode)
        y = scaled(y, Eval)
    return y

fn doubled(x: [b], mode: Mode) -> [b]:
    if training(mode):
        return x * 2.0
    return x

fn known(m: M, x: [3]) -> ([], M):
    l, g = value_and_grad(sum(m.w * doubled(x * m.w, Eval), over=3), wrt=m)
    return l, g

fn made() -> (bool, bool):
    return training(Eval), training(Train(seed=3))
"""


def test_in_both_engines(tmp_path: Path) -> None:
    both = Both(tmp_path, PROGRAM)
    assert both.call("asked", shapescript.Train(seed=1)) is True and both.call("asked", shapescript.Eval) is False
    assert both.call("made") == (False, True)
    x, mode = np.ones(100, np.float32), shapescript.Train(seed=1)
    assert both.call("scaled", x, shapescript.Eval).tolist() == x.tolist()
    found = both.call("scaled", x, mode)
    assert set(found.tolist()) == {0.0, 4.0} and mode.draws == 1
    assert both.call("scaled", -x, mode).tolist() == (-x).tolist() and mode.draws == 1
    both.call("alternating", x, mode, 3)
    assert mode.draws == 4


def test_a_known_mode_is_no_condition(tmp_path: Path) -> None:
    both = Both(tmp_path, PROGRAM)
    loss, g = both.call("known", both.native.M(seed=1), np.array([1.0, 2.0, 3.0], np.float32))
    assert loss == 6.0 and g.w.tolist() == [2.0, 4.0, 6.0]
    program = check_file(tmp_path / "program.ss")
    assert program.module is not None
    for name in ("known", "made"):
        names = {op.name for op in walk(compile_entry(program.module, program.functions[name][0].key, {}).body)}
        assert not {"if", "mode_is_train"} & names
