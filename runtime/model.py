"""Models: named parameters in one flat buffer that native code reads and writes in place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import numpy as np

from shapescript.runtime.arrays import (
    ALIGNMENT,
    Array,
    Bytes,
    address_of,
    aligned,
    canonical_nan,
    check_shape,
    of_element_type,
    usable_array,
)
from shapescript.runtime.errors import ArgumentError, ArgumentValueError, did_you_mean
from shapescript.runtime.groups import Groups
from shapescript.runtime.host_numbers import checked_seed
from shapescript.runtime.layout import Layout, Leaf, Tree
from shapescript.runtime.partial import LoadReport, partial_arrays
from shapescript.runtime.renaming import Renaming
from shapescript.runtime.starts import start_array
from shapescript.runtime.state import fitting_arrays


class SubModel:
    """A branch of a model's parameters: `m.hidden.weight` reads a view, `m.hidden.weight = array` checks and copies in."""

    __slots__ = ("_branch", "_path", "_root")

    _root: Model
    _path: str
    _branch: Tree

    def __init__(self, root: Model, path: str, branch: Tree) -> None:
        _set(self, _root=root, _path=path, _branch=branch)

    def __getattr__(self, name: str) -> Any:
        if name in SubModel.__slots__ or name.startswith("__"):
            raise AttributeError(name)
        if name not in self._branch:
            self._refuse_name(name)
        return _child(self._root, _joined(self._path, name), self._branch[name])

    def __setattr__(self, name: str, value: object) -> None:
        if name not in self._branch:
            self._refuse_name(name)
        target = self._branch[name]
        if isinstance(target, dict):
            raise AttributeError(f"{_joined(self._path, name)} is a sub-model: its parameters ({', '.join(target)}) can be set one by one")
        self._root[target] = value

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *self._branch]

    def __repr__(self) -> str:
        leaves = [leaf for leaf in self._root.layout if leaf.name.startswith(f"{self._path}.")]
        return _table(f"{self._path} of {self._root.layout.model_name}", leaves)

    def _refuse_name(self, name: str) -> NoReturn:
        where = f"{self._root.layout.model_name}{'.' if self._path else ''}{self._path}"
        raise AttributeError(f"{where} has no parameter {name!r}{did_you_mean(name, self._branch)}", name=name, obj=self)


class SubModels:
    """A list of sub-models, `m.encoder.blocks`: indexed, counted and iterated as a list."""

    __slots__ = ("_branch", "_path", "_root")

    def __init__(self, root: Model, path: str, branch: Tree) -> None:
        self._root, self._path, self._branch = root, path, branch

    def __len__(self) -> int:
        return len(self._branch)

    def __getitem__(self, index: int) -> Any:
        place = range(len(self))[index]
        return _child(self._root, _joined(self._path, str(place)), self._branch[str(place)])

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"<list of {len(self)} sub-models {self._path} of {self._root.layout.model_name}>"


class Model(SubModel):
    """A model's parameters and buffers.

    Attributes are read-only views of the flat buffer, as is `m["hidden.weight"]`, which reaches every name; setting either
    checks dtype and shape and copies in.
    """

    # Slots, not properties, which take twice the time at every call; `__setattr__` lets nobody set them. The buffer is what native code and
    # the runtime write; its padding between leaves is zero.
    __slots__ = ("address", "buffer", "layout")

    layout: Layout
    buffer: Bytes
    address: int

    def __init__(self, layout: Layout, buffer: Bytes | None = None) -> None:
        """`buffer`: `layout.nbytes` bytes at a multiple of 64, used as it is; zeros where none is given."""
        if buffer is None:
            buffer = aligned(layout.nbytes)
        check_buffer(layout, buffer)
        _set(self, layout=layout, buffer=buffer, address=address_of(buffer))
        super().__init__(self, "", layout.tree)

    def __getitem__(self, name: str) -> Array:
        if name not in self.layout:
            raise KeyError(f"{self.layout.model_name} has no parameter {name!r}{did_you_mean(name, self.layout.names)}")
        return self.layout.read_only_view(self.buffer, name)

    def __setitem__(self, name: str, value: object) -> None:
        """Copy `value` in. Raises ArgumentError R1001, R1002, R1004 or R1006, and then nothing has changed."""
        if name not in self.layout:
            raise KeyError(f"{self.layout.model_name} has no parameter {name!r}{did_you_mean(name, self.layout.names)}")
        leaf = self.layout.leaf(name)
        array = usable_array(name, value)
        array = of_element_type(name, array, leaf.dtype)
        check_shape(name, array, leaf.axes, leaf.shape)
        np.copyto(self.layout.view(self.buffer, name), array)

    def state_dict(self) -> dict[str, Array]:
        """A copy of every parameter and buffer by its dotted name, as `torch.nn.Module.state_dict` names them."""
        return {leaf.name: canonical_nan(self[leaf.name]).copy() for leaf in self.layout}

    def parameters(self) -> dict[str, Array]:
        """Read-only views of what is trained, by dotted name; of bf16 copies, in float32."""
        return {leaf.name: self[leaf.name] for leaf in self.layout if leaf.kind == "parameter"}

    def buffers(self) -> dict[str, Array]:
        """Read-only views of the buffers, by dotted name."""
        return {leaf.name: self[leaf.name] for leaf in self.layout if leaf.kind == "buffer"}

    def groups(self) -> Groups:
        """How optimisers treat each parameter, by its dotted name: `.decay`, `.rate`, `.frozen`. As text it is a table."""
        return self.layout.groups

    def load_state_dict(self, state: Mapping[str, object], partial: bool = False, rename: Mapping[str, str] | None = None) -> LoadReport:
        """Take every parameter and buffer from `state`: NumPy arrays, PyTorch's CPU tensors, whatever has `__array__`.

        rename: names in `state`, or what they begin with up to a point, to names here. partial: take the names that both have, and leave
        the others as they are; the report says which these are. Raises CheckpointError R1303 of kind "missing", "unexpected", "shape" or
        "dtype", and then nothing has changed; in a partial load "missing" where no name matches.
        """
        if not isinstance(state, Mapping):
            raise ArgumentError("R1004", f"load_state_dict: expected a mapping of names to arrays, got {type(state).__name__}")
        where, renaming = self.layout.model_name, Renaming(rename)
        renamed = renaming.keys(where, state)
        renaming.check_used(where)
        if partial:
            arrays, report = partial_arrays(where, self.layout, renamed)
        else:
            arrays, report = fitting_arrays(where, self.layout, renamed), LoadReport(self.layout.names)
        self.take(arrays)
        return report

    def take(self, arrays: Mapping[str, Array]) -> None:
        """Copy checked arrays in; some of them may be views of this model."""
        apart = {name: array.copy() if np.may_share_memory(array, self.buffer) else array for name, array in arrays.items()}
        for name, array in apart.items():
            np.copyto(self.layout.view(self.buffer, name), array)

    def copy(self) -> Model:
        twin = Model(self.layout)
        np.copyto(twin.buffer, self.buffer)
        return twin

    def __copy__(self) -> Model:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, object]) -> Model:
        return self.copy()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self.layout.model_name} can't be pickled; save it with shapescript.save_checkpoint, or send its state_dict()")

    def __repr__(self) -> str:
        count = sum(leaf.count for leaf in self.layout if leaf.kind == "parameter")
        return _table(f"{self.layout.model_name}, {count} parameters", list(self.layout))


def initialise(layout: Layout, seed: int) -> Model:
    """A model at its start. A parameter's numbers depend on the seed and its dotted name alone (exactness, rule 6).

    Raises ArgumentError R1004 unless seed is an int from 0 to 2**63-1, and for an initialiser's numbers that can't be, such as
    a uniform start whose bounds are in the wrong order.
    """
    checked = checked_seed("seed", seed)
    model = Model(layout)
    for leaf in layout:
        try:
            np.copyto(layout.view(model.buffer, leaf.name), start_array(leaf, checked))
        except ValueError as error:
            raise ArgumentValueError("R1004", f"{layout.model_name}.{leaf.name}: it can't start with {error}") from error
    return model


def check_buffer(layout: Layout, buffer: Bytes) -> None:
    """Raise ValueError unless native code can use the buffer for this layout."""
    fits = buffer.dtype == np.uint8 and buffer.shape == (layout.nbytes,) and buffer.flags.c_contiguous and buffer.flags.writeable
    if not fits or (layout.nbytes and address_of(buffer) % ALIGNMENT):
        raise ValueError(f"{layout.model_name} needs a writable buffer of {layout.nbytes} bytes at a multiple of {ALIGNMENT}")


def _child(root: Model, path: str, branch: Tree | str) -> Any:
    if isinstance(branch, str):
        return root[branch]
    if all(name.isdecimal() for name in branch):
        return SubModels(root, path, branch)
    return SubModel(root, path, branch)


def _set(target: object, **slots: object) -> None:
    """Fill slots of an object whose own `__setattr__` sets parameters."""
    for name, value in slots.items():
        object.__setattr__(target, name, value)


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _table(title: str, leaves: list[Leaf]) -> str:
    return "\n    ".join([f"<{title}", *(str(leaf) for leaf in leaves)]) + ">"
