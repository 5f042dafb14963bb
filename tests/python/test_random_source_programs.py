"""Random programs as texts: native code gives the reference's bytes, and both lie within derived bounds of PyTorch.

A failure prints the program, shortened to what fails. `random_source` says what the programs are made of.
"""

from __future__ import annotations

import copy
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
DIRECTIONS = 2


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
        *plain, model = arguments
        twin = self.reference.Net(seed=0)
        twin.load_state_dict(model.state_dict())
        wanted = list(_tuple(self.reference.everything(*copy.deepcopy(plain), twin)))
        found = list(_tuple(self.native.everything(*plain, model)))
        assert contents(found) == contents(wanted), "native code and the reference differ"
        return found

    def beside_pytorch(self, run: int, found: list[Any]) -> None:
        """Floats lie within the bound that the generator derived, all else is equal."""
        *plain, model = self.arguments(run)
        given = [_tensor(argument) for argument in plain]
        tensors = {name: _tensor(array) for name, array in model.state_dict().items()}
        results = iter(found)
        for function in self.program.functions:
            theirs = self.program.twins[function.name](self.program.sizes(run), *given, tensors)
            for result, expected in zip(function.results, theirs, strict=True):
                ours, expected = np.asarray(next(results)), np.asarray(expected)
                assert ours.shape == expected.shape, (function.name, result.ours)
                if ours.dtype.kind == "f":
                    far = float(np.abs(ours - expected).max(initial=0.0))
                    assert far <= result.error, f"{function.name}: {result.ours} is off by {far:.3g}, more than {result.error:.3g}"
                else:
                    assert np.array_equal(ours, expected), f"{function.name}: {result.ours} is {ours}, in PyTorch {expected}"


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
    program = gradient_program(seed, GRADIENTS_TOGETHER)
    both = Both(program, tmp_path / "random.ss")
    rng = np.random.default_rng(seed)
    for run in range(RUNS):
        arguments = both.arguments(run)
        found = both.call(arguments)
        for number in range(DIRECTIONS):
            along_a_direction(both, arguments, found, rng)


def along_a_direction(both: Both, arguments: list[Any], found: list[Any], rng: np.random.Generator) -> None:
    """Gradients beside differences of four values along one direction through all arguments and the model.

    The difference of the two estimates bounds what is left of the function's third derivative; beside it stands the rounding of a
    value over the step.
    """
    names = [parameter.ours for parameter in both.program.parameters]
    along = {name: rng.standard_normal(np.shape(argument)) for name, argument in zip(names, arguments, strict=False)}
    *plain, model = arguments
    state = model.state_dict()
    along |= {name: rng.standard_normal(array.shape) for name, array in state.items()}

    def values(step: float, wrt: tuple[str, ...]) -> list[Any]:
        moved = [argument + step * along[name] if name in wrt else argument for name, argument in zip(names, plain, strict=False)]
        moved += plain[len(names) :]
        twin = both.native.Net(seed=0)
        twin.load_state_dict({name: array + step * along[name] if name in wrt else array for name, array in state.items()})
        return list(_tuple(both.native.everything(*moved, twin)))

    place = 0
    for function in both.program.functions:
        value, *gradients = found[place : place + len(function.results)]
        slope = sum(float(np.vdot(gradient, along[name])) for gradient, name in zip(gradients, function.wrt, strict=True))
        size = sum(float(np.vdot(np.abs(gradient), np.abs(along[name]))) for gradient, name in zip(gradients, function.wrt, strict=True))
        near, far = (
            (values(step, function.wrt)[place] - values(-step, function.wrt)[place]) / (2 * step) for step in (STEP / 2, STEP)
        )
        allowed = abs(near - far) + 2.0**-52 * (1000 * abs(value) / STEP + 1000 * size) + 1e-9
        assert abs((4 * near - far) / 3 - slope) <= allowed, (
            f"{function.name}: {slope} along a direction, by differences {(4 * near - far) / 3} within {allowed:.3g}\n{both.program.text([function])}"
        )
        place += len(function.results)
