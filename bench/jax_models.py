"""The models of the rows in JAX: a loss is a function of parameters, by this project's names, and a batch's fields."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from .rows import Row
from .task import Arrays

Loss = Callable[..., Any]


def _cross_entropy(logits: Any, label: Any) -> Any:
    return optax.softmax_cross_entropy_with_integer_labels(logits, label).mean()


def scores(p: Any, pixels: Any) -> Any:
    hidden = jax.nn.relu(pixels @ p["hidden.weight"].T + p["hidden.bias"])
    return hidden @ p["output.weight"].T + p["output.bias"]


def _classifier(p: Any, pixels: Any, label: Any) -> Any:
    return _cross_entropy(scores(p, pixels), label)


def _convolution(p: Any, name: str, x: Any) -> Any:
    layout = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, p[f"{name}.weight"], (1, 1), "SAME", dimension_numbers=layout) + p[f"{name}.bias"]


def _cnn(p: Any, pixels: Any, label: Any) -> Any:
    features = jax.nn.relu(_convolution(p, "first", pixels.reshape(-1, 8, 8, 1)))
    features = jax.nn.relu(_convolution(p, "second", features))
    pooled = jax.lax.reduce_window(features, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return _cross_entropy(scores(p, pooled.reshape(len(pixels), -1)), label)


def _lstm(p: Any, ids: Any) -> Any:
    inputs = p["characters.weight"][ids[:, :-1]] @ p["memory.weight_ih_l0"].T + p["memory.bias_ih_l0"] + p["memory.bias_hh_l0"]
    zeros = jnp.zeros((ids.shape[0], p["memory.weight_hh_l0"].shape[1]), jnp.float32)

    def step(state: Any, x: Any) -> Any:
        hidden, cell = state
        enter, keep, new, leave = jnp.split(x + hidden @ p["memory.weight_hh_l0"].T, 4, axis=1)
        cell = jax.nn.sigmoid(keep) * cell + jax.nn.sigmoid(enter) * jnp.tanh(new)
        hidden = jax.nn.sigmoid(leave) * jnp.tanh(cell)
        return (hidden, cell), hidden

    _, outputs = jax.lax.scan(step, (zeros, zeros), inputs.swapaxes(0, 1))
    return _cross_entropy(outputs @ p["output.weight"].T + p["output.bias"], ids[:, 1:].T)


def _norm(p: Any, name: str, x: Any) -> Any:
    return jax.nn.standardize(x, epsilon=1e-5) * p[f"{name}.weight"] + p[f"{name}.bias"]


def _char_gpt(depth: int, p: Any, ids: Any) -> Any:
    x = p["characters"][ids[:, :-1]] + p["places"]
    for block in (f"blocks.{number}" for number in range(depth)):
        normed = _norm(p, f"{block}.attention_norm", x)
        query, key, value = (jnp.einsum("btw,hpw->bthp", normed, p[f"{block}.{part}"]) for part in ("query", "key", "value"))
        mixed = jax.nn.dot_product_attention(query, key, value, is_causal=True)
        x = x + jnp.einsum("bthp,hpw->btw", mixed, p[f"{block}.join"])
        inner = jax.nn.gelu(_norm(p, f"{block}.inner_norm", x) @ p[f"{block}.widen"], approximate=False)
        x = x + inner @ p[f"{block}.narrow"]
    return _cross_entropy(_norm(p, "last_norm", x) @ p["characters"].T, ids[:, 1:])


def loss_of(row: Row) -> Loss:
    match row.model:
        case "classifier":
            return _classifier
        case "char_gpt":
            return partial(_char_gpt, row.dims["Depth"])
        case "digits_cnn":
            return _cnn
        case "lstm":
            return _lstm


def start_of(row: Row, start: Arrays) -> dict[str, Any]:
    """Convolutions read channels last, the layout that XLA is fast with on a CPU: so lie the weights of theirs and of what follows."""
    if row.model == "digits_cnn":
        start = {name: value.transpose(2, 3, 1, 0) if value.ndim == 4 else value for name, value in start.items()}
        hidden = start["hidden.weight"].reshape(-1, 64, 4, 4).transpose(0, 2, 3, 1)
        start["hidden.weight"] = hidden.reshape(len(hidden), -1)
    return {name: jnp.asarray(np.ascontiguousarray(value)) for name, value in start.items()}
