"""Gradients through what branches change and loops carry: models, places, sizes that a run decides, loops in gradients in loops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from gradient_programs import Program, random

import shapescript

# ---- what is carried and changed


def test_models_changed_in_branches_and_carried_by_loops(tmp_path: Path) -> None:
    """Followed leaf by leaf: what a branch puts in the place of a part, and what goes round with a loop."""
    program = Program(
        tmp_path,
        """
dim H = 3
model Part:
    w: [H] = normal(0, 1)
    s: [H] = normal(0, 1)
model Whole:
    left: Part
    right: Part

fn made(like: Part, x: [H]) -> Part:
    mut found = like
    found.w = x * like.w
    return found

fn loss(m: Whole, x: [n H], flag: bool) -> []:
    mut c = m
    if flag:
        c.left = made(m.right, tanh(m.left.s))
    for t in 0..n:
        if t % 2 == 0:
            c.right.w = c.right.w * x[n=t] + c.left.w
        else:
            c.left = made(c.left, x[n=t])
    return sum(c.left.w * c.right.w + c.left.s, over=H)

fn gradients(m: Whole, x: [n H], flag: bool) -> ([], Whole, [n H]):
    l, by_m = value_and_grad(loss(m, x, flag), wrt=m)
    l2, by_x = value_and_grad(loss(m, x, flag), wrt=x)
    return l, by_m, by_x
""",
    )
    for flag in (True, False):
        for n in (0, 1, 4):
            x = random(n, 3, seed=n)
            model = program.native.Whole(seed=4)
            leaves = {name: torch.from_numpy(array.copy()).requires_grad_() for name, array in model.state_dict().items()}
            rows = torch.from_numpy(x).requires_grad_()
            left, right = ({name: leaves[f"{side}.{name}"] for name in ("w", "s")} for side in ("left", "right"))
            if flag:
                left = {**right, "w": torch.tanh(left["s"]) * right["w"]}
            for t in range(n):
                if t % 2 == 0:
                    right = {**right, "w": right["w"] * rows[t] + left["w"]}
                else:
                    left = {**left, "w": rows[t] * left["w"]}
            expected = (left["w"] * right["w"] + left["s"]).sum()
            expected.backward()
            value, by_m, by_x = program.run("gradients", ("Whole", 4), x, flag)
            assert value == pytest.approx(expected.item(), rel=1e-5)
            for name, array in by_m.state_dict().items():
                twin = leaves[name].grad
                np.testing.assert_allclose(array, np.zeros(3) if twin is None else twin, rtol=1e-4, atol=1e-6, err_msg=name)
            np.testing.assert_allclose(by_x, np.zeros((n, 3)) if rows.grad is None else rows.grad, rtol=1e-4, atol=1e-6)


def test_a_turn_that_changes_places_with_another(tmp_path: Path) -> None:
    """Carried values that are swapped, one that stays, and one that each turn begins anew."""
    program = Program(
        tmp_path,
        """
fn loss(x: [n], y: [n], z: [n]) -> []:
    mut a = x
    mut b = y
    mut last = z
    mut kept = z
    for i in 0..3:
        c = a * 0.5
        a = b * z
        b = c
        last = sin(a)
        if i > 5:
            kept = kept * 2.0
    return sum(a * b + last * kept, over=n)

fn gradients(x: [n], y: [n], z: [n]) -> ([], [n], [n], [n]):
    l, by_x = value_and_grad(loss(x, y, z), wrt=x)
    l2, by_y = value_and_grad(loss(x, y, z), wrt=y)
    l3, by_z = value_and_grad(loss(x, y, z), wrt=z)
    return l, by_x, by_y, by_z
""",
    )
    x, y, z = (random(5, seed=place) for place in range(3))
    a, b, w = twins = [torch.from_numpy(value).requires_grad_() for value in (x, y, z)]
    for _ in range(3):
        a, b = b * w, a * 0.5
    (a * b + torch.sin(a) * w).sum().backward()
    _, *found = program.run("gradients", x, y, z)
    for gradient, twin in zip(found, twins, strict=True):
        np.testing.assert_allclose(gradient, twin.grad, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 6])
def test_a_range_that_ends_before_it_begins_has_no_turn(tmp_path: Path, n: int) -> None:
    program = Program(
        tmp_path,
        """
fn loss(x: [n], from: int) -> []:
    mut total = sum(x, over=n)
    for t in 3..n:
        total = total + x[n=t] * x[n=t-3]
    for t in from..n-from:
        total = total * x[n=t]
    return total

fn gradient(x: [n], from: int) -> ([], [n]):
    l, g = value_and_grad(loss(x, from), wrt=x)
    return l, g
""".replace("from", "first"),
    )
    for first in (0, 1, 5):
        x = random(n, seed=n)
        twin = torch.from_numpy(x).requires_grad_()
        total = twin.sum()
        for t in range(3, n):
            total = total + twin[t] * twin[t - 3]
        for t in range(first, n - first):
            total = total * twin[t]
        total.backward()
        value, gradient = program.run("gradient", x, first)
        assert value == pytest.approx(total.item(), rel=1e-5, abs=1e-6)
        np.testing.assert_allclose(gradient, twin.grad, rtol=1e-4, atol=1e-6)


def test_windows_of_a_length_that_the_run_decides(tmp_path: Path) -> None:
    """In loops and branches; the same length in each turn. Too long a one fails as it does without a gradient."""
    source = """
fn loss(x: [n], k: int, low: bool) -> []:
    mut total = sum(x, over=n)
    for t in 0..n-k+1:
        window = tanh(x[n=t..t+k] * total)
        total = total + sum(window * window, over=n)
    if low:
        part = sin(x[n=0..k])
        total = total * sum(part, over=n)
    return total

fn gradient(x: [n], k: int, low: bool) -> ([], [n]):
    l, g = value_and_grad(CALL, wrt=x)
    return l, g
"""
    plain, again = (Program(tmp_path, source.replace("CALL", call)) for call in ("loss(x, k, low)", "checkpoint(loss(x, k, low))"))
    for n, k in ((5, 2), (3, 3), (2, 3), (4, 0)):
        for low in (False, k <= n):
            x = random(n, seed=n, scale=0.5)
            twin = torch.from_numpy(x).requires_grad_()
            total = twin.sum()
            for t in range(n - k + 1):
                total = total + (torch.tanh(twin[t : t + k] * total) ** 2).sum()
            if low:
                total = total * torch.sin(twin[:k]).sum()
            total.backward()
            for program in (plain, again):
                value, gradient = program.run("gradient", x, k, low)
                assert value == pytest.approx(total.item(), rel=1e-5, abs=1e-6)
                np.testing.assert_allclose(gradient, twin.grad, rtol=1e-4, atol=1e-6)
    for engine in (plain.native, plain.reference):
        with pytest.raises(shapescript.ShapeScriptError, match="R1107"):
            engine.gradient(random(2), 3, True)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 8])
def test_sizes_that_hold_only_where_the_program_gets_to(tmp_path: Path, n: int) -> None:
    """Axes of n-3, n-1 and n/4 in branches and loops that aren't entered where they are none."""
    program = Program(
        tmp_path,
        """
fn loss(x: [n], w: [n]) -> []:
    mut total = sum(x * w, over=n)
    if n > 3:
        y = tanh(x[n=3..] * w[n=0..n-3])
        total = total * sum(y * y, over=n-3)
    for t in 0..n:
        if t > 0:
            d = sin(x[n=1..] * total - w[n=0..n-1])
            total = total + sum(d * d, over=n-1) * t
    if n % 4 == 0:
        rows = tanh(rearrange(x * w: (q 4) -> q 4))
        for t in 1..q:
            total = total + sum(sin(rows[q=t] * total), over=4)
        total = total + sum(rows * rows, over=(q, 4))
    return total

fn gradient(x: [n], w: [n]) -> ([], [n]):
    l, g = value_and_grad(loss(x, w), wrt=x)
    return l, g
""",
    )
    x, w = random(n, seed=n, scale=0.3), random(n, seed=n + 1)
    twin, weights = torch.from_numpy(x).requires_grad_(), torch.from_numpy(w)
    total = (twin * weights).sum()
    if n > 3:
        total = total * (torch.tanh(twin[3:] * weights[: n - 3]) ** 2).sum()
    for t in range(1, n):
        total = total + (torch.sin(twin[1:] * total - weights[:-1]) ** 2).sum() * t
    if n % 4 == 0:
        rows = torch.tanh((twin * weights).reshape(-1, 4))
        for t in range(1, n // 4):
            total = total + torch.sin(rows[t] * total).sum()
        total = total + (rows * rows).sum()
    total.backward()
    value, gradient = program.run("gradient", x, w)
    assert value == pytest.approx(total.item(), rel=1e-4, abs=1e-6)
    np.testing.assert_allclose(gradient, twin.grad, rtol=2e-3, atol=1e-5 * max(1.0, float(np.abs(gradient).max(initial=0.0))))


def test_gradients_inside_of_loops_and_loops_inside_of_gradients(tmp_path: Path) -> None:
    """A step of descent in each turn, and a gradient through all of them."""
    program = Program(
        tmp_path,
        """
fn energy(h: f64[n], w: f64[n], k: int) -> f64[]:
    mut total = 0.5 * sum(h * h, over=n)
    for i in 0..k:
        total = total + sum(sin(h * w) * (0.1 * (i + 1)), over=n)
    return total

fn settled(w: f64[n], k: int, steps: int) -> f64[]:
    mut h = w * 0.0 + 1.0
    for i in 0..steps:
        e, g = value_and_grad(energy(h, w, k), wrt=h)
        h = h - 0.3 * g
    return sum(h * w, over=n)

fn gradient(w: f64[n], k: int, steps: int) -> (f64[], f64[n]):
    l, g = value_and_grad(settled(w, k, steps), wrt=w)
    return l, g
""",
    )
    w = np.random.default_rng(3).normal(0, 1, 4)
    for k, steps in ((2, 3), (0, 2), (3, 0)):
        twin = torch.from_numpy(w).requires_grad_()
        h = twin * 0 + 1
        for _ in range(steps):
            total = 0.5 * (h * h).sum() + sum(((torch.sin(h * twin) * (0.1 * (i + 1))).sum() for i in range(k)), h.sum() * 0)
            h = h - 0.3 * torch.autograd.grad(total, h, create_graph=True)[0]
        (h * twin).sum().backward()
        _, gradient = program.run("gradient", w, k, steps)
        np.testing.assert_allclose(gradient, twin.grad, rtol=1e-11)


def test_what_is_computed_again_is_done_once_for_the_host(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program = Program(
        tmp_path,
        """
fn told(x: [n]) -> [n]:
    print("here")
    return tanh(x) * x

fn gradient(x: [n]) -> [n]:
    l, g = value_and_grad(sum(checkpoint(told(x)) ** 2, over=n), wrt=x)
    return g
""",
    )
    program.run("gradient", random(3))
    assert capfd.readouterr().out == "here\n" * 2, "once in each engine"


def test_several_values_and_changed_variables_come_out_of_a_checkpoint(tmp_path: Path) -> None:
    program = Program(
        tmp_path,
        """
model Line:
    w: [3] = ones

fn doubled(mut m: Line, x: [3]) -> ([3], float):
    y = tanh(x * m.w)
    m.w = m.w * 2.0
    return y, 3.0

fn loss(m: Line, x: [3]) -> []:
    mut c = m
    y, factor = checkpoint(doubled(mut c, x))
    return sum(y * c.w, over=3) * factor

fn gradient(m: Line, x: [3]) -> ([], Line):
    l, g = value_and_grad(loss(m, x), wrt=m)
    return l, g
""",
    )
    x = random(3)
    w = torch.ones(3).requires_grad_()
    ((torch.tanh(torch.from_numpy(x) * w) * 2 * w).sum() * 3).backward()
    _, gradient = program.run("gradient", ("Line", 0), x)
    np.testing.assert_allclose(gradient["w"], w.grad, rtol=1e-5)
