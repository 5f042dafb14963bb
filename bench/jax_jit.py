"""JAX with optax: the step compiled by `jit`, called once a step."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax

from .task import BETAS, CLIP, DECAY, EPS, RATE, Task


class JaxTrainer:
    def __init__(self, task: Task) -> None:
        self.task, self.done = task, 0
        self.pixels, self.label = jnp.asarray(task.pixels), jnp.asarray(task.label, jnp.int32)
        self.parameters: Any = {name: jnp.asarray(value) for name, value in task.start.items()}
        adamw = optax.adamw(RATE, b1=BETAS[0], b2=BETAS[1], eps=EPS, weight_decay=DECAY)
        self.chain = optax.chain(optax.clip_by_global_norm(CLIP), adamw)
        self.state: Any = self.chain.init(self.parameters)
        self.step = jax.jit(self._step, donate_argnums=(0, 1))

    def train(self, steps: int) -> list[float]:
        losses = []
        for _ in range(steps):
            rows = self.task.order[self.done]
            self.done += 1
            self.parameters, self.state, loss = self.step(self.parameters, self.state, self.pixels, self.label, rows)
            losses.append(float(loss))
        return losses

    def _step(self, parameters: Any, state: Any, pixels: Any, label: Any, rows: Any) -> tuple[Any, Any, Any]:
        loss, gradients = jax.value_and_grad(_loss)(parameters, pixels[rows], label[rows])
        updates, state = self.chain.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state, loss


def _loss(p: Any, x: Any, y: Any) -> Any:
    h = jax.nn.relu(x @ p["hidden.weight"].T + p["hidden.bias"])
    z = h @ p["output.weight"].T + p["output.bias"]
    return optax.softmax_cross_entropy_with_integer_labels(z, y).mean()
