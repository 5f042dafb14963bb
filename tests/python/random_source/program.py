"""A file of several functions over one list of parameters, beside the same in PyTorch, and arguments for it."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from random_source import twin
from random_source.control import Control
from random_source.expression import Axes, Axis, Expression, pattern
from random_source.writer import Writer

RUNS = 2  # sizes of the axes
DIMS = {"D": 4, "H": 3}
HEAD = """dim D = 4
dim H = 3

model Block:
    gain: f64[D] = normal(0, 0.5)
    shift: f64[D] = normal(0, 0.3)

model Net:
    weight: f64[D H] = normal(0, 0.5)
    bias: [H] = normal(0, 0.5)
    blocks: Block * 2
"""
SIZES = ((2, 3, 4), (1, 3, 2), (3, 1, 2), (2, 2, 1), (0, 3, 2), (3, 0, 2), (1, 1, 1), (5, 2, 3), (2, 7, 3), (3, 17, 2), (1, 2, 9))


@dataclass(frozen=True)
class Function:
    """One program: statements, and what it gives."""

    name: str
    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    results: tuple[Expression, ...]
    losses: tuple[Function, ...] = ()  # of which it takes gradients
    wrt: tuple[str, ...] = ()  # of a loss: by what gradients are taken; of gradients: what they are by, parameters or names in the model


@dataclass
class Program:
    seed: int
    parameters: tuple[Expression, ...]
    axes: Axes
    functions: list[Function] = field(default_factory=list)

    # ---- ours

    def text(self, functions: list[Function] | None = None) -> str:
        functions = self.functions if functions is None else functions
        parts = [part for function in functions for part in (*function.losses, function)]
        return "\n".join([HEAD, *map(self._function, parts), self._all(functions)])

    @property
    def signature(self) -> str:
        return ", ".join([*(f"{p.ours}: {kind(p)}" for p in self.parameters), "k: int", "s: float", "m: Net"])

    @property
    def names(self) -> str:
        return ", ".join([*(p.ours for p in self.parameters), "k", "s", "m"])

    def _function(self, function: Function) -> str:
        results = _results(function.results)
        last = "    return " + ", ".join(result.ours for result in function.results)
        return "\n".join([f"fn {function.name}({self.signature}) -> {results}:", *function.ours, last, ""])

    def _all(self, functions: list[Function]) -> str:
        """The entry: the results of all functions, in order."""
        lines, names = [], []
        for function in functions:
            own = [f"{function.name}_{place}" for place in range(len(function.results))]
            lines.append(f"    {', '.join(own)} = {function.name}({self.names})")
            names += own
        results = _results([result for function in functions for result in function.results])
        return "\n".join([f"fn everything({self.signature}) -> {results}:", *lines, f"    return {', '.join(names)}", ""])

    # ---- PyTorch's

    @cached_property
    def twins(self) -> dict[str, Callable[..., Any]]:
        sizes = [f"    {axis.text} = sizes[{axis.text!r}]" for axis in self.axes]
        names: dict[str, Any] = dict(vars(twin))
        for function in itertools.chain.from_iterable((*one.losses, one) for one in self.functions):
            head = [f"def {function.name}(sizes, {self.names}):", *sizes]
            last = f"    return ({', '.join(result.theirs for result in function.results)},)"
            exec("\n".join([*head, *function.theirs, last]), names)
        return {function.name: names[function.name] for function in self.functions}

    # ---- arguments

    def sizes(self, run: int) -> dict[str, int]:
        return {axis.text: axis.sizes[run] for axis in self.axes}

    def arguments(self, run: int) -> list[Any]:
        rng, sizes = np.random.default_rng([self.seed, run]), self.sizes(run)
        found: list[Any] = []
        for parameter in self.parameters:
            shape = tuple(sizes.get(axis.text) or axis.sizes[run] for axis in parameter.axes)
            match parameter.element:
                case "int":
                    found.append(rng.integers(-9, 10, shape))
                case "bool":
                    found.append(rng.integers(0, 2, shape).astype(bool))
                case element:
                    found.append(rng.uniform(-2, 2, shape).astype(np.float32 if element == "f32" else np.float64))
        return [*found, int(rng.integers(0, 6)), float(rng.choice([0.25, 0.75, 1.5]))]


def kind(value: Expression) -> str:
    element = "" if value.element == "f32" else value.element
    return f"{element}[{pattern(value.axes)}]"


def _results(results: Sequence[Expression]) -> str:
    kinds = ", ".join(map(kind, results))
    return f"({kinds})" if len(results) > 1 else kinds


def outline(seed: int, floats: tuple[str, ...] = ("f32", "f64"), least: int = 0) -> Program:
    """A program without functions: its axes, their sizes in two runs, and its parameters."""
    rng = random.Random(seed)
    allowed = [sizes for sizes in SIZES if min(sizes) >= least]
    runs = [rng.choice(allowed), rng.choice([sizes for sizes in allowed if min(sizes) >= 2])]
    rng.shuffle(runs)
    variables = [Axis(name, tuple(sizes[place] for sizes in runs)) for place, name in enumerate("bnq")]
    dims = [Axis(name, (size,) * RUNS) for name, size in DIMS.items()]
    b, n, q, d, h = (*variables, *dims)
    shapes = {"x": (b, n), "y": (n,), "z": (b, q, n), "u": (b, n, d), "w": (n, d), "r": (q, h), "t": (d, b)}
    parameters = []
    for name, axes in shapes.items():
        order = tuple(rng.sample(axes, len(axes)))
        parameters.append(Expression(name, name, rng.choice(floats), order, 2.0))
    parameters.append(Expression("kernel", "kernel", rng.choice(floats), (h, d, Axis("2", (2,) * RUNS)), 2.0))
    parameters += [Expression("i", "i", "int", (b, n), 9.0), Expression("j", "j", "int", (q,), 9.0)]
    parameters += [Expression("e", "e", "bool", (b, n)), Expression("g", "g", "bool", (n,))]
    return Program(seed, tuple(parameters), tuple((*variables, *dims)))


def members() -> list[Expression]:
    d, h = (Axis(name, (size,) * RUNS) for name, size in DIMS.items())
    return [Expression("m.weight", "m['weight']", "f64", (d, h), 3.0), Expression("m.bias", "m['bias']", "f32", (h,), 3.0)]


def random_program(seed: int, functions: int) -> Program:
    """A file of functions of everything."""
    program, rng = outline(seed), random.Random(f"functions {seed}")
    for place in range(functions):
        program.functions.append(_function(program, rng, f"f{place}"))
    return program


def _function(program: Program, rng: random.Random, name: str) -> Function:
    writer = Writer(rng, program.axes, [*program.parameters, *members()])
    writer.assignments(rng.randint(2, 5))
    losses: list[Function] = []
    if rng.random() < 0.12:
        losses.append(loss(program, rng, f"{name}_loss", 1))
        found = gradient(program, writer, losses[0], losses[0].wrt[0])
        # A slope may be any number; within tanh it is compared as others are.
        bent = Expression(f"tanh({found.ours})", f"torch.tanh({found.theirs})", "f64", found.axes, 1.0, 1e-7)
        writer.variables.append(writer.bound_to(bent))
    control = Control(writer)
    if rng.random() < 0.4:
        for _ in range(rng.randint(1, 2)):
            control.begin()
        for _ in range(rng.randint(1, 3)):
            control.statement()
        writer.variables += control.changing
        writer.assignments(rng.randint(1, 2))
    made = [v for v in writer.variables if v.ours.startswith("v")]
    chosen = made[-1:] + rng.sample(made[:-1], min(len(made) - 1, 1))
    return Function(name, tuple(writer.ours), tuple(writer.theirs), tuple(chosen), tuple(losses))


# ---- gradients


def loss(program: Program, rng: random.Random, name: str, most: int) -> Function:
    """A smooth function of f64 to one number that depends on its `wrt`: so many parameters, or "m"."""
    writer = Writer(rng, program.axes, [*program.parameters, *members()], smooth=True, steps=False, elements=("f64",))
    writer.assignments(rng.randint(2, 5))
    control = Control(writer)
    if rng.random() < 0.4:
        control.begin()
        for _ in range(rng.randint(1, 2)):
            control.statement()
        writer.variables += control.changing
    made = [v for v in writer.variables if v.element == "f64" and v.ours.startswith("v") and all(axis.plain for axis in v.axes)]
    terms = [_total(v) for v in made[-3:]]
    terms = terms or [_total(next(p for p in writer.variables if p.element == "f64"))]
    text = " ".join((*writer.ours, *(ours for ours, _ in terms)))
    floats = [p for p in program.parameters if p.element == "f64" and re.search(rf"\b{p.ours}\b", text)]
    wrt = rng.sample(floats, min(most, len(floats)))
    terms += [_total(parameter) for parameter in wrt]
    names = [parameter.ours for parameter in wrt]
    if ("m." in text and most > 1) or not names:
        terms += [("sum(m.weight, over=(D, H)) * 0.5", "m['weight'].sum() * 0.5")]
        names.append("m")
    result = Expression(" + ".join(ours for ours, _ in terms), " + ".join(theirs for _, theirs in terms), "f64")
    return Function(name, tuple(writer.ours), tuple(writer.theirs), (result,), (), tuple(names))


def _total(value: Expression) -> tuple[str, str]:
    ours, theirs = f"sin({value.ours} * 0.5)", f"torch.sin({value.theirs} * 0.5)"
    names = ", ".join(axis.text for axis in value.axes)
    over = names if len(value.axes) == 1 else f"({names})"
    return (f"sum({ours}, over={over})", f"{theirs}.sum()") if value.axes else (ours, theirs)


def gradient(program: Program, writer: Writer, of: Function, wrt: str) -> Expression:
    """The gradient by a parameter, or a part of that by the model."""
    value, name = writer.fresh(), writer.fresh()
    call, theirs = f"{of.name}({program.names})", f"{of.name}(sizes, {program.names})[0]"
    writer.line(f"{value}, {name} = value_and_grad({call}, wrt={wrt})", f"{value}, {name} = value_and_grad(lambda {wrt}: {theirs}, {wrt})")
    if wrt == "m":
        return replace(members()[0], ours=f"{name}.weight", theirs=f"{name}['weight']")
    return replace(next(parameter for parameter in program.parameters if parameter.ours == wrt), ours=name, theirs=name)


def gradient_program(seed: int, functions: int) -> Program:
    """A file of functions that give a smooth loss, and its gradients by two parameters and by parts of the model."""
    program, rng = outline(seed, ("f64",), 1), random.Random(f"gradients {seed}")
    for place in range(functions):
        of = loss(program, rng, f"loss{place}", 2)
        writer, wrt = Writer(rng, program.axes, []), list(of.wrt)
        results = [gradient(program, writer, of, name) for name in wrt]
        results.insert(0, Expression("v1", "v1", "f64"))
        if wrt[-1] == "m":
            name = results[-1].ours.removesuffix(".weight")
            d = Axis("D", (DIMS["D"],) * RUNS)
            results.append(Expression(f"{name}.blocks[0].gain", f"{name}['blocks.0.gain']", "f64", (d,)))
            wrt[-1:] = ["weight", "blocks.0.gain"]
        program.functions.append(Function(f"g{place}", tuple(writer.ours), tuple(writer.theirs), tuple(results), (of,), tuple(wrt)))
    return program
