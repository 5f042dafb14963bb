"""Gradients through control flow that are refused, and what looks alike and is fine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gradient_programs import Program, compiled

import shapescript
from shapescript.compiler.diagnostics.model import CompileError

# ---- what is refused


def refused(source: str, name: str = "f") -> tuple[str, str]:
    with pytest.raises(CompileError) as caught:
        compiled(source, name)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.span is not None and diagnostic.help
    return diagnostic.code, f"{diagnostic.message}: {diagnostic.span.text}"


def test_a_loop_that_cannot_be_counted_before_is_refused() -> None:
    while_ = """
fn loss(x: [n]) -> []:
    mut h = x
    while sum(h, over=n) < 10.0:
        h = h * 2.0
    return sum(h, over=n)
fn f(x: [n]) -> [n]:
    l, g = value_and_grad(loss(x), wrt=x)
    return g
"""
    code, message = refused(while_)
    assert code == "E0804" and "`while`" in message
    batches = """
data Point:
    x: [3]
fn loss(w: [3], points: Dataset[Point]) -> []:
    mut total = sum(w, over=3)
    for batch in points |> batches(4):
        total = total + sum(batch.x @ w, over=batch)
    return total
fn f(w: [3], points: Dataset[Point]) -> [3]:
    l, g = value_and_grad(loss(w, points), wrt=w)
    return g
"""
    code, message = refused(batches)
    assert code == "E0804" and "batches" in message
    triangle = """
fn loss(x: [n]) -> []:
    mut h = sum(x, over=n)
    for i in 0..n:
        for j in 0..i:
            h = h * x[n=j]
    return h
fn f(x: [n]) -> [n]:
    l, g = value_and_grad(loss(x), wrt=x)
    return g
"""
    code, message = refused(triangle)
    assert code == "E0804" and "0..i" in message


def test_a_while_that_no_gradient_flows_through_is_fine(tmp_path: Path) -> None:
    program = Program(
        tmp_path,
        """
fn f(x: [n], limit: int) -> [n]:
    mut k = 1
    while k * k < limit:
        k = k + 1
    l, g = value_and_grad(sum(x * x * k, over=n), wrt=x)
    return g
""",
    )
    (found,) = program.run("f", np.array([1, 2], np.float32), 10)
    assert (found == np.array([8, 16])).all()


@pytest.mark.parametrize("around", ["for t in 0..n:", "if sum(x, over=n) > 0.0:"])
def test_a_size_of_one_turn_cannot_be_kept(around: str) -> None:
    code, message = refused(f"""
fn loss(x: [n], k: int) -> []:
    mut total = sum(x, over=n)
    {around}
        part = x[n=0..{"t + 1" if "for" in around else "int(sum(x, over=n))"}]
        total = total + sum(tanh(part), over=n)
    return total
fn f(x: [n], k: int) -> [n]:
    l, g = value_and_grad(loss(x, k), wrt=x)
    return g
""")
    assert code == "E0804" and "axis" in message


@pytest.mark.parametrize(
    "body",
    [
        "for t in 0..3:\n        total = total + f32(argmax(x, over=n)) * sum(x, over=n)",
        "for t in 0..3:\n        k = k + int(x[n=t])\n    total = total + k",
        "if total > 0.0:\n        k = 1\n    total = total * k",
        "while total > k:\n        k = k + 1\n        steps = steps + 1.0\n    total = total * steps",
    ],
)
def test_no_silent_zero_comes_out_of_control_flow(body: str) -> None:
    code, _ = refused(f"""
fn loss(x: [n]) -> []:
    mut total = sum(x, over=n)
    mut k = 0
    mut steps = 0.0
    {body}
    return total
fn f(x: [n]) -> [n]:
    l, g = value_and_grad(loss(x), wrt=x)
    return g
""")
    assert code in ("E0801", "E0804")


def test_what_only_a_branch_that_is_never_taken_would_need_is_not_refused(tmp_path: Path) -> None:
    path = tmp_path / "program.ss"
    path.write_text(
        """
dim Depth = 2
fn loss(x: [n]) -> []:
    mut h = x
    if Depth > 4:
        while sum(h, over=n) < 10.0:
            h = h * 2.0
    return sum(h, over=n)
fn f(x: [n]) -> [n]:
    l, g = value_and_grad(loss(x), wrt=x)
    return g
""",
        "utf-8",
    )
    assert shapescript.check(path) == []
    (found,) = shapescript.check(path, dims={"Depth": 5})
    assert found.code == "E0804"
