"""Small tensors written out: `[1.0, 2.0]`, `[[1, 2], [3, 4]]`."""

from __future__ import annotations

from shapescript.compiler.check import types
from shapescript.compiler.check.body import Body
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.check.types import Tensor, single
from shapescript.compiler.check.wording import ELEMENT_NAMES
from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ir.sizes import number
from shapescript.compiler.ir.types import Element
from shapescript.compiler.syntax import tree

MOST_ELEMENTS = 4096  # each is an operation of its own; more come from a file
HOST_ELEMENTS = {types.BOOL: Element.BOOL, types.INT: Element.I64, types.FLOAT: Element.F32}


def literal(body: Body, node: tree.List) -> Typed:
    shape, leaves = _laid_out(body, node)
    if not 1 <= len(leaves) <= MOST_ELEMENTS:
        text = f"a tensor written out has from 1 to {MOST_ELEMENTS} elements, not {len(leaves)}"
        body.report.fail("E0503", text, node.span, help=None if leaves else "`zeros[0]` is a tensor of nothing")
    typed = [_element(body, leaf) for leaf in leaves]
    element = _common_element(body, typed, leaves)
    values = [_adapted(body, part, leaf, element) for part, leaf in zip(typed, leaves, strict=True)]
    axes = tuple(single(number(count)) for count in shape)
    with body.builder.at(node.span):
        value = body.builder.op("literal", *values, axes=tuple(axis.size for axis in axes))
    return Typed(Tensor(element, axes), (value,))


def _laid_out(body: Body, node: tree.List) -> tuple[tuple[int, ...], list[tree.Expression]]:
    """How many elements stand along each axis, and all of them in order."""
    rows = [element for element in node.elements if isinstance(element, tree.List)]
    if not rows:
        return (len(node.elements),), list(node.elements)
    if len(rows) < len(node.elements):
        odd = next(element for element in node.elements if not isinstance(element, tree.List))
        body.report.fail("E0405", "rows and single elements stand beside each other", odd.span)
    found = [_laid_out(body, row) for row in rows]
    shape = found[0][0]
    for row, (other, _) in zip(rows, found, strict=True):
        if len(other) != len(shape):
            body.report.fail("E0405", f"this row has {len(other)} axes, and the first has {len(shape)}", row.span)
        if other != shape:
            body.report.fail("E0401", f"the rows have different lengths: {_shown(shape)} and {_shown(other)}", row.span)
    return (len(rows), *shape), [leaf for _, leaves in found for leaf in leaves]


def _shown(shape: tuple[int, ...]) -> str:
    return " by ".join(map(str, shape))


def _element(body: Body, node: tree.Expression) -> Typed:
    typed = body.evaluate(node)
    if typed.type in HOST_ELEMENTS or (isinstance(typed.type, Tensor) and not typed.type.axes):
        return typed
    hint = "tensors with axes are put together by `stack(x, y, over=2)`" if isinstance(typed.type, Tensor) else None
    body.report.fail("E0301", f"an element is a number, a truth value or a `[]`, found {typed.type}", node.span, help=hint)


def _common_element(body: Body, typed: list[Typed], leaves: list[tree.Expression]) -> Element:
    """That of the tensors among the elements; of host numbers alone `int` where all are, else f32."""
    tensors = [(part.type, leaf) for part, leaf in zip(typed, leaves, strict=True) if isinstance(part.type, Tensor)]
    for kind, leaf in tensors:
        if kind != tensors[0][0]:
            text = f"elements of one type are wanted, found {tensors[0][0]} and {kind}"
            body.report.fail("E0310", text, leaf.span, help=f"convert it: {ELEMENT_NAMES[tensors[0][0].element]}(...)")
    if tensors:
        return tensors[0][0].element
    return HOST_ELEMENTS[next((kind for kind in (types.FLOAT, types.INT) if any(part.type == kind for part in typed)), types.BOOL)]


def _adapted(body: Body, typed: Typed, leaf: tree.Expression, element: Element) -> Value:
    """A host number becomes what the others are, as where it meets a tensor."""
    if isinstance(typed.type, Tensor) or (typed.type == types.BOOL and element is Element.BOOL):
        return typed.value
    fits = element is not Element.BOOL if typed.type == types.INT else element.is_float and typed.type == types.FLOAT
    if not fits:
        body.report.fail("E0310", f"the other elements are of type {ELEMENT_NAMES[element]}, found {typed.type}", leaf.span)
    return body.host_number(typed, element)
