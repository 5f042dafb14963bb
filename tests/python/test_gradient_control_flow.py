"""Gradients through branches, loops and values computed again: the same bits as the program written out, what is kept, what is refused.

Values and gradients beside PyTorch are in `comparisons/control_flow.py`, random programs at the end of this file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import random_control_programs
import torch

import shapescript
from shapescript.compiler.check.checker import check_source
from shapescript.compiler.diagnostics.model import CompileError
from shapescript.compiler.ir.nodes import Block, Function, Op, walk
from shapescript.compiler.ir.sizes import number
from shapescript.compiler.ir.types import TensorType
from shapescript.compiler.passes.pipeline import compile_entry
from shapescript.compiler.passes.plan import plan_memory
from shapescript.runtime.model import Model


def compiled(source: str, name: str, stop_after: str | None = None) -> Function:
    program = check_source(source)
    assert program.module is not None, program.diagnostics
    return compile_entry(program.module, program.functions[name][0].key, {}, stop_after, verify=True)


def contents(value: Any) -> Any:
    if isinstance(value, Model):
        return {name: array.tobytes() for name, array in value.state_dict().items()}
    return np.asarray(value).tobytes()


class Both:
    """A program in both engines, which must do the same."""

    def __init__(self, folder: Path, source: str) -> None:
        path = folder / f"program{len(list(folder.iterdir()))}.ss"
        path.write_text(source, "utf-8")
        self.native, self.reference = (shapescript.load(path, engine=engine) for engine in ("native", "numpy"))

    def run(self, name: str, *arguments: Any) -> tuple[Any, ...]:
        results = [self._results(program, name, arguments) for program in (self.native, self.reference)]
        assert [contents(value) for value in results[0]] == [contents(value) for value in results[1]]
        return results[0]

    def _results(self, program: Any, name: str, arguments: Sequence[Any]) -> tuple[Any, ...]:
        given = [getattr(program, a[0])(seed=a[1]) if isinstance(a, tuple) else a for a in arguments]
        found = getattr(program, name)(*given)
        return found if isinstance(found, tuple) else (found,)


def random(*shape: int, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    return (np.random.default_rng(seed).normal(0, scale, shape)).astype(np.float32)


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
    one, other = (Both(tmp_path, CELL + body + GRADIENTS).run("gradients", *arguments) for body in (LOOP, WRITTEN_OUT))
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
        results.append(Both(tmp_path, source).run("gradients", random(19), random(19, seed=1), taken))
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
        results.append(Both(tmp_path, DEEP.replace("AGAIN", again).replace("WHAT", what)).run("gradients", *arguments))
    assert contents(results[0][0]) == contents(results[1][0]) and np.any(results[0][1])
    if what == "loss":
        assert contents(results[0][1]) == contents(results[1][1])
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-4, atol=1e-5 * float(np.abs(results[1][1]).max()))


def test_each_turn_has_masks_of_its_own_and_the_way_back_uses_them(tmp_path: Path) -> None:
    """The gradient of a sum of dropouts is the sum of their masks."""
    for call in ("dropout(x, 0.5, mode)", "checkpoint(dropout(x, 0.5, mode))"):
        program = Both(
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
        program = Both(
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


# ---- what is carried and changed


def test_models_changed_in_branches_and_carried_by_loops(tmp_path: Path) -> None:
    """Followed leaf by leaf: what a branch puts in the place of a part, and what goes round with a loop."""
    program = Both(
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
    program = Both(
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
    program = Both(
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
    plain, again = (Both(tmp_path, source.replace("CALL", call)) for call in ("loss(x, k, low)", "checkpoint(loss(x, k, low))"))
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
    program = Both(
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
    program = Both(
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
    program = Both(
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
    program = Both(
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


# ---- what is kept


RECURRENCE = """
dim H = 6
fn loss(x: [n H], w: [H H], h: [H]) -> []:
    mut state = h
    for t in 0..n:
        state = tanh(x[n=t] + state @ w)
    return sum(state * state, over=H)

fn gradients(x: [n H], w: [H H], h: [H]) -> ([], [n H], [H H]):
    l, by_x = value_and_grad(loss(x, w, h), wrt=x)
    l2, by_w = value_and_grad(loss(x, w, h), wrt=w)
    return l, by_x, by_w

fn gradient(x: [n H], w: [H H], h: [H]) -> ([], [H H]):
    l, by_w = value_and_grad(loss(x, w, h), wrt=w)
    return l, by_w
"""


def named(function: Function, name: str) -> list[Op]:
    return [op for op in walk(function.body) if op.name == name]


def in_loops(block: Block, inside: bool = False) -> Iterator[Op]:
    """The operations that are executed in turns."""
    for op in block.ops:
        if inside:
            yield op
        for region in op.regions:
            yield from in_loops(region, inside or op.name in ("for_range", "while"))


def test_a_recurrence_keeps_its_state_alone() -> None:
    """One tape of n + 1 states: what a turn begins with and what it ends with are one row. The rows of x are read again."""
    function = compiled(RECURRENCE, "gradient")
    (tape,) = named(function, "reserve")
    assert str(tape.result.type) == "f32[n+1 H]"


def test_a_turn_touches_no_whole_sequence() -> None:
    """Tapes, collected outputs and adjoints of sequences are changed in place: a turn costs the same however many there are."""
    source = RECURRENCE.replace("    mut state = h\n", "    mut state = h\n    mut found = x * 0.0\n").replace(
        "        state = tanh(x[n=t] + state @ w)\n", "        state = tanh(x[n=t] + state @ w)\n        found[n=t] = state\n"
    )
    function = compiled(source.replace("sum(state * state, over=H)", "sum(found * found, over=(n, H))"), "gradients")
    whole = [
        op
        for op in in_loops(function.body)
        for result in op.results
        if isinstance(result.type, TensorType) and any("n" in str(axis) for axis in result.type.axes)
    ]
    assert {op.name for op in whole} == {"put", "add_slice"}


def test_what_is_there_anyway_is_not_kept() -> None:
    """Sizes, constants, the turn's number and what is computed of them; rows of what the loop doesn't change."""
    function = compiled(
        """
fn loss(x: [n b], w: [b]) -> []:
    mut total = sum(w, over=b) * 0.0
    for t in 0..n:
        total = total + sum(x[n=t] * w * ((t + 1) * 0.5 / n), over=b)
    return total
fn gradient(x: [n b], w: [b]) -> [b]:
    l, g = value_and_grad(loss(x, w), wrt=w)
    return g
""",
        "gradient",
    )
    assert not named(function, "reserve")


def test_a_branch_hands_out_what_the_way_back_needs_and_nothing_is_done_twice() -> None:
    function = compiled(
        """
fn loss(x: [n], flag: bool) -> []:
    mut h = x
    if flag:
        h = exp(sin(x))
    else:
        h = tanh(x)
    return sum(h * h, over=n)
fn gradient(x: [n], flag: bool) -> [n]:
    l, g = value_and_grad(loss(x, flag), wrt=x)
    return g
""",
        "gradient",
        "simplified",
    )
    assert [len(named(function, name)) for name in ("sin", "exp", "tanh", "cos")] == [1, 1, 1, 1]
    forward, back = named(function, "if")
    assert [len(op.results) for op in (forward, back)] == [1, 1], "exp and tanh are the result itself; the sine's slope is a cosine of x"


def slot_bytes(function: Function, sizes: dict[str, int]) -> int:
    """The bytes of all slots, those of inner blocks too."""
    total = 0
    for slots in plan_memory(function).slots.values():
        for _, size in slots:
            known = size.substitute({symbol: number(sizes[symbol.name]) for symbol in size.symbols() if symbol.name in sizes})
            constant = known.constant()
            assert constant is not None
            total += constant
    return total


def test_computing_again_saves_memory() -> None:
    """A deep chain keeps what lies between its layers, and of one layer what lies inside."""
    layers = "".join(f"    h{i + 1} = AGAIN(layer(h{i}, w, v))\n" for i in range(8))
    chain = f"""
dim H = 8
dim K = 64
fn layer(h: [b H], w: [H K], v: [K H]) -> [b H]:
    a = sigmoid(h @ w)
    return tanh(a * sin(a) * exp(a)) @ v

fn loss(x: [b H], w: [H K], v: [K H]) -> []:
    h0 = x
{layers}
    return sum(h8 * h8, over=(b, H))

fn gradient(x: [b H], w: [H K], v: [K H]) -> [b H]:
    l, g = value_and_grad(loss(x, w, v), wrt=x)
    return g
"""
    kept, again = (slot_bytes(compiled(chain.replace("AGAIN", call), "gradient"), {"b": 1000}) for call in ("", "checkpoint"))
    layer = 4 * 1000 * 64
    assert kept > 8 * layer and again < 5 * layer


def test_the_turns_of_a_loop_are_counted_outside_of_the_training_loop() -> None:
    function = compiled(
        """
fn loss(w: [n], x: [n], k: int) -> []:
    mut h = w
    for i in 0..k:
        h = h * x + tanh(h)
    return sum(h, over=n)
fn train(w: [n], x: [n], k: int, steps: int) -> [n]:
    mut at = w
    for i in 0..steps:
        l, g = value_and_grad(loss(at, x, k), wrt=at)
        at = at - 0.1 * g
    return at
""",
        "train",
    )
    assert [op.name for op in function.body.ops].count("bind_size") == len(named(function, "bind_size")) == 1


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
    program = Both(
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


# ---- random programs


@pytest.mark.parametrize("seed", range(6))
def test_random_programs_beside_pytorch(tmp_path: Path, seed: int) -> None:
    source, loss = random_control_programs.program(seed)
    program = Both(tmp_path, source)
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
