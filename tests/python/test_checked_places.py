"""Which places of an axis are checked in a run, and which are certain to be there."""

from __future__ import annotations

import pytest

from shapescript.compiler.check.checker import check_source
from shapescript.compiler.diagnostics.render import render_text
from shapescript.compiler.ir.nodes import walk


def operations(text: str) -> list[str]:
    program = check_source(text)
    assert program.diagnostics == (), render_text(program.diagnostics)
    assert program.module is not None
    return [op.name for function in program.module.functions.values() for op in walk(function.body)]


CERTAIN = {
    "a place of a dim": "dim D = 3\nfn f(x: [b D]) -> [b]:\n    return x[D=2] + x[D=D-1]\n",
    "a whole axis": "fn f(x: [b n]) -> [b n]:\n    return x[n=0..n, b=0..]\n",
    "the last of one more": "fn f(x: [b n+1]) -> [b]:\n    return x[n+1=n] + x[n+1=0]\n",
    "a const": "const First = 1\ndim D = 3\nfn f(x: [b D]) -> [b]:\n    return x[D=First]\n",
    "a variable that is a number": "dim D = 3\nfn f(x: [b D]) -> [b]:\n    i = 2\n    return x[D=i]\n",
    "a loop over an axis": """
fn f(x: [n]) -> float:
    mut s = 0.0
    for t in 0..n:
        s = s + x[n=t] + x[n=n-1-t]
    return s
""",
    "the place before": "fn f(x: [n]) -> float:\n    mut s = 0.0\n    for t in 1..n:\n        s = s + x[n=t-1]\n    return s\n",
    "a loop in a loop": """
fn f(x: [n m]) -> float:
    mut s = 0.0
    for i in 0..n:
        for j in 0..i:
            for k in j..m:
                s = s + x[n=i-j-1, m=k]
    return s
""",
    "blocks of a loop": """
dim K = 4
fn f(x: [K*n]) -> [K]:
    mut s = zeros[K]
    for i in 0..n:
        s = s + x[K*n=K*i..K*i+K]
    return s
""",
    "one row of a window": "dim D = 3\nfn f(x: [b D]) -> [b]:\n    return sum(x[D=1..3], over=2)\n",
}
UNCERTAIN = {
    "the first of any": "fn f(x: [b n]) -> [b]:\n    return x[n=0]\n",
    "all but the first": "fn f(x: [b n]) -> [b n-1]:\n    return x[n=1..]\n",
    "a number of the run": "dim D = 3\nfn f(x: [b D], i: int) -> [b]:\n    return x[D=i]\n",
    "a variable that changes": """
dim D = 3
fn f(x: [b D]) -> [b]:
    mut i = 0
    mut s = zeros[b]
    while i < 3:
        s = s + x[D=i]
        i = i + 1
    return s
""",
    "the place behind": "fn f(x: [n]) -> float:\n    mut s = 0.0\n    for t in 0..n:\n        s = s + x[n=t+1]\n    return s\n",
    "a loop from below 0": "fn f(x: [n], a: int) -> float:\n    mut s = 0.0\n    for t in a..n:\n        s = s + x[n=t]\n    return s\n",
    "half, rounded": "fn f(x: [n]) -> [n//2]:\n    return x[n=0..n//2]\n",
}


@pytest.mark.parametrize("name", CERTAIN)
def test_what_is_certain_is_not_checked(name: str) -> None:
    assert "check_slice" not in operations(CERTAIN[name])


@pytest.mark.parametrize("name", UNCERTAIN)
def test_what_is_not_certain_is_checked(name: str) -> None:
    assert "check_slice" in operations(UNCERTAIN[name])


def test_an_end_that_is_written_twice_is_evaluated_once() -> None:
    text = "dim K = 3\nfn f(x: [n], p: float) -> [K]:\n    return x[n=int(p*2.0)..int(p*2.0)+K]\n"
    assert operations(text).count("to_i64") == 1
    assert "bind_size" not in operations(text)


def test_ranges_of_one_length_share_their_size() -> None:
    text = "fn f(x: [n], i: int, j: int) -> []:\n    y = x[n=i..j] * x[n=i+1..j+1]\n    return sum(y, over=n)\n"
    assert operations(text).count("bind_size") == 1
