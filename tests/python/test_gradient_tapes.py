"""What is kept for the way back of a gradient, and what is not."""

from __future__ import annotations

from gradient_programs import compiled, in_loops, named
from planned_bytes import planned_bytes

from shapescript.compiler.ir.nodes import Function
from shapescript.compiler.ir.types import TensorType
from shapescript.compiler.passes.plan import plan_memory

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
    return planned_bytes(plan_memory(function), lambda symbol: sizes.get(symbol.name, symbol.value))


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
