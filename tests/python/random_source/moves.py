"""Axes moved, opened, joined and made: rearrange, split, repeat, small tensors."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from random_source.expression import Axis, Expression, pattern

if TYPE_CHECKING:
    from random_source.writer import Writer


def permuted(w: Writer) -> Expression | None:
    x = w.with_axes(w.value())
    if len(x.axes) < 2:
        return None
    order = w.rng.sample(range(len(x.axes)), len(x.axes))
    axes = tuple(x.axes[place] for place in order)
    ours = f"rearrange({x.ours}: {pattern(x.axes)} -> {pattern(axes)})"
    return replace(x, ours=ours, theirs=f"{x.theirs}.permute({', '.join(map(str, order))})", axes=axes)


def grouped(w: Writer) -> Expression | None:
    """Two neighbours become a group, and are opened again in another order, a statement later."""
    x = w.with_axes(w.value())
    if len(x.axes) < 2 or not all(axis.plain for axis in x.axes):
        return None
    at = w.rng.randrange(len(x.axes) - 1)
    one, two = x.axes[at : at + 2]
    joined = Axis(f"({one.text} {two.text})", tuple(a * b for a, b in zip(one.sizes, two.sizes, strict=True)), False)
    axes = (*x.axes[:at], joined, *x.axes[at + 2 :])
    name = w.fresh()
    w.line(f"{name} = rearrange({x.ours}: {pattern(x.axes)} -> {pattern(axes)})", f"{name} = joined({x.theirs}, {at})")
    middle = replace(x.named(name), axes=axes)
    if w.chance(0.5):
        middle = w.bound_to(replace(middle, ours=w.unary_text(middle, "ours"), theirs=w.unary_text(middle, "theirs")))
    back = (*x.axes[:at], two, one, *x.axes[at + 2 :])
    ours = f"rearrange({middle.ours}: {pattern(axes)} -> {pattern(back)})"
    return replace(x, ours=ours, theirs=f"opened({middle.theirs}, {at}, {one.python}, {two.python}).transpose({at}, {at + 1})", axes=back)


def repeated(w: Writer) -> Expression | None:
    x = w.value()
    if x.count > 300 or len(x.axes) > 3 or not x.axes:
        return None
    axis = w.any_axis(x)
    if axis is None:
        return None
    at = w.rng.randrange(len(x.axes) + 1)
    axes = (*x.axes[:at], axis, *x.axes[at:])
    theirs = f"repeated({x.theirs}, {at}, {axis.python})"
    return replace(x, ours=f"repeat({x.ours}: {pattern(x.axes)} -> {pattern(axes)})", theirs=theirs, axes=axes)


def split(w: Writer) -> Expression | None:
    """An axis 2*a of a joined tensor is taken apart."""
    x = w.with_axes(w.value())
    plain = [axis for axis in x.axes if axis.is_variable or axis.text[0].isupper()]
    if not plain or x.count > 300:
        return None
    axis, name = w.rng.choice(plain), w.fresh()
    at = [own.text for own in x.axes].index(axis.text)
    # Three copies, one behind the other along the axis, each a little different.
    y = w.unary_text(x, "ours"), w.unary_text(x, "theirs")
    w.line(f"{name} = concat({x.ours}, {y[0]}, {x.ours}, over={axis.text})", f"{name} = torch.cat(({x.theirs}, {y[1]}, {x.theirs}), {at})")
    wide = pattern(x.axes[:at]), pattern(x.axes[at + 1 :])
    order = w.rng.sample(x.axes, len(x.axes))
    places = [x.axes.index(own) for own in order]
    parts = [w.fresh() for _ in range(3)]
    w.line(
        f"{', '.join(parts)} = split({name}: {wide[0]} (3 {axis.text}) {wide[1]} -> {pattern(tuple(order))})",
        f"{', '.join(parts)} = (part.permute({', '.join(map(str, places))}) for part in parts({name}, {at}, 3))",
    )
    found = [replace(x.named(part), axes=tuple(order)) for part in parts]
    w.variables += found[:2]
    return found[1]


def made(w: Writer) -> Expression | None:
    """Tensors of numbers that the program names."""
    variables = [axis for axis in w.axes if axis.text[0].islower() or axis.text[0].isupper()]
    one, two = w.rng.choice(variables), w.rng.choice(variables)
    most = float(one.most)
    convert = w.rng.choice([element for element in w.elements])
    wrap = "" if convert == "f32" else "f64"
    options = [
        Expression(f"arange[{one.text}]", f"torch.arange({one.python})", "int", (one,), most),
        Expression(f"{wrap}(ones[{one.text}])", f"torch.ones({one.python}, dtype=torch.float64)", convert, (one,)),
        Expression(f"{wrap}([0.5, 1.5, -2.0])", "torch.tensor([0.5, 1.5, -2.0], dtype=torch.float64)", convert, (w.number(3),), 2.0),
        Expression("[3, -1]", "torch.tensor([3, -1])", "int", (w.number(2),), 3.0),
    ]
    if one.text != two.text:
        options += [
            Expression(
                f"{wrap}(eye[{one.text} {two.text}])", f"torch.eye({one.python}, {two.python}, dtype=torch.float64)", convert, (one, two)
            ),
            Expression(f"causal[{one.text} {two.text}]", f"causal({one.python}, {two.python})", "bool", (one, two)),
            Expression(
                f"{wrap}(zeros[{one.text} {two.text}])",
                f"torch.zeros({one.python}, {two.python}, dtype=torch.float64)",
                convert,
                (one, two),
            ),
        ]
    return w.rng.choice(options)


TABLE = ((permuted, 3), (grouped, 2), (repeated, 2), (split, 1), (made, 2))
