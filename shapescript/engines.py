"""From a checked module to something that runs: the pipeline, then one of the two engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

from shapescript.checking import stage
from shapescript.compiler.ir.nodes import Module
from shapescript.compiler.ir.sizes import Size, Symbol
from shapescript.compiler.ops.protocol import Host

EngineName = Literal["native", "numpy"]
ENGINES: tuple[EngineName, ...] = get_args(EngineName)

Run = Callable[[Sequence[Any], Host], Sequence[Any]]  # the entry's arguments to its results; `mut` arguments are changed in place


def compiled(engine: EngineName, module: Module, key: str, sizes: Mapping[Symbol, Size]) -> Run:
    """The function `key` with these dims, ready to run.

    Raises CompileError where the dims give no program, or where this machine can't run native code; InternalError.
    """
    from shapescript.compiler.passes.pipeline import compile_entry  # only here are passes needed: checking does without

    span = module.functions[key].span
    with stage("passes", span):
        function = compile_entry(module, key, sizes)
    if engine == "numpy":
        from shapescript.compiler.reference.engine import Evaluator

        with stage("reference", span):
            return Evaluator(function).run
    from shapescript.compiler.codegen.program import compile_function  # llvmlite is loaded here, not before
    from shapescript.compiler.codegen.target import host

    with stage("codegen", span):
        return compile_function(function, host()).run
