"""What the fusion pass makes: one loop nest that computes several elementwise operations, and a contraction with an epilogue.

kernel(operands...) {space, maps}: for every point of `space` (axes in loop order) the region is evaluated on the operands' elements at
that point: region parameters and yields are tensors without axes. maps[i][j] is the place in `space` of operand i's axis j, in any order;
an operand without axes has an empty map. Each result has the axes of `space`. `dropout` and `iota` in the region mean the row-major index
in `space` and the index along space's axis `position`. A region uses nothing from outside: constants are made in it.

fused_contraction(left, right, extras...) {left, right, out, maps}: as contraction; the region takes an element of the contraction and
the extras' elements at the same place (maps as above, with the result's axes as space) and yields the results' elements.
"""

from __future__ import annotations

from collections.abc import Sequence

from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.sizes import Size
from shapescript.compiler.ir.types import TensorType, Type
from shapescript.compiler.ops.shapes import operand_type
from shapescript.compiler.ops.table import Kernel, NoDerivative, OpEntry, attribute, entry, register, require


def _check_maps(op: Op, first: int, space: Sequence[Size], maps: Sequence[Sequence[int]]) -> None:
    require(len(maps) == len(op.operands) - first, op, "one map for each operand")
    for place, positions in enumerate(maps, first):
        kind = operand_type(op, place)
        require(len(positions) == kind.rank and len(set(positions)) == kind.rank, op, f"operand {place}: one place for each axis")
        require(
            all(space[p] == axis for p, axis in zip(positions, kind.axes, strict=True)), op, f"operand {place}: axes differ from the space"
        )


def _results(op: Op, space: Sequence[Size]) -> tuple[Type, ...]:
    found: list[Type] = []
    for value in op.regions[0].yields:
        kind = value.type
        require(isinstance(kind, TensorType) and not kind.axes, op, "a region yields elements")
        assert isinstance(kind, TensorType)
        found.append(TensorType(kind.element, tuple(space)))
    return tuple(found)


def _infer_kernel(op: Op) -> tuple[Type, ...]:
    require(len(op.regions) == 1, op, "has one region")
    space = attribute(op, "space")
    _check_maps(op, 0, space, attribute(op, "maps"))
    _check_parameters(op, [operand_type(op, place) for place in range(len(op.operands))])
    return _results(op, space)


def _check_parameters(op: Op, kinds: Sequence[TensorType]) -> None:
    found = [value.type for value in op.regions[0].parameters]
    require(found == [TensorType(kind.element) for kind in kinds], op, "the region's parameters are not the operands' elements")


def _infer_fused_contraction(op: Op) -> tuple[Type, ...]:
    require(len(op.regions) == 1, op, "has one region")
    bare = Op("contraction", op.operands[:2], {name: attribute(op, name) for name in ("left", "right", "out")})
    (product,) = entry("contraction").infer(bare)
    assert isinstance(product, TensorType)
    _check_maps(op, 2, product.axes, attribute(op, "maps"))
    _check_parameters(op, [product, *(operand_type(op, place) for place in range(2, len(op.operands)))])
    return _results(op, product.axes)


register(OpEntry("kernel", _infer_kernel, NoDerivative.FORBIDDEN, Kernel("kernel")))
register(OpEntry("fused_contraction", _infer_fused_contraction, NoDerivative.FORBIDDEN, Kernel("fused_contraction")))
