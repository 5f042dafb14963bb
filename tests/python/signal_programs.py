"""What the tests of signals run: a program that can stay in a phase for ever, and a command line that a signal reaches in a named phase.

`python signal_programs.py NUMBER PHASE run …` is the command line, which sends itself the signal when the phase comes.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

PROGRAM = """
data Row:
    x: [2]
    label: int

data Line:
    step: int
    loss: float

model Net:
    weight: [2 Classes] = uniform(-1, 1)

dim Classes = 3

fn loss(m: Net, batch: Row[b], mode: Mode) -> []:
    return dropout(batch.x, 0.5, mode) @ m.weight |> cross_entropy(batch.label)

fn step(mut m: Net, mut opt: Sgd[Net], batch: Row[b], sink: LogSink, mode: Mode):
    l, g = value_and_grad(loss(m, batch, mode), wrt=m)
    update(mut m, mut opt, g, lr=0.1)
    write(sink, Line(step=opt.step, loss=l))

fn evaluated(m: Net, examples: Dataset[Row]) -> float:
    mut total = 0.0
    for batch in examples |> batches(3):
        total = total + float(loss(m, batch, Eval))
    return total

# It has no end where `endless` isn't 0: 1 trains on from step 5, 2 evaluates behind the first epoch, 3 computes there without a step.
fn main(endless: int = 0, carry_on: bool = false):
    examples = load_data[Row]("rows.npz")
    sink = jsonl("run.jsonl")
    mode = Train(seed=1)
    mut m = Net(seed=2)
    mut opt = Sgd(m)
    mut epoch = 0
    mut seen = 0
    if carry_on:
        m, opt, epoch, seen = load("run.pt", m=Net, opt=Sgd[Net], epoch=int, seen=int, mode=mode, sink=sink, examples=examples)
    while epoch < 3:
        for batch in examples |> shuffle(epoch) |> batches(4, start=seen):
            step(mut m, mut opt, batch, sink, mode)
            seen = minimum(seen + 4, examples.count)
            if opt.step % 2 == 0:
                save("run.pt", m=m, opt=opt, epoch=epoch, seen=seen, mode=mode, sink=sink, examples=examples)
            if opt.step == 5 and endless == 1:
                print("training")
                while opt.step > 0:
                    for more in examples |> batches(4):
                        step(mut m, mut opt, more, sink, mode)
        epoch = epoch + 1
        seen = 0
        flush(sink)
        if endless == 2:
            print("evaluating")
            mut total = 1.0
            while total > 0.0:
                total = evaluated(m, examples) + 1.0
        if endless == 3:
            print("computing")
            mut n = 1
            while n > 0:
                n = n % 1000 + 1
    print("loss", evaluated(m, examples))
    save("run.pt", m=m, opt=opt, epoch=epoch, seen=seen, mode=mode, sink=sink, examples=examples)
"""
COUNT = 14  # examples: four steps an epoch


def phases(send: Callable[[], None]) -> dict[str, Callable[[], None]]:
    """What makes a signal come in each phase."""

    def importing() -> None:
        class Finder:
            def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> None:
                if name == "shapescript.std_command":
                    send()

        sys.meta_path.insert(0, Finder())  # type: ignore[arg-type]

    def checking() -> None:
        import shapescript.checking

        before(shapescript.checking, "check_file", send)

    def compiling() -> None:
        from shapescript.compiler.passes import pipeline

        os.environ["SHAPESCRIPT_CACHE"] = "off"
        before(pipeline, "compile_entry", send)

    def compiling_natively() -> None:
        from shapescript.compiler.codegen import jit

        os.environ["SHAPESCRIPT_CACHE"] = "off"
        before(jit, "parse", lambda: (send(), for_ever()))

    def loading_data() -> None:
        import zipfile

        before(zipfile.ZipFile, "open", send)

    def loading() -> None:
        from shapescript.runtime import restore

        before(restore, "restore", send)

    def logging() -> None:
        from shapescript.runtime import line_sink

        after(line_sink, "write_all", send, 5)

    def saving() -> None:
        """The second save's file is written, but not yet in the place of the first."""
        from shapescript.runtime import files

        before(files.os, "fsync", send, 4)

    def saved() -> None:
        from pathlib import Path

        after(Path, "replace", send, 1)

    def dropping() -> None:
        """Within a finaliser, whose exceptions Python drops."""
        from shapescript.host import ProgramHost

        class Dropped:
            def __del__(self) -> None:
                send()

        after(ProgramHost, "perform", Dropped, 8)

    def failing() -> None:
        from shapescript.progress import Progress

        before(Progress, "flush_logs", send)

    def twice() -> None:
        """The second one comes while the run cleans up, which would take for ever."""
        from shapescript.progress import Progress

        logging()
        before(Progress, "flush_logs", lambda: (send(), for_ever()))

    def twice_in_a_save() -> None:
        """The disk hangs, and the end of the run waits for it."""
        from shapescript.runtime.saving import PreparedSave, Saves

        waits = threading.Event()
        before(Saves, "settle", waits.set)
        before(PreparedSave, "finish", lambda: (send(), waits.wait(), send(), for_ever()), 1)

    named = (
        importing,
        checking,
        compiling,
        compiling_natively,
        loading_data,
        loading,
        logging,
        saving,
        saved,
        dropping,
        failing,
        twice,
        twice_in_a_save,
    )
    return {phase.__name__: phase for phase in named}


def before(owner: Any, name: str, action: Callable[[], object], turn: int = 0) -> None:
    _wrap(owner, name, action, turn, is_before=True)


def after(owner: Any, name: str, action: Callable[[], object], turn: int = 0) -> None:
    _wrap(owner, name, action, turn, is_before=False)


def _wrap(owner: Any, name: str, action: Callable[[], object], turn: int, is_before: bool) -> None:
    """At the call of this number of a function."""
    wrapped, calls = getattr(owner, name), 0

    def call(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        is_it = calls == turn
        calls += 1
        if is_it and is_before:
            action()
        result = wrapped(*arguments, **named)
        if is_it and not is_before:
            action()
        return result

    setattr(owner, name, call)


def for_ever() -> None:
    threading.Event().wait()


def run(words: Sequence[str]) -> None:
    """The command line, with the number of the signal and the phase before its words."""
    from shapescript.__main__ import command

    number, phase, *rest = words
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background ignores it
    if phase:
        phases(lambda: os.kill(os.getpid(), int(number)))[phase]()
    sys.argv[1:] = rest
    command()


if __name__ == "__main__":
    run(sys.argv[1:])
