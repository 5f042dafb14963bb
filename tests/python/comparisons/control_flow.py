"""Gradients through branches and loops, and values computed again."""

from __future__ import annotations

from typing import Any

import torch

from comparisons.comparison import Comparison, Within, integers, number, uniform

CHAIN = "a chain of turns, each of sums and functions within two units; tanh and sigmoid keep it from growing"
FEW = Within(40, CHAIN, absolute=4)
MANY = Within(400, CHAIN, absolute=40)


def elman(x: Any, h: Any, w: Any, u: Any) -> Any:
    for t in range(x.shape[1]):
        h = torch.tanh(x[:, t] @ w + h @ u)
    return h


def outputs(x: Any, h: Any, u: Any) -> Any:
    found = []
    for row in x:
        h = torch.tanh(row + h @ u)
        found.append(h)
    return torch.stack(found) if found else torch.zeros_like(x)


def lstm(x: Any, cell: Any, hidden: Any, enter: Any, stay: Any, bias: Any) -> Any:
    for row in x:
        gates = row @ enter + hidden @ stay + bias
        i, f, g, o = gates.reshape(-1, 4, 5).unbind(1)
        cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
        hidden = torch.sigmoid(o) * torch.tanh(cell)
    return hidden


def branches(x: Any, h: Any, w: Any) -> Any:
    for row in x:
        h = torch.tanh(h * w + row) if row.sum() > 0 else h * torch.sigmoid(row)
    return h


def nested(x: Any, w: Any) -> Any:
    h = w * 0
    for row in x:
        inner = h
        for v in row:
            inner = torch.tanh(inner * w + v)
        h = h + inner
    return h


def pairs(x: Any) -> Any:
    found = x.sum(0) * 0
    for j in range(1, len(x)):
        found = torch.tanh(found + x[j] * x[j - 1])
    return found


def polynomial(c: Any, x: Any, steps: int) -> Any:
    found = x * 0
    for i in range(steps):
        found = found * x + c * (i + 2)
    return found


def choice(x: Any, y: Any, turn: bool, double: bool) -> Any:
    h = torch.exp(-x * x) if turn else x / (1 + y * y)
    return h * y + x if double else h


def prefix(x: Any, w: Any) -> Any:
    """Each place reads the one before, in the tensor that is being filled."""
    found = [x[0] * w] if len(x) else []
    for t in range(1, len(x)):
        found.append(torch.tanh(found[t - 1] * w + x[t]))
    return torch.stack(found) if found else torch.zeros_like(x)


def words(table: Any, tokens: Any, u: Any) -> Any:
    h = table[:1] * 0 + torch.zeros(tokens.shape[1], 1, dtype=table.dtype)
    for row in tokens:
        h = torch.tanh(table[row] + h @ u)
    return h @ table.T


def deep(x: Any, w: Any) -> Any:
    h = x
    for _ in range(6):
        h = h + torch.tanh(torch.sigmoid(h @ w) @ w)
    return h


def looped(x: Any, w: Any) -> Any:
    h = x[0] * 0 if len(x) else torch.zeros(x.shape[1], dtype=x.dtype)
    for row in x:
        h = torch.tanh(row * w + h) * torch.sigmoid(row + h)
    return h


ENTRIES = (
    Comparison(
        "recurrence",
        ("for_range", "slice", "put", "add_slice", "reserve"),
        """
dim H = 5
dim I = 3
fn f(x: T[b n I], h: T[b H], w: T[I H], u: T[H H]) -> T[b H]:
    mut state = h
    for t in 0..n:
        state = tanh(x[n=t] @ w + state @ u)
    return state
""",
        elman,
        FEW,
        inputs={"u": uniform(-0.4, 0.4)},
    ),
    Comparison(
        "recurrence-outputs",
        ("for_range", "put"),
        """
dim H = 5
fn f(x: T[n b H], h: T[b H], u: T[H H]) -> T[n b H]:
    mut state = h
    mut found = x * 0.0
    for t in 0..n:
        state = tanh(x[n=t] + state @ u)
        found[n=t] = state
    return found
""",
        outputs,
        FEW,
        inputs={"u": uniform(-0.4, 0.4)},
        extremes=(),
    ),
    Comparison(
        "long-short-term-memory",
        ("for_range",),
        """
dim I = 3
dim H = 5
fn f(x: T[n b I], c: T[b H], h: T[b H], enter: T[I 4*H], stay: T[H 4*H], bias: T[4*H]) -> T[b H]:
    mut cell = c
    mut hidden = h
    for t in 0..n:
        gates = rearrange(x[n=t] @ enter + hidden @ stay + bias: b (g H) -> g b H)
        cell = sigmoid(gates[g=1]) * cell + sigmoid(gates[g=0]) * tanh(gates[g=2])
        hidden = sigmoid(gates[g=3]) * tanh(cell)
    return hidden
""",
        lstm,
        FEW,
        inputs={"stay": uniform(-0.4, 0.4)},
        extremes=(),
    ),
    Comparison(
        "branches-in-a-loop",
        ("for_range", "if"),
        """
dim H = 4
fn f(x: T[n H], h: T[H], w: T[H]) -> T[H]:
    mut state = h
    for t in 0..n:
        if sum(x[n=t], over=H) > 0.0:
            state = tanh(state * w + x[n=t])
        else:
            state = state * sigmoid(x[n=t])
    return state
""",
        branches,
        FEW,
        extremes=(),
    ),
    Comparison(
        "loop-in-a-loop",
        ("for_range",),
        """
dim H = 3
fn f(x: T[n k H], w: T[H]) -> T[H]:
    mut h = w * 0.0
    for t in 0..n:
        mut inner = h
        for j in 0..k:
            inner = tanh(inner * w + x[n=t, k=j])
        h = h + inner
    return h
""",
        nested,
        MANY,
        inputs={"w": uniform(0.1, 0.6)},
        extremes=(),
    ),
    Comparison(
        "loop-from-one",
        ("for_range", "bind_size"),
        """
fn f(x: T[n b]) -> T[b]:
    mut found = sum(x, over=n) * 0.0
    for j in 1..n:
        found = tanh(found + x[n=j] * x[n=j-1])
    return found
""",
        pairs,
        FEW,
        extremes=(),
    ),
    Comparison(
        "number-of-turns-of-a-run",
        ("for_range", "bind_size"),
        """
fn f(c: T[n], x: T[n], steps: int) -> T[n]:
    mut found = x * 0.0
    for i in 0..steps:
        found = found * x + c * (i + 2)
    return found
""",
        polynomial,
        Within(40, "a few products and sums", absolute=4),
        inputs={"steps": number(4), "x": uniform(-1, 1)},
        elementwise=True,
        extremes=(),
    ),
    *(
        Comparison(
            f"branches-{turn}-{double}".lower(),
            ("if",),
            """
fn f(x: T[n], y: T[n], turn: bool, double: bool) -> T[n]:
    mut h = x
    if turn:
        h = exp(-x * x)
    else:
        h = x / (1.0 + y * y)
    if double:
        h = h * y + x
    return h
""",
            choice,
            Within(20, "a few operations within a unit each", absolute=2),
            inputs={"turn": number(turn), "double": number(double)},
            extremes=(),
        )
        for turn in (False, True)
        for double in (False, True)
    ),
    Comparison(
        "each-place-from-the-one-before",
        ("for_range", "if"),
        """
dim H = 3
fn f(x: T[n H], w: T[H]) -> T[n H]:
    mut found = x * 0.0
    for t in 0..n:
        if t == 0:
            found[n=0] = x[n=0] * w
        else:
            found[n=t] = tanh(found[n=t-1] * w + x[n=t])
    return found
""",
        prefix,
        MANY,
        inputs={"w": uniform(0.1, 0.6)},
        extremes=(),
    ),
    Comparison(
        "rows-by-number-in-a-loop",
        ("for_range", "gather", "add_rows"),
        """
dim V = 7
dim H = 4
fn f(table: T[V H], tokens: int[n b], u: T[H H]) -> T[b V]:
    mut h = sum(gather(table, tokens * 0, over=V), over=n) * 0.0
    for t in 0..n:
        h = tanh(gather(table, tokens[n=t], over=V) + h @ u)
    return einsum(h, table: b H, V H -> b V)
""",
        words,
        FEW,
        inputs={"tokens": integers(0, 7), "u": uniform(-0.4, 0.4)},
        extremes=(),
    ),
    Comparison(
        "computed-again",
        ("checkpoint",),
        """
dim H = 6
fn layer(h: T[b H], w: T[H H]) -> T[b H]:
    return h + tanh(sigmoid(h @ w) @ w)
fn f(x: T[b H], w: T[H H]) -> T[b H]:
    mut h = x
    for i in 0..6:
        h = checkpoint(layer(h, w))
    return h
""",
        deep,
        MANY,
        extremes=(),
    ),
    Comparison(
        "loop-computed-again",
        ("checkpoint", "isolated", "for_range"),
        """
dim H = 4
fn turns(x: T[n H], w: T[H]) -> T[H]:
    mut h = sum(x, over=n) * 0.0
    for t in 0..n:
        h = tanh(x[n=t] * w + h) * sigmoid(x[n=t] + h)
    return h
fn f(x: T[n H], w: T[H]) -> T[H]:
    return checkpoint(turns(x, w))
""",
        looped,
        MANY,
        extremes=(),
    ),
)
