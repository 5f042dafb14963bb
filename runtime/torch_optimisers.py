"""States of optimisers in the form of `torch.optim`'s `state_dict`, which knows parameters by their places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np

from shapescript.compiler.records.dataclass import dataclass
from shapescript.runtime.arrays import Array, usable_array
from shapescript.runtime.errors import ArgumentError, CheckpointError, CheckpointErrorKind, did_you_mean
from shapescript.runtime.host_numbers import checked_int
from shapescript.runtime.layout import Layout, Leaf
from shapescript.runtime.state import fitting_arrays

if TYPE_CHECKING:
    from shapescript.runtime.optimiser import Optimiser

    State = TypeVar("State", bound=Optimiser)

SLOTS = {"first": "exp_avg", "second": "exp_avg_sq", "largest": "max_exp_avg_sq", "velocity": "momentum_buffer"}
DECAY = "weight_decay"
OPTIONS = {
    "Sgd": {"momentum": "momentum", "nesterov": "nesterov", "dampening": "dampening"},
    "Adam": {"betas": "betas", "eps": "eps", "amsgrad": "amsgrad"},
    "AdamW": {"betas": "betas", "eps": "eps", "amsgrad": "amsgrad"},
}
DECOUPLED = "decoupled_weight_decay"  # which of PyTorch's Adam and AdamW a group is of
ALWAYS = {"maximize": False, "foreach": None, "differentiable": False, "fused": None}  # what PyTorch's groups have beside


def to_torch(state: Optimiser, names: Sequence[str] | None, lr: float) -> dict[str, Any]:
    """A group of PyTorch's for each treatment, in the order in which the names first have it; frozen parameters aren't in it."""
    leaves = {leaf.name: leaf for leaf in state.layout if leaf.differentiable}
    ordered = list(leaves) if names is None else _ordered(state, names, leaves)
    sorts: dict[tuple[bool, float], list[str]] = {}
    for name in ordered:
        treatment = leaves[name].treatment
        sorts.setdefault((treatment.decay, treatment.rate), []).append(name)
    options, kind = state.options, state.kind.name
    told = {theirs: options[ours] for ours, theirs in OPTIONS[kind].items()}
    told.update({**ALWAYS, "step": state.step} if kind == "Sgd" else {**ALWAYS, "capturable": False, DECOUPLED: kind == "AdamW"})
    groups: list[dict[str, Any]] = []
    entries: dict[int, dict[str, Array]] = {}
    for (has_decay, rate), members in sorts.items():
        places = list(range(len(entries), len(entries) + len(members)))
        group = {"lr": lr * rate, DECAY: options["decay"] if has_decay else 0.0, **told}
        groups.append({**group, "params": places, "param_names": members})
        entries.update({place: _entry(state, name) for place, name in zip(places, members, strict=True)})
    return {"state": {place: entry for place, entry in entries.items() if entry and state.step}, "param_groups": groups}


def _ordered(state: Optimiser, names: Sequence[str], leaves: Mapping[str, Leaf]) -> list[str]:
    given, known = list(names), set(names)
    unknown = [name for name in given if name not in state.layout]
    missing = [name for name in leaves if name not in known]
    if unknown or missing or len(known) < len(given):
        what = f"no parameter {unknown[0]!r}{did_you_mean(unknown[0], leaves)}" if unknown else ""
        what = what or (f"{missing[0]!r} isn't among the names" if missing else "a name stands twice")
        raise ArgumentError("R1005", f"state_dict of {state.layout.model_name}: {what}")
    return [name for name in given if name in leaves]


def _entry(state: Optimiser, name: str) -> dict[str, Array]:
    entry = {SLOTS[slot]: state.moment(slot, name).copy() for slot in state.slot_names}
    return entry if state.kind.name == "Sgd" else {"step": np.array(state.step, np.float32), **entry}


# ---- the other way


def is_torch_state(entry: object) -> bool:
    return isinstance(entry, Mapping) and "param_groups" in entry and "state" in entry


def from_torch(where: str, kind: type[State], layout: Layout, state: Mapping[str, Any], names: Sequence[str] | None = None) -> State:
    """A state of this kind. Raises CheckpointError R1303 of kind "optimiser", "missing", "unexpected", "shape", "dtype" or "value"."""
    reader = _Reader(where, kind, layout)
    loaded = reader.state_of(list(reader.parameters(state, names)))
    assert isinstance(loaded, kind)
    return loaded


def remembered_in_torch(
    where: str, kind: type[Optimiser], layout: Layout, state: Mapping[str, Any]
) -> tuple[int, dict[str, dict[str, Any]]]:
    """The updates done, and for each of the kind's slots what it holds by the parameters' names; those that the layout lacks too.

    Raises CheckpointError R1303 as `from_torch` does, but for names that are missing or unexpected.
    """
    reader = _Reader(where, kind, layout)
    found = list(reader.parameters(state, None))
    slots = {
        slot.name: {one.name: one.entry[SLOTS[slot.name]] for one in found if SLOTS[slot.name] in one.entry} for slot in kind.kind.slots
    }
    return reader.shared_step(found), slots


@dataclass(frozen=True)
class _Parameter:
    """One of PyTorch's: its name, the constants of its group, what is remembered of it, the updates done."""

    name: str
    constants: Mapping[str, float]
    entry: Mapping[str, Any]
    step: int


class _Reader:
    def __init__(self, where: str, kind: type[Optimiser], layout: Layout) -> None:
        self.where, self.kind, self.name, self.layout = where, kind, kind.kind.name, layout
        self.leaves = {leaf.name: leaf for leaf in layout if leaf.differentiable}
        self.slots = [SLOTS[slot.name] for slot in kind.kind.slots]

    def _fail(self, kind: CheckpointErrorKind, message: str, name: str | None = None) -> NoReturn:
        raise CheckpointError("R1303", f"{self.where}: {message}", kind=kind, name=name)

    def _expect(self, holds: bool, name: str | None = None) -> None:
        if not holds:
            self._fail("optimiser", f"expected a state of {self.name}, this is one of another kind, or damaged", name)

    # ---- what PyTorch says of each parameter

    def parameters(self, state: Mapping[str, Any], names: Sequence[str] | None) -> Iterator[_Parameter]:
        """Those that are trained here, and those that the layout doesn't know."""
        self._expect(is_torch_state(state) and isinstance(state["param_groups"], list) and isinstance(state["state"], Mapping))
        left = None if names is None else list(names)
        for group in state["param_groups"]:
            self._expect(isinstance(group, Mapping) and isinstance(group.get("params"), list))
            constants, places = self._constants(group), group["params"]
            here = group.get("param_names") if left is None else left[: len(places)]
            left = None if left is None else left[len(places) :]
            if here is None:
                text = (
                    "PyTorch's optimisers name their state by position: make them with named_parameters(), or give the names in its order"
                )
                self._fail("optimiser", text)
            self._expect(isinstance(here, list) and all(isinstance(name, str) for name in here) and all(type(one) is int for one in places))
            if len(here) != len(places):
                self._fail("missing", f"a group of {len(places)} parameters has {len(here)} names")
            for place, name in zip(places, here, strict=True):
                entry = state["state"].get(place, {})
                self._expect(isinstance(entry, Mapping) and set(entry) <= {"step", *self.slots}, name)
                if name in self.leaves or name not in self.layout:
                    yield _Parameter(name, constants, entry, self._step(group, entry, name))
        if left:
            self._fail("unexpected", f"{len(left)} names more than parameters", left[0])

    def _constants(self, group: Mapping[str, Any]) -> dict[str, float]:
        self._expect(all(name in group for name in (DECAY, *OPTIONS[self.name].values())))
        self._expect(self.name == "Sgd" or group.get(DECOUPLED, self.name == "AdamW") is (self.name == "AdamW"))
        if group.get("maximize", False) is not False:
            self._fail("value", "the state is one that maximises: here a loss is made smaller")
        options = {ours: group[theirs] for ours, theirs in OPTIONS[self.name].items()}
        try:
            constants = self.kind.constants_of({**options, "decay": group[DECAY]})
        except ArgumentError as error:
            self._fail("value", error.message)
        return dict(zip((one.name for one in self.kind.kind.constants), constants, strict=True))

    def _step(self, group: Mapping[str, Any], entry: Mapping[str, Any], name: str) -> int:
        """PyTorch doesn't count for Sgd: what is remembered says then that there was an update."""
        remembers = entry.get(SLOTS["velocity"]) is not None
        found = group.get("step", int(remembers)) if self.name == "Sgd" else entry.get("step", 0)
        try:
            number = usable_array("step", found).item() if hasattr(type(found), "__array__") else found
            return checked_int("step", int(number) if isinstance(number, float) and number.is_integer() else number, 0)
        except (ArgumentError, ValueError):
            self._fail("value", f"{name}: the number of updates is none", name)

    # ---- all together

    def state_of(self, found: Sequence[_Parameter]) -> Optimiser:
        self._check_names([one.name for one in found])
        state = self.kind.with_constants(self.layout, list(self._shared_constants(found).values()))
        state.step = self.shared_step(found)
        remembered = [leaf for leaf in self.layout.slots if leaf.differentiable]
        for slot in state.slot_names if state.step else ():
            arrays = {one.name: one.entry[SLOTS[slot]] for one in found if SLOTS[slot] in one.entry}
            for name, array in fitting_arrays(f"{self.where}.{SLOTS[slot]}", remembered, arrays).items():
                np.copyto(self.layout.slots.view(state.slot(slot), name), array)
        return state

    def shared_step(self, found: Sequence[_Parameter]) -> int:
        steps = sorted({one.step for one in found})
        if len(steps) > 1:
            self._fail("value", f"some parameters have done {steps[0]} updates, others {steps[-1]}")
        return steps[0] if steps else 0

    def _check_names(self, found: Sequence[str]) -> None:
        known = set(found)
        missing, unexpected = [name for name in self.leaves if name not in known], [name for name in found if name not in self.leaves]
        parts = [f"missing {', '.join(missing[:5])}"] if missing else []
        parts += [f"unexpected {unexpected[0]}{did_you_mean(unexpected[0], self.leaves)}"] if unexpected else []
        if parts:
            self._fail("missing" if missing else "unexpected", "; ".join(parts), (missing or unexpected)[0])

    def _shared_constants(self, found: Sequence[_Parameter]) -> dict[str, float]:
        """Those of all groups, which must agree; a parameter that the model lets no decay be on must have none in PyTorch's."""
        decayed = (one.constants["decay"] for one in found if self.leaves[one.name].treatment.decay)
        shared = {constant.name: constant.default for constant in self.kind.kind.constants} if not found else dict(found[0].constants)
        shared["decay"] = next(decayed, 0.0)
        for one in found:
            wanted = {**shared, "decay": shared["decay"] if self.leaves[one.name].treatment.decay else 0.0}
            for name, value in one.constants.items():
                if value != wanted[name]:
                    self._fail("value", f"{one.name}: expected {name} {wanted[name]}, as other parameters have it, found {value}", one.name)
        return shared
