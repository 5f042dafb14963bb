"""Recurrent layers of shapescript.std.recurrent, beside PyTorch's modules with the same parameters, row by row."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call

from comparisons.comparison import Comparison, Within, integers
from comparisons.layers import Parameters, in_net, within

STATES = {"rnn": ("hidden",), "gru": ("hidden",), "lstm": ("hidden", "cell")}
MODULES = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
BOUND = Within(128, "products and squashings, one behind the other for each place", absolute=64, gradient=(512, 256))


def module_of(kind: str, both: bool) -> nn.Module:
    return MODULES[kind](3, 4, batch_first=True, bidirectional=both)


def twin(kind: str, both: bool, has_state: bool, has_lengths: bool) -> Callable[..., Tensor]:
    """The outputs, and behind them the last states as further places. A row that ends early is run by itself, as a shorter one."""
    module, directions = module_of(kind, both), 2 if both else 1

    def run(x: Tensor, m: Parameters, *more: Tensor) -> Tensor:
        rest = list(more)
        b, n, _ = x.shape
        zeros = torch.zeros(directions, b, 4, dtype=x.dtype)
        given = [rest.pop(0) if has_state else zeros for _ in STATES[kind]]
        states = [state.reshape(directions, b, 4) for state in given]
        lengths = rest.pop(0).clamp(max=n).tolist() if has_lengths else [n] * b
        rows = []
        for row, length in enumerate(lengths):
            state = tuple(state[:, row : row + 1].contiguous() for state in states)
            outputs = torch.zeros(1, 0, directions * 4, dtype=x.dtype)
            if length:
                start = state if kind == "lstm" else state[0]
                outputs, last = functional_call(module, within(m), (x[row : row + 1, :length], start))  # type: ignore[no-untyped-call]
                state = last if kind == "lstm" else (last,)
            behind = torch.zeros(1, n - length, directions * 4, dtype=x.dtype)
            ends = torch.stack([part.transpose(0, 1).reshape(1, directions * 4) for part in state], 1)
            rows.append(torch.cat([outputs, behind, ends], 1))
        return torch.cat(rows) if rows else torch.zeros(0, n + len(states), directions * 4, dtype=x.dtype) + x.sum() * 0

    return run


def entry(kind: str, both: bool, has_state: bool, has_lengths: bool) -> Comparison:
    states, model = STATES[kind], ("Bidirectional" if both else "") + kind.upper()
    width, state = ("2*H", "2 b H") if both else ("H", "b H")
    signature = [
        "x: T[b n I]",
        "m: Net",
        *(f"{name}: T[{state}]" for name in states if has_state),
        *(["lengths: int[b]"] if has_lengths else []),
    ]
    arguments = ["x", "m.layer", *(name for name in states if has_state), *(["lengths"] if has_lengths else [])]
    ends = [f"last_{name}" for name in states]
    opened = "2 b H -> b 1 (2 H)" if both else "b H -> b 1 H"
    placed = [f"repeat({end}: {opened})" for end in ends]
    body = f"y, {', '.join(ends)} = recurrent.{kind}({', '.join(arguments)})\nreturn concat(y, {', '.join(placed)}, over=n)"
    said = " with a state" if has_state else " with lengths" if has_lengths else ""
    return Comparison(
        f"{kind}{' of both directions' if both else ''}{said}",
        ("for_range", "put"),
        in_net("recurrent", "I=3 H=4", f"recurrent.{model}[I, H]", f"{', '.join(signature)}) -> T[b n+{len(states)} {width}]", body),
        twin(kind, both, has_state, has_lengths),
        BOUND,
        inputs={"lengths": integers(0, 6)} if has_lengths else {},
        extremes=(),
        largest=11,
    )


def cell(kind: str) -> Comparison:
    """One place, as a sequence of it."""
    states = STATES[kind]
    signature = ", ".join(["x: T[b I]", "m: Net", *(f"{name}: T[b H]" for name in states)])
    names = [f"last_{name}" for name in states]
    call = f"recurrent.{kind}_cell({', '.join(['x', 'm.layer', *states])})"
    patterns = ", ".join(["b H"] * len(names))
    body = f"{', '.join(names)} = {call}\nreturn stack({', '.join(names)}: {patterns} -> b {len(names)} H)"
    whole = twin(kind, False, True, False)
    return Comparison(
        f"{kind}_cell",
        ("contraction",),
        in_net("recurrent", "I=3 H=4", f"recurrent.{kind.upper()}[I, H]", f"{signature}) -> T[b {len(names)} H]", body),
        lambda x, m, *given: whole(x[:, None], m, *given)[:, 1:],
        BOUND,
        extremes=(),
        largest=11,
    )


ENTRIES = (
    *(
        entry(kind, both, has_state, has_lengths)
        for kind, both in (("rnn", False), ("gru", False), ("gru", True), ("lstm", False), ("lstm", True))
        for has_state, has_lengths in ((False, False), (True, False), (False, True))
    ),
    *(cell(kind) for kind in STATES),
)
