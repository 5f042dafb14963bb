"""The language's `load`: what stands at a name decides what is done with the entry, and all fits or nothing changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from shapescript.runtime.arrays import (
    NUMPY_DTYPES,
    Array,
    ElementType,
    aligned_copy,
    axes_text,
    dtype_mismatch,
    dtype_name,
    shape_mismatch,
)
from shapescript.runtime.checkpoint import Checkpoint, PathLike, read_checkpoint
from shapescript.runtime.dataset import Dataset
from shapescript.runtime.entries import Tensor, encode_dataset, encode_entry, encode_mode
from shapescript.runtime.errors import ArgumentError, CheckpointError, CheckpointErrorKind, did_you_mean
from shapescript.runtime.host_numbers import LARGEST_INT, SMALLEST_INT
from shapescript.runtime.layout import Layout, Leaf
from shapescript.runtime.mode import Mode, Train
from shapescript.runtime.model import Model
from shapescript.runtime.optimiser import Optimiser
from shapescript.runtime.sinks import LogSink
from shapescript.runtime.state import check_axes, fitting_arrays
from shapescript.runtime.torch_optimisers import from_torch, is_torch_state
from shapescript.runtime.trees import article, kind_of, mode_text, same_tree, value_text


@dataclass(frozen=True)
class ModelType:
    """Ask for a new model of this layout."""

    layout: Layout


@dataclass(frozen=True)
class OptimiserType:
    """Ask for a new state of this kind over models of this layout."""

    kind: type[Optimiser]
    layout: Layout


@dataclass(frozen=True)
class ScalarType:
    """Ask for a host scalar."""

    name: Literal["int", "float", "bool", "str"]


@dataclass(frozen=True)
class TensorType:
    """Ask for a tensor with these axes."""

    dtype: ElementType
    axes: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()


RequestType = ModelType | OptimiserType | ScalarType | TensorType

# A RequestType asks for a result. A Mode or a LogSink is restored in place, a Dataset is compared; any other value must equal
# what was saved.
Request = object


@dataclass
class _Plan:
    """What will be done when everything fits: results in the order of the requests, sinks first since a disk may refuse."""

    results: list[Any] = field(default_factory=list)
    sinks: list[Callable[[], None]] = field(default_factory=list)
    modes: list[Callable[[], None]] = field(default_factory=list)


def restore(path: PathLike, requests: Mapping[str, Request]) -> list[Any]:
    """The results of the types among the requests, in their order; handles are restored, values compared.

    Everything is checked before anything changes. A file that is one `state_dict` of PyTorch's answers a request for one model,
    under whatever name. Raises what `read_checkpoint` does; CheckpointError R1303 of kind "missing", "unexpected", "shape",
    "dtype", "optimiser" or "value", naming the entry; LogError R1401.
    """
    checkpoint = read_checkpoint(path)
    plan = _Plan()
    for name, request in requests.items():
        _Check(checkpoint, name, _entry(checkpoint, name, requests)).plan(request, plan)
    for act in (*plan.sinks, *plan.modes):
        act()
    return plan.results


def _entry(checkpoint: Checkpoint, name: str, requests: Mapping[str, Request]) -> Any:
    if name in checkpoint.entries:
        return checkpoint.entries[name]
    only_tensors = checkpoint.entries and all(isinstance(value, np.ndarray) for value in checkpoint.entries.values())
    if only_tensors and not checkpoint.facts and len(requests) == 1 and isinstance(requests[name], ModelType):
        return checkpoint.entries
    saved = ", ".join(checkpoint.entries) or "nothing"
    message = f"{checkpoint.path}: the checkpoint has no entry {name!r}; it holds {saved}{did_you_mean(name, checkpoint.entries)}"
    raise CheckpointError("R1303", message, kind="missing", name=name, expected=name, found=tuple(checkpoint.entries))


class _Check:
    """One request against its entry."""

    def __init__(self, checkpoint: Checkpoint, name: str, entry: Any) -> None:
        self._checkpoint, self._name, self._entry = checkpoint, name, entry
        self._where = f"{checkpoint.path}: {name}"

    def plan(self, request: Request, plan: _Plan) -> None:
        match request:
            case ModelType(layout):
                plan.results.append(self._model(layout))
            case OptimiserType(kind, layout):
                plan.results.append(self._optimiser(kind, layout))
            case ScalarType(kind):
                plan.results.append(self._scalar(kind))
            case TensorType():
                plan.results.append(self._tensor(request))
            case LogSink():
                plan.sinks.append(self._sink(request))
            case Mode():
                plan.modes.append(self._mode(request))
            case Dataset():
                self._compare(encode_dataset(request), "the dataset isn't the one that the checkpoint was saved with")
            case Tensor(array, axes):
                self._compare(encode_entry(self._name, array)[0], "the tensor isn't the saved one")
                check_axes(self._where, self._name, axes, self._checkpoint.tensor_axes(self._name))
            case _:
                self._compare(encode_entry(self._name, request)[0], "the value isn't the saved one")

    def _misfit(self, kind: CheckpointErrorKind, expected: object, found: object, message: str) -> CheckpointError:
        return CheckpointError("R1303", f"{self._where}: {message}", kind=kind, name=self._name, expected=expected, found=found)

    def _damaged(self, what: str) -> CheckpointError:
        return CheckpointError("R1302", f"{self._where}: {what} isn't what was saved", kind="corrupt", name=self._name)

    def _model(self, layout: Layout) -> Model:
        if not isinstance(self._entry, Mapping):
            found = kind_of(self._entry)
            raise self._misfit("dtype", layout.model_name, found, f"expected the model {layout.model_name}, the checkpoint has {found}")
        model = Model(layout)
        model.take(fitting_arrays(self._where, layout, self._entry, self._checkpoint.axes(self._name)))
        return model

    def _optimiser(self, kind: type[Optimiser], layout: Layout) -> Optimiser:
        """A file that an earlier release saved lacks the flags that the kind had not yet: they are off."""
        entry, name = self._entry, kind.kind.name
        if is_torch_state(entry):
            return from_torch(self._where, kind, layout, entry)
        if kind_of(entry) != name:
            found = kind_of(entry)
            raise self._misfit("optimiser", name, found, f"expected a state of {name}, the checkpoint has {found}")
        flags = {constant.name: False for constant in kind.kind.constants if constant.is_flag}
        options = {option: entry[option] for option in self._parts(kind.option_names, but=flags)}
        try:
            state = kind.over(layout, {**flags, **options})
            (step,) = self._parts(["step"])
            state.step = entry[step]
        except ArgumentError as error:
            raise self._damaged(error.message) from error
        leaves = [leaf for leaf in layout.slots if leaf.differentiable]
        slots = [(state.slot(slot), self._moments(slot, leaves)) for slot in self._parts(state.slot_names)]
        for buffer, arrays in slots:
            for leaf, array in arrays.items():
                np.copyto(layout.slots.view(buffer, leaf), array)
        return state

    def _parts(self, names: Iterable[str], but: Collection[str] = ()) -> list[str]:
        """Those of the names that the saved state has; it must have all but some."""
        for name in names:
            if name not in self._entry and name not in but:
                message, found = f"{self._where}: the saved state has no {name!r}", tuple(self._entry)
                raise CheckpointError("R1303", message, kind="missing", name=f"{self._name}.{name}", expected=name, found=found)
        return [name for name in names if name in self._entry]

    def _moments(self, which: str, leaves: list[Leaf]) -> dict[str, Array]:
        saved = self._entry[which]
        if not isinstance(saved, dict):
            raise self._damaged(f"{which!r}")
        return fitting_arrays(f"{self._where}.{which}", leaves, saved, self._checkpoint.axes(self._name))

    def _scalar(self, kind: str) -> Any:
        found = kind_of(self._entry)
        if found != kind:
            raise self._misfit("dtype", kind, found, f"expected {article(kind)}, the checkpoint has {article(found)}")
        if kind == "int" and not SMALLEST_INT <= self._entry <= LARGEST_INT:
            raise self._misfit("value", kind, self._entry, f"expected an int that fits in 64 bits, the checkpoint has {self._entry}")
        return self._entry

    def _tensor(self, wanted: TensorType) -> Array:
        array = self._entry
        if not isinstance(array, np.ndarray):
            found = kind_of(array)
            raise self._misfit("dtype", wanted.dtype, found, f"expected a tensor {axes_text(wanted.axes)}, the checkpoint has {found}")
        if array.shape != wanted.shape:
            raise self._misfit("shape", wanted.shape, array.shape, shape_mismatch(array.shape, wanted.axes, wanted.shape))
        dtype = NUMPY_DTYPES[wanted.dtype]
        if array.dtype != dtype:
            raise self._misfit("dtype", dtype_name(dtype), dtype_name(array.dtype), dtype_mismatch(array, dtype))
        check_axes(self._where, self._name, wanted.axes, self._checkpoint.tensor_axes(self._name))
        return aligned_copy(array)

    def _sink(self, sink: LogSink) -> Callable[[], None]:
        position = self._entry
        if not isinstance(position, dict):
            found = kind_of(position)
            raise self._misfit("value", sink.kind, found, f"expected the position of a sink, the checkpoint has {found}")
        try:
            sink.check_restore(position)
        except CheckpointError as error:
            raise CheckpointError(
                error.code, f"{self._where}: {error.message}", kind=error.kind, name=self._name, expected=error.expected, found=error.found
            ) from error
        return lambda: sink.restore(position)

    def _mode(self, mode: Mode) -> Callable[[], None]:
        wanted, found = encode_mode(mode), self._entry
        if kind_of(found) != wanted["kind"] or not same_tree(wanted.get("seed"), found.get("seed")):
            shown = mode_text(found)
            raise self._misfit("value", repr(mode), shown, f"the mode is {mode_text(wanted)}, the checkpoint was saved with {shown}")
        if not isinstance(mode, Train):
            return lambda: None
        draws = found.get("draws")
        if type(draws) is not int or not 0 <= draws <= LARGEST_INT:
            raise self._damaged("the number of draws")

        def move() -> None:
            mode.draws = draws

        return move

    def _compare(self, wanted: Any, message: str) -> None:
        if not same_tree(wanted, self._entry):
            expected, found = value_text(wanted), value_text(self._entry)
            detail = f": expected {expected}, the checkpoint has {found}" if expected != found else ", though of the same kind"
            raise self._misfit("value", wanted, self._entry, message + detail)
