"""Gradients through branches, loops and values computed again: the same bits as the program written out; random programs.

Values and gradients beside PyTorch are in `comparisons/control_flow.py`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import random_control_programs
import torch
from both_engines import contents
from gradient_programs import Program, random

import shapescript

# ---- the bits of the program written out


CELL = """
dim H = 7
dim N = 4
model Cell:
    stay: [H H] = normal(0, 0.4)
    gain: [H] = normal(0, 1)

fn turn(m: Cell, x: [H], h: [H]) -> [H]:
    return tanh(x * m.gain + h @ m.stay) + 0.1 * x * h
"""

LOOP = """
fn loss(m: Cell, x: [N H], h: [H]) -> []:
    mut state = h
    mut total = 0.0 * sum(h, over=H)
    for t in 0..N:
        state = turn(m, x[N=t], state)
        total = total + sum(state * state, over=H)
    return total + sum(m.gain * state, over=H)
"""

WRITTEN_OUT = """
fn loss(m: Cell, x: [N H], h: [H]) -> []:
    nothing = 0.0 * sum(h, over=H)
    h0 = turn(m, x[N=0], h)
    s0 = nothing + sum(h0 * h0, over=H)
    h1 = turn(m, x[N=1], h0)
    s1 = s0 + sum(h1 * h1, over=H)
    h2 = turn(m, x[N=2], h1)
    s2 = s1 + sum(h2 * h2, over=H)
    h3 = turn(m, x[N=3], h2)
    s3 = s2 + sum(h3 * h3, over=H)
    return s3 + sum(m.gain * h3, over=H)
"""

GRADIENTS = """
fn gradients(m: Cell, x: [N H], h: [H]) -> ([], Cell, [N H], [H]):
    l, by_m = value_and_grad(loss(m, x, h), wrt=m)
    l2, by_x = value_and_grad(loss(m, x, h), wrt=x)
    l3, by_h = value_and_grad(loss(m, x, h), wrt=h)
    return l, by_m, by_x, by_h
"""


def test_a_loop_has_the_bits_of_its_turns_written_out(tmp_path: Path) -> None:
    arguments = ("Cell", 3), random(4, 7), random(7, seed=1)
    one, other = (Program(tmp_path, CELL + body + GRADIENTS).run("gradients", *arguments) for body in (LOOP, WRITTEN_OUT))
    assert [contents(value) for value in one] == [contents(value) for value in other]
    assert all(np.any(np.asarray(value)) for value in one[2:])


@pytest.mark.parametrize("taken", [True, False])
def test_a_branch_has_the_bits_of_its_operations_alone(tmp_path: Path, taken: bool) -> None:
    branches = {True: "        h = tanh(x * w)\n        w2 = w * w\n        h = h * w2 + h", False: "        h = x / (1.0 + w * w)"}
    whole = f"    if flag:\n{branches[True]}\n    else:\n{branches[False]}\n"
    alone = "\n".join(line[4:] for line in branches[taken].split("\n")) + "\n"
    results = []
    for body in (whole, alone):
        source = f"""
fn loss(x: [n], w: [n], flag: bool) -> []:
    mut h = x
{body}    return sum(h * w + exp(w), over=n)

fn gradients(x: [n], w: [n], flag: bool) -> ([], [n]):
    l, g = value_and_grad(loss(x, w, flag), wrt=w)
    return l, g
"""
        results.append(Program(tmp_path, source).run("gradients", random(19), random(19, seed=1), taken))
    assert [contents(value) for value in results[0]] == [contents(value) for value in results[1]]


DEEP = """
dim H = 9
dim K = 11
fn layer(h: [b H], w: [H K], v: [K H], mode: Mode) -> [b H]:
    return h + dropout(tanh(sigmoid(h @ w)), 0.4, mode) @ v

fn loss(x: [b H], w: [H K], v: [K H], mode: Mode) -> []:
    mut h = x
    for i in 0..5:
        h = AGAIN(layer(h, w, v, mode))
    return sum(h * tanh(h), over=(b, H))

fn slope(x: [b H], w: [H K], v: [K H], mode: Mode) -> []:
    l, g = value_and_grad(loss(x, w, v, mode), wrt=w)
    return sum(g * g, over=(H, K)) * 0.01

fn gradients(x: [b H], w: [H K], v: [K H]) -> ([], [H K]):
    l, g = value_and_grad(WHAT(x, w, v, Train(seed=5)), wrt=w)
    return l, g
"""


@pytest.mark.parametrize("what", ["loss", "slope"])
def test_computing_again_changes_no_bit(tmp_path: Path, what: str) -> None:
    """Dropouts take no other draws. In the gradient of a gradient what is computed twice has adjoints of its own, added up elsewhere."""
    arguments = random(6, 9), random(9, 11, seed=1, scale=0.3), random(11, 9, seed=2, scale=0.3)
    results = []
    for again in ("checkpoint", ""):
        results.append(Program(tmp_path, DEEP.replace("AGAIN", again).replace("WHAT", what)).run("gradients", *arguments))
    assert contents(results[0][0]) == contents(results[1][0]) and np.any(results[0][1])
    if what == "loss":
        assert contents(results[0][1]) == contents(results[1][1])
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-4, atol=1e-5 * float(np.abs(results[1][1]).max()))


def test_each_turn_has_masks_of_its_own_and_the_way_back_uses_them(tmp_path: Path) -> None:
    """The gradient of a sum of dropouts is the sum of their masks."""
    for call in ("dropout(x, 0.5, mode)", "checkpoint(dropout(x, 0.5, mode))"):
        program = Program(
            tmp_path,
            f"""
fn loss(x: [n], mode: Mode) -> []:
    mut total = 0.0 * sum(x, over=n)
    for i in 0..3:
        if i != 1:
            total = total + sum({call}, over=n)
    return total

fn gradient(x: [n]) -> [n]:
    l, g = value_and_grad(loss(x, Train(seed=8)), wrt=x)
    return g

fn masks(x: [n]) -> ([n], [n], [n]):
    mode = Train(seed=8)
    first = dropout(x, 0.5, mode)
    second = dropout(x, 0.5, mode)
    return first, second, dropout(x, 0.5, mode)
""",
        )
        x = np.ones(50, np.float32)
        first, second, _ = program.run("masks", x)
        (gradient,) = program.run("gradient", x)
        assert np.array_equal(gradient, first + second) and not np.array_equal(first, second)


def test_draws_in_loops_and_branches_of_what_is_computed_again(tmp_path: Path) -> None:
    results = []
    for again in ("checkpoint", ""):
        program = Program(
            tmp_path,
            """
fn noisy(x: [n], w: [n], mode: Mode) -> [n]:
    mut h = x
    for i in 0..3:
        for j in 1..4:
            if (i + j) % 2 == 1:
                h = h + tanh(dropout(h * w, 0.5, mode))
            else:
                h = h * sigmoid(AGAIN(dropout(h, 0.25, mode) + w))
        h = dropout(h, 0.1, mode)
    return h

fn gradient(x: [n], w: [n]) -> ([], [n], [n]):
    mode = Train(seed=2)
    l, g = value_and_grad(sum(AGAIN(noisy(x, w, mode)) ** 2, over=n), wrt=w)
    return l, g, dropout(x, 0.5, mode)
""".replace("AGAIN", again),
        )
        results.append(program.run("gradient", random(9), random(9, seed=1)))
    assert [contents(value) for value in results[0]] == [contents(value) for value in results[1]]


# ---- random programs


@pytest.mark.parametrize("seed", range(6))
def test_random_programs_beside_pytorch(tmp_path: Path, seed: int) -> None:
    source, loss = random_control_programs.program(seed)
    program = Program(tmp_path, source)
    for n, b, k in ((3, 4, 4), (0, 2, 3), (1, 1, 2)):
        arguments = random_control_programs.arguments(seed, n, b, k)
        twins = [torch.from_numpy(array).requires_grad_() for array in arguments[:3]]
        value = loss(*twins, k)
        expected = torch.autograd.grad(value, twins, materialize_grads=True)
        found = program.run("gradients", *arguments)
        assert found[0] == pytest.approx(value.item(), rel=1e-9)
        for one, other in zip(found[1:], expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("seed", range(6, 10))
def test_gradients_of_gradients_of_random_programs_beside_pytorch(tmp_path: Path, seed: int) -> None:
    source, loss = random_control_programs.program(seed)
    path = tmp_path / "program.ss"
    path.write_text(source, "utf-8")
    arguments = random_control_programs.arguments(seed, 3, 4, 4)
    x, w, m = (torch.from_numpy(array).requires_grad_() for array in arguments[:3])
    (slope,) = torch.autograd.grad(loss(x, w, m, 4), w, create_graph=True)
    value = (slope * torch.sin(slope) + 0.5 * w * w).sum()
    by_x, by_w = torch.autograd.grad(value + 0.1 * (x * x).sum(), (x, w))
    _, *found = shapescript.load(path, engine="numpy").twice(*arguments)
    np.testing.assert_allclose(found[0], by_x, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found[1], by_w, rtol=1e-6, atol=1e-8)
