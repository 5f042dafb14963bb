"""A contraction of any axes brought to the form that the product kernel computes: rows, columns, a summed axis, and loops around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shapescript.compiler.codegen.nests import Axis, dense_strides, merged
from shapescript.compiler.ir.sizes import ONE, ZERO, Size, product
from shapescript.compiler.records.dataclass import dataclass

A, B, C = range(3)  # the places of the operands and the result among an axis's strides; what else is read at the result's places follows


@dataclass(frozen=True)
class Operand:
    """A dense tensor whose axes are the letters."""

    letters: tuple[int, ...]

    def strides(self, sizes: Mapping[int, Size]) -> dict[int, Size]:
        return dict(zip(self.letters, dense_strides([sizes[letter] for letter in self.letters]), strict=True))


@dataclass(frozen=True)
class ProductAxes:
    """Strides are those of A, B, C and the others, in this order. `swapped`: A is the contraction's right operand.

    `runs`: the summed places are as many runs of `summed`; one of one element where they can be walked through in one stride.
    """

    rows: Axis
    columns: Axis
    summed: Axis
    runs: Axis
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


SHORTEST_RUN = 16  # of summed places: shorter ones cost more than bringing an operand to one stride first
WORTH_PACKING_LESS = 256  # steps of k


def are_runs(a: Operand, b: Operand, groups: Groups, sizes: Mapping[int, Size]) -> bool:
    """Whether both operands' summed places can be walked through where they lie: in one stride, or in runs of one."""
    axes = _summed_axes(a, b, groups, sizes)
    length = axes[-1].size.constant() if len(axes) > 1 else None
    return len(axes) <= 2 and (length is None or length >= SHORTEST_RUN)


def _summed_axes(a: Operand, b: Operand, groups: Groups, sizes: Mapping[int, Size]) -> list[Axis]:
    strides = [a.strides(sizes), b.strides(sizes)]
    return merged([Axis(sizes[letter], tuple(own[letter] for own in strides)) for letter in groups.summed])


def packing_less(a: Operand, b: Operand, groups: Groups, sizes: Mapping[int, Size]) -> Groups:
    """The operands' parts exchanged where B has to be packed, A is smaller, and k is long, as for the weight of a convolution: then the
    result is stored number by number, which costs less than packing the larger operand."""
    rows, columns, summed = (
        product(sizes[letter] for letter in letters).constant() for letters in (groups.rows, groups.columns, groups.summed)
    )
    last = next((letter for letter in reversed(groups.columns) if sizes[letter] != ONE), None)
    if rows is None or columns is None or last is None or b.strides(sizes)[last] == ONE:
        return groups
    if not SHORTEST_RUN <= rows < columns or (summed is not None and summed < WORTH_PACKING_LESS):
        return groups
    return Groups(groups.batch, groups.columns, groups.rows, groups.summed, not groups.swapped)


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
    *runs, summed = axes(groups.summed) or [one]
    (run,) = runs or [one]
    return ProductAxes(rows, columns, summed, run, (*axes(groups.batch), *outer_rows, *outer_columns), groups.swapped)
