"""What the fusion passes make: one loop nest that computes several elementwise operations, a contraction with an epilogue, and reductions
with the elementwise work around them.

kernel(operands...) {space, maps}: for every point of `space` (axes in loop order) the region is evaluated on the operands' elements at
that point: region parameters and yields are tensors without axes. maps[i][j] is the place in `space` of operand i's axis j, in any order;
an operand without axes has an empty map. Each result has the axes of `space`. `dropout` and `iota` in the region mean the row-major index
in `space` and the index along space's axis `position`. A region uses nothing from outside: constants are made in it.

fused_contraction(left, right, extras...) {left, right, out, maps}: as contraction; the region takes an element of the contraction and
the extras' elements at the same place (maps as above, with the result's axes as space) and yields the results' elements.

fused_reduction(operands...) {space, maps, positions}: as kernel, with reductions over the axes `positions` of the space in the region:
reduce(x) {kind, positions} is the reduction of x over these axes in the order of docs/exactness.md, the same at each of their points. So a
region holds softmax, or a layer's normalisation. at_index(x, index) {position} is x at the place along the only reduced axis, the
last one, that the index says, the same at each point; for an index outside of the axis it is anything. What is the same along these axes
(`varies` says what isn't) is a result without them. It is ordered, since all reductions but sums fail where there is nothing to reduce.
"""

from __future__ import annotations

from collections.abc import Sequence

from shapescript.compiler.ir.nodes import Op, Value
from shapescript.compiler.ir.sizes import Size
from shapescript.compiler.ir.types import INT, TensorType, Type
from shapescript.compiler.ops.elementwise import FLOATS, NUMBERS
from shapescript.compiler.ops.shapes import LETTERS, operand_type, without
from shapescript.compiler.ops.table import Kernel, NoDerivative, OpEntry, attribute, entry, register, require


def _check_maps(op: Op, first: int, space: Sequence[Size], maps: Sequence[Sequence[int]]) -> None:
    require(len(maps) == len(op.operands) - first, op, "one map for each operand")
    for place, positions in enumerate(maps, first):
        kind = operand_type(op, place)
        require(len(positions) == kind.rank and len(set(positions)) == kind.rank, op, f"operand {place}: one place for each axis")
        require(
            all(space[p] == axis for p, axis in zip(positions, kind.axes, strict=True)), op, f"operand {place}: axes differ from the space"
        )


def _results(op: Op, space: Sequence[Size]) -> tuple[TensorType, ...]:
    found: list[TensorType] = []
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
    bare = Op("contraction", op.operands[:2], {name: attribute(op, name) for name in LETTERS})
    (product,) = entry("contraction").infer(bare)
    assert isinstance(product, TensorType)
    _check_maps(op, 2, product.axes, attribute(op, "maps"))
    _check_parameters(op, [product, *(operand_type(op, place) for place in range(2, len(op.operands)))])
    return _results(op, product.axes)


REDUCTIONS = ("sum", "mean", "max", "min")


def _infer_reduce(op: Op) -> tuple[Type, ...]:
    kind = operand_type(op)
    require(attribute(op, "kind") in REDUCTIONS and not kind.axes, op, "reduces elements")
    require(kind.element in (FLOATS if op.attributes["kind"] == "mean" else NUMBERS), op, "takes numbers")
    return (kind,)


def _infer_at_index(op: Op) -> tuple[Type, ...]:
    require(operand_type(op, 1) == INT and not operand_type(op).axes, op, "takes an element and an index")
    attribute(op, "position")
    return (operand_type(op),)


def varies(op: Op) -> set[Value]:
    """The values in the region of a fused reduction that differ along its reduced axes."""
    positions, (region,) = set(op.attributes["positions"]), op.regions
    maps = zip(region.parameters, op.attributes["maps"], strict=True)
    found = {parameter for parameter, map_ in maps if not positions.isdisjoint(map_)}
    for inner in region.ops:
        is_index = inner.name == "iota" and inner.attributes["position"] in positions
        is_given = inner.name not in ("reduce", "at_index") and any(operand in found for operand in inner.operands)
        if is_index or is_given or inner.name == "dropout":
            found.update(inner.results)
    return found


def _infer_fused_reduction(op: Op) -> tuple[Type, ...]:
    require(len(op.regions) == 1, op, "has one region")
    space, positions = tuple(attribute(op, "space")), attribute(op, "positions")
    _check_maps(op, 0, space, attribute(op, "maps"))
    _check_parameters(op, [operand_type(op, place) for place in range(len(op.operands))])
    require(bool(positions) and list(positions) == sorted(set(positions)) and positions[-1] < len(space), op, "positions must ascend")
    reductions = [inner for inner in op.regions[0].ops if inner.name == "reduce"]
    require(all(inner.attributes["positions"] == positions for inner in reductions), op, "reduces over other axes")
    indexed = [(inner.attributes["position"],) for inner in op.regions[0].ops if inner.name == "at_index"]
    require(all(own == tuple(positions) == (len(space) - 1,) for own in indexed), op, "an index is one along the last axis")
    points, short = varies(op), without(space, positions)
    kinds = zip(op.regions[0].yields, _results(op, space), strict=True)
    return tuple(kind if value in points else TensorType(kind.element, short) for value, kind in kinds)


register(OpEntry("reduce", _infer_reduce, NoDerivative.FORBIDDEN, Kernel("reduce")))
register(OpEntry("at_index", _infer_at_index, NoDerivative.FORBIDDEN, Kernel("at_index")))
register(OpEntry("fused_reduction", _infer_fused_reduction, NoDerivative.FORBIDDEN, Kernel("fused_reduction"), ordered=True))
register(OpEntry("kernel", _infer_kernel, NoDerivative.FORBIDDEN, Kernel("kernel")))
register(OpEntry("fused_contraction", _infer_fused_contraction, NoDerivative.FORBIDDEN, Kernel("fused_contraction")))
