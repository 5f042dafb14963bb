"""Where a model's parameters lie: one flat buffer, leaves in the bytewise order of their dotted names."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

from shapescript.compiler.records.dataclass import dataclass
from shapescript.runtime.arrays import ALIGNMENT, NUMPY_DTYPES, Array, Bytes, ElementType, aligned, axes_text, sizes, widened
from shapescript.runtime.groups import ORDINARY, Groups, Treatment

__all__ = ["Layout", "Leaf", "Start", "Tree", "aligned"]

Tree = dict[str, Any]  # a child's name to its own tree, or to the dotted name of a leaf
StartKind = Literal["zeros", "ones", "constant", "uniform", "normal"]


@dataclass(frozen=True)
class Start:
    """An initialiser: `constant` of value a, `uniform` between a and b, `normal` with mean a and standard deviation b."""

    kind: StartKind
    a: float = 0.0
    b: float = 0.0


@dataclass(frozen=True)
class Leaf:
    """One parameter or buffer: its dotted name, the names and sizes of its axes, its element type and its start; of a parameter, how
    optimisers treat it."""

    name: str
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: ElementType
    kind: Literal["parameter", "buffer"]
    start: Start
    treatment: Treatment = ORDINARY

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.count * NUMPY_DTYPES[self.dtype].itemsize

    @property
    def differentiable(self) -> bool:
        """Whether an optimiser moves it and keeps moments for it."""
        return self.kind == "parameter" and self.dtype in ("f32", "f64", "bf16") and not self.treatment.frozen

    def __str__(self) -> str:
        prefix = {"f32": "", "i64": "int"}.get(self.dtype, self.dtype)
        buffer = "buffer " if self.kind == "buffer" else ""
        return f"{buffer}{self.name}: {prefix}{axes_text(self.axes)} {sizes(self.shape)}"


class Layout:
    """A model's leaves, each at a byte offset that is a multiple of 64; the bytes between them are zero.

    `dims` are those of the model, where they are known: a stride is in no leaf's shape. Equal layouts have the same model name, the same
    dims and the same leaves.
    """

    def __init__(self, model_name: str, leaves: Iterable[Leaf], dims: Iterable[int] = ()) -> None:
        self.model_name, self.dims = model_name, tuple(dims)
        self.leaves: tuple[Leaf, ...] = tuple(sorted(leaves, key=lambda leaf: leaf.name.encode()))
        offsets, end = [], 0
        for leaf in self.leaves:
            offsets.append(end)
            end += -(-leaf.nbytes // ALIGNMENT) * ALIGNMENT
        self.offsets: tuple[int, ...] = tuple(offsets)
        self.nbytes: int = end
        self._places = {leaf.name: (leaf, offset) for leaf, offset in zip(self.leaves, self.offsets, strict=True)}
        if len(self._places) != len(self.leaves):
            raise ValueError(f"two leaves of {model_name} have one name")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(leaf.name for leaf in self.leaves)

    @property
    def groups(self) -> Groups:
        return Groups({leaf.name: leaf.treatment for leaf in self.leaves if leaf.kind == "parameter"})

    @cached_property
    def slots(self) -> Layout:
        """Where a slot of an optimiser has what belongs to each leaf: it holds f32 where the leaf holds bf16."""
        leaves = [replace(leaf, dtype="f32") if leaf.dtype == "bf16" else leaf for leaf in self.leaves]
        return Layout(self.model_name, leaves, self.dims)

    @cached_property
    def tree(self) -> Tree:
        """The leaves by their names' parts: {"hidden": {"bias": "hidden.bias", "weight": "hidden.weight"}}."""
        root: Tree = {}
        for name in self.names:
            *path, last = name.split(".")
            branch = root
            for part in path:
                branch = branch.setdefault(part, {})
            branch[last] = name
        return root

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[Leaf]:
        return iter(self.leaves)

    def __len__(self) -> int:
        return len(self.leaves)

    def leaf(self, name: str) -> Leaf:
        return self._places[name][0]

    def offset(self, name: str) -> int:
        """The leaf's first byte, counted from the buffer's."""
        return self._places[name][1]

    def view(self, buffer: Bytes, name: str) -> Array:
        """A writable view of one leaf in a flat buffer of `nbytes` bytes."""
        leaf, offset = self._places[name]
        return buffer[offset : offset + leaf.nbytes].view(NUMPY_DTYPES[leaf.dtype]).reshape(leaf.shape)

    def read_only_view(self, buffer: Bytes, name: str) -> Array:
        """The leaf as users see it; one of bf16 as a copy, in float32."""
        view = widened(self.view(buffer, name))
        view.flags.writeable = False
        return view

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and (self.model_name, self.dims, self.leaves) == (other.model_name, other.dims, other.leaves)

    def __hash__(self) -> int:
        return hash((self.model_name, self.dims, self.leaves))

    def __repr__(self) -> str:
        return f"Layout({self.model_name!r}, {len(self.leaves)} leaves, {self.nbytes} bytes)"
