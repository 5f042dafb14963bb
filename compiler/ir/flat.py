"""Where a model's tensors lie in its flat buffer: in the bytewise order of their dotted names, each at a multiple of 64 bytes.

runtime/layout.py states the same rule for the objects that users hold; a test compares them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from shapescript.compiler.ir.sizes import product
from shapescript.compiler.ir.types import Element, LeafType, ModelType, TensorType, sorted_leaves
from shapescript.compiler.records.dataclass import dataclass

ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class FlatLeaf:
    """A tensor of a model: where it begins in the buffer, in bytes, and how many elements it has."""

    leaf: LeafType
    offset: int
    count: int


@dataclass(frozen=True, slots=True)
class FlatLayout:
    leaves: tuple[FlatLeaf, ...]
    total: int

    def leaf(self, name: str) -> FlatLeaf:
        return next(part for part in self.leaves if part.leaf.name == name)


@lru_cache(maxsize=64)
def flat_layout(model: ModelType) -> FlatLayout:
    """All sizes must be known. Padding between tensors holds zeros."""
    return _laid_out(sorted_leaves(model))


@lru_cache(maxsize=64)
def slot_layout(model: ModelType) -> FlatLayout:
    """Where a slot of an optimiser has what belongs to each tensor: it holds f32 where the tensor holds bf16."""
    return _laid_out(replace(leaf, type=_as_remembered(leaf.type)) for leaf in sorted_leaves(model))


def _as_remembered(kind: TensorType) -> TensorType:
    return TensorType(Element.F32, kind.axes) if kind.element is Element.BF16 else kind


def _laid_out(leaves: Iterable[LeafType]) -> FlatLayout:
    parts: list[FlatLeaf] = []
    end = 0
    for leaf in leaves:
        count = product(leaf.type.axes).constant()
        if count is None:
            raise ValueError(f"the size of {leaf.name} is not known here")
        parts.append(FlatLeaf(leaf, end, count))
        end += -(-count * leaf.type.element.bytes // ALIGNMENT) * ALIGNMENT
    return FlatLayout(tuple(parts), end)
