"""The parameters of an entry: renamed, and as a model or an optimiser's state, whole or in part."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import field
from typing import Any

import numpy as np

from shapescript.compiler.records.dataclass import dataclass
from shapescript.runtime.arrays import Array
from shapescript.runtime.checkpoint import Checkpoint
from shapescript.runtime.errors import ArgumentError, CheckpointError, CheckpointErrorKind
from shapescript.runtime.layout import Layout
from shapescript.runtime.model import Model
from shapescript.runtime.optimiser import Optimiser
from shapescript.runtime.partial import LoadReport, nothing_matches, partial_arrays
from shapescript.runtime.renaming import Renaming
from shapescript.runtime.state import fitting_arrays
from shapescript.runtime.torch_optimisers import from_torch, is_torch_state, remembered_in_torch
from shapescript.runtime.trees import kind_of, same_tree, shown


@dataclass
class Plan:
    """What will be done when everything fits: results in the order of the requests, sinks first since a disk may refuse.

    `forced` are the differences that `force=true` passes over, `kept` what a start didn't take of the file.
    """

    force: bool = False
    results: list[Any] = field(default_factory=list)
    sinks: list[Callable[[], None]] = field(default_factory=list)
    modes: list[Callable[[], None]] = field(default_factory=list)
    reports: dict[str, LoadReport] = field(default_factory=dict)
    forced: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)


class Entry:
    """One name of a load: what the file has there, and where what it gives is planned."""

    plan: Plan

    def __init__(self, checkpoint: Checkpoint, name: str, entry: Any) -> None:
        self.name = name
        self.where = f"{checkpoint.path}: {name}"
        self.entry, self.axes = entry, checkpoint.axes(name)
        self.tensor_axes = checkpoint.tensor_axes(name)

    def misfit(self, kind: CheckpointErrorKind, expected: object, found: object, message: str) -> CheckpointError:
        return CheckpointError("R1303", f"{self.where}: {message}", kind=kind, name=self.name, expected=expected, found=found)

    def damaged(self, what: str) -> CheckpointError:
        return CheckpointError("R1302", f"{self.where}: {what} isn't what was saved", kind="corrupt", name=self.name)

    # ---- names of parameters

    def rename(self, renaming: Renaming) -> None:
        """The entry of a model or an optimiser as if it had been saved under the program's names."""
        if not renaming or not isinstance(self.entry, Mapping):
            return
        keys, where = renaming.keys, self.where
        if is_torch_state(self.entry):
            self.entry = {**self.entry, "param_groups": self._renamed_groups(self.entry["param_groups"], renaming)}
        elif isinstance(self.entry.get("kind"), str):
            self.entry = {key: keys(where, part) if isinstance(part, Mapping) else part for key, part in self.entry.items()}
        else:
            self.entry = keys(where, self.entry)
        self.axes = keys(where, self.axes)

    def _renamed_groups(self, groups: Any, renaming: Renaming) -> Any:
        """PyTorch's groups with their parameters' names; what has none stays, and is refused where it is read."""
        if not isinstance(groups, list) or not all(isinstance(group, Mapping) for group in groups):
            return groups
        named = [group.get("param_names") for group in groups]
        lists = [names for names in named if isinstance(names, list) and all(isinstance(name, str) for name in names)]
        new = renaming.keys(self.where, {name: name for names in lists for name in names})
        called = {old: name for name, old in new.items()}
        return [
            {**group, "param_names": [called[name] for name in names]} if any(names is known for known in lists) else group
            for group, names in zip(groups, named, strict=True)
        ]

    # ---- models

    def _state_dict(self, layout: Layout) -> Mapping[str, Any]:
        if not isinstance(self.entry, Mapping) or isinstance(self.entry.get("kind"), str):
            found = kind_of(self.entry)
            raise self.misfit("dtype", layout.model_name, found, f"expected the model {layout.model_name}, the checkpoint has {found}")
        return self.entry

    def model(self, layout: Layout) -> Model:
        model = Model(layout)
        model.take(fitting_arrays(self.where, layout, self._state_dict(layout), self.axes))
        return model

    def part_of_model(self, start: Model) -> Model:
        arrays, self.plan.reports[self.name] = partial_arrays(self.where, start.layout, self._state_dict(start.layout), self.axes)
        model = start.copy()
        model.take(arrays)
        return model

    # ---- optimisers

    def _check_kind(self, kind: type[Optimiser]) -> None:
        name, found = kind.kind.name, kind_of(self.entry)
        if found != name:
            raise self.misfit("optimiser", name, found, f"expected a state of {name}, the checkpoint has {found}")

    def optimiser(self, kind: type[Optimiser], layout: Layout) -> Optimiser:
        """A file that an earlier release saved lacks the flags that the kind had not yet: they are off."""
        if is_torch_state(self.entry):
            return from_torch(self.where, kind, layout, self.entry)
        self._check_kind(kind)
        flags = {constant.name: False for constant in kind.kind.constants if constant.is_flag}
        options = {option: self.entry[option] for option in self._parts(kind.option_names, but=flags)}
        try:
            state = kind.over(layout, {**flags, **options})
            (step,) = self._parts(["step"])
            state.step = self.entry[step]
        except ArgumentError as error:
            raise self.damaged(error.message) from error
        leaves = [leaf for leaf in layout.slots if leaf.differentiable]
        slots = [
            (slot, fitting_arrays(f"{self.where}.{slot}", leaves, self._slot(slot), self.axes)) for slot in self._parts(state.slot_names)
        ]
        _fill(state, dict(slots))
        return state

    def part_of_optimiser(self, start: Optimiser) -> Optimiser:
        """The number of updates and what is remembered of the matching parameters are the file's, the constants are the start's."""
        kind, layout, state = type(start), start.layout, start.copy()
        if is_torch_state(self.entry):
            step, slots = remembered_in_torch(self.where, kind, layout, self.entry)
        else:
            self._check_kind(kind)
            (name,) = self._parts(["step"])
            step, slots = self.entry[name], {slot: dict(self._slot(slot)) for slot in self._parts(state.slot_names)}
            for option, own in start.options.items():
                found = self.entry.get(option, own)
                if not same_tree(own, found):
                    self.plan.kept.append(f"{self.name}: {option} is {shown(found)} in the checkpoint and stays {shown(own)}")
        try:
            state.step = step
        except ArgumentError as error:
            raise self.damaged(error.message) from error
        leaves = [leaf for leaf in layout.slots if leaf.differentiable]
        remembered = {name: None for slot in state.slot_names for name in slots[slot]}
        known = {leaf.name for leaf in leaves}
        report = LoadReport(
            tuple(leaf.name for leaf in leaves if leaf.name in remembered),
            tuple(leaf.name for leaf in leaves if leaf.name not in remembered),
            tuple(str(name) for name in remembered if name not in known),
        )
        if not state.slot_names:
            report = LoadReport(())
        elif not report.loaded and (step or report.unexpected):
            raise nothing_matches(self.where, report)
        taken = [leaf for leaf in leaves if leaf.name in remembered]
        found_in = {slot: {name: array for name, array in slots[slot].items() if name in known} for slot in state.slot_names}
        _fill(state, {slot: fitting_arrays(f"{self.where}.{slot}", taken, found_in[slot], self.axes) for slot in state.slot_names})
        self.plan.reports[self.name] = report
        return state

    def _parts(self, names: Iterable[str], but: Collection[str] = ()) -> list[str]:
        """Those of the names that the saved state has; it must have all but some."""
        for name in names:
            if name not in self.entry and name not in but:
                message, found = f"{self.where}: the saved state has no {name!r}", tuple(self.entry)
                raise CheckpointError("R1303", message, kind="missing", name=f"{self.name}.{name}", expected=name, found=found)
        return [name for name in names if name in self.entry]

    def _slot(self, which: str) -> Mapping[str, Any]:
        saved = self.entry[which]
        if not isinstance(saved, dict):
            raise self.damaged(f"{which!r}")
        return saved


def _fill(state: Optimiser, slots: Mapping[str, Mapping[str, Array]]) -> None:
    layout = state.layout.slots
    for slot, arrays in slots.items():
        for name, array in arrays.items():
            np.copyto(layout.view(state.slot(slot), name), array)
