"""One request of a load against its entry: what it gives, or why it doesn't fit. Nothing is changed here."""

from __future__ import annotations

from typing import Any

import numpy as np

from shapescript.runtime.arrays import NUMPY_DTYPES, Array, aligned_copy, axes_text, dtype_mismatch, dtype_name, shape_mismatch
from shapescript.runtime.checkpoint import Checkpoint
from shapescript.runtime.dataset import Dataset
from shapescript.runtime.entries import Tensor, encode_dataset, encode_entry, encode_mode
from shapescript.runtime.errors import CheckpointError, CheckpointErrorKind
from shapescript.runtime.host_numbers import LARGEST_INT, SMALLEST_INT
from shapescript.runtime.mode import Mode, Train
from shapescript.runtime.model import Model
from shapescript.runtime.optimiser import Optimiser
from shapescript.runtime.renaming import Renaming
from shapescript.runtime.requests import ModelType, OptimiserType, Request, ScalarType, Start, TensorType
from shapescript.runtime.restoring_parameters import Entry, Plan
from shapescript.runtime.sinks import LogSink
from shapescript.runtime.state import check_axes
from shapescript.runtime.trees import article, kind_of, mode_text, same_form, same_tree, value_text


class Check(Entry):
    """A request, whose entry has been renamed where that is asked for."""

    def __init__(self, checkpoint: Checkpoint, name: str, entry: Any, renaming: Renaming, request: Request) -> None:
        """Raises CheckpointError R1303 where two parameters end up with one name."""
        super().__init__(checkpoint, name, entry)
        self.request = request
        if isinstance(request, ModelType | OptimiserType | Start | Model | Optimiser):
            self.rename(renaming)

    def add_to(self, plan: Plan) -> None:
        """Adds what the request asks for. Raises CheckpointError R1302, R1303; LogError R1401."""
        self.plan, request = plan, self.request
        match request:
            case ModelType(layout):
                self.plan.results.append(self.model(layout))
            case OptimiserType(kind, layout):
                self.plan.results.append(self.optimiser(kind, layout))
            case Start(Model() as model):
                self.plan.results.append(self.part_of_model(model))
            case Start(Optimiser() as state):
                self.plan.results.append(self.part_of_optimiser(state))
            case ScalarType(kind):
                self.plan.results.append(self._scalar(kind))
            case TensorType():
                self.plan.results.append(self._tensor(request))
            case LogSink():
                self._sink(request)
            case Mode():
                self._mode(request)
            case Dataset():
                self._compare(encode_dataset(request), "the dataset isn't the one that the checkpoint was saved with")
            case Tensor(array, axes):
                self._compare(encode_entry(self.name, array)[0], "the tensor isn't the saved one")
                check_axes(self.where, self.name, axes, self.tensor_axes)
            case _:
                self._compare(encode_entry(self.name, request)[0], "the value isn't the saved one")

    def _differs(self, expected: object, found: object, texts: tuple[str, str], message: str) -> None:
        """A value, or a fact of a handle, that isn't the saved one: told where it is forced, else refused."""
        wanted, saved = texts
        both = f"{saved} in the checkpoint, {wanted} in the program"
        if not self.plan.force:
            raise self.misfit("value", expected, found, f"{message}: {both}; `force=true` goes on with the program's")
        self.plan.forced.append(f"{self.name}: {both}")

    # ---- numbers and tensors

    def _scalar(self, kind: str) -> Any:
        found = kind_of(self.entry)
        if found != kind:
            raise self.misfit("dtype", kind, found, f"expected {article(kind)}, the checkpoint has {article(found)}")
        if kind == "int" and not SMALLEST_INT <= self.entry <= LARGEST_INT:
            raise self.misfit("value", kind, self.entry, f"expected an int that fits in 64 bits, the checkpoint has {self.entry}")
        return self.entry

    def _tensor(self, wanted: TensorType) -> Array:
        array = self.entry
        if not isinstance(array, np.ndarray):
            found = kind_of(array)
            raise self.misfit("dtype", wanted.dtype, found, f"expected a tensor {axes_text(wanted.axes)}, the checkpoint has {found}")
        if array.shape != wanted.shape:
            raise self.misfit("shape", wanted.shape, array.shape, shape_mismatch(array.shape, wanted.axes, wanted.shape))
        dtype = NUMPY_DTYPES[wanted.dtype]
        if array.dtype != dtype:
            raise self.misfit("dtype", dtype_name(dtype), dtype_name(array.dtype), dtype_mismatch(array, dtype))
        check_axes(self.where, self.name, wanted.axes, self.tensor_axes)
        return aligned_copy(array)

    def _compare(self, wanted: Any, message: str) -> None:
        """Another value may be forced, not another kind of value or another shape."""
        if same_tree(wanted, self.entry):
            return
        texts = value_text(wanted), value_text(self.entry)
        if self.plan.force and not same_form(wanted, self.entry):
            both = f"{texts[1]} in the checkpoint, {texts[0]} in the program"
            kind: CheckpointErrorKind = "shape" if isinstance(wanted, np.ndarray) and isinstance(self.entry, np.ndarray) else "dtype"
            raise self.misfit(kind, wanted, self.entry, f"{message}, and `force=true` takes no other kind of value or shape: {both}")
        self._differs(wanted, self.entry, texts, message)

    # ---- handles

    def _sink(self, sink: LogSink) -> None:
        """A log that isn't the saved one is left as it is where that is forced: it isn't cut back, and goes on as any new one does."""
        position = self.entry
        if not isinstance(position, dict):
            found = kind_of(position)
            raise self.misfit("value", sink.kind, found, f"expected the position of a sink, the checkpoint has {found}")
        try:
            sink.check_restore(position)
        except CheckpointError as error:
            if self.plan.force and error.kind == "value":
                self.plan.forced.append(f"{self.name}: {error.message}")
                return
            hint = "; `force=true` goes on with the program's" if error.kind == "value" else ""
            raise CheckpointError(
                error.code,
                f"{self.where}: {error.message}{hint}",
                kind=error.kind,
                name=self.name,
                expected=error.expected,
                found=error.found,
            ) from error
        self.plan.sinks.append(lambda: sink.restore(position))

    def _mode(self, mode: Mode) -> None:
        """A mode with another seed that is forced goes on at the saved draw of its own stream."""
        wanted, found = encode_mode(mode), self.entry
        is_same = kind_of(found) == wanted["kind"] and same_tree(wanted.get("seed"), found.get("seed"))
        if not is_same:
            if kind_of(found) not in ("Train", "Eval") and self.plan.force:
                raise self.misfit("dtype", repr(mode), kind_of(found), f"expected a mode, the checkpoint has {kind_of(found)}")
            saved = mode_text(found)
            self._differs(repr(mode), saved, (mode_text(wanted), saved), "the mode isn't the saved one")
        if not isinstance(mode, Train) or kind_of(found) != "Train":
            return
        draws = found.get("draws")
        if type(draws) is not int or not 0 <= draws <= LARGEST_INT:
            raise self.damaged("the number of draws")

        def move() -> None:
            mode.draws = draws

        self.plan.modes.append(move)
