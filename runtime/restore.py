"""The language's `load`: what stands at a name decides what is done with the entry, and all fits or nothing changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from shapescript.runtime.checkpoint import Checkpoint, PathLike, read_checkpoint
from shapescript.runtime.errors import CheckpointError, did_you_mean
from shapescript.runtime.model import Model
from shapescript.runtime.notices import tell
from shapescript.runtime.partial import LoadReport
from shapescript.runtime.renaming import Renaming
from shapescript.runtime.requests import ModelType, OptimiserType, Request, RequestType, ScalarType, Start, TensorType
from shapescript.runtime.restoring import Check
from shapescript.runtime.restoring_parameters import Plan
from shapescript.runtime.sinks import LogSink

__all__ = ["ModelType", "OptimiserType", "Request", "RequestType", "Restored", "ScalarType", "Start", "TensorType", "restore"]


class Restored(list[Any]):
    """The results; `reports` says of each start among the requests, by name, what of it was loaded."""

    def __init__(self, results: list[Any], reports: dict[str, LoadReport]) -> None:
        super().__init__(results)
        self.reports = reports


def restore(
    path: PathLike,
    requests: Mapping[str, Request],
    *,
    rename: Mapping[str, str] | None = None,
    force: bool = False,
    program: str | None = None,
) -> Restored:
    """The results of the types and starts among the requests, in their order; handles are restored, values compared.

    rename: names of parameters in the file, or what they begin with, to those of the models and optimisers asked for. force: values
    that differ, and facts of handles, are told and not refused. program: the hash of the program that loads. Everything is checked
    before anything changes. A file that is one `state_dict` of PyTorch's answers a request for one model, under whatever name.

    Raises what `read_checkpoint` does; CheckpointError R1303 of kind "missing", "unexpected", "shape", "dtype", "optimiser" or
    "value", naming the entry; LogError R1401.
    """
    checkpoint, renaming, plan = read_checkpoint(path), Renaming(rename), Plan(force)
    checks = [Check(checkpoint, name, _entry(checkpoint, name, requests), renaming, request) for name, request in requests.items()]
    renaming.check_used(str(checkpoint.path))
    for check in checks:
        check.add_to(plan)
    for act in plan.sinks:
        act()
    for sink in (request for request in requests.values() if isinstance(request, LogSink)):
        for text in plan.forced:
            sink.note("forced", text)
    for act in plan.modes:
        act()
    _tell(checkpoint, plan, program)
    return Restored(plan.results, plan.reports)


def _tell(checkpoint: Checkpoint, plan: Plan, program: str | None) -> None:
    saved_by = checkpoint.facts.get("program")
    if program is not None and isinstance(saved_by, str) and saved_by != program:
        tell(f"{checkpoint.path}: another program has saved it, or this one before it was changed")
    for name, report in plan.reports.items():
        tell(f"{checkpoint.path}: {name}: {report}")
    for text in plan.kept:
        tell(f"{checkpoint.path}: {text}")
    for text in plan.forced:
        tell(f"{checkpoint.path}: forced: {text}")


def _entry(checkpoint: Checkpoint, name: str, requests: Mapping[str, Request]) -> Any:
    if name in checkpoint.entries:
        return checkpoint.entries[name]
    only_tensors = checkpoint.entries and all(isinstance(value, np.ndarray) for value in checkpoint.entries.values())
    if only_tensors and not checkpoint.facts and len(requests) == 1 and _is_model(requests[name]):
        return checkpoint.entries
    saved = ", ".join(checkpoint.entries) or "nothing"
    message = f"{checkpoint.path}: the checkpoint has no entry {name!r}; it holds {saved}{did_you_mean(name, checkpoint.entries)}"
    raise CheckpointError("R1303", message, kind="missing", name=name, expected=name, found=tuple(checkpoint.entries))


def _is_model(request: Request) -> bool:
    return isinstance(request, ModelType) or (isinstance(request, Start) and isinstance(request.value, Model))
