"""ShapeScript: tensor programs whose shapes have names, compiled to native code and driven from Python.

    program = shapescript.load("train_mlp.ss")
    m = program.Mlp(seed=1234)

Importing it makes `import train_mlp` find train_mlp.ss on `sys.path` too. Names are loaded when they are first used, so that
importing the package, checking a file and asking for help stay light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from shapescript import beginning as beginning
from shapescript.compiler.records.collection import paused_collection
from shapescript.importer import install

if TYPE_CHECKING:
    from shapescript import std
    from shapescript.checking import check
    from shapescript.compiler.diagnostics.model import CompileError, Diagnostic, InternalError
    from shapescript.profiling import Profile, profile
    from shapescript.program import Program, load
    from shapescript.runtime.bfloat16 import bfloat16
    from shapescript.runtime.checkpoint import load_checkpoint, save_checkpoint
    from shapescript.runtime.csv_sink import CsvSink, csv
    from shapescript.runtime.dataset import Dataset
    from shapescript.runtime.errors import (
        ArgumentError,
        CheckpointError,
        CheckpointMissing,
        CheckpointUnwritable,
        DataError,
        DataFileMissing,
        DataRowError,
        LogError,
        OutOfMemoryError,
        PackageMissing,
        ShapeScriptError,
    )
    from shapescript.runtime.inspection import inspect
    from shapescript.runtime.jsonl import JsonLinesSink, jsonl
    from shapescript.runtime.latest import latest_checkpoint
    from shapescript.runtime.mode import Eval, Mode, Train
    from shapescript.runtime.model import Model
    from shapescript.runtime.optimiser import Adam, AdamW, Sgd
    from shapescript.runtime.read_log import Log, read_log
    from shapescript.runtime.record import Batch
    from shapescript.runtime.sinks import LogRecord, LogSink, MemorySink
    from shapescript.runtime.tee_sink import TeeSink, tee
    from shapescript.runtime.tensorboard_sink import TensorBoardSink, tensorboard
    from shapescript.runtime.vocabulary import ByteVocabulary, Vocabulary
    from shapescript.thread_setting import threads

__version__ = "0.1.0"

_PLACES = {
    "checking": ("check",),
    "compiler.diagnostics.model": ("CompileError", "Diagnostic", "InternalError"),
    "profiling": ("Profile", "profile"),
    "program": ("Program", "load"),
    "runtime.bfloat16": ("bfloat16",),
    "runtime.checkpoint": ("load_checkpoint", "save_checkpoint"),
    "runtime.csv_sink": ("CsvSink", "csv"),
    "runtime.dataset": ("Dataset",),
    "runtime.errors": (
        "ArgumentError",
        "CheckpointError",
        "CheckpointMissing",
        "CheckpointUnwritable",
        "DataError",
        "DataFileMissing",
        "DataRowError",
        "LogError",
        "OutOfMemoryError",
        "PackageMissing",
        "ShapeScriptError",
    ),
    "runtime.inspection": ("inspect",),
    "runtime.jsonl": ("JsonLinesSink", "jsonl"),
    "runtime.latest": ("latest_checkpoint",),
    "runtime.mode": ("Eval", "Mode", "Train"),
    "runtime.model": ("Model",),
    "runtime.optimiser": ("Adam", "AdamW", "Sgd"),
    "runtime.read_log": ("Log", "read_log"),
    "runtime.record": ("Batch",),
    "runtime.sinks": ("LogRecord", "LogSink", "MemorySink"),
    "runtime.tee_sink": ("TeeSink", "tee"),
    "runtime.tensorboard_sink": ("TensorBoardSink", "tensorboard"),
    "runtime.vocabulary": ("ByteVocabulary", "Vocabulary"),
    "thread_setting": ("threads",),
}
_MODULES = {name: module for module, names in _PLACES.items() for name in names}

__all__ = [
    "Adam",
    "AdamW",
    "ArgumentError",
    "Batch",
    "ByteVocabulary",
    "CheckpointError",
    "CheckpointMissing",
    "CheckpointUnwritable",
    "CompileError",
    "CsvSink",
    "DataError",
    "DataFileMissing",
    "DataRowError",
    "Dataset",
    "Diagnostic",
    "Eval",
    "InternalError",
    "JsonLinesSink",
    "Log",
    "LogError",
    "LogRecord",
    "LogSink",
    "MemorySink",
    "Mode",
    "Model",
    "OutOfMemoryError",
    "PackageMissing",
    "Profile",
    "Program",
    "Sgd",
    "ShapeScriptError",
    "TeeSink",
    "TensorBoardSink",
    "Train",
    "Vocabulary",
    "__version__",
    "bfloat16",
    "check",
    "csv",
    "inspect",
    "jsonl",
    "latest_checkpoint",
    "load",
    "load_checkpoint",
    "profile",
    "read_log",
    "save_checkpoint",
    "std",
    "tee",
    "tensorboard",
    "threads",
]

install()


def __getattr__(name: str) -> Any:
    if name == "std":
        return import_module(f"{__name__}.std")
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    with paused_collection():
        value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
