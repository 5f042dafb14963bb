"""JAX with optax: the step compiled by `jit`, called once a step, or inside of one `lax.scan` over many steps."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from .data import span_of
from .jax_models import loss_of, scores, start_of
from .rows import CLIP, EPS, SCANNED_STEPS, Row
from .task import Task, Work


def _optimiser(row: Row) -> Any:
    def decayed(parameters: Any) -> dict[str, bool]:
        return {name: row.undecayed is None or row.undecayed not in name for name in parameters}

    adamw = optax.adamw(row.rate, b1=row.betas[0], b2=row.betas[1], eps=EPS, weight_decay=row.decay, mask=decayed)
    return optax.chain(optax.clip_by_global_norm(CLIP), adamw)


class _Training:
    def __init__(self, task: Task) -> None:
        self.task, self.done, self.loss_of = task, 0, loss_of(task.row)
        self.fields = {name: jnp.asarray(value) for name, value in task.fields.items()}
        self.order = task.order.astype(np.int32)
        self.parameters: Any = start_of(task.row, task.start)
        self.optimiser = _optimiser(task.row)
        self.state: Any = self.optimiser.init(self.parameters)

    def _batch(self, fields: Any, rows: Any) -> list[Any]:
        if "text" in fields:
            return [fields["text"][rows[:, None] + jnp.arange(span_of(self.task.row))]]
        return [fields["pixels"][rows], fields["label"][rows]]

    def step(self, parameters: Any, state: Any, fields: Any, rows: Any) -> tuple[Any, Any, Any]:
        loss, gradients = jax.value_and_grad(self.loss_of)(parameters, *self._batch(fields, rows))
        updates, state = self.optimiser.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state, loss

    def steps(self, parameters: Any, state: Any, fields: Any, order: Any) -> tuple[Any, Any, Any]:
        def one(before: Any, rows: Any) -> Any:
            parameters, state = before
            parameters, state, loss = self.step(parameters, state, fields, rows)
            return (parameters, state), loss

        (parameters, state), losses = jax.lax.scan(one, (parameters, state), order)
        return parameters, state, losses


class CalledTrainer(_Training):
    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.compiled = jax.jit(self.step, donate_argnums=(0, 1))

    def round(self) -> list[float]:
        losses = []
        for rows in self.order[self.done]:
            self.parameters, self.state, loss = self.compiled(self.parameters, self.state, self.fields, rows)
            losses.append(float(loss))
        self.done += 1
        return losses


class ScannedTrainer(_Training):
    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.compiled = jax.jit(self.steps, donate_argnums=(0, 1))

    def round(self) -> list[float]:
        losses: list[float] = []
        order = self.order[self.done]
        for first in range(0, len(order), SCANNED_STEPS):
            part = order[first : first + SCANNED_STEPS]
            self.parameters, self.state, found = self.compiled(self.parameters, self.state, self.fields, part)
            losses += np.asarray(found).tolist()
        self.done += 1
        return losses


class JaxInference:
    def __init__(self, task: Task) -> None:
        self.parameters, self.compiled = start_of(task.row, task.start), jax.jit(scores)
        self.pixels, self.calls = jnp.asarray(task.fields["pixels"][: task.row.batch]), task.steps

    def round(self) -> list[float]:
        for _ in range(self.calls):
            result = self.compiled(self.parameters, self.pixels).block_until_ready()
        return [float(value) for value in result[0]]


def called(task: Task) -> Work:
    return CalledTrainer(task) if task.row.kind == "training" else JaxInference(task)


def scanned(task: Task) -> Work:
    return ScannedTrainer(task)
