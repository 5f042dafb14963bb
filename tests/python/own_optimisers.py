"""Optimisers that a program writes over models as vectors, on models of all kinds."""

from __future__ import annotations

OPTIMISERS = """
import shapescript.std.optim as optim

model Net:
MEMBERS

model Moments:
    first: Net = zeros
    second: Net = zeros
    buffer step: int[] = zeros

fn loss(m: Net, x: [b 5]) -> []:
    return LOSS

fn lion(mut m: Net, mut state: optim.Lion[Net], x: [b 5], limit: float):
    _, mut g = value_and_grad(loss(m, x), wrt=m)
    clip_norm(mut g, limit)
    optim.update(mut m, mut state, g, lr=0.1, decay=0.1)

fn unclipped(mut m: Net, mut state: optim.Lion[Net], x: [b 5], limit: float):
    _, g = value_and_grad(loss(m, x), wrt=m)
    optim.update(mut m, mut state, g, lr=limit, decay=0.1)

fn sgd(mut m: Net, mut state: Moments, x: [b 5], limit: float):
    _, mut g = value_and_grad(loss(m, x), wrt=m)
    clip_norm(mut g, limit)
    m = m - rates(m) * 0.1 * g

fn momentum(mut m: Net, mut state: Moments, x: [b 5], limit: float):
    _, mut g = value_and_grad(loss(m, x), wrt=m)
    clip_norm(mut g, limit)
    state.first = state.first * 0.9 + g
    m = m - rates(m) * 0.1 * (state.first + decays(m) * 0.1 * m)

fn adamw(mut m: Net, mut state: Moments, x: [b 5], limit: float):
    _, mut g = value_and_grad(loss(m, x), wrt=m)
    clip_norm(mut g, limit)
    state.step = state.step + 1
    state.first = state.first * 0.9 + g * 0.1
    state.second = state.second * 0.999 + g * g * 0.001
    a = 0.1 / (1.0 - 0.9 ** float(state.step))
    c = 1.0 / (1.0 - 0.999 ** float(state.step))
    m = m - rates(m) * (state.first * a / (sqrt(state.second * c) + 0.00000001) + decays(m) * 0.001 * m)

fn accumulate(mut m: Net, mut state: optim.Accumulated[Net], x: [b 5], limit: float):
    _, mut g = value_and_grad(loss(m, x), wrt=m)
    clip_norm(mut g, limit)
    optim.add(mut state, g, 7)

fn average(mut m: Net, mut state: optim.Average[Net], x: [b 5], limit: float):
    _, mut g = value_and_grad(loss(m, x), wrt=m)
    clip_norm(mut g, limit)
    m = m - rates(m) * 0.1 * g
    optim.follow(mut state, m, keep=0.9)

fn a_lion(m: Net) -> optim.Lion[Net]:
    return optim.lion(m)

fn a_moments(m: Net) -> Moments:
    return Moments(seed=0)

fn an_accumulated(m: Net) -> optim.Accumulated[Net]:
    return optim.accumulated(m)

fn an_average(m: Net) -> optim.Average[Net]:
    return optim.average(m)
"""

# What makes the state of each.
STATES = {
    "lion": "a_lion",
    "unclipped": "a_lion",
    "sgd": "a_moments",
    "momentum": "a_moments",
    "adamw": "a_moments",
    "accumulate": "an_accumulated",
    "average": "an_average",
}

TENSORS = {"a": "T[3 5] = normal(0, 1)", "b": "T[33] = normal(0, 1)", "c": "T[2 8] = normal(0, 1)", "d": "T[] = ones", "e": "T[0 4] = ones"}
GROUPS = '    group "b": decay=false, rate=0.5\n    group "c": frozen=true'
LOSS = "sum(x, over=(b, 5)) + f32(sum(m.a * m.a, over=(3, 5))) + f32(sum(abs(m.b), over=33)) * f32(m.d) + f32(sum(m.c * m.c, over=(2, 8)))"


def program(members: str, loss: str = LOSS) -> str:
    return OPTIMISERS.replace("MEMBERS", members).replace("LOSS", loss)


def members(element: str = "", other: str | None = None, groups: str = "") -> str:
    """Tensors of an element type, the second maybe of another one."""
    kinds = {name: (element if name != "b" or other is None else other) for name in TENSORS}
    lines = [f"    {name}: {text.replace('T[', kinds[name] + '[')}" for name, text in TENSORS.items()]
    return "\n".join([*lines, groups])


# Models, and the losses that have gradients by them.
MODELS = {
    "f32": program(members()),
    "f64": program(members("f64")),
    "bf16": program(members("bf16")),
    "f32 in groups": program(members(groups=GROUPS)),
    "f64 in groups": program(members("f64", groups=GROUPS)),
    "bf16 in groups": program(members("bf16", groups=GROUPS)),
    "f32 and f64": program(members("", "f64", GROUPS)),
    "bf16 and f32": program(members("bf16", "")),
    "one tensor": program("    a: [3 5] = normal(0, 1)", "sum(x, over=(b, 5)) + sum(m.a * m.a, over=(3, 5))"),
    "two without elements": program(
        "    a: [0 4] = ones\n    b: [0] = ones", "sum(x, over=(b, 5)) + sum(m.a, over=(0, 4)) + sum(m.b, over=0)"
    ),
    "one and a frozen one": program(
        '    a: [4] = ones\n    b: [3] = ones\n    group "a": frozen=true', "sum(m.a, over=4) + sum(m.b * m.b, over=3)"
    ),
}
