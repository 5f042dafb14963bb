"""Groups of parameters: how they are found by name, which group wins, what a frozen parameter is to a gradient, what is shown."""

from __future__ import annotations

import fnmatch
from pathlib import Path

import numpy as np
import pytest
from both_engines import Both
from hypothesis import given
from hypothesis import strategies as st

import shapescript
from shapescript.compiler.check.checker import check_source
from shapescript.compiler.ir.groups import fits, may_fit
from shapescript.runtime.groups import Treatment

MODEL = """
dim D = 2

model Linear:
    weight: [D D] = normal(0, 1)
    bias: [D] = ones

model Block:
    inner: Linear
    norm: [D] = ones
    buffer steps: int[] = zeros
    group "*.bias", "norm": decay=false
    group "norm": rate=0.5

model Net:
    group "*": rate=1.5
    blocks: Block * 2
    head: Linear
    group "blocks.1.*": rate=0.25, frozen=false
    group "blocks.0.inner.*": frozen=true
    group "blocks.*.norm": decay=true
"""

TREATMENTS = {
    "blocks.0.inner.bias": Treatment(False, 1.5, True),
    "blocks.0.inner.weight": Treatment(True, 1.5, True),
    "blocks.0.norm": Treatment(True, 1.5, False),
    "blocks.1.inner.bias": Treatment(False, 0.25, False),
    "blocks.1.inner.weight": Treatment(True, 0.25, False),
    "blocks.1.norm": Treatment(True, 0.25, False),
    "head.bias": Treatment(True, 1.5, False),
    "head.weight": Treatment(True, 1.5, False),
}

FUNCTIONS = """
fn table(m: Net) -> str:
    return groups(m)

fn show(m: Net):
    print(groups(m))

fn filled(m: Net) -> (Net, Net):
    return rates(m), decays(m)

fn apply(m: Net, x: [b D]) -> [b D]:
    mut h = x
    for block in m.blocks:
        h = (h @ block.inner.weight + block.inner.bias) * block.norm
    return h @ m.head.weight + m.head.bias

fn gradient(m: Net, x: [b D]) -> Net:
    l, g = value_and_grad(mean(apply(m, x) ** 2, over=(b, D)), wrt=m)
    return g

fn gradient_of_first(m: Net) -> Block:
    first = m.blocks[0]
    l, g = value_and_grad(sum(first.inner.bias * first.norm, over=D), wrt=first)
    return g
"""


def test_later_wins_over_earlier_and_outer_over_inner(tmp_path: Path) -> None:
    m = Both(tmp_path, MODEL).native.Net(seed=1)
    assert dict(m.groups()) == TREATMENTS


def test_groups_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = Both(tmp_path, MODEL + FUNCTIONS)
    m = both.native.Net(seed=1)
    text = both.call("table", m)
    assert text == str(m.groups())
    assert text.split("\n")[:3] == [
        "parameter              decay  rate  frozen",
        "blocks.0.inner.bias    no     1.5   yes",
        "blocks.0.inner.weight  yes    1.5   yes",
    ]
    both.native.show(m)
    assert capsys.readouterr().out == text + "\n"


def test_rates_and_decays_as_models(tmp_path: Path) -> None:
    both = Both(tmp_path, MODEL + FUNCTIONS)
    rates, decays = both.call("filled", both.native.Net(seed=1))
    for name, treatment in TREATMENTS.items():
        assert (rates[name] == (0.0 if treatment.frozen else treatment.rate)).all()
        assert (decays[name] == float(treatment.decay)).all()
    assert rates["blocks.0.steps"] == 0 and decays["blocks.0.steps"] == 0


def test_frozen_parameters_have_no_gradient(tmp_path: Path) -> None:
    both = Both(tmp_path, MODEL + FUNCTIONS)
    free = Both(tmp_path, MODEL.replace("frozen=true", "frozen=false") + FUNCTIONS)
    x = np.random.default_rng(1).standard_normal((4, 2)).astype(np.float32)
    found, whole = both.call("gradient", both.native.Net(seed=1), x), free.call("gradient", free.native.Net(seed=1), x)
    for name, treatment in TREATMENTS.items():
        assert whole[name].any()
        assert found[name].tobytes() == (np.zeros_like(whole[name]) if treatment.frozen else whole[name]).tobytes()


def test_a_submodel_by_itself_has_its_own_groups_alone(tmp_path: Path) -> None:
    both = Both(tmp_path, MODEL + FUNCTIONS)
    assert both.call("gradient_of_first", both.native.Net(seed=1))["inner.bias"].tolist() == [1.0, 1.0]
    assert both.native.Block(seed=1).groups()["norm"] == Treatment(False, 0.5, False)


def test_all_frozen_is_told(tmp_path: Path) -> None:
    model = 'model M:\n    w: [3] = ones\n    group "*": frozen=true\n\n'
    with pytest.raises(shapescript.CompileError, match="E0803") as caught:
        Both(tmp_path, model + "fn f(m: M) -> M:\n    l, g = value_and_grad(sum(m.w, over=3), wrt=m)\n    return g\n")
    assert "frozen" in str(caught.value)


# ---- patterns


@given(st.text("ab.*", max_size=8), st.text("ab.", max_size=10))
def test_patterns_fit_as_file_names_do(pattern: str, name: str) -> None:
    assert fits(pattern, name) == fnmatch.fnmatchcase(name, pattern) == may_fit(pattern, name)


@given(st.text("a*", max_size=5), st.text("a*", max_size=5))
def test_two_patterns_fit_where_they_have_a_text_in_common(one: str, other: str) -> None:
    texts = ("a" * count for count in range(11))
    assert may_fit(one, other) == any(fits(one, text) and fits(other, text) for text in texts)


def test_long_patterns_end() -> None:
    pattern, name = "*a" * 500, "a" * 499
    assert not fits(pattern, name) and not may_fit(pattern, name) and fits(pattern, "a" * 500)


def codes(text: str) -> list[str]:
    return [diagnostic.code for diagnostic in check_source(text).diagnostics]


BLOCK = "model Block:\n    w: [3] = ones\n\n"


@pytest.mark.parametrize(
    ("pattern", "found"),
    [("blocks.*", []), ("blocks.12.w", []), ("*.w", []), ("blocks.12.v", ["E0208"]), ("block.*", ["E0208"])],
)
def test_lists_of_unknown_length(pattern: str, found: list[str]) -> None:
    assert codes(f'{BLOCK}model Tower[L]:\n    blocks: Block * L\n    group "{pattern}": decay=false\n') == found


def test_type_parameters_may_have_any_names() -> None:
    text = 'model Pair[M: model]:\n    inner: M\n    w: [3] = ones\n    group "inner.*.bias", "w": decay=false\n'
    assert codes(text) == []
    assert codes(text.replace("inner.*", "outer.*")) == ["E0208"]


def test_groups_are_of_parameters_of_any_model(tmp_path: Path) -> None:
    text = (
        MODEL
        + 'model Pair[M: model]:\n    inner: M\n    other: M\n    group "inner.*": frozen=true\n    group "inner.head.*": frozen=false\n'
    )
    program = Both(tmp_path, text).native
    m = program.Pair[program.Net](seed=1)
    for name, treatment in TREATMENTS.items():
        assert m.groups()[f"inner.{name}"].frozen == (not name.startswith("head."))
        assert m.groups()[f"other.{name}"] == treatment
