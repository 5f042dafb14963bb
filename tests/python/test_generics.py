"""Generic functions and what they require: the standard loop against the example's own, instances, the errors at the user's call."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from api_programs import digits
from fixtures import EXAMPLES, PROGRAMS, expected

import shapescript
from shapescript.compiler.check.checker import check_file, check_source
from shapescript.compiler.ir.verifier import verify_function
from shapescript.compiler.ops.table import infer

WRONG = sorted((PROGRAMS / "generics").glob("*.ss"))
MENDED = sorted(path for path in (PROGRAMS / "generics" / "mended").glob("*.ss") if (PROGRAMS / "generics" / path.name).exists())

STANDARD = """
fn standard(mut m: Mlp, train: Dataset[Digit], sink: LogSink, epochs: int, mode: Mode):
    std.fit(mut m, train, sink, epochs, 64, 3e-4, mode)

fn again(like: Mlp, train: Dataset[Digit], sink: LogSink, epochs: int, size: int, mode: Mode) -> Mlp:
    return std.resume(like, train, sink, epochs, size, mode)
"""

SECOND = """
import shapescript.std.nn as nn
import shapescript.std.fit as std

dim Width = 64

data Picture:
    pixels: [Width]

model Squeeze:
    narrow: nn.Linear[Width, 8]
    wide: nn.Linear[8, Width]

data Logs:
    step: int
    loss: float
    grad_norm: float

fn forward(m: Squeeze, x: [b Width]) -> [b Width]:
    return x |> nn.linear(m.narrow) |> tanh |> nn.linear(m.wide)

fn loss(m: Squeeze, batch: Picture[b], mode: Mode) -> []:
    return mean((forward(m, batch.pixels |> dropout(0.1, mode)) - batch.pixels) ** 2, over=(b, Width))

fn by_hand(mut m: Squeeze, train: Dataset[Picture], sink: LogSink, epochs: int, mode: Mode):
    mut opt = AdamW(m)
    for epoch in 0..epochs:
        for batch in train |> shuffle(epoch) |> batches(50):
            l, mut g = value_and_grad(loss(m, batch, mode), wrt=m)
            norm = clip_norm(mut g, 1.0)
            update(mut m, mut opt, g, lr=1e-3)
            write(sink, Logs(step=opt.step, loss=l, grad_norm=norm))

fn standard(mut m: Squeeze, train: Dataset[Picture], sink: LogSink, epochs: int, mode: Mode):
    std.fit(mut m, train, sink, epochs, 50, 1e-3, mode)
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory of its own: the standard loop writes its checkpoint there."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def example(folder: Path) -> Any:
    text = (EXAMPLES / "train_mlp.ss").read_text("utf-8").replace("import", "import shapescript.std.fit as std\nimport", 1)
    path = folder / "program.ss"
    path.write_text(text + STANDARD)
    return shapescript.load(path)


def some_digits(program: Any) -> Any:
    pixels, label = digits()
    return program.Digit.dataset(pixels=pixels[:640], label=label[:640])


@pytest.mark.parametrize("path", WRONG, ids=lambda path: path.stem)
def test_wrong_program(path: Path) -> None:
    found = [(d.code, d.span.line, d.span.column) for d in check_file(path).diagnostics if d.span]
    assert found == expected(path)


@pytest.mark.parametrize("path", MENDED, ids=lambda path: path.stem)
def test_mended_program_trains(path: Path, here: Path) -> None:
    checked = check_file(path)
    assert checked.diagnostics == () and checked.module is not None
    for function in checked.module.functions.values():
        verify_function(function, infer)
    program: Any = shapescript.load(path)
    models = program if hasattr(program, "Linear") else shapescript.load(path.parent / "support" / "models.ss")
    m, sink, data = models.Linear(seed=1), shapescript.MemorySink(), some_digits(models)
    program.train(m, data, sink, shapescript.Eval)
    assert len(sink.records) == 10 and sink.records[-1].loss < sink.records[0].loss


def test_missing_requirement_says_all_that_is_needed() -> None:
    (found,) = check_file(PROGRAMS / "generics" / "parameter_type.ss").diagnostics
    assert found.help is not None and "fn loss(m: Linear, batch: Digit[b], mode: Mode) -> []:" in found.help
    (ours, theirs) = found.labels
    assert "`batch` is Picture[b], Digit[b] is wanted" in ours.text
    assert theirs.span.source.path.endswith("std/fit.ss") and theirs.span.text.startswith("requires loss")


@pytest.mark.parametrize("mode", [shapescript.Eval, shapescript.Train(seed=5)], ids=["Eval", "Train"])
def test_standard_loop_is_the_examples_own(here: Path, mode: Any) -> None:
    program = example(here)
    data = some_digits(program)
    seeds = [mode if mode is shapescript.Eval else shapescript.Train(seed=5) for _ in range(2)]
    ours, theirs = program.Mlp(seed=1), program.Mlp(seed=1)
    first, second = shapescript.MemorySink(), shapescript.MemorySink()
    program.fit(ours, data, first, 3, seeds[0])
    program.standard(theirs, data, second, 3, seeds[1])
    assert ours.buffer.tobytes() == theirs.buffer.tobytes()
    assert [tuple(record) for record in first.records] == [tuple(record) for record in second.records]


def test_standard_loop_is_a_loop_by_hand_for_another_model(here: Path) -> None:
    path = here / "second.ss"
    path.write_text(SECOND)
    program: Any = shapescript.load(path)
    data = program.Picture.dataset(pixels=digits()[0][:300])
    ours, theirs = program.Squeeze(seed=3), program.Squeeze(seed=3)
    first, second = shapescript.MemorySink(), shapescript.MemorySink()
    program.by_hand(ours, data, first, 2, shapescript.Train(seed=2))
    program.standard(theirs, data, second, 2, shapescript.Train(seed=2))
    assert ours.buffer.tobytes() == theirs.buffer.tobytes()
    assert [tuple(record) for record in first.records] == [tuple(record) for record in second.records]


@pytest.mark.parametrize("stop", [1, 2, 3])
@pytest.mark.parametrize("train", [False, True], ids=["Eval", "Train"])
def test_resume_carries_on_exactly(here: Path, stop: int, train: bool) -> None:
    def mode() -> Any:
        return shapescript.Train(seed=4) if train else shapescript.Eval

    program = example(here)
    data = some_digits(program)
    whole, sink = program.Mlp(seed=1), shapescript.MemorySink()
    program.standard(whole, data, sink, 4, mode())
    m = program.Mlp(seed=1)
    program.standard(m, data, shapescript.MemorySink(), stop, mode())
    after = shapescript.MemorySink()
    resumed = program.again(m, data, after, 4, 64, mode())
    assert resumed.buffer.tobytes() == whole.buffer.tobytes()
    assert [tuple(record) for record in after.records] == [tuple(record) for record in sink.records][stop * 10 :]


def test_resume_refuses_another_batch_size(here: Path) -> None:
    program = example(here)
    data, m = some_digits(program), program.Mlp(seed=1)
    program.standard(m, data, shapescript.MemorySink(), 1, shapescript.Eval)
    with pytest.raises(shapescript.CheckpointError) as caught:
        program.again(m, data, shapescript.MemorySink(), 2, 32, shapescript.Eval)
    assert caught.value.kind == "value" and (caught.value.expected, caught.value.found) == (32, 64)


def test_generic_functions_are_called_from_python(here: Path) -> None:
    program = example(here)
    data = some_digits(program)
    ours, theirs = program.Mlp(seed=1), program.Mlp(seed=1)
    program.standard(ours, data, shapescript.MemorySink(), 1, shapescript.Eval)
    program.std.fit(theirs, data, shapescript.MemorySink(), epochs=1, size=64, lr=3e-4, mode=shapescript.Eval)
    assert ours.buffer.tobytes() == theirs.buffer.tobytes()
    with pytest.raises(shapescript.ArgumentError) as caught:
        program.std.fit(data, data, shapescript.MemorySink(), epochs=1, size=64, lr=3e-4, mode=shapescript.Eval)
    assert caught.value.code == "R1004"


BATCHES = """
data Point:
    x: [3]

fn score(batch: Point[b]) -> []:
    return mean(batch.x, over=(b, 3))

fn scored[T: data](batch: T[b], factor: float = 1.0) -> []
    requires score(batch: T[b]) -> []:
    return score(batch) * factor
"""


@pytest.fixture
def batches(here: Path) -> Any:
    (here / "batches.ss").write_text(BATCHES)
    return shapescript.load(here / "batches.ss", engine="numpy")


def test_a_batch_says_its_record_to_a_generic_function(batches: Any) -> None:
    batch = batches.Point.batch(x=np.full((2, 3), 2, np.float32))
    assert batches.scored(batch) == 2.0
    assert batches.scored(factor=0.5, batch=batch) == 1.0


@pytest.mark.parametrize(
    ("arguments", "named", "message"),
    [
        ((3,), {}, "R1004: batch: expected T[b], got int"),
        ((None,), {}, "R1004: batch: expected T[b], got NoneType"),
        ((), {"factor": 2.0}, "R1005: scored: no value for batch; it is scored"),
        ((), {"bach": 2.0}, "R1005: scored has no parameter 'bach'; did you mean 'batch'"),
        ((1, 2, 3), {}, "R1005: scored takes 2 arguments, got 3"),
        ((1,), {"batch": 2.0}, "R1005: scored: batch is given twice"),
    ],
)
def test_a_generic_function_refuses_arguments_as_others_do(batches: Any, arguments: Any, named: Any, message: str) -> None:
    with pytest.raises(shapescript.ArgumentError, match=re.escape(message)):
        batches.scored(*arguments, **named)


def test_missing_requirement_is_a_compile_error_from_python(here: Path) -> None:
    path = here / "program.ss"
    path.write_text("import shapescript.std.fit as std\n\ndata R:\n    x: [3]\n\nmodel M:\n    w: [3] = zeros\n")
    program: Any = shapescript.load(path)
    data = program.R.dataset(x=np.zeros((4, 3), np.float32))
    for _ in range(2):
        with pytest.raises(shapescript.CompileError) as caught:
            program.std.fit(program.M(seed=1), data, shapescript.MemorySink(), 1, 2, 0.1, shapescript.Eval)
        assert [d.code for d in caught.value.diagnostics] == ["E2311"]


def test_a_copied_loop_is_imported_and_can_be_changed(here: Path) -> None:
    copied = Path(shapescript.load.__code__.co_filename).parent / "std" / "fit.ss"
    text = copied.read_text("utf-8")
    (here / "fit.ss").write_text(text)
    program_text = (EXAMPLES / "train_mlp.ss").read_text("utf-8").replace("import", "import fit as std\nimport", 1) + STANDARD
    (here / "copied.ss").write_text(program_text)
    whole, again = example(here), shapescript.load(here / "copied.ss")
    results = []
    for program in (whole, again):
        m = program.Mlp(seed=1)
        program.standard(m, some_digits(program), shapescript.MemorySink(), 1, shapescript.Eval)
        results.append(m.buffer.tobytes())
    assert results[0] == results[1]
    (here / "fit.ss").write_text(text.replace("clip_norm(mut g, 1.0)", "clip_norm(mut g, 0.01)"))
    changed: Any = shapescript.load(here / "copied.ss")
    m = changed.Mlp(seed=1)
    changed.standard(m, some_digits(changed), shapescript.MemorySink(), 1, shapescript.Eval)
    assert m.buffer.tobytes() != results[0]


def test_each_instance_is_made_once() -> None:
    text = (PROGRAMS / "generics" / "mended" / "none_declared.ss").read_text("utf-8")
    twice = text + text[text.index("fn train") :].replace("fn train", "fn other")
    one, two = check_source(text), check_source(twice)
    assert one.module is not None and two.module is not None
    assert len(two.module.functions) == len(one.module.functions) + 1


def test_resume_in_a_fresh_process(here: Path) -> None:
    example(here)
    script = """
import sys
import numpy as np
import shapescript
program = shapescript.load("program.ss")
found = np.load(sys.argv[2])
data = program.Digit.dataset(pixels=found["pixels"][:640], label=found["label"][:640])
mode, m, sink = shapescript.Train(seed=9), program.Mlp(seed=1), shapescript.jsonl("log.jsonl")
if sys.argv[1] == "fit":
    program.standard(m, data, sink, int(sys.argv[3]), mode)
else:
    m = program.again(m, data, sink, int(sys.argv[3]), 64, mode)
print(m.buffer.tobytes().hex())
"""

    def run(*arguments: str) -> str:
        command = [sys.executable, "-c", script, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, cwd=here, env=dict(os.environ)).stdout

    data = str(EXAMPLES / "digits_train.npz")
    whole = run("fit", data, "2")
    log = (here / "log.jsonl").read_bytes()
    run("fit", data, "1")
    assert run("resume", data, "2") == whole
    assert (here / "log.jsonl").read_bytes() == log


def test_models_made_for_other_models(here: Path) -> None:
    """A requirement for `Scaled[Small]` is met by the generic `forward` for `Scaled[M]`, whose own requirement `Small`'s meets."""
    program: Any = shapescript.load(PROGRAMS / "generics" / "mended" / "models_over_models.ss")
    both = program.Both[program.Small, program.Scaled[program.Small], 10](seed=2)
    assert sorted(both.state_dict())[:2] == ["left.output.bias", "left.output.weight"]
    x = digits()[0][:5]

    def linear(layer: Any) -> Any:
        return x @ layer.output.weight.T + layer.output.bias

    expected_sum = linear(both.left) + linear(both.right.inner) * both.right.scale + both.shift
    for found in (program.two(both, x), program.both(both, x)):
        np.testing.assert_allclose(found, expected_sum, rtol=1e-5, atol=1e-6)
    with pytest.raises(shapescript.ArgumentError) as caught:
        program.Both[program.Small, 3, 10](seed=1)
    assert caught.value.code == "R1004"
    with pytest.raises(shapescript.ArgumentError) as caught:
        program.Scaled(seed=1)
    assert caught.value.code == "R1005"


def test_a_model_made_for_a_model_trains_by_the_standard_loop(here: Path) -> None:
    program: Any = shapescript.load(PROGRAMS / "generics" / "mended" / "models_over_models.ss")
    m, sink = program.Scaled[program.Large[32]](seed=1), shapescript.MemorySink()
    before = m.state_dict()
    program.train(m, some_digits(program), sink)
    assert len(sink.records) == 10 and all(np.isfinite(record.loss) for record in sink.records)
    assert all((m[name] != value).any() for name, value in before.items())
