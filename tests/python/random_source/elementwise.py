"""Functions of elements, operators, comparisons, selections and conversions."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from random_source.expression import FLOATS, Expression, is_within, lined_up

if TYPE_CHECKING:
    from random_source.writer import Writer

# Functions whose values stay within 1: our name, PyTorch's, the steepest slope.
BOUNDED = (
    ("tanh", "torch.tanh", 1),
    ("sin", "torch.sin", 1),
    ("cos", "torch.cos", 1),
    ("erf", "torch.erf", 1.2),
    ("sigmoid", "torch.sigmoid", 0.25),
)
# Functions that grow at most as their operand does, plus 1.
GROWING = (
    ("silu", "F.silu", 1.2),
    ("gelu", "F.gelu", 1.2),
    ("gelu_tanh", "gelu_tanh", 1.2),
    ("softplus", "F.softplus", 1),
    ("log_sigmoid", "F.logsigmoid", 1),
)
BENT = (("relu", "torch.relu", 1), ("abs", "torch.abs", 1), ("leaky_relu", "F.leaky_relu", 1), ("elu", "F.elu", 1))
STEPS = (("floor", "torch.floor"), ("ceil", "torch.ceil"), ("round", "torch.round"), ("sign", "torch.sign"))


def applied(x: Expression, ours: str, theirs: str, slope: float, bound: float, units: float = 8.0) -> Expression:
    found = replace(x, ours=ours, theirs=theirs, bound=bound)
    return replace(found, error=found.rounded(slope * x.error, units))


def function(w: Writer) -> Expression | None:
    x = w.value(FLOATS)
    match w.rng.randrange(10):
        case 0 | 1:
            name, torch, slope = w.rng.choice(BOUNDED)
            return applied(x, f"{name}({x.ours})", f"{torch}({x.theirs})", slope, 1.0)
        case 2 | 3:
            name, torch, slope = w.rng.choice(GROWING)
            return applied(x, f"{name}({x.ours})", f"{torch}({x.theirs})", slope, x.bound + 1)
        case 4:
            x = w.away(x) if w.smooth else x
            name, torch, slope = w.rng.choice(BENT)
            return applied(x, f"{name}({x.ours})", f"{torch}({x.theirs})", slope, x.bound + 1)
        case 5:
            x = w.small(x, 3)
            name, torch = w.rng.choice((("exp", "torch.exp"), ("expm1", "torch.expm1")))
            most = math.exp(x.bound)
            return applied(x, f"{name}({x.ours})", f"{torch}({x.theirs})", most, most)
        case 6:
            ours, theirs = f"{x.ours} * {x.ours} + 0.5", f"{x.theirs} * {x.theirs} + 0.5"
            name, torch, slope = w.rng.choice((("log", "torch.log", 1.5), ("sqrt", "torch.sqrt", 1), ("rsqrt", "torch.rsqrt", 1)))
            return applied(x, f"{name}({ours})", f"{torch}({theirs})", slope, x.bound + 2)
        case 7:
            x = w.small(x, 30)
            power = w.rng.choice((2, 3, 4))
            bound = max(x.bound, 1.0) ** power
            return applied(x, f"({x.ours} ** {power})", f"({x.theirs} ** {power})", power * bound, bound)
        case 8:
            x, exponent = w.small(x, 30), w.rng.choice(("-1", "-2", "0.5", "1.5"))
            ours, theirs = f"({x.ours} * {x.ours} + 1.0)", f"({x.theirs} * {x.theirs} + 1.0)"
            bound = (x.bound + 2) ** 3
            return applied(x, f"({ours} ** {exponent})", f"({theirs} ** {exponent})", 4 * (x.bound + 2) ** 2, bound)
        case _:
            if w.steps:
                name, torch = w.rng.choice(STEPS)
                return replace(x, ours=f"{name}({x.ours})", theirs=f"{torch}({x.theirs})", bound=x.bound + 1)
            return replace(x, ours=f"(-{x.ours})", theirs=f"(-{x.theirs})")


def clamped(w: Writer) -> Expression:
    x = w.value((*FLOATS, "int"))
    if x.element == "int":
        return replace(x, ours=f"clamp({x.ours}, -3, 4)", theirs=f"torch.clamp({x.theirs}, -3, 4)", bound=4.0)
    x = w.away(x) if w.smooth else x
    low, high = (-0.25, 0.25) if w.smooth else (-0.75, 0.875)
    return replace(x, ours=f"clamp({x.ours}, {low}, {high})", theirs=f"torch.clamp({x.theirs}, {low}, {high})", bound=1.0)


def operator(w: Writer) -> Expression | None:
    """Two tensors that meet by name, or a tensor and a host number."""
    x = w.value((*FLOATS, "int"))
    if x.element == "int":
        return whole(w, x)
    y = w.fitting(x)
    name = w.rng.choice(("+", "-", "*", "*", "/", "minimum", "maximum"))
    if name in ("*", "/"):
        x, y = w.small(x, 100), w.small(y, 100)
    if name in ("minimum", "maximum") and w.smooth:
        y = applied(
            y, f"({y.ours} + {x.bound + y.bound + 0.5})", f"({y.theirs} + {x.bound + y.bound + 0.5})", 1, x.bound + 2 * y.bound + 0.5
        )
    if w.chance(0.5) and name != "/":
        x, y = y, x
    return binary(x, y, name)


def binary(x: Expression, y: Expression, name: str) -> Expression:
    wide = x.axes if is_within(y.axes, x.axes) else y.axes
    left, right = lined_up(x.theirs, x.axes, wide), lined_up(y.theirs, y.axes, wide)
    base = replace(x, axes=wide, host=False)
    errors, product = x.error + y.error, x.error * y.bound + y.error * x.bound + x.error * y.error
    match name:
        case "+" | "-":
            found, error = (
                replace(base, ours=f"({x.ours} {name} {y.ours})", theirs=f"({left} {name} {right})", bound=x.bound + y.bound),
                errors,
            )
        case "*":
            found, error = replace(base, ours=f"({x.ours} * {y.ours})", theirs=f"({left} * {right})", bound=x.bound * y.bound), product
        case "/":
            ours, theirs = f"({y.ours} * {y.ours} + 0.7)", f"({right} * {right} + 0.7)"
            found = replace(base, ours=f"({x.ours} / {ours})", theirs=f"({left} / {theirs})", bound=1.5 * x.bound)
            error = 1.5 * x.error + 3 * x.bound * (2 * y.bound + y.error) * y.error
            return replace(found, error=found.rounded(error, 20 * (1 + y.bound)))
        case _:
            found = replace(base, ours=f"{name}({x.ours}, {y.ours})", theirs=f"{name}({left}, {right})", bound=max(x.bound, y.bound))
            return replace(found, error=max(x.error, y.error))
    return replace(found, error=found.rounded(error))


def whole(w: Writer, x: Expression) -> Expression | None:
    """Arithmetic of whole numbers; `//` and `%` round down in Python too."""
    name = w.rng.choice(("+", "-", "*", "//", "%", "minimum", "maximum", "**"))
    if name == "**":
        x = w.small(x, 1000)
        return replace(x, ours=f"({x.ours} ** 3)", theirs=f"({x.theirs} ** 3)", bound=x.bound**3)
    if name in ("//", "%"):
        divisor = w.rng.choice((-3, 2, 5, 7))
        bound = x.bound + 1 if name == "//" else 7.0
        return replace(x, ours=f"({x.ours} {name} ({divisor}))", theirs=f"({x.theirs} {name} ({divisor}))", bound=bound)
    y = w.fitting(x)
    if name == "*":
        x, y = w.small(x, 1000), w.small(y, 1000)
    found = binary(x, y, name)
    return w.small(found, 1e9)


def comparison(w: Writer) -> Expression | None:
    """A mask; of floats only where steps are allowed."""
    x = w.value((*FLOATS, "int") if w.steps else ("int",))
    y = w.fitting(x)
    name = w.rng.choice(("<", "<=", ">", ">=", "==", "!="))
    found = binary(x, y, "+")
    wide = found.axes
    left, right = lined_up(x.theirs, x.axes, wide), lined_up(y.theirs, y.axes, wide)
    return Expression(f"({x.ours} {name} {y.ours})", f"({left} {name} {right})", "bool", wide)


def logic(w: Writer) -> Expression:
    x = w.value(("bool",))
    match w.rng.randrange(3):
        case 0:
            return replace(x, ours=f"(!{x.ours})", theirs=f"(~{x.theirs})")
        case _:
            y, name = w.fitting(x), w.rng.choice("&|")
            wide = x.axes if is_within(y.axes, x.axes) else y.axes
            theirs = f"({lined_up(x.theirs, x.axes, wide)} {name} {lined_up(y.theirs, y.axes, wide)})"
            return Expression(f"({x.ours} {name} {y.ours})", theirs, "bool", wide)


def selection(w: Writer) -> Expression:
    x = w.value()
    mask = w.of_axes("bool", x.axes)
    y = w.fitting(x)
    wide = x.axes if is_within(y.axes, x.axes) else y.axes
    if not is_within(mask.axes, wide):
        mask = w.of_axes("bool", wide)
    inside = [lined_up(part.theirs, part.axes, wide) for part in (mask, x, y)]
    base = replace(x, axes=wide, bound=max(x.bound, y.bound), error=max(x.error, y.error))
    if w.chance(0.3) and x.element != "bool" and same_width(x, wide):
        number = "2" if x.element == "int" else "0.5"
        return replace(
            x,
            ours=f"masked_fill({x.ours}, {mask.ours}, {number})",
            theirs=f"torch.where({inside[0]}, {number}, {x.theirs})",
            bound=max(x.bound, 2.0),
        )
    ours, theirs = f"where({mask.ours}, {x.ours}, {y.ours})", f"torch.where({', '.join(inside)})"
    return replace(base, ours=ours, theirs=theirs)


def same_width(x: Expression, wide: tuple[object, ...]) -> bool:
    return len(x.axes) == len(wide)


def converted(w: Writer) -> Expression | None:
    """Another element type. The twin computes all floats in f64, so f32 is an error there and no other number."""
    x = w.value()
    targets = [element for element in (*w.elements, "int") if element != x.element and (w.steps or element != "int" or not x.is_float)]
    if not targets or (w.smooth and x.element == "f64"):
        held = replace(x, ours=f"stop_gradient({x.ours})", theirs=f"{x.theirs}.detach()")
        return None if x.element == "bool" or w.smooth else held
    element = w.rng.choice(targets)
    if element == "int":
        x = w.small(x, 1e6) if x.is_float else x
        return Expression(f"int({x.ours})", f"{x.theirs}.to(torch.int64)", "int", x.axes, x.bound + 1)
    x = w.small(x, 1e6) if x.element == "int" else x
    found = Expression(f"{element}({x.ours})", f"{x.theirs}.to(torch.float64)", element, x.axes, x.bound)
    return replace(found, error=found.rounded(x.error))


TABLE = ((function, 8), (operator, 8), (clamped, 1), (comparison, 2), (logic, 1), (selection, 2), (converted, 2))
