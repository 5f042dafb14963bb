"""From a checked module to something that runs: the pipeline, then one of the two engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from shapescript import measuring
from shapescript.checking import stage
from shapescript.compiler.ir.nodes import Module
from shapescript.compiler.ir.sizes import Size, Symbol
from shapescript.compiler.ops.protocol import Host
from shapescript.compiler.records.collection import paused_collection
from shapescript.thread_setting import check_default

EngineName = Literal["native", "numpy"]
ENGINES: tuple[EngineName, ...] = get_args(EngineName)

Run = Callable[[Sequence[Any], Host], Sequence[Any]]  # the entry's arguments to its results; `mut` arguments are changed in place


@dataclass(frozen=True, slots=True)
class Compiled:
    """A function ready to run. `has_host_operations`: whether a call may write to logs, save, load or print; True where nobody knows."""

    run: Run
    has_host_operations: bool


def compiled(engine: EngineName, module: Module, key: str, sizes: Mapping[Symbol, Size], profile: bool = False) -> Compiled:
    """The function `key` with these dims, ready to run. With `profile`, native code measures itself for the profile that is taken then.

    Raises CompileError where the dims give no program, or where this machine can't run native code; ArgumentError where the environment
    asks for a number of threads that can't be; InternalError.
    """
    if engine == "numpy":
        return Compiled(_evaluator(module, key, sizes), True)
    check_default()
    with paused_collection():
        from shapescript.native_functions import PROFILE, native_function  # llvmlite is loaded here, not before

        native = native_function(module, key, sizes, (PROFILE,) if profile else ())
    run: Run = (lambda arguments, host: native.run(arguments, host, measuring.current())) if profile else native.run
    return Compiled(run, native.has_host_operations)


def _evaluator(module: Module, key: str, sizes: Mapping[Symbol, Size]) -> Run:
    from shapescript.compile_log import CompileLog, told
    from shapescript.compiler.passes.pipeline import compile_entry  # checking does without
    from shapescript.compiler.reference.engine import Evaluator

    log, span = CompileLog(told(module.functions[key], sizes)), module.functions[key].span
    with stage("passes", span):
        function = compile_entry(module, key, sizes)
    log.done("passes")
    with stage("reference", span):
        run = Evaluator(function).run
    log.compiled("the reference evaluator keeps nothing")
    return run
