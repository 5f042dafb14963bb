"""Runs an entry in both engines and in PyTorch, and says where they lie apart."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

import shapescript
from comparisons.comparison import Array, Comparison, Make, normal
from comparisons.programs import Parameter, Shown, bent_program, compared_program, shown, wrt_of
from shapescript.compiler.ir.nodes import walk
from shapescript.compiler.passes.pipeline import STEPS, compile_entry
from shapescript.runtime.model import Model

DTYPES = {"f32": np.float32, "f64": np.float64, "int": np.int64, "bool": np.bool_}
LARGE = 1000  # the elements of a tensor that holds extreme numbers

Sizes = dict[str, int]


@dataclass(frozen=True)
class Outcome:
    """The value of f, and the gradients by name."""

    value: Any
    gradients: Mapping[str, Any]


class Compared:
    """An entry for one element type."""

    def __init__(self, comparison: Comparison, element: str, folder: Path) -> None:
        self.comparison, self.element = comparison, element
        self.dtype = DTYPES[element]
        self.f: Shown = shown(comparison)
        self.wrt = wrt_of(comparison, self.f)
        self.folder = folder
        path = folder / "compared.ss"
        path.write_text(compared_program(comparison, element), "utf-8")
        self.native, self.reference = (shapescript.load(path, engine=engine) for engine in ("native", "numpy"))

    # ---- arguments

    def cases(self) -> Iterator[Sizes]:
        """Sizes for the axis variables: different ones, all 1, one of them 0, and more than a vector register holds."""
        names = self.f.variables
        rng = self._generator("sizes")
        yield dict(zip(names, rng.permutation(np.arange(2, 2 + len(names))).tolist(), strict=True))
        if not names:
            return
        yield dict.fromkeys(names, 1)
        for name in names:
            if name not in self.comparison.nonempty:
                yield {**dict.fromkeys(names, 3), name: 0}
        for sizes in ((37, 19, 5), (5, 33, 2)):
            yield {name: min(sizes[min(place, 2)], self.comparison.largest) for place, name in enumerate(names)}

    def empty_cases(self) -> Iterator[Sizes]:
        """Each axis variable that PyTorch isn't given without places, without places."""
        for name in self.comparison.nonempty:
            sizes = {**dict.fromkeys(self.f.variables, 2), name: 0}
            if all(size >= 0 for parameter in self.f.parameters for size in self.f.shape(parameter, sizes)):
                yield sizes

    def arguments(self, sizes: Sizes, seed: str = "numbers") -> list[Any]:
        rng = self._generator(seed)
        return [self._argument(parameter, sizes, rng) for parameter in self.f.parameters]

    def extreme_arguments(self) -> list[Any]:
        """Tensors of T hold numbers of the limits: nothing else where the entry is elementwise, else some among others."""
        names = self.f.variables
        each = min(round(LARGE ** (1 / max(len(names), 1))), max(self.comparison.largest, 1))
        rng, limits = self._generator("extremes"), np.array(self.comparison.limits)
        arguments = self.arguments(dict.fromkeys(names, each), "extremes")
        for place, parameter in enumerate(self.f.parameters):
            if parameter.element != "T":
                continue
            with np.errstate(over="ignore"):
                chosen = rng.choice(limits, arguments[place].shape).astype(self.dtype)
            here = True if self.comparison.elementwise else rng.random(chosen.shape) < 1 / 16
            arguments[place] = np.where(here, chosen, arguments[place]).astype(self.dtype)
        return arguments

    def _generator(self, what: str) -> np.random.Generator:
        return np.random.default_rng(zlib.crc32(f"{self.comparison.name} {what}".encode()))

    def _argument(self, parameter: Parameter, sizes: Sizes, rng: np.random.Generator) -> Any:
        shape = self.f.shape(parameter, sizes)
        make = self.comparison.inputs.get(parameter.name)
        if make is None and parameter.is_differentiable and parameter.element is None:
            return getattr(self.native, parameter.kind)(seed=int(rng.integers(1, 1000)))
        if make is None:
            make = self._usual(parameter)
        made = make(rng, shape, self.dtype)
        return made if parameter.element is None else np.asarray(made, DTYPES.get(parameter.element, self.dtype))

    def _usual(self, parameter: Parameter) -> Make:
        match parameter.element:
            case "bool":
                return lambda rng, shape, dtype: rng.integers(0, 2, shape).astype(bool)
            case "int":
                return lambda rng, shape, dtype: rng.integers(-9, 10, shape)
            case None:
                raise ValueError(f"{self.comparison.name}: say in `inputs` what `{parameter.name}` is")
        return normal()

    # ---- our side

    def ours(self, arguments: Sequence[Any], weights: Sequence[Any]) -> Outcome:
        """In native code; the reference must give the same bytes."""
        found = self._results(self.native, arguments, weights)
        other = self._results(self.reference, arguments, weights)
        for name, one, two in zip(("value", *self.wrt), found, other, strict=True):
            assert _bytes(one) == _bytes(two), f"{name}: native code and the reference differ in {_differences(one, two)}"
        return Outcome(found[0], dict(zip(self.wrt, found[1:], strict=True)))

    def same_outcome(self, arguments: Sequence[Any]) -> None:
        """The results' bytes, or the error, of `f` itself."""
        native, reference = (self._outcome(program, arguments) for program in (self.native, self.reference))
        assert native == reference

    def _outcome(self, program: Any, arguments: Sequence[Any]) -> Any:
        try:
            return _bytes(program.f(*[_for_program(program, argument) for argument in arguments]))
        except shapescript.ShapeScriptError as error:
            return error.code, error.message

    def _results(self, program: Any, arguments: Sequence[Any], weights: Sequence[Any]) -> list[Any]:
        given = [_for_program(program, argument) for argument in arguments]
        results = program.compared(*given, *(weights if self.wrt else ()))
        return list(results) if self.wrt else [results]

    # ---- PyTorch's

    def theirs(self, arguments: Sequence[Any], weights: Sequence[Any]) -> Outcome:
        given = [self._tensor(p, argument) for p, argument in zip(self.f.parameters, arguments, strict=True)]
        value = self.comparison.torch(*given)
        if not self.wrt:
            return Outcome(_array(value), {})
        weight, counted = (torch.from_numpy(np.array(part)) for part in weights)
        leaves = {p.name: given[place] for place, p in enumerate(self.f.parameters) if p.name in self.wrt}
        loss = torch.where(counted, value * weight, torch.zeros_like(value)).sum()
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]
        return Outcome(_array(value), {name: _gradient(leaf) for name, leaf in leaves.items()})

    def _tensor(self, parameter: Parameter, argument: Any) -> Any:
        if isinstance(argument, Model):
            tensors = {name: torch.from_numpy(array) for name, array in argument.state_dict().items()}
            return {name: tensor.requires_grad_(tensor.is_floating_point()) for name, tensor in tensors.items()}
        if parameter.element is None:
            return argument
        tensor = torch.from_numpy(np.array(argument))
        return tensor.requires_grad_() if parameter.name in self.wrt else tensor

    # ---- the comparison

    def weights(self, value: Any, theirs: Any = None) -> tuple[Any, Any]:
        """Uneven weights of the value's elements, and which of them are counted: those that are finite on both sides."""
        value = np.asarray(value)
        weight = self._generator("weights").uniform(0.5, 1.5, value.shape).astype(self.dtype)
        with np.errstate(over="ignore"):
            counted = np.isfinite(value) & np.isfinite(value if theirs is None else theirs)
            counted &= np.abs(value) < np.finfo(self.dtype).max / 2 / max(value.size, 1)
        return (weight, counted) if value.shape else (self.dtype(weight), bool(counted))

    def compare(self, arguments: Sequence[Any], extreme: bool = False) -> None:
        """Raises AssertionError where value or gradients lie further apart than the entry says."""
        theirs = self.theirs(arguments, ()) if not self.wrt else None
        if theirs is None:
            with torch.no_grad():
                value = _array(self.comparison.torch(*[self._tensor(p, a) for p, a in zip(self.f.parameters, arguments, strict=True)]))
            weights = self.weights(value)
            theirs = self.theirs(arguments, weights)
        else:
            weights = ()
        found = self.ours(arguments, weights)
        within = self.comparison.within
        self.near("value", found.value, theirs.value, (within.relative, within.absolute))
        for name in self.wrt:
            everywhere = bool(np.all(weights[1]))
            if extreme and not everywhere and not self.comparison.elementwise:
                continue  # what isn't counted still reaches the gradients of its neighbours, as NaN
            where = weights[1] if extreme and np.shape(weights[1]) == np.shape(found.gradients[name]) else True
            if extreme and not everywhere and where is True:
                continue
            self.near(f"gradient by {name}", found.gradients[name], theirs.gradients[name], within.of_gradient(), where)

    def near(self, what: str, found: Any, expected: Any, bound: tuple[float, float], where: Any = True) -> None:
        if isinstance(expected, Mapping):
            for name, tensor in expected.items():
                self.near(f"{what}: {name}", found[name], tensor, bound, where)
            return
        expected = np.asarray(expected)
        found = np.asarray(found, expected.dtype if isinstance(found, float) else None)  # a `[]` comes back as Python's float
        assert found.shape == expected.shape, (what, found.shape, expected.shape)
        if expected.dtype.kind != "f":
            np.testing.assert_array_equal(found, expected, what)
            return
        assert found.dtype == expected.dtype, (what, found.dtype, expected.dtype)
        limits = np.finfo(expected.dtype)
        ours, theirs = found.astype(np.float64), expected.astype(np.float64)
        with np.errstate(all="ignore"):
            size = np.abs(np.where(np.isfinite(theirs), theirs, 0.0))
            if not self.comparison.elementwise:
                size = np.full_like(size, size.max(initial=0.0))
            allowed = float(limits.eps) * (bound[0] * np.maximum(size, float(limits.tiny)) + bound[1])
            near = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs)) | (np.abs(ours - theirs) <= allowed)
        wrong = ~near & where
        places = [tuple(map(int, place)) for place in np.argwhere(wrong)[:5]]
        shown_ = [(place, found[place].item(), expected[place].item()) for place in places]
        with np.errstate(all="ignore"):
            units = np.nanmax(np.where(np.isfinite(theirs), np.abs(ours - theirs) / np.maximum(size, float(limits.tiny)), 0), initial=0.0)
        assert not wrong.any(), f"{what}: {int(wrong.sum())} of {wrong.size} differ, by up to {units / limits.eps:.3g} epsilon: {shown_}"

    def along_directions(self) -> None:
        """The gradients (f64) beside differences along a random direction through all arguments."""
        sizes = next(self.cases())
        arguments = self.arguments(sizes, "direction")
        value = self._results(self.native, arguments, self.weights(self._any_value(arguments)))[0]
        weights = self.weights(value)
        gradients = dict(zip(self.wrt, self._results(self.native, arguments, weights)[1:], strict=True))
        rng, step = self._generator("directions"), 1e-6
        directions = {name: _each(lambda part: rng.standard_normal(np.shape(part)), gradients[name]) for name in self.wrt}
        moved = [self._moved(arguments, directions, sign * step) for sign in (1, -1)]
        up, down = (np.sum(np.asarray(self._results(self.native, given, weights)[0]) * weights[0]) for given in moved)
        pairs = [pair for name in self.wrt for pair in zip(_parts(gradients[name]), _parts(directions[name]), strict=True)]
        slope = sum(np.vdot(one, way) for one, way in pairs)
        size = sum(np.vdot(np.abs(one), np.abs(way)) for one, way in pairs)
        assert abs(slope - (up - down) / (2 * step)) <= 1e-6 * size + 1e-8, (slope, (up - down) / (2 * step))

    def twice(self) -> None:
        """The gradients (f64) of the gradients along random directions."""
        arguments = self.arguments(next(self.cases()), "twice")
        rng = self._generator("twice")
        given = [self._tensor(p, argument) for p, argument in zip(self.f.parameters, arguments, strict=True)]
        value = self.comparison.torch(*given)
        weight, _ = self.weights(_array(value))
        leaves = [given[place] for place, p in enumerate(self.f.parameters) if p.name in self.wrt]
        along = [rng.standard_normal(tuple(leaf.shape)) for leaf in leaves]
        first = torch.autograd.grad((value * torch.from_numpy(np.array(weight))).sum(), leaves, create_graph=True, materialize_grads=True)
        parts = zip(first, leaves, along, strict=True)
        slope = sum((((slope + 0.5 * leaf * leaf) * torch.from_numpy(np.array(way))).sum() for slope, leaf, way in parts), torch.zeros(()))
        expected = torch.autograd.grad(slope, leaves)
        path = self.folder / "bent.ss"
        path.write_text(bent_program(self.comparison, self.element), "utf-8")
        found = shapescript.load(path, engine="numpy").bent(*arguments, weight, *(way if way.shape else float(way) for way in along))
        for name, one, other in zip(self.wrt, found if len(self.wrt) > 1 else [found], expected, strict=True):
            size = float(other.abs().max()) if other.numel() else 0.0
            np.testing.assert_allclose(np.asarray(one), _array(other), rtol=0, atol=1e-9 * size, err_msg=f"by {name}")

    def _any_value(self, arguments: Sequence[Any]) -> Any:
        with torch.no_grad():
            return _array(self.comparison.torch(*[self._tensor(p, a) for p, a in zip(self.f.parameters, arguments, strict=True)]))

    def _moved(self, arguments: Sequence[Any], directions: Mapping[str, Array], step: float) -> list[Any]:
        return [
            self._moved_by(argument, directions[p.name], step) if p.name in directions else argument
            for p, argument in zip(self.f.parameters, arguments, strict=True)
        ]

    def _moved_by(self, argument: Any, direction: Any, step: float) -> Any:
        """Buffers, whose gradient is 0, stay where they are."""
        if not isinstance(argument, Model):
            return argument + step * direction
        twin = _for_program(self.native, argument)
        parameters = {leaf.name for leaf in argument.layout if leaf.kind == "parameter"}
        twin.load_state_dict({n: a + step * direction[n] if n in parameters else a for n, a in argument.state_dict().items()})
        return twin

    # ---- what it covers

    @cached_property
    def operations(self) -> frozenset[str]:
        """Every operation that the entry's program is made of, at any stage of the pipeline."""
        checked = self.native._checked
        (signature,) = checked.functions["compared"]
        stages = [compile_entry(checked.module, signature.key, {}, stop_after=name) for name, _ in STEPS]
        stages += checked.module.functions.values()
        return frozenset(op.name for function in stages for op in walk(function.body))


# ---- conversions


def _for_program(program: Any, argument: Any) -> Any:
    """A model belongs to the program that made it."""
    if not isinstance(argument, Model):
        return argument
    twin = getattr(program, argument.layout.model_name)(seed=0)
    twin.load_state_dict(argument.state_dict())
    return twin


def _array(value: Any) -> Any:
    return value.detach().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)


def _gradient(leaf: Any) -> Any:
    if isinstance(leaf, Mapping):
        return {name: _gradient(tensor) for name, tensor in leaf.items()}
    return np.zeros_like(leaf.detach().numpy()) if leaf.grad is None else leaf.grad.numpy()


def _each(change: Callable[[Any], Any], value: Any) -> Any:
    """A tensor, or each of a model's by its name."""
    return {name: change(array) for name, array in value.state_dict().items()} if isinstance(value, Model) else change(value)


def _parts(value: Any) -> list[Any]:
    value = value.state_dict() if isinstance(value, Model) else value
    return list(value.values()) if isinstance(value, Mapping) else [value]


def _bytes(value: Any) -> Any:
    if isinstance(value, Model):
        return {name: array.tobytes() for name, array in value.state_dict().items()}
    array = np.asarray(value)
    return array.dtype.str, array.shape, array.tobytes()


def _differences(one: Any, two: Any) -> Any:
    if isinstance(one, Model):
        return [name for name in one.state_dict() if one[name].tobytes() != two[name].tobytes()]
    one, two = np.asarray(one), np.asarray(two)
    places = np.argwhere((one != two) & ~(np.isnan(one) & np.isnan(two)))[:3]
    return [(tuple(map(int, place)), one[tuple(place)], two[tuple(place)]) for place in places]
