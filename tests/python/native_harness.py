"""Runs functions in native code, for this machine and for x86-64-v3, and in the reference evaluator, and compares bytes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
from evaluating import Build, RecordingHost, function_of, type_of

from shapescript.compiler.codegen import split
from shapescript.compiler.codegen.program import NativeFunction, compile_function
from shapescript.compiler.codegen.target import Target, host, x86_64_v3
from shapescript.compiler.codegen.thread_count import threads_now
from shapescript.compiler.ir.nodes import Function, Op
from shapescript.compiler.ir.verifier import verify_function
from shapescript.compiler.numerics.optimisers import FIRST_CONSTANT, STEP
from shapescript.compiler.ops.protocol import OptimiserState
from shapescript.compiler.ops.table import infer
from shapescript.compiler.passes.copies import insert_copies
from shapescript.compiler.passes.expand import expand
from shapescript.compiler.passes.fuse import fuse
from shapescript.compiler.passes.fuse_reductions import fuse_reductions
from shapescript.compiler.passes.simplify import simplify
from shapescript.compiler.reference.border import copied_state
from shapescript.compiler.reference.engine import Evaluator
from shapescript.compiler.reference.layouts import aligned_copy

TARGETS = (host(), x86_64_v3())
CONSTANTS = ("string", "mode_eval")  # what an engine asks for when it likes


class NotingHost(RecordingHost):
    """Notes the bytes of operands as they are at the call, since native code goes on working where they lie."""

    def perform(self, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
        noted, before = [bytes_of(operand) for operand in operands], len(self.calls)
        try:
            return super().perform(op, operands)
        finally:
            self.calls[before:] = [] if op.name in CONSTANTS else [(op.name, noted)]


def finished(function: Function, fused: bool = False) -> Function:
    """The function as an engine gets it."""
    fusion = (simplify, fuse, fuse_reductions, simplify) if fused else ()
    passes: tuple[Callable[[Function], Function], ...] = (expand, *fusion, insert_copies)
    for pass_ in passes:
        function = pass_(function)
        verify_function(function, infer)
    return function


def natives(function: Function, targets: Sequence[Target] = TARGETS) -> list[NativeFunction]:
    """Where a test's calls have small work shared out to threads, what is known to be small when it is compiled is so, too."""
    with patch.object(split, "GRAIN", threads_now()[1]):
        return [compile_function(function, target) for target in targets]


def bytes_of(value: Any) -> Any:
    """What two equal values have in common, to the bit."""
    match value:
        case np.ndarray():
            return value.dtype.str, value.shape, value.tobytes()
        case OptimiserState():
            return value.block[STEP], value.block[FIRST_CONSTANT:].tobytes(), [bytes_of(slot) for slot in value.slots]
        case float():
            return np.float64(value).tobytes()
        case SimpleNamespace(arrays=arrays):
            return [bytes_of(array) for array in arrays]
        case SimpleNamespace(dataset=dataset):
            return bytes_of(value.block), bytes_of(dataset)
        case SimpleNamespace():
            return value.block[0], bytes_of(value.block[2:3])
    return type(value), value


def own(argument: Any) -> Any:
    """A copy of an argument that shares no memory with it."""
    match argument:
        case np.ndarray():
            return aligned_copy(argument) if argument.dtype == np.uint8 else argument.copy()
        case OptimiserState():
            return copied_state(argument)
        case SimpleNamespace() if not hasattr(argument, "arrays"):
            return SimpleNamespace(block=argument.block.copy())
    return argument if isinstance(argument, SimpleNamespace) else copy.copy(argument)


def outcome(run: Callable[..., Sequence[Any]], arguments: Sequence[Any], host_: NotingHost) -> Any:
    """Everything that a call does: its results, its arguments afterwards, what it asked the host; or its error."""
    arguments = [own(argument) for argument in arguments]
    try:
        results: Any = [bytes_of(result) for result in run(arguments, host_)]
    except Exception as error:  # whatever it is, both engines must raise the same
        return type(error), str(error), host_.calls
    return results, [bytes_of(argument) for argument in arguments], host_.calls


def assert_same(
    function: Function,
    calls: Sequence[Sequence[Any]],
    make_host: Callable[[], NotingHost] = NotingHost,
    targets: Sequence[Target] = TARGETS,
) -> list[Any]:
    """Each call does the same in native code and in the reference evaluator; one compilation serves all calls. Gives the outcomes."""
    compiled, evaluator = natives(function, targets), Evaluator(function)
    outcomes = []
    for arguments in calls:
        expected = outcome(evaluator.run, arguments, make_host())
        for native in compiled:
            found = outcome(native.run, arguments, make_host())
            assert found == expected, (native.target.name, [np.shape(argument) for argument in arguments])
        outcomes.append(expected)
    return outcomes


def check(build: Build, *arguments: Any, fused: bool = False, mutable: Sequence[int] = (), targets: Sequence[Target] = TARGETS) -> Any:
    """A function of parameters that have the arguments' types does the same everywhere."""
    function = finished(function_of([type_of(argument) for argument in arguments], build, mutable), fused)
    return assert_same(function, [arguments], targets=targets)[0]
