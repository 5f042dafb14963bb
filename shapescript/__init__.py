"""ShapeScript: tensor programs whose shapes have names, compiled to native code and driven from Python.

    program = shapescript.load("train_mlp.ss")
    m = program.Mlp(seed=1234)

Importing it makes `import train_mlp` find train_mlp.ss on `sys.path` too. Names are loaded when they are first used, so that
importing the package, checking a file and asking for help stay light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from shapescript.importer import install

if TYPE_CHECKING:
    from shapescript import std
    from shapescript.checking import check
    from shapescript.compiler.diagnostics.model import CompileError, Diagnostic, InternalError
    from shapescript.program import Program, load
    from shapescript.runtime.bfloat16 import bfloat16
    from shapescript.runtime.checkpoint import load_checkpoint, save_checkpoint
    from shapescript.runtime.dataset import Dataset
    from shapescript.runtime.errors import (
        ArgumentError,
        CheckpointError,
        CheckpointMissing,
        CheckpointUnwritable,
        DataError,
        DataFileMissing,
        LogError,
        OutOfMemoryError,
        ShapeScriptError,
    )
    from shapescript.runtime.jsonl import JsonLinesSink
    from shapescript.runtime.jsonl import JsonLinesSink as jsonl  # noqa: N813  # as programs call it
    from shapescript.runtime.mode import Eval, Mode, Train
    from shapescript.runtime.model import Model
    from shapescript.runtime.optimiser import Adam, AdamW, Sgd
    from shapescript.runtime.record import Batch
    from shapescript.runtime.sinks import LogSink, MemorySink
    from shapescript.runtime.vocabulary import ByteVocabulary, Vocabulary

__version__ = "0.1.0"

_PLACES = {
    "checking": ("check",),
    "compiler.diagnostics.model": ("CompileError", "Diagnostic", "InternalError"),
    "program": ("Program", "load"),
    "runtime.bfloat16": ("bfloat16",),
    "runtime.checkpoint": ("load_checkpoint", "save_checkpoint"),
    "runtime.dataset": ("Dataset",),
    "runtime.errors": (
        "ArgumentError",
        "CheckpointError",
        "CheckpointMissing",
        "CheckpointUnwritable",
        "DataError",
        "DataFileMissing",
        "LogError",
        "OutOfMemoryError",
        "ShapeScriptError",
    ),
    "runtime.jsonl": ("JsonLinesSink",),
    "runtime.mode": ("Eval", "Mode", "Train"),
    "runtime.model": ("Model",),
    "runtime.optimiser": ("Adam", "AdamW", "Sgd"),
    "runtime.record": ("Batch",),
    "runtime.sinks": ("LogSink", "MemorySink"),
    "runtime.vocabulary": ("ByteVocabulary", "Vocabulary"),
}
_MODULES = {name: module for module, names in _PLACES.items() for name in names}
_ALIASES = {"jsonl": "JsonLinesSink"}

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
    "DataError",
    "DataFileMissing",
    "Dataset",
    "Diagnostic",
    "Eval",
    "InternalError",
    "JsonLinesSink",
    "LogError",
    "LogSink",
    "MemorySink",
    "Mode",
    "Model",
    "OutOfMemoryError",
    "Program",
    "Sgd",
    "ShapeScriptError",
    "Train",
    "Vocabulary",
    "__version__",
    "bfloat16",
    "check",
    "jsonl",
    "load",
    "load_checkpoint",
    "save_checkpoint",
    "std",
]

install()


def __getattr__(name: str) -> Any:
    if name == "std":
        return import_module(f"{__name__}.std")
    module = _MODULES.get(_ALIASES.get(name, name))
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    value = getattr(import_module(f"{__name__}.{module}"), _ALIASES.get(name, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
