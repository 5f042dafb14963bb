"""Models as flat buffers, and views of their tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shapescript.compiler.ir.flat import ALIGNMENT, FlatLayout, flat_layout, slot_layout
from shapescript.compiler.ir.types import Element, ModelType, Treatment
from shapescript.compiler.numerics.bfloat16_arrays import bits_of, numbers_of
from shapescript.compiler.ops.protocol import Bytes
from shapescript.compiler.records.dataclass import dataclass

Array = NDArray[Any]

DTYPES: dict[Element, np.dtype[Any]] = {
    Element.F32: np.dtype(np.float32),
    Element.F64: np.dtype(np.float64),
    Element.BF16: np.dtype(np.uint16),  # its bits
    Element.I64: np.dtype(np.int64),
    Element.BOOL: np.dtype(np.bool_),
}


def aligned(count: int) -> Bytes:
    """That many zero bytes, at an address that is a multiple of 64."""
    room = np.zeros(count + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    return room[start : start + count]


def aligned_copy(buffer: Bytes) -> Bytes:
    copy = aligned(buffer.size)
    copy[:] = buffer
    return copy


@dataclass(frozen=True)
class Place:
    """A tensor in a flat buffer: bytes start..stop."""

    name: str
    start: int
    stop: int
    element: Element
    shape: tuple[int, ...]
    treatment: Treatment
    is_trained: bool

    def view(self, buffer: Bytes) -> Array:
        return buffer[self.start : self.stop].view(DTYPES[self.element]).reshape(self.shape)

    def numbers(self, buffer: Bytes) -> Array:
        """Its elements to compute with: those of bf16 as f32, in an array of their own."""
        stored = self.view(buffer)
        return numbers_of(stored) if self.element is Element.BF16 else stored

    def write(self, buffer: Bytes, numbers: Array) -> None:
        self.view(buffer)[...] = bits_of(numbers) if self.element is Element.BF16 else numbers


def _places(flat: FlatLayout) -> dict[str, Place]:
    found: dict[str, Place] = {}
    for part in flat.leaves:
        name, kind = part.leaf.name, part.leaf.type
        shape = tuple(axis.constant() or 0 for axis in kind.axes)  # flat_layout has refused sizes that aren't known
        stop = part.offset + part.count * kind.element.bytes
        found[name] = Place(name, part.offset, stop, kind.element, shape, part.leaf.treatment, part.leaf.is_trained)
    return found


class Layout:
    """A model's tensors in the order of their dotted names."""

    def __init__(self, model: ModelType) -> None:
        flat = flat_layout(model)
        self.model, self.total, self.places = model, flat.total, _places(flat)
        self.slot_total, self.slot_places = slot_layout(model).total, _places(slot_layout(model))  # of an optimiser's slots

    @property
    def trained(self) -> Iterator[Place]:
        """The tensors that an optimiser moves."""
        return (place for place in self.places.values() if place.is_trained)

    def start_of(self, path: str) -> int:
        """Where a sub-model begins: names with one prefix follow each other, so its tensors lie as they do in a buffer of their own."""
        prefix = path + "."
        return next((place.start for name, place in self.places.items() if name.startswith(prefix)), 0)


class Layouts:
    """Each model type's layout, made once. Types are told apart by identity, since hashing one walks all its members."""

    def __init__(self) -> None:
        self._made: dict[int, Layout] = {}

    def of(self, model: ModelType) -> Layout:
        layout = self._made.get(id(model))
        if layout is None:
            layout = self._made[id(model)] = Layout(model)  # the layout keeps the type, and so its id, alive
        return layout
