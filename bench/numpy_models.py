"""The models of the rows in NumPy, written by hand: losses with their gradients, found on paper, in place where that helps."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from .rows import ModelName
from .task import Array, Arrays

F32 = np.float32
LossAndGradients = Callable[..., tuple[float, Arrays]]


def _cross_entropy(z: Array, y: Array) -> tuple[float, Array]:
    """The loss, and its gradient by the logits, in their storage."""
    rows = np.arange(len(z))
    z -= z.max(1, keepdims=True)
    chosen = z[rows, y]
    e = np.exp(z, out=z)
    s = e.sum(1, keepdims=True)
    loss = float((np.log(s[:, 0]) - chosen).mean())
    e /= s
    e[rows, y] -= 1
    e /= F32(len(z))
    return loss, e


def hidden_of(p: Arrays, x: Array) -> Array:
    h: Array = x @ p["hidden.weight"].T
    h += p["hidden.bias"]
    return np.maximum(h, 0, out=h)


def scores(p: Arrays, h: Array) -> Array:
    z: Array = h @ p["output.weight"].T
    z += p["output.bias"]
    return z


def _two_layers(p: Arrays, x: Array, y: Array) -> tuple[float, Arrays, Array]:
    """Of the layers `hidden` and `output`; and the gradient behind `hidden`."""
    h = hidden_of(p, x)
    loss, e = _cross_entropy(scores(p, h), y)
    d = e @ p["output.weight"]
    d *= h > 0
    return loss, {"hidden.bias": d.sum(0), "hidden.weight": d.T @ x, "output.bias": e.sum(0), "output.weight": e.T @ h}, d


def _classifier(p: Arrays, x: Array, y: Array) -> tuple[float, Arrays]:
    loss, gradients, _ = _two_layers(p, x, y)
    return loss, gradients


def _patches(x: Array) -> Array:
    """Of [b rows columns channels] the 3×3 surroundings of each point, a line each."""
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    return sliding_window_view(padded, (3, 3), axis=(1, 2)).reshape(x.size // x.shape[3], -1)


def _convolved(p: Arrays, name: str, patches: Array) -> Array:
    weight = p[f"{name}.weight"]
    out: Array = patches @ weight.reshape(len(weight), -1).T
    out += p[f"{name}.bias"]
    return np.maximum(out, 0, out=out)


def _cnn(p: Arrays, pixels: Array, y: Array) -> tuple[float, Arrays]:
    b, few, many = len(pixels), len(p["first.bias"]), len(p["second.bias"])
    first_patches = _patches(pixels.reshape(b, 8, 8, 1))
    first = _convolved(p, "first", first_patches)
    second_patches = _patches(first.reshape(b, 8, 8, few))
    second = _convolved(p, "second", second_patches)
    # The four points of each window last: [b channels rows columns 4], flattened as the layer behind wants them.
    windows = second.reshape(b, 4, 2, 4, 2, many).transpose(0, 5, 1, 3, 2, 4).reshape(b, many, 4, 4, 4)
    places = windows.argmax(4)[..., None]
    pooled = np.take_along_axis(windows, places, 4).reshape(b, -1)
    loss, gradients, d = _two_layers(p, pooled, y)

    spread = np.zeros_like(windows)
    np.put_along_axis(spread, places, (d @ p["hidden.weight"]).reshape(places.shape), 4)
    d_second = spread.reshape(b, many, 4, 4, 2, 2).transpose(0, 2, 4, 3, 5, 1).reshape(second.shape)
    d_second *= second > 0
    weight = p["second.weight"]
    d_patches = (d_second @ weight.reshape(many, -1)).reshape(b, 8, 8, few, 3, 3)
    d_padded = np.zeros((b, 10, 10, few), F32)
    for row in range(3):
        for column in range(3):
            d_padded[:, row : row + 8, column : column + 8] += d_patches[..., row, column]
    d_first = d_padded[:, 1:9, 1:9].reshape(first.shape)
    d_first *= first > 0
    for name, d_out, patches in (("first", d_first, first_patches), ("second", d_second, second_patches)):
        gradients[f"{name}.weight"] = (d_out.T @ patches).reshape(p[f"{name}.weight"].shape)
        gradients[f"{name}.bias"] = d_out.sum(0)
    return loss, gradients


def _sigmoid(x: Array) -> Array:
    return F32(1) / (F32(1) + np.exp(-x))


def _lstm(p: Arrays, ids: Array) -> tuple[float, Arrays]:
    seen, steps, width = ids[:, :-1].T, ids.shape[1] - 1, p["memory.weight_hh_l0"].shape[1]
    weight, embedded = p["memory.weight_hh_l0"], p["characters.weight"][seen]
    inputs = embedded @ p["memory.weight_ih_l0"].T
    inputs += p["memory.bias_ih_l0"] + p["memory.bias_hh_l0"]
    hidden, cells = (np.zeros((steps + 1, len(ids), width), F32) for _ in range(2))
    gates = np.empty((steps, len(ids), 4, width), F32)  # what enters, what is kept, what is new, what leaves
    for t in range(steps):
        g = (inputs[t] + hidden[t] @ weight.T).reshape(gates[t].shape)
        gates[t] = _sigmoid(g)
        gates[t, :, 2] = np.tanh(g[:, 2])
        cells[t + 1] = gates[t, :, 1] * cells[t] + gates[t, :, 0] * gates[t, :, 2]
        hidden[t + 1] = gates[t, :, 3] * np.tanh(cells[t + 1])
    outputs = hidden[1:].reshape(-1, width)
    loss, e = _cross_entropy(scores(p, outputs), ids[:, 1:].T.ravel())

    d_outputs = (e @ p["output.weight"]).reshape(steps, len(ids), width)
    d_gates = np.empty_like(gates)
    d_hidden, d_cell = np.zeros((len(ids), width), F32), np.zeros((len(ids), width), F32)
    for t in reversed(range(steps)):
        enter, keep, new, leave = (gates[t, :, gate] for gate in range(4))
        d_hidden = d_hidden + d_outputs[t]
        bent = np.tanh(cells[t + 1])
        d_cell = d_cell + d_hidden * leave * (1 - bent * bent)
        d_gates[t, :, 0] = d_cell * new * enter * (1 - enter)
        d_gates[t, :, 1] = d_cell * cells[t] * keep * (1 - keep)
        d_gates[t, :, 2] = d_cell * enter * (1 - new * new)
        d_gates[t, :, 3] = d_hidden * bent * leave * (1 - leave)
        d_hidden, d_cell = d_gates[t].reshape(len(ids), -1) @ weight, d_cell * keep
    flat = d_gates.reshape(-1, 4 * width)
    d_characters = np.zeros_like(p["characters.weight"])
    np.add.at(d_characters, seen.ravel(), flat @ p["memory.weight_ih_l0"])
    bias = flat.sum(0)
    return loss, {
        "characters.weight": d_characters,
        "memory.weight_ih_l0": flat.T @ embedded.reshape(len(flat), -1),
        "memory.weight_hh_l0": flat.T @ hidden[:-1].reshape(-1, width),
        "memory.bias_ih_l0": bias,
        "memory.bias_hh_l0": bias.copy(),
        "output.weight": e.T @ outputs,
        "output.bias": e.sum(0),
    }


LOSSES: Mapping[ModelName, LossAndGradients] = {"classifier": _classifier, "digits_cnn": _cnn, "lstm": _lstm}
