"""Rows by number, products and convolutions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from random_source.expression import FLOATS, Axis, Expression, pattern

if TYPE_CHECKING:
    from random_source.writer import Writer


def _axis_and_index(w: Writer, x: Expression) -> tuple[int, Expression] | None:
    """An axis of x that isn't empty, and an int tensor for its places."""
    found = [at for at, axis in enumerate(x.axes) if (axis.is_variable or axis.text[0].isupper()) and axis.least]
    if not found:
        return None
    at, index = w.rng.choice(found), w.value(("int",))
    name = x.axes[at].text
    return at, replace(index, ours=f"({index.ours} % {name})", theirs=f"({index.theirs} % {name})")


def gathered(w: Writer) -> Expression | None:
    x = w.with_axes(w.value())
    if (found := _axis_and_index(w, x)) is None:
        return None
    at, index = found
    axes = (*index.axes, *x.axes[:at], *x.axes[at + 1 :])
    if w.has_twice(axes) or len(axes) > 4 or w.count(axes) > 600:
        return None
    return replace(
        x, ours=f"gather({x.ours}, {index.ours}, over={x.axes[at].text})", theirs=f"gather({x.theirs}, {index.theirs}, {at})", axes=axes
    )


def picked(w: Writer) -> Expression | None:
    x = w.with_axes(w.value())
    if (found := _axis_and_index(w, x)) is None:
        return None
    at, _ = found
    axis, rest = x.axes[at], (*x.axes[:at], *x.axes[at + 1 :])
    along = w.rng.choice([other for other in w.axes if other.plain])
    full = (*x.axes[:at], along, *x.axes[at + 1 :])
    if w.chance(0.5) or w.has_twice(full):
        index = w.filled("int", rest)
        inside = f"{index.ours} % {axis.text}", f"{index.theirs} % {axis.text}"
        return replace(x, ours=f"pick({x.ours}, {inside[0]}, over={axis.text})", theirs=f"picked({x.theirs}, {inside[1]}, {at})", axes=rest)
    index = w.filled("int", full)
    inside = f"{index.ours} % {axis.text}", f"{index.theirs} % {axis.text}"
    ours = f"take_along({x.ours}, {inside[0]}, over={axis.text})"
    return replace(x, ours=ours, theirs=f"torch.gather({x.theirs}, {at}, {inside[1]})", axes=full)


def scattered(w: Writer) -> Expression | None:
    x = w.with_axes(w.value((*FLOATS, "int")))
    if (found := _axis_and_index(w, x)) is None:
        return None
    at, index = found
    axes = (*index.axes, *x.axes[:at], *x.axes[at + 1 :])
    if w.has_twice(axes) or w.count(axes) > 600:
        return None
    rows, count = w.small(w.filled(x.element, axes), 1e6), w.count(index.axes)
    ours = f"scatter_add({x.ours}, {rows.ours}, {index.ours}, over={x.axes[at].text})"
    found_ = replace(x, ours=ours, theirs=f"scattered({x.theirs}, {rows.theirs}, {index.theirs}, {at})", bound=x.bound + count * rows.bound)
    return replace(found_, error=found_.rounded(x.error + count * rows.error, count + 1))


def einsum(w: Writer) -> Expression | None:
    """Two or three operands, summed over any of their axes, in any order."""
    x = w.value(FLOATS)
    operands = [w.small(x, 30)]
    for _ in range(w.rng.choice((1, 1, 2))):
        operands.append(w.small(w.value((x.element,)), 30))
    if any(not operand.axes or not all(axis.plain for axis in operand.axes) for operand in operands):
        return None
    axes = {axis.text: axis for operand in operands for axis in operand.axes}
    kept = [axis for axis in axes.values() if w.chance(0.6)]
    w.rng.shuffle(kept)
    if w.count(tuple(kept)) > 600 or w.count(tuple(axes.values())) > 20000:
        return None
    count, bound = w.count(tuple(axes.values())) // max(w.count(tuple(kept)), 1), 1.0
    for operand in operands:
        bound *= operand.bound
    error = sum(operand.error * bound / max(operand.bound, 1e-300) for operand in operands)
    letters = {name: chr(ord("a") + number) for number, name in enumerate(axes)}
    theirs = ",".join("".join(letters[axis.text] for axis in operand.axes) for operand in operands)
    ours = f"einsum({', '.join(o.ours for o in operands)}: {', '.join(pattern(o.axes) for o in operands)} -> {pattern(tuple(kept))})"
    text = f"torch.einsum('{theirs}->{''.join(letters[axis.text] for axis in kept)}', {', '.join(o.theirs for o in operands)})"
    found = Expression(ours, text, x.element, tuple(kept), bound * max(count, 1))
    return replace(found, error=found.rounded(2 * error * max(count, 1), 4 * count + 8))


def matrix_product(w: Writer) -> Expression | None:
    x = w.with_axes(w.value(FLOATS))
    rights = [
        v for v in w.variables if v.element == x.element and v.axes and x.axes and v.axes[max(len(v.axes) - 2, 0)].text == x.axes[-1].text
    ]
    rights = [v for v in rights if len(v.axes) <= 2]
    if not rights:
        return None
    x, y = w.small(x, 100), w.small(w.rng.choice(rights), 100)
    axes, count = (*x.axes[:-1], *y.axes[1:]), x.axes[-1].most
    if w.has_twice(axes):
        return None
    found = Expression(f"({x.ours} @ {y.ours})", f"({x.theirs} @ {y.theirs})", x.element, axes, x.bound * y.bound * max(count, 1))
    error = count * (x.error * y.bound + y.error * x.bound + x.error * y.error)
    return replace(found, error=found.rounded(error, count + 4))


def convolved(w: Writer) -> Expression | None:
    """The channels are the axis that agrees with the kernel's; the kernel is a parameter `kernel: [D C 2]`."""
    kernel = next((v for v in w.variables if v.ours == "kernel"), None)
    if kernel is None:
        return None
    fits = [
        v
        for v in w.variables
        if v.element == kernel.element and len(v.axes) in (2, 3) and sum(a.text == kernel.axes[1].text for a in v.axes) == 1
    ]
    fits = [
        v for v in fits if any(a.is_variable and a.least >= 2 for a in v.axes) and not any(a.text == kernel.axes[0].text for a in v.axes)
    ]
    if not fits:
        return None
    x = w.small(w.rng.choice(fits), 100)
    along = w.rng.choice([at for at, axis in enumerate(x.axes) if axis.is_variable and axis.least >= 2])
    channels = [axis.text for axis in x.axes].index(kernel.axes[1].text)
    padding, axis = w.rng.choice((0, 1)), x.axes[along]
    by = 2 * padding - 1
    axes = list(x.axes)
    axes[along], axes[channels] = Axis(f"{axis.text}{by:+d}", tuple(size + by for size in axis.sizes)), kernel.axes[0]
    count = 2 * kernel.axes[1].most
    ours = f"convolve({x.ours}, kernel, over={axis.text}, padding={padding})"
    found = Expression(
        ours, f"convolved({x.theirs}, kernel, {channels}, {along}, {padding})", x.element, tuple(axes), x.bound * kernel.bound * count
    )
    return replace(found, error=found.rounded(count * (x.error * kernel.bound), 4 * count))


TABLE = ((gathered, 2), (picked, 2), (scattered, 1), (einsum, 4), (matrix_product, 3), (convolved, 3))
