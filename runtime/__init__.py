"""What programs use while they run: parameters, optimisers, modes, datasets, sinks, checkpoints.

Names are loaded when they are first used, so that whoever needs only the errors loads only these.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_PLACES = {
    "batches": ("Batches",),
    "checkpoint": ("load_checkpoint", "save_checkpoint"),
    "csv_sink": ("CsvSink", "csv"),
    "data_files": ("load_file", "load_files"),
    "dataset": ("Dataset",),
    "entries": ("Tensor",),
    "errors": (
        "ArgumentError",
        "CheckpointError",
        "CheckpointMissing",
        "CheckpointUnwritable",
        "DataError",
        "DataFileMissing",
        "DataRowError",
        "LogError",
        "PackageMissing",
        "ShapeScriptError",
    ),
    "groups": ("Groups", "Treatment"),
    "jsonl": ("JsonLinesSink",),
    "latest": ("latest_checkpoint",),
    "layout": ("Layout", "Leaf", "Start"),
    "mode": ("Eval", "Mode", "Train"),
    "model": ("Model", "initialise"),
    "npz": ("find_data_file", "load_npz"),
    "optimiser": ("Adam", "AdamW", "Optimiser", "Sgd"),
    "orders": ("Ordered",),
    "read_log": ("Log",),
    "record": ("Batch", "Field", "RecordType"),
    "sinks": ("LogRecord", "LogSink", "MemorySink"),
    "tee_sink": ("TeeSink", "tee"),
    "tensorboard_sink": ("TensorBoardSink", "tensorboard"),
    "texts": ("load_bytes", "load_lines", "load_text"),
    "vocabulary": ("ByteVocabulary", "Vocabulary"),
}
_HOMES = {name: home for home, names in _PLACES.items() for name in names}

__all__ = sorted(_HOMES)  # noqa: PLE0605  # the names above


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
