"""The Python API: what a loaded program offers, what its functions take and give."""

from __future__ import annotations

import pydoc
import threading
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from api_programs import digits, example, small_program

import shapescript
from shapescript.engines import EngineName

F32 = np.float32


@pytest.fixture(params=get_args(EngineName))
def small(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return small_program(tmp_path, request.param)


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.arange(int(np.prod(shape)), dtype=F32).reshape(shape)


# ---- the package


def test_every_public_name_is_there_and_no_other() -> None:
    for name in shapescript.__all__:
        assert getattr(shapescript, name) is not None, name
    assert list(shapescript.__all__) == sorted(shapescript.__all__)
    assert set(shapescript.__all__) <= set(dir(shapescript))
    with pytest.raises(AttributeError, match="no attribute 'Evaluate'"):
        shapescript.Evaluate  # noqa: B018
    namespace: dict[str, Any] = {}
    exec("from shapescript import *", namespace)
    assert set(namespace) - {"__builtins__"} == set(shapescript.__all__)


# ---- what a program offers


def test_names_of_a_program(tmp_path: Path) -> None:
    program = small_program(tmp_path)
    assert (program.D, program.Rate) == (3, 0.5)
    assert {"Line", "Point", "predict", "D", "Rate"} <= set(dir(program))
    assert small_program(tmp_path, D=7).predict.__doc__ == "fn predict(m: Line, x: [b D]) -> [b]"
    with pytest.raises(AttributeError, match=r"declares no 'predic'; did you mean 'predict'\?"):
        program.predic  # noqa: B018
    with pytest.raises(AttributeError, match="can't be set"):
        program.D = 4


def test_dims_are_overridden_before_checking(tmp_path: Path) -> None:
    program = small_program(tmp_path, D=5)
    assert program.D == 5
    assert program.predict(program.Line(seed=0), numbers(2, 5)).tolist() == [10.0, 35.0]
    with pytest.raises(shapescript.CompileError, match="E0504"):
        small_program(tmp_path, Depth=5)
    with pytest.raises(shapescript.ArgumentError, match="R1004"):
        small_program(tmp_path, D=True)


def test_help_shows_a_function_as_the_program_writes_it(tmp_path: Path) -> None:
    program = small_program(tmp_path)
    shown = pydoc.plain(pydoc.render_doc(program.halves))
    assert "fn halves(n: int, rate: float, wide: bool = false) -> (float, int, bool)" in shown
    assert "halves(n: int, rate: float, wide: bool = false) -> (float, int, bool)" in shown.splitlines()[2]
    both = pydoc.plain(pydoc.render_doc(program.norm))
    assert "fn norm(x: [b]) -> []" in both and "fn norm(m: Line) -> []" in both
    assert "fn product[K, E](x: [b K], w: [K E]) -> [b E]" in program.product.__doc__


def test_names_that_mean_something_to_python(tmp_path: Path) -> None:
    (tmp_path / "words.ss").write_text(
        """
data Row:
    self: [2]
    class: int

fn lambda(def: [b], class: int, None: float = 1.0) -> [b]:
    return def * class

fn unlike_python(factor: float = 2.0, x: [b]) -> [b]:
    return x * factor

fn total(self: Row[b]) -> [b]:
    return sum(self.self, over=2)
"""
    )
    program = shapescript.load(tmp_path / "words.ss", engine="numpy")
    assert getattr(program, "lambda")(numbers(3), **{"class": 2}).tolist() == [0.0, 2.0, 4.0]
    assert program.unlike_python(x=numbers(2)).tolist() == [0.0, 2.0]
    columns: dict[str, Any] = {"self": numbers(3, 2), "class": np.zeros(3, np.int64)}
    assert program.total(self=program.Row.batch(**columns)).tolist() == [1.0, 5.0, 9.0]
    assert len(program.Row.dataset(**columns)) == 3
    for name in ("lambda", "unlike_python"):
        assert f"fn {name}(" in pydoc.plain(pydoc.render_doc(getattr(program, name)))


def test_errors_of_a_program_are_told_when_it_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "wrong.ss"
    path.write_text("dim D = 3\n\nfn f(x: [b D]) -> [b D]:\n    return x + nothing\n")
    with pytest.raises(shapescript.CompileError) as raised:
        shapescript.load(path)
    (diagnostic,) = raised.value.diagnostics
    assert diagnostic.code == "E0201"
    assert diagnostic.span is not None and (diagnostic.span.line, diagnostic.span.text) == (4, "nothing")
    assert "return x + nothing" in str(raised.value)
    assert [found.code for found in shapescript.check(path)] == ["E0201"]
    assert shapescript.check(path.with_name("small.ss"))[0].code == "E0204"
    with pytest.raises(FileNotFoundError):
        shapescript.load(tmp_path / "none.ss")
    with pytest.raises(ValueError, match="'native' or 'numpy'"):
        shapescript.load(path, engine="gpu")  # type: ignore[arg-type]


# ---- models and records


def test_a_model_starts_from_its_seed(tmp_path: Path) -> None:
    program = small_program(tmp_path)
    first, again, other = program.Block[5](seed=3), program.Block(seed=3, N=5), program.Block[5](seed=4)
    assert first.weight.shape == (5, 5)
    assert np.array_equal(first.weight, again.weight) and not np.array_equal(first.weight, other.weight)
    assert np.abs(first.weight).max() <= 1 / np.sqrt(5)
    stack = program.Stack[2, 3](seed=3)
    assert [block.weight.shape for block in stack.blocks] == [(2, 2)] * 3


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda program: program.Line(seed=-1), "R1004"),
        (lambda program: program.Line(seed=1.0), "R1004"),
        (lambda program: program.Line[3](seed=1), "R1005"),
        (lambda program: program.Block(seed=1), "R1005"),
        (lambda program: program.Block(seed=1, M=3), "R1005"),
        (lambda program: program.Block[3, 4](seed=1), "R1005"),
        (lambda program: program.Block[-1](seed=1), "R1004"),
        (lambda program: program.Block["3"](seed=1), "R1004"),
    ],
)
def test_what_makes_no_model(tmp_path: Path, make: Any, code: str) -> None:
    with pytest.raises(shapescript.ArgumentError) as raised:
        make(small_program(tmp_path))
    assert raised.value.code == code


def test_a_dataset_is_checked_against_its_record(tmp_path: Path) -> None:
    point = small_program(tmp_path).Point
    assert len(point.dataset(x=numbers(4, 3), label=np.arange(4))) == 4
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("R1001", {"x": np.zeros((4, 3)), "label": np.arange(4)}),
        ("R1002", {"x": numbers(4, 2), "label": np.arange(4)}),
        ("R1003", {"x": numbers(4, 3), "label": np.arange(5)}),
        ("R1005", {"x": numbers(4, 3)}),
        ("R1005", {"x": numbers(4, 3), "label": np.arange(4), "y": 3}),
    ]
    for code, arrays in wrong:
        with pytest.raises(shapescript.ArgumentError) as raised:
            point.dataset(**arrays)
        assert raised.value.code == code


# ---- results


def test_results_are_arrays_numbers_models_and_tuples(small: Any) -> None:
    m = small.Line(seed=0)
    assert small.predict(m, numbers(4, 3)).tolist() == [3.0, 12.0, 21.0, 30.0]
    assert small.total(numbers(4)) == 6.0 and type(small.total(numbers(4))) is float
    assert small.halves(3, 1) == (0.5, 3, False)
    assert [type(value) for value in small.halves(3, 1)] == [float, int, bool]
    assert small.apply_all(small.Stack[3, 2](seed=1), numbers(2, 3)).shape == (2, 3)
    assert isinstance(small.kept(m), shapescript.Model)
    assert (small.optimiser(m).decay, small.optimiser(m).step) == (0.5, 0)
    assert small.count(small.Point.dataset(x=numbers(5, 3), label=np.arange(5))) == 3
    x, n, keep = small.widen(np.ones(2), np.arange(2), np.array([True, False]))
    assert (x.dtype, n.dtype, keep.dtype) == (np.float64, np.int64, np.bool_)


def test_any_number_of_rows_compiles_once(small: Any) -> None:
    """Field report 5: sizes 0 and 1 are sizes like others."""
    m, instances = small.Line(seed=0), vars(small)["_instances"]
    for rows in (1, 2, 0, 7, 1, 0):
        x = numbers(rows, 3)
        assert small.predict(m, x).tolist() == x.sum(axis=1).tolist()
    assert len(instances) == 1
    for size in (3, 4, 3):
        small.apply(small.Block[size](seed=1), numbers(2, size))
    assert len(instances) == 3


def test_leading_axes_come_back_as_they_were(small: Any) -> None:
    weights = numbers(3)
    for shape in [(3,), (2, 3), (2, 4, 3), (0, 4, 3)]:
        x = numbers(*shape)
        assert np.array_equal(small.leading(x, weights), x * weights)


def test_a_result_is_nobody_elses(small: Any) -> None:
    x = numbers(3)
    result = small.same(x)
    assert not np.shares_memory(x, result) and result.flags.writeable
    m = small.Line(seed=0)
    kept = small.kept(m)
    m.slope = numbers(3)
    assert kept.slope.tolist() == [1.0, 1.0, 1.0]


def test_nan_comes_back_with_canonical_bits(small: Any) -> None:
    strange = np.array([0xFFC12345, 0x7F800000, 0xFF7FFFFF], np.uint32).view(F32)
    assert small.same(strange).view(np.uint32).tolist() == [0x7FC00000, 0x7F800000, 0xFF7FFFFF]


def test_arrays_of_any_layout_and_of_other_libraries_are_taken(small: Any) -> None:
    assert small.same(numbers(4, 2)[:, 1]).tolist() == [1.0, 3.0, 5.0, 7.0]
    assert small.same(torch.arange(3, dtype=torch.float32)).tolist() == [0.0, 1.0, 2.0]
    odd = np.frombuffer(b"\0" + numbers(3).tobytes(), np.uint8)[1:].view(F32)
    assert not odd.flags.aligned and small.same(odd).tolist() == [0.0, 1.0, 2.0]
    read_only = numbers(3)
    read_only.flags.writeable = False
    assert small.same(read_only).tolist() == [0.0, 1.0, 2.0]
    assert small.product(numbers(2, 3).T.copy().T, numbers(3, 2)).tolist() == (numbers(2, 3) @ numbers(3, 2)).tolist()
    _, _, keep = small.widen(np.ones(2), np.arange(2), np.array([2, 0], np.uint8).view(np.bool_))
    assert keep.view(np.uint8).tolist() == [1, 0]


# ---- what changes and what doesn't


def test_only_mut_arguments_change(small: Any) -> None:
    m, other = small.Line(seed=0), small.Line(seed=0)
    opt = shapescript.AdamW(m)
    batch = small.Point.batch(x=numbers(2, 3), label=np.arange(2))
    buffer = m.buffer
    loss = small.fit_one(m, opt, batch, other)
    assert loss == 7.5 and opt.step == 1
    assert m.buffer is buffer and np.all(m.slope < 1.0)
    assert other.slope.tolist() == [1.0, 1.0, 1.0]
    assert batch.x.tolist() == numbers(2, 3).tolist()


def test_a_state_is_not_changed_under_two_names(small: Any) -> None:
    m = small.Line(seed=0)
    opt, batch = shapescript.AdamW(m), small.Point.batch(x=numbers(2, 3), label=np.arange(2))
    with pytest.raises(shapescript.ArgumentError, match="m and other are the same value, and fit_one changes m") as raised:
        small.fit_one(m, opt, batch, m)
    assert raised.value.code == "R1006"
    assert opt.step == 0 and m.slope.tolist() == [1.0, 1.0, 1.0]
    small.fit_one(m, opt, batch, m.copy())


def test_overloads_go_by_the_types_of_arguments(small: Any) -> None:
    assert small.norm(numbers(3)) == 5.0
    assert small.norm(small.Line(seed=0)) == 3.0
    with pytest.raises(shapescript.ArgumentError, match=r"R1004: norm: no overload fits .*norm\(x: \[b\]\).*norm\(m: Line\)"):
        small.norm(3)
    with pytest.raises(shapescript.ArgumentError, match=r"R1002: x: expected 1 axis \[b\], got shape \(2, 2\)"):
        small.norm(numbers(2, 2))


def test_several_threads_may_call(small: Any) -> None:
    m, results = small.Line(seed=0), dict[int, list[float]]()

    def call(rows: int) -> None:
        results[rows] = small.predict(m, numbers(rows, 3)).tolist()

    threads = [threading.Thread(target=call, args=(rows,)) for rows in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {rows: numbers(rows, 3).sum(axis=1).tolist() for rows in range(8)}
    assert len(vars(small)["_instances"]) == 1


# ---- the example from Python, as the README has it


def test_the_example_from_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program, (pixels, label) = example(), digits()
    m = program.Mlp(seed=1234)
    train = program.Digit.dataset(pixels=pixels[:200], label=label[:200])
    sink = shapescript.MemorySink()
    program.fit(m, train, sink, epochs=10, mode=shapescript.Eval)
    assert [record.step for record in sink.records] == list(range(1, 41))
    assert sink.records[-1].loss < sink.records[0].loss
    before = m.state_dict()
    assert program.forward(m, pixels[:3], mode=shapescript.Eval).shape == (3, 10)
    opt = shapescript.AdamW(m)
    for batch in train.shuffle(3).batches(64):
        program.train_step(m, opt, batch, sink, shapescript.Eval)
    assert opt.step == 4 and not np.array_equal(m.hidden.weight, before["hidden.weight"])
    m.load_state_dict(before)
    assert np.array_equal(m.hidden.weight, before["hidden.weight"])
    shapescript.save_checkpoint("a.pt", m=m, opt=opt, epochs=3)
    found = shapescript.load_checkpoint("a.pt")
    assert found["epochs"] == 3 and np.array_equal(found["m"]["output.bias"], m.output.bias)
    assert torch.load("a.pt", weights_only=True)["m"]["hidden.weight"].shape == (128, 64)


def test_batches_are_those_of_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One epoch by calls of train_step, in the order that Python gives, is `fit` with one epoch, bit for bit."""
    monkeypatch.chdir(tmp_path)
    program, (pixels, label) = example(), digits()
    train = program.Digit.dataset(pixels=pixels[:200], label=label[:200])
    whole, stepped, sink = program.Mlp(seed=1), program.Mlp(seed=1), shapescript.MemorySink()
    program.fit(whole, train, sink, epochs=1, mode=shapescript.Train(seed=3))
    opt, mode = shapescript.AdamW(stepped), shapescript.Train(seed=3)
    for batch in train.shuffle(0).batches(64):
        program.train_step(stepped, opt, batch, sink, mode)
    assert stepped.buffer.tobytes() == whole.buffer.tobytes()
    assert sink.records[:4] == sink.records[4:]
