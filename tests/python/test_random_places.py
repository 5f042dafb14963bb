"""Random places taken and put, and random einsums: values and gradients in both engines to the byte, and beside PyTorch."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from random_place_programs import place_program

import shapescript

PROGRAMS = 5
SIZES = ((3, 4, 5, 1, 2), (2, 2, 2, 0, 2), (9, 3, 17, 0, 3), (1, 2, 3, 0, 1), (3, 4, 5, 2, 1), (0, 4, 5, 0, 1), (3, 4, 5, 3, 4))


def both(path: Path, text: str) -> tuple[Any, Any]:
    path.write_text(text)
    return shapescript.load(path), shapescript.load(path, engine="numpy")


def outcome(function: Any, *arguments: Any) -> Any:
    """The arrays of the results, or the error."""
    try:
        found = function(*arguments)
    except shapescript.ShapeScriptError as error:
        return error.code, error.message
    return [np.asarray(part) for part in (found if isinstance(found, tuple) else (found,))]


def same_outcome(native: Any, reference: Any, name: str, *arguments: Any) -> Any:
    one, other = (outcome(getattr(program, name), *arguments) for program in (native, reference))
    if isinstance(one, tuple) or isinstance(other, tuple):
        assert one == other
    else:
        assert [part.tobytes() for part in one] == [part.tobytes() for part in other]
    return one


@pytest.mark.parametrize("seed", range(6))
def test_places_beside_pytorch(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    programs = [place_program(rng, name) for name in range(PROGRAMS)]
    native, reference = both(tmp_path / "places.ss", "\n".join(program.text for program in programs))
    numbers = np.random.default_rng(seed)
    for name, program in enumerate(programs):
        for a, b, c, i, j in SIZES:
            x, by, w = numbers.standard_normal((a, b, c)), numbers.standard_normal((a, b, c)), numbers.standard_normal()
            value = same_outcome(native, reference, f"f{name}", x, w, i, j)
            gradients = same_outcome(native, reference, f"g{name}", x, by, w, i, j)
            if isinstance(value, tuple):
                assert {value[0], gradients[0]} <= {"R1107", "R1003"}, (value, gradients)  # which of two comes first is open
                continue
            theirs_x, theirs_w = torch.from_numpy(x).requires_grad_(), torch.tensor(w, dtype=torch.float64, requires_grad=True)
            theirs = program.torch(theirs_x, theirs_w, i, j, a, b, c)
            np.testing.assert_allclose(value[0], theirs.detach(), rtol=1e-12, atol=1e-12, err_msg=program.text)
            (theirs * torch.from_numpy(by)).sum().backward()
            expected = (theirs_x.grad, np.zeros(()) if theirs_w.grad is None else theirs_w.grad)
            for found, gradient in zip(gradients, expected, strict=True):
                np.testing.assert_allclose(found, gradient, rtol=1e-9, atol=1e-9, err_msg=program.text)


EINSUM = """
fn f{0}({1}) -> f64[{2}]:
    return einsum({3}: {4} -> {2})

fn g{0}({1}) -> f64[{5}]:
    l, g = value_and_grad({6}, wrt=x0)
    return g
"""


def einsum_program(name: int, operands: list[list[str]], out: list[str]) -> str:
    parameters = ", ".join(f"x{place}: f64[{' '.join(axes)}]" for place, axes in enumerate(operands))
    names = ", ".join(f"x{place}" for place in range(len(operands)))
    square = f"f{name}({names}) * f{name}({names})"
    loss = f"sum({square}, over={out[0] if len(out) == 1 else '(' + ', '.join(out) + ')'})" if out else square
    return EINSUM.format(name, parameters, " ".join(out), names, ", ".join(map(" ".join, operands)), " ".join(operands[0]), loss)


@pytest.mark.parametrize("seed", range(4))
def test_einsums_beside_pytorch(seed: int, tmp_path: Path) -> None:
    rng, letters = random.Random(seed), "abcek"
    specs: list[tuple[list[list[str]], list[str]]] = []
    for _ in range(12):
        operands = [rng.choices(letters, k=rng.randint(1, 3)) for _ in range(rng.randint(1, 4))]
        used = sorted({axis for axes in operands for axis in axes})
        specs.append((operands, rng.sample(used, rng.randint(0, min(3, len(used))))))
    native, reference = both(tmp_path / "einsums.ss", "\n".join(einsum_program(name, *spec) for name, spec in enumerate(specs)))
    numbers = np.random.default_rng(seed)
    for name, (operands, out) in enumerate(specs):
        without = {**dict.fromkeys(letters, 3), rng.choice(letters): 0}
        for sizes in (dict(zip(letters, (2, 3, 4, 1, 5), strict=True)), dict.fromkeys(letters, 1), without):
            given = [numbers.standard_normal([sizes[axis] for axis in axes]) for axes in operands]
            (value,) = same_outcome(native, reference, f"f{name}", *given)
            (gradient,) = same_outcome(native, reference, f"g{name}", *given)
            theirs = [torch.from_numpy(array).requires_grad_() for array in given]
            product = torch.einsum(f"{','.join(map(''.join, operands))}->{''.join(out)}", *theirs)
            np.testing.assert_allclose(value, product.detach(), rtol=1e-9, atol=1e-9)
            (product * product).sum().backward()
            np.testing.assert_allclose(gradient, theirs[0].grad, rtol=1e-8, atol=1e-8)
