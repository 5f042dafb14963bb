"""The program that the runner makes of an entry: beside `f`, a function that gives its value and its gradients."""

from __future__ import annotations

import re
from dataclasses import dataclass

from comparisons.comparison import Comparison

SIGNATURE = re.compile(r"^fn f\((?P<parameters>.*?)\)\s*->\s*(?P<result>[^:]+):", re.MULTILINE | re.DOTALL)
DIM = re.compile(r"^dim (?P<name>\w+) = (?P<value>.+)$", re.MULTILINE)
TENSOR = re.compile(r"^(?P<element>T|int|bool|f32|f64|)\[(?P<axes>.*)\]$")


@dataclass(frozen=True)
class Parameter:
    """`element` is None for what is no tensor; then `kind` is the type's name."""

    name: str
    kind: str
    element: str | None = None
    axes: tuple[str, ...] = ()

    @property
    def is_differentiable(self) -> bool:
        return self.element == "T" or (self.element is None and self.kind[0].isupper())


@dataclass(frozen=True)
class Shown:
    """An entry's `f` as its program declares it."""

    parameters: tuple[Parameter, ...]
    result: Parameter
    dims: dict[str, int]

    @property
    def variables(self) -> tuple[str, ...]:
        """The axis variables, in the order in which the parameters mention them."""
        found = (name for p in (*self.parameters, self.result) for axis in p.axes for name in re.findall(r"[a-z_]\w*", axis))
        return tuple(dict.fromkeys(found))

    def shape(self, parameter: Parameter, sizes: dict[str, int]) -> tuple[int, ...]:
        known = {**self.dims, **sizes}
        return tuple(int(eval(_product(axis).replace("//", "/").replace("/", "//"), {}, known)) for axis in parameter.axes)


def _product(axis: str) -> str:
    """A group has as many places as its parts multiplied."""
    return "*".join(axis[1:-1].split()) if _is_group(axis) else axis


def _is_group(axis: str) -> bool:
    return axis.startswith("(") and " " in axis


def axes_of(text: str) -> tuple[str, ...]:
    """The axes of a shape; a group is one of them, and so is arithmetic with brackets."""
    return tuple(re.findall(r"(?:\([^)]*\)|[^\s()])+", text))


def _parameter(name: str, kind: str) -> Parameter:
    match = TENSOR.match(kind)
    if match is None:
        return Parameter(name, kind)
    return Parameter(name, kind, match["element"] or "f32", axes_of(match["axes"]))


def shown(comparison: Comparison) -> Shown:
    """Raises ValueError for a program without a function `f` that has a result."""
    signature = SIGNATURE.search(comparison.program)
    if signature is None:
        raise ValueError(f"{comparison.name}: the program has no `fn f(...) -> ...:`")
    pairs = (part.split(":", 1) for part in signature["parameters"].split(",") if part.strip())
    parameters = tuple(_parameter(name.strip(), kind.strip()) for name, kind in pairs)
    dims: dict[str, int] = {}
    for match in DIM.finditer(comparison.program):
        dims[match["name"]] = int(eval(match["value"].replace("/", "//"), {}, dict(dims)))
    return Shown(parameters, _parameter("value", signature["result"].strip()), dims)


def wrt_of(comparison: Comparison, f: Shown) -> tuple[str, ...]:
    """By what the gradients are taken."""
    if f.result.element != "T":
        return ()
    if comparison.wrt is not None:
        return comparison.wrt
    return tuple(p.name for p in f.parameters if p.is_differentiable)


def compared_program(comparison: Comparison, element: str) -> str:
    """The entry's program with `compared`: the value, then the gradient of its weighted sum by each of `wrt`.

    Only what `is_counted` is part of the sum, since a loss must be finite.
    """
    f = shown(comparison)
    kinds = {p.name: p for p in f.parameters}
    wrt = [kinds[name] for name in wrt_of(comparison, f)]
    parameters = [f"{p.name}: {p.kind}" for p in f.parameters]
    axes, call = " ".join(f.result.axes), f"f({', '.join(kinds)})"
    if wrt:
        parameters += [f"scaled_by: T[{axes}]", f"is_counted: bool[{axes}]"]
    loss = _summed(f"where(is_counted, {call} * scaled_by, 0.0)", f.result)
    lines = [f"    value_of_f = {call}", *_gradients(loss, wrt), f"    return {', '.join(['value_of_f', *map(_gradient, wrt)])}"]
    return _program(comparison, element, _function("compared", parameters, [f.result.kind, *(p.kind for p in wrt)], lines))


def bent_program(comparison: Comparison, element: str) -> str:
    """The entry's program with `slope_along`, the sum of the gradients times given directions, and `bent`, its gradients by each of `wrt`.

    Half of each square is added to the gradients, so that all depend on what they are taken of.
    """
    f = shown(comparison)
    kinds = {p.name: p for p in f.parameters}
    wrt = [kinds[name] for name in wrt_of(comparison, f)]
    given = [*(f"{p.name}: {p.kind}" for p in f.parameters), f"scaled_by: T[{' '.join(f.result.axes)}]"]
    given += [f"along_{p.name}: {p.kind}" for p in wrt]
    names = ", ".join([*kinds, "scaled_by", *(f"along_{p.name}" for p in wrt)])
    slopes = [_summed(f"({_gradient(p)} + 0.5 * {p.name} * {p.name}) * along_{p.name}", p) for p in wrt]
    lines = [*_gradients(_summed(f"f({', '.join(kinds)}) * scaled_by", f.result), wrt), f"    return {' + '.join(slopes)}"]
    slope = _function("slope_along", given, ["T[]"], lines)
    lines = [*_gradients(f"slope_along({names})", wrt), f"    return {', '.join(map(_gradient, wrt))}"]
    return _program(comparison, element, slope, _function("bent", given, [p.kind for p in wrt], lines))


def _program(comparison: Comparison, element: str, *functions: str) -> str:
    return re.sub(r"\bT(?=[\[\](])", element, "\n\n".join([comparison.program.rstrip(), *functions]) + "\n")


def _function(name: str, parameters: list[str], results: list[str], lines: list[str]) -> str:
    result = results[0] if len(results) == 1 else f"({', '.join(results)})"
    return "\n".join([f"fn {name}({', '.join(parameters)}) -> {result}:", *lines])


def _summed(text: str, kind: Parameter) -> str:
    """The sum of all elements; a group, and an axis that stands there twice, gets another name."""
    if not kind.axes:
        return text
    plain = [axis not in kind.axes[:place] and not axis.startswith("(") for place, axis in enumerate(kind.axes)]
    over = [axis if plain[place] else f"other{place}" for place, axis in enumerate(kind.axes)]
    if not all(plain):
        text = f"rearrange({text}: {' '.join(over)} -> {' '.join(over)})"
    return f"sum({text}, over={over[0] if len(over) == 1 else '(' + ', '.join(over) + ')'})"


def _gradient(parameter: Parameter) -> str:
    return f"gradient_by_{parameter.name}"


def _gradients(loss: str, wrt: list[Parameter]) -> list[str]:
    return [f"    loss_by_{p.name}, {_gradient(p)} = value_and_grad({loss}, wrt={p.name})" for p in wrt]
