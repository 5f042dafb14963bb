"""A contraction of any axes brought to the form that the product kernel computes: rows, columns, a summed axis, and loops around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shapescript.compiler.codegen.nests import Axis, dense_strides, merged
from shapescript.compiler.ir.sizes import ONE, ZERO, Size

A, B, C = range(3)  # the places of the operands and the result among an axis's strides; what else is read at the result's places follows


@dataclass(frozen=True)
class Operand:
    """A dense tensor whose axes are the letters."""

    letters: tuple[int, ...]

    def strides(self, sizes: Mapping[int, Size]) -> dict[int, Size]:
        return dict(zip(self.letters, dense_strides([sizes[letter] for letter in self.letters]), strict=True))


@dataclass(frozen=True)
class ProductAxes:
    """Strides are those of A, B, C and the others, in this order. `swapped`: A is the contraction's right operand."""

    rows: Axis
    columns: Axis
    summed: Axis
    batch: tuple[Axis, ...]
    swapped: bool


@dataclass(frozen=True)
class Groups:
    """The letters of a contraction: those of both operands and the result, of the result and one operand, and the summed ones."""

    batch: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    summed: tuple[int, ...]
    swapped: bool


def group(left: Sequence[int], right: Sequence[int], out: Sequence[int], sizes: Mapping[int, Size]) -> Groups:
    """Columns are what varies fastest in the result, since vectors lie along them. Summed axes run in the left operand's order."""
    batch = tuple(letter for letter in out if letter in left and letter in right)
    of_left = tuple(letter for letter in out if letter not in right)
    of_right = tuple(letter for letter in out if letter not in left)
    summed = tuple(letter for letter in left if letter not in out)
    last = next((letter for letter in reversed(out) if sizes[letter] != ONE), None)
    swapped = last in of_left or (last not in of_right and not of_right)
    return Groups(batch, of_right if swapped else of_left, of_left if swapped else of_right, summed, swapped)


def unmerged(operand: Operand, groups: Groups, sizes: Mapping[int, Size]) -> bool:
    """Whether an operand's summed axes can't be walked through in one stride."""
    strides = operand.strides(sizes)
    return len(merged([Axis(sizes[letter], (strides[letter],)) for letter in groups.summed])) > 1


def packed_letters(operand: Operand, groups: Groups, is_a: bool) -> tuple[int, ...]:
    """The order in which to copy such an operand: [batch, rows, summed] for A, [batch, summed, columns] for B."""
    inner = (*groups.rows, *groups.summed) if is_a else (*groups.summed, *groups.columns)
    return tuple(letter for letter in (*groups.batch, *inner) if letter in operand.letters)


def product_axes(
    a: Operand, b: Operand, c: Operand, others: Sequence[Mapping[int, Size]], groups: Groups, sizes: Mapping[int, Size]
) -> ProductAxes:
    """`others`: the strides of other tensors along the result's letters. Axes that don't merge become loops around the product."""
    tensors = [a.strides(sizes), b.strides(sizes), c.strides(sizes), *others]

    def axes(letters: Sequence[int]) -> list[Axis]:
        return merged([Axis(sizes[letter], tuple(strides.get(letter, ZERO) for strides in tensors)) for letter in letters])

    one = Axis(ONE, (ZERO,) * len(tensors))
    *outer_rows, rows = axes(groups.rows) or [one]
    *outer_columns, columns = axes(groups.columns) or [one]
    (summed,) = axes(groups.summed) or [one]
    return ProductAxes(rows, columns, summed, (*axes(groups.batch), *outer_rows, *outer_columns), groups.swapped)
