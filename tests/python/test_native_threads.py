"""Native functions called from several threads, inside each other, and interrupted."""

from __future__ import annotations

import gc
import signal
import threading
import time
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from evaluating import RecordingHost, function_of, tensor
from native_harness import bytes_of, finished
from native_samples import (
    I64,
    StepHost,
    block,
    normal,
    run_arguments,
)
from waiting_records import NEVER, let_wait

from shapescript.compiler.codegen import callbacks
from shapescript.compiler.codegen.program import (
    NativeFunction,
    compile_function,
)
from shapescript.compiler.codegen.target import host
from shapescript.compiler.ir.nodes import Function, Value
from shapescript.compiler.ir.sizes import fresh, of
from shapescript.compiler.ir.types import BOOL, INT, SINK, TensorType
from shapescript.compiler.ops.build import Builder
from shapescript.compiler.ops.protocol import ExecutionError


def test_threads_run_one_function_at_once(train: NativeFunction) -> None:
    expected: list[Any] = run_arguments()
    train.run(expected, StepHost())
    outcomes: list[Any] = []

    def work() -> None:
        for _ in range(5):
            arguments = run_arguments()
            train.run(arguments, StepHost())
            outcomes.append([bytes_of(argument) for argument in arguments[:2]])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 20 and all(found == [bytes_of(argument) for argument in expected[:2]] for found in outcomes)


@pytest.mark.parametrize("name", ["cross_entropy", "gather"])
def test_an_index_that_changes_behind_its_check_reads_nothing_else(name: str) -> None:
    n = of(fresh("n"))
    places = TensorType(I64, (n,))

    def build(b: Builder, x: Value, labels: Value) -> Value:
        return b.emit(name, x, labels)[0]

    native = compile_function(finished(function_of([tensor(n, 10), places], build)), host())
    labels, done = np.zeros(20_000, np.int64), threading.Event()

    def change() -> None:
        while not done.is_set():
            labels[10_000:] = 2**40
            labels[10_000:] = 0

    changing = threading.Thread(target=change)
    changing.start()
    try:
        for _ in range(100):
            try:
                native.run([normal(20_000, 10), labels], RecordingHost())
            except ExecutionError as error:
                assert error.code == "R1101"
    finally:
        done.set()
        changing.join()


def test_the_host_may_call_the_function_again() -> None:
    def build(b: Builder, sink: Value, depth: Value, x: Value) -> Sequence[Value]:
        doubled = b.op("add", x, x)
        more = b.op("gt", depth, b.constant(0, I64))

        def again(i: Builder) -> Sequence[Value]:
            i.emit("write", sink, depth, record="R", fields=("depth",))
            return [depth]

        b.emit("if", more, regions=[block([], again), block([], lambda i: [depth])])
        return [b.op("sum", doubled, positions=(0,))]

    native = compile_function(finished(function_of([SINK, INT, tensor(100)], build)), host())
    results: list[float] = []

    class Again(RecordingHost):
        def perform(self, op: Any, operands: Sequence[Any]) -> Sequence[Any]:
            results.extend(native.run(["sink", operands[1] - 1, np.full(100, operands[1], np.float32)], self))
            return ()

    assert native.run(["sink", 3, np.full(100, 10, np.float32)], Again()) == [2000.0]
    assert results == [200.0, 400.0, 600.0]


def test_other_threads_run_while_native_code_does() -> None:
    """The call holds no GIL."""
    native, seen = compile_function(spin(), host()), threading.Event()

    class Until(RecordingHost):
        def poll(self) -> None:
            if seen.is_set():
                raise KeyboardInterrupt

    other = threading.Thread(target=lambda: (time.sleep(0.01), seen.set()))
    other.start()
    with pytest.raises(KeyboardInterrupt):
        native.run([True], Until())
    other.join()


# ---- interruption


def spin() -> Function:
    return finished(function_of([BOOL], lambda b, go: b.emit("while", go, regions=[block([BOOL], lambda i, go: [go])] * 2)))


def test_the_host_is_polled_and_may_end_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callbacks, "FIRST_BUDGETS", {True: 1000, False: 10})
    monkeypatch.setattr(callbacks, "POLL_NANOSECONDS", 10_000)

    class Impatient(RecordingHost):
        def poll(self) -> None:
            self.polls += 1
            if self.polls > 100:
                raise KeyboardInterrupt

    host_ = Impatient()
    native = compile_function(spin(), host())
    for _ in range(2):
        host_.polls = 0
        with pytest.raises(KeyboardInterrupt):
            native.run([True], host_)
        assert host_.polls == 101


def test_a_signal_ends_a_call() -> None:
    """An interrupt that arrives in native code is raised where Python goes on, and that is inside the callback."""
    native = compile_function(spin(), host())
    main = threading.main_thread().ident
    assert main is not None
    for _ in range(3):
        timer = threading.Timer(0.05, lambda: signal.pthread_kill(main, signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            native.run([True], RecordingHost())
        timer.join()


@pytest.mark.parametrize("raised", [OSError("no space"), KeyboardInterrupt(), SystemExit(3), ExecutionError("R1", "mine", None)])
def test_what_the_host_raises_reaches_the_caller_unchanged(
    train: NativeFunction, raised: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_wait(monkeypatch, NEVER)  # the optimiser stands where the record was written

    class Failing(StepHost):
        def perform(self, op: Any, operands: Sequence[Any]) -> Sequence[Any]:
            if op.name == "write" and operands[1] == 2:
                raise raised
            return super().perform(op, operands)

    arguments = run_arguments()
    with pytest.raises(type(raised)) as caught:
        train.run(arguments, Failing())
    assert caught.value is raised and arguments[1].block[0] == 2
    train.run(run_arguments(), StepHost())


def test_a_call_lets_go_of_its_arguments() -> None:
    native = compile_function(finished(function_of([SINK, tensor(3)], lambda b, s, x: [b.op("add", x, x)])), host())

    class Sink:
        pass

    sink = Sink()
    alive = weakref.ref(sink)
    native.run([sink, normal(3)], RecordingHost())
    del sink
    gc.collect()
    assert alive() is None
