"""Numbers of optimisers that are out of their range."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from optimiser_samples import Case, contents, each_engine, program

import shapescript
from shapescript.engines import EngineName

COMPUTED = """
fn sgd(m: M, momentum: float, nesterov: bool, decay: float, dampening: float) -> Sgd[M]:
    return Sgd(m, momentum, nesterov, decay, dampening)

fn adam(m: M, beta1: float, beta2: float, eps: float, decay: float, amsgrad: bool) -> Adam[M]:
    return Adam(m, beta1, beta2, eps, decay, amsgrad)

fn adamw(m: M, beta1: float, beta2: float, eps: float, decay: float, amsgrad: bool) -> AdamW[M]:
    return AdamW(m, beta1, beta2, eps, decay, amsgrad)
"""
GOOD: dict[str, tuple[Any, ...]] = {
    "sgd": (0.9, False, 0.0, 0.0),
    "adam": (0.9, 0.999, 1e-8, 0.0, False),
    "adamw": (0.9, 0.999, 1e-8, 0.0, True),
}
NESTEROV = "a nesterov step needs a momentum above 0, and no dampening"
BAD = [
    *(("sgd", 0, value, f"momentum is at least 0 and below 1, not {value}") for value in (1.0, -0.1, math.nan)),
    *(("sgd", 2, value, f"decay is at least 0 and finite, not {value}") for value in (-1e-3, math.inf)),
    *(("sgd", 3, value, f"dampening is at least 0 and at most 1, not {value}") for value in (-0.5, 1.5, math.nan)),
    *((name, 0, value, f"beta1 is at least 0 and below 1, not {value}") for name in ("adam", "adamw") for value in (1.0, -0.1, math.nan)),
    *((name, 1, value, f"beta2 is at least 0 and below 1, not {value}") for name in ("adam", "adamw") for value in (1.0, -0.1)),
    *((name, 2, value, f"eps is above 0 and finite, not {value}") for name in ("adam", "adamw") for value in (0.0, -1e-8, math.inf)),
    *((name, 3, value, f"decay is at least 0 and finite, not {value}") for name in ("adam", "adamw") for value in (-0.01, math.nan)),
]


@each_engine
def test_constants_that_a_run_computes_are_checked_in_the_run(tmp_path: Path, engine: EngineName) -> None:
    both = program(tmp_path, "    w: [3] = ones", Case("Sgd"), engine, COMPUTED)
    m = both.M(seed=0)
    for name, good in GOOD.items():
        assert getattr(both, name)(m, *good).step == 0
    bad = [(name, [*GOOD[name][:place], value, *GOOD[name][place + 1 :]], text) for name, place, value, text in BAD]
    bad += [("sgd", [0.0, True, 0.0, 0.0], NESTEROV), ("sgd", [0.9, True, 0.0, 0.1], NESTEROV)]
    for name, arguments, text in bad:
        with pytest.raises(shapescript.ShapeScriptError) as raised:
            getattr(both, name)(m, *arguments)
        assert raised.value.code == "R1109" and raised.value.message == f"{text}; nothing was changed", (name, arguments)
        assert raised.value.span.text.startswith(name.replace("adamw", "AdamW").replace("adam", "Adam").replace("sgd", "Sgd"))


@each_engine
def test_rates_and_limits_are_checked_before_anything_changes(tmp_path: Path, engine: EngineName) -> None:
    case = Case("Sgd", {"momentum": 0.9})
    both = program(tmp_path, "    w: [3] = ones", case, engine)
    m, g = both.M(seed=0), both.M(seed=0)
    state = case.ours(m)
    both.clipped(m, state, g, 0.0, math.inf)
    before = contents(m, state)
    bad = [(lr, 1.0, f"a rate is at least 0 and finite, not {lr}") for lr in (-1e-9, math.nan, math.inf)]
    bad += [(0.1, limit, f"the limit of a norm is above 0, not {limit}") for limit in (0.0, -1.0, math.nan)]
    for lr, limit, text in bad:
        with pytest.raises(shapescript.ShapeScriptError) as raised:
            both.clipped(m, state, g, lr, limit)
        assert raised.value.code == "R1109" and raised.value.message == f"{text}; nothing was changed"
        assert contents(m, state) == before


CONSTANTS = [
    *(f"Sgd(m, momentum={value})" for value in ("1.0", "-0.5")),
    "Sgd(m, nesterov=true)",
    "Sgd(m, 0.5, nesterov=true, dampening=0.5)",
    "Sgd(m, dampening=2)",
    "Sgd(m, decay=-1)",
    *(f"{kind}(m, {name}={value})" for kind in ("Adam", "AdamW") for name in ("beta1", "beta2") for value in ("1", "-0.1", "1.5")),
    *(f"{kind}(m, eps={value})" for kind in ("Adam", "AdamW") for value in ("0", "-1e-8", "0.0")),
    *(f"{kind}(m, decay=-0.01)" for kind in ("Adam", "AdamW")),
]


@pytest.mark.parametrize("call", CONSTANTS)
def test_constants_in_a_program_are_checked_with_it(tmp_path: Path, call: str) -> None:
    path = tmp_path / "p.ss"
    path.write_text(f"model M:\n    w: [3] = ones\n\nfn make(m: M) -> {call.split('(', maxsplit=1)[0]}[M]:\n    return {call}\n")
    (found,) = shapescript.check(path)
    assert found.code == "E0503" and found.span is not None and found.span.line == 5
