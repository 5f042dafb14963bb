"""Calls of native functions: memory, errors of the host, artifacts, other targets."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from evaluating import RecordingHost, dataset, function_of, tensor
from native_harness import NotingHost, bytes_of, finished
from native_samples import (
    I64,
    StepHost,
    block,
    digits_of_classes,
    normal,
    run_arguments,
)

from shapescript.compiler.codegen import callbacks
from shapescript.compiler.codegen.jit import undefined_symbols
from shapescript.compiler.codegen.memory import ArenaPool
from shapescript.compiler.codegen.program import (
    NativeFunction,
    assembly,
    compile_artifact,
    compile_function,
    llvm_text,
    load_artifact,
    object_bytes,
)
from shapescript.compiler.codegen.target import aarch64, host, x86_64_v3, x86_64_v4
from shapescript.compiler.ir.nodes import Function, Value
from shapescript.compiler.ir.sizes import fresh, number, of
from shapescript.compiler.ir.types import INT, SINK, Element
from shapescript.compiler.ops.build import Builder
from shapescript.compiler.ops.protocol import ExecutionError
from shapescript.compiler.reference.engine import Evaluator


def layers(depth: int) -> Function:
    """x through products with w, each keeping what it made to the end: it needs much memory at large batches."""
    n = of(fresh("n"))

    def build(b: Builder, x: Value, w: Value) -> Sequence[Value]:
        made = [x]
        for _ in range(depth):
            made.append(b.op("tanh", b.op("contraction", made[-1], w, left=(0, 1), right=(2, 1), out=(0, 2))))
        total = made[0]
        for value in made[1:]:
            total = b.op("add", total, value)
        return [total]

    return finished(function_of([tensor(n, 30), tensor(30, 30)], build))


# ---- memory


def test_a_steady_call_asks_for_nothing(train: NativeFunction) -> None:
    train.run(run_arguments(), StepHost())
    grows, bytes_ = train.arenas.grows, train.arenas.bytes
    for examples in (150, 64, 10, 149):
        train.run(run_arguments(examples, epochs=3), StepHost())
    assert (train.arenas.grows, train.arenas.bytes) == (grows, bytes_)


def test_only_the_first_turn_of_a_loop_asks_for_memory(training: Function) -> None:
    pool = ArenaPool()
    fresh_train = compile_function(training, host())
    fresh_train.arenas = pool
    fresh_train.run(run_arguments(epochs=1), StepHost())
    once, pool.grows = pool.grows, 0
    other = compile_function(training, host())
    other.arenas = ArenaPool()
    other.run(run_arguments(epochs=20), StepHost())
    assert other.arenas.grows == once > 0


def test_memory_grows_where_a_batch_needs_more() -> None:
    native, evaluator = compile_function(layers(4), host()), Evaluator(layers(4))
    native.arenas = ArenaPool()
    w, found = normal(30, 30, seed=1), []
    for rows in (1, 1000, 7, 20000, 20000, 0):
        x = normal(rows, 30)
        (result,) = native.run([x, w], RecordingHost())
        if rows < 100:
            assert bytes_of(result) == bytes_of(evaluator.run([x, w], RecordingHost())[0])
        found.append(native.arenas.grows)
    assert found[0] <= found[1] < found[3] == found[4] == found[5] and native.arenas.bytes >= 4 * 20000 * 30 * 4


def test_no_memory_is_an_error_that_python_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    native = compile_function(layers(2), host())
    native.arenas = ArenaPool()

    def refuse(*_: Any) -> Any:
        raise MemoryError("no more")

    native.run([normal(1, 30), normal(30, 30)], RecordingHost())
    monkeypatch.setattr("shapescript.compiler.codegen.memory.aligned", refuse)
    with pytest.raises(MemoryError, match="no more"):
        native.run([normal(5000, 30), normal(30, 30)], RecordingHost())
    monkeypatch.undo()
    native.run([normal(5000, 30), normal(30, 30)], RecordingHost())


@pytest.mark.parametrize("rows", [2**32, 2**31, 2**30 + 1])
def test_values_of_more_bytes_than_64_bits_count_are_refused(rows: int) -> None:
    """Arrays of no elements may be huge along their other axes; products of these wrap."""
    b_, c_, n = (of(fresh(name)) for name in "bcn")

    def build(b: Builder, x: Value, y: Value) -> Sequence[Value]:
        every = b.op("exp", b.op("contraction", x, y, left=(0, 1), right=(2, 1), out=(0, 2)))
        return [b.op("sum", every, positions=(0, 1))]

    function = finished(function_of([tensor(b_, n), tensor(c_, n)], build))
    for target in (host(), x86_64_v3()):
        native = compile_function(function, target)
        with pytest.raises(MemoryError):
            native.run([np.empty((rows, 0), np.float32), np.empty((rows, 0), np.float32)], RecordingHost())
        assert native.run([np.empty((2, 0), np.float32), np.empty((3, 0), np.float32)], RecordingHost()) == [6.0]


def test_slots_are_shared_by_values_that_are_not_needed_together() -> None:
    n = of(fresh("n"))

    def build(b: Builder, x: Value) -> Sequence[Value]:
        for _ in range(20):
            x = b.op("transpose", x, permutation=(1, 0))
        return [b.op("sum", x, positions=(0, 1))]

    native = compile_function(finished(function_of([tensor(n, n)], build)), host())
    native.arenas = ArenaPool()
    native.run([normal(200, 200)], RecordingHost())
    assert native.arenas.bytes <= 6 * 200 * 200 * 4


def test_results_and_arguments_share_no_memory() -> None:
    function = finished(function_of([tensor(8)], lambda b, x: [x, x, b.op("reshape", x, axes=(number(2), number(4)))]))
    x = normal(8)
    results = compile_function(function, host()).run([x], RecordingHost())
    arrays = [x, *results]
    assert not any(np.shares_memory(p, q) for place, p in enumerate(arrays) for q in arrays[:place])


# ---- the border


def test_arguments_of_other_sizes_are_refused_before_anything_runs() -> None:
    n, m = of(fresh("n")), of(fresh("m"))
    types = [tensor(n, 4), tensor(n, m), tensor(m + number(1))]
    function = finished(function_of(types, lambda b, x, y, z: [b.size(n * m)], hints=("x", "y", "z")))
    native, evaluator = compile_function(function, host()), Evaluator(function)
    for shapes in [
        ((3, 4), (3, 5), (6,)),
        ((3, 4), (2, 5), (6,)),
        ((3, 4), (3, 5), (7,)),
        ((3, 5), (3, 5), (6,)),
        ((3, 4), (3,), (6,)),
        ((0, 4), (0, 0), (1,)),
    ]:
        arguments, found = [normal(*shape) for shape in shapes], []
        for run in (native.run, evaluator.run):
            try:
                found.append(run(arguments, RecordingHost()))
            except ExecutionError as error:
                found.append([error.code, error.message])
        assert found[0] == found[1]


def test_returned_nans_are_canonical() -> None:
    function = finished(function_of([tensor(40), tensor()], lambda b, x, y: [x, b.op("neg", x), b.op("neg", y)]))
    x = np.full(40, np.nan, np.float32)
    x.view(np.uint32)[::3] = 0xFFC12345
    results = compile_function(function, host()).run([x, float("nan")], RecordingHost())
    for result in results[:2]:
        assert set(result.view(np.uint32).tolist()) == {0x7FC00000}
    assert np.float64(results[2]).tobytes() == np.float64("nan").tobytes()


def test_the_floating_point_environment_is_the_programs_own(training: Function) -> None:
    """Other libraries flush subnormals to zero for the whole thread: not in native code, and not differently after it."""

    def build(b: Builder, sink: Value, x: Value) -> Sequence[Value]:
        b.emit("write", sink, record="R", fields=())
        return [b.op("mul", x, x)]

    native, x = compile_function(finished(function_of([SINK, tensor(20)], build)), host()), np.full(20, 1e-22, np.float32)
    import torch  # slow to load, and for this test alone

    class Flushing(RecordingHost):
        def perform(self, op: Any, operands: Sequence[Any]) -> Sequence[Any]:
            torch.set_flush_denormal(True)
            return ()

    try:
        for flush in (False, True):
            torch.set_flush_denormal(flush)
            (result,) = native.run(["sink", x], Flushing())
            assert result.view(np.uint32).all()
            assert (torch.full((20,), 1e-22) * 1e-22 == 0).all().item() is flush
    finally:
        torch.set_flush_denormal(False)


# ---- artifacts and targets


def test_an_artifact_does_the_same_as_a_fresh_compilation(training: Function, train: NativeFunction) -> None:
    artifact = compile_artifact(training, host())
    loaded = load_artifact(artifact, host())
    hosts = [NotingHost(string=["c"]), NotingHost(string=["c"])]
    arguments = [run_arguments(), run_arguments()]
    for native, host_, given in zip((train, loaded), hosts, arguments, strict=True):
        native.run(given, host_)
    assert hosts[0].calls == hosts[1].calls and [*map(bytes_of, arguments[0][:2])] == [*map(bytes_of, arguments[1][:2])]
    labels = digits_of_classes(150)
    labels.arrays[1][7] = 10
    with pytest.raises(ExecutionError, match="R1101: label 10"):
        loaded.run([*run_arguments()[:2], labels, *run_arguments()[3:]], StepHost())


@pytest.mark.parametrize("target", [x86_64_v3(), x86_64_v4(), aarch64()], ids=lambda target: target.name)
def test_objects_need_nothing_but_memory_functions(training: Function, target: Any) -> None:
    assert undefined_symbols(object_bytes(training, target)) <= {"memcpy", "memmove", "memset"}


def test_texts_of_each_stage(training: Function) -> None:
    assert "define" in llvm_text(training, host()) and "shapescript_entry" in assembly(training, x86_64_v3())


def test_equal_kernels_are_emitted_once() -> None:
    """A kernel that threads may share has a function that shares it out, and one that does a part."""
    kernels = Counter(re.findall(r'define internal void @"(product|elementwise)[.\d]*"', llvm_text(layers(6), host())))
    assert kernels["product"] == 1 and 1 <= kernels["elementwise"] <= 3


def test_strided_batches_of_a_dataset_are_not_copied() -> None:
    """Batches in the dataset's own order are read where they lie."""
    rows = fresh("b")
    from shapescript.compiler.ir.types import DatasetType, RecordType

    data = DatasetType(RecordType("R", (("x", tensor(16)),)), of(fresh("rows")))

    def turn(i: Builder, x: Value, total: Value) -> Sequence[Value]:
        return [i.op("add", total, i.op("sum", x, positions=(0, 1)))]

    def build(b: Builder, d: Value) -> Sequence[Value]:
        return b.emit(
            "for_batches",
            d,
            b.constant(1000, I64),
            b.constant(False, Element.BOOL),
            b.constant(0, I64),
            b.constant(-1, I64),
            b.constant(0.0, Element.F32),
            regions=[block([tensor(of(rows), 16), tensor()], turn, [rows])],
        )

    native = compile_function(finished(function_of([data], build)), host())
    native.arenas = ArenaPool()
    native.run([dataset(normal(20000, 16))], RecordingHost())
    assert native.arenas.grows == 0


def test_an_interrupt_just_after_an_answer_ends_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python may notice it once the answer is written: what native code finds then must be no answer."""
    found: list[callbacks.Frame] = []
    make = callbacks.Frame.__init__

    def noted(frame: callbacks.Frame, *arguments: Any) -> None:
        make(frame, *arguments)
        found.append(frame)

    monkeypatch.setattr(callbacks.Frame, "__init__", noted)
    native = compile_function(finished(function_of([INT], lambda b, x: b.op("add", x, x))), host())
    assert native.run([3], RecordingHost()) == [6]
    (frame,) = found
    frame.words[callbacks.Word.ANSWERED] = 1
    assert frame._answers.throw(KeyboardInterrupt()) == 0
    assert frame.words[callbacks.Word.ANSWERED] == 0 and isinstance(frame.error, KeyboardInterrupt)
