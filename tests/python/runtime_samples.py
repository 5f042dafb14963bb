"""Small models, records and checkpoints that the tests of the runtime share."""

from __future__ import annotations

import numpy as np

from shapescript.runtime.arrays import Array, ElementType
from shapescript.runtime.dataset import Dataset
from shapescript.runtime.layout import Layout, Leaf, Start
from shapescript.runtime.model import Model
from shapescript.runtime.record import Field, RecordType

DIGIT = RecordType("Digit", (Field("pixels", "f32", ("In",), (4,)), Field("label", "i64")))


def leaf(name: str, axes: str, *shape: int, dtype: ElementType = "f32") -> Leaf:
    return Leaf(name, tuple(axes.split()), shape, dtype, "parameter", Start("zeros"))


def mlp_layout() -> Layout:
    return Layout(
        "Mlp",
        [
            leaf("hidden.weight", "Hidden In", 6, 4),
            leaf("hidden.bias", "Hidden", 6),
            leaf("output.weight", "Classes Hidden", 3, 6),
            leaf("output.bias", "Classes", 3),
        ],
    )


def encoder_layout(blocks: int = 11) -> Layout:
    """A list of more than ten sub-models, other element types, a scalar and an empty parameter."""
    leaves = [leaf(f"encoder.blocks.{i}.inner.weight", "D D", 2, 2) for i in range(blocks)]
    leaves += [leaf("scale", "", dtype="f64"), leaf("empty", "None D", 0, 2)]
    leaves.append(Leaf("seen", (), (), "i64", "buffer", Start("zeros")))
    leaves.append(Leaf("mask", ("D",), (2,), "bool", "buffer", Start("zeros")))
    return Layout("Encoder", leaves)


def filled(layout: Layout, seed: int = 1) -> Model:
    model = Model(layout)
    draw = np.random.default_rng(seed)
    for each in layout:
        view = layout.view(model.buffer, each.name)
        view[...] = (draw.standard_normal(each.shape) * 3).astype(view.dtype)
    return model


def digits(count: int = 10, seed: int = 2) -> Dataset:
    return Dataset(DIGIT, digit_arrays(count, seed))


def digit_arrays(count: int = 10, seed: int = 2) -> dict[str, Array]:
    draw = np.random.default_rng(seed)
    return {"pixels": draw.standard_normal((count, 4)).astype(np.float32), "label": np.arange(count)}


def same_bytes(one: Model, other: Model) -> bool:
    return one.buffer.tobytes() == other.buffer.tobytes()
