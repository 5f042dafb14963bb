"""Random programs as texts: native code gives the reference's bytes, and both lie within derived bounds of PyTorch.

A failure prints the program, shortened to what fails. `random_source` says what the programs are made of.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from both_engines import contents
from random_source.program import RUNS, Program, gradient_program, random_program
from random_source.shrinking import shrunk

import shapescript
from shapescript.checking import checked_file
from shapescript.program import Program as Loaded

TOGETHER = 12  # programs in one file: compiled at once, since making native code has a price of its own
FILES = 167
GRADIENTS_TOGETHER = 6
GRADIENT_FILES = 50
STEP = 2.0**-10
DIRECTIONS = 1
ROUNDING = 1e-12  # of a value, with a margin: sums of up to a few thousand terms
NATIVE_EACH = 3  # of so many files of gradients, one is compiled natively too


class Both:
    """A program's file in both engines, checked once."""

    def __init__(self, program: Program, path: Path) -> None:
        path.write_text(program.text())
        self.program = program
        checked = checked_file(path, None)
        self.native, self.reference = Loaded(checked, path, "native"), Loaded(checked, path, "numpy")

    def arguments(self, run: int) -> list[Any]:
        return [*self.program.arguments(run), self.native.Net(seed=self.program.seed)]

    def call(self, arguments: list[Any]) -> list[Any]:
        """What native code gives; what the reference gives must be the same to the bit."""
        wanted = self.of_reference("everything", copy.deepcopy(arguments[:-1]) + arguments[-1:])
        found = list(_tuple(self.native.everything(*arguments)))
        assert contents(found) == contents(wanted), "native code and the reference differ"
        return found

    def of_reference(self, name: str, arguments: list[Any]) -> list[Any]:
        *plain, model = arguments
        twin = self.reference.Net(seed=0)
        twin.load_state_dict(model.state_dict())
        return list(_tuple(getattr(self.reference, name)(*plain, twin)))

    def beside_pytorch(self, run: int, found: list[Any]) -> None:
        """Floats lie within the bound that the generator derived, all else is equal."""
        results = (result for function in self.program.functions for result in function.results)
        for result, (name, ours, theirs) in zip(results, self._pairs(run, found), strict=True):
            assert ours.shape == theirs.shape, (name, result.ours)
            if ours.dtype.kind == "f":
                far = float(np.abs(ours - theirs).max(initial=0.0))
                assert far <= result.error, f"{name}: {result.ours} is off by {far:.3g}, more than {result.error:.3g}"
            else:
                assert np.array_equal(ours, theirs), f"{name}: {result.ours} is {ours}, in PyTorch {theirs}"

    def near_pytorch(self, run: int, found: list[Any]) -> None:
        """Gradients, of which no bound is known, lie within a part of the largest of their elements."""
        for name, ours, theirs in self._pairs(run, found):
            size = float(np.abs(theirs).max(initial=1.0))
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-10 * size, err_msg=name)

    def _pairs(self, run: int, found: list[Any]) -> Iterator[tuple[str, Any, Any]]:
        *plain, model = self.arguments(run)
        given = [_tensor(argument) for argument in plain]
        tensors = {name: _tensor(array) for name, array in model.state_dict().items()}
        results = iter(found)
        for function in self.program.functions:
            for theirs in self.program.twins[function.name](self.program.sizes(run), *given, tensors):
                yield function.name, np.asarray(next(results)), np.asarray(theirs)


def _tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _tensor(argument: Any) -> Any:
    """As the twins want it: all floats are f64."""
    if not isinstance(argument, np.ndarray):
        return argument
    return torch.from_numpy(argument.astype(np.float64) if argument.dtype == np.float32 else argument.copy())


def mistake(program: Program, path: Path) -> str | None:
    """What is wrong with a valid program."""
    try:
        both = Both(program, path)
    except shapescript.CompileError:
        return None
    try:
        for run in range(RUNS):
            both.beside_pytorch(run, both.call(both.arguments(run)))
    except Exception as error:  # an error of the compiler is a mistake like another
        return f"run {run}: {type(error).__name__}: {error}"
    return None


@pytest.mark.parametrize("seed", range(FILES))
def test_random_programs(seed: int, tmp_path: Path) -> None:
    program, path = random_program(seed, TOGETHER), tmp_path / "random.ss"
    path.write_text(program.text())
    checked_file(path, None)  # every program is valid
    if (wrong := mistake(program, path)) is not None:
        kind = wrong.split(":")[1]
        least = shrunk(program, lambda smaller: kind == (mistake(smaller, path) or "::").split(":")[1])
        pytest.fail(f"{wrong}\n\nshortened: {mistake(least, path)}\n{least.text()}", pytrace=False)


@pytest.mark.parametrize("seed", range(GRADIENT_FILES))
def test_gradients_of_random_programs(seed: int, tmp_path: Path) -> None:
    both = Both(gradient_program(seed, GRADIENTS_TOGETHER), tmp_path / "random.ss")
    rng = np.random.default_rng(seed)
    for run in range(RUNS):
        arguments = both.arguments(run)
        found = both.call(arguments) if seed % NATIVE_EACH == 0 else both.of_reference("everything", arguments)
        both.near_pytorch(run, found)
        for _ in range(DIRECTIONS):
            along_a_direction(both, arguments, found, rng)


def along_a_direction(both: Both, arguments: list[Any], found: list[Any], rng: np.random.Generator) -> None:
    """Gradients beside differences of four values along one direction through all that they are by.

    Two differences, with one step and with half of it, make an estimate that is better than both. How far the two lie apart bounds what
    is left; beside it stands the rounding of a value, divided by the step.
    """
    *plain, model = arguments
    numbers = {parameter.ours: argument for parameter, argument in zip(both.program.parameters, plain, strict=False)}
    numbers |= model.state_dict()
    along = {name: rng.standard_normal(np.shape(number)) for name, number in numbers.items()}

    def values(step: float) -> Any:
        """The losses, each of them where only what its own gradients are by has moved."""
        found = []
        for function in both.program.functions:
            moved = {name: number + step * along[name] if name in function.wrt else number for name, number in numbers.items()}
            twin = both.reference.Net(seed=0)
            twin.load_state_dict({name: moved[name] for name in model.state_dict()})
            given = [moved[parameter.ours] for parameter in both.program.parameters]
            found += both.of_reference(function.losses[0].name, [*given, *plain[len(given) :], twin])
        return np.array(found)

    near, far = ((values(step) - values(-step)) / (2 * step) for step in (STEP / 2, STEP))
    results = iter(found)
    for function, one, other in zip(both.program.functions, near, far, strict=True):
        value, *gradients = itertools.islice(results, len(function.results))
        products = [gradient * along[name] for gradient, name in zip(gradients, function.wrt, strict=True)]
        slope, size = (sum(float(np.sum(part(product))) for product in products) for part in (np.positive, np.abs))
        allowed = abs(one - other) + ROUNDING * (abs(value) / STEP + size)
        wanted = (4 * one - other) / 3
        assert abs(wanted - slope) <= allowed, (
            f"{function.name}: {slope} along a direction, by differences {wanted} within {allowed:.3g}\n{both.program.text([function])}"
        )
