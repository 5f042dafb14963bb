"""`einsum`: any number of operands, multiplied from left to right; an axis is summed as soon as nothing behind has it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from shapescript.compiler.check.body import Body
from shapescript.compiler.check.opening import Opened, open_operand
from shapescript.compiler.check.patterns import close, result_order
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.check.types import Axis, Tensor
from shapescript.compiler.diagnostics.model import Span
from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ir.sizes import Size
from shapescript.compiler.ops.build import Builder, result_type
from shapescript.compiler.records.dataclass import dataclass
from shapescript.compiler.syntax import tree


@dataclass(frozen=True)
class _Term:
    """A product so far, with the names of its axes, none twice."""

    value: Value
    names: tuple[str, ...]


def einsum(body: Body, operands: list[Typed], pattern: tree.Pattern, given: Mapping[str, Size], spans: list[Span]) -> Typed:
    if len(pattern.inputs) != len(operands):
        body.report.fail("E0302", f"einsum has {len(operands)} operands and {len(pattern.inputs)} patterns", pattern.span)
    kinds = [operand.type for operand in operands if isinstance(operand.type, Tensor)]
    if not kinds[0].element.is_float or any(kind.element is not kinds[0].element for kind in kinds):
        body.report.fail("E0310", f"einsum is for floats of one type, found {' and '.join(map(str, kinds))}", pattern.span)
    opened = [
        open_operand(body, operand, part, given, span, may_repeat=True)
        for operand, part, span in zip(operands, pattern.inputs, spans, strict=True)
    ]
    known = _known(body, opened, pattern)
    order = result_order(body, pattern.output, known)
    builder = body.builder
    terms = [_diagonal(builder, one) for one in opened]
    needed = [{*order, *(name for term in terms[place + 1 :] for name in term.names)} for place in range(len(terms))]
    product = _summed(builder, terms[0], needed[0])
    for place, term in enumerate(terms[1:], 1):
        factor = _summed(builder, term, {*needed[place], *product.names})
        kept = [name for name in dict.fromkeys((*product.names, *factor.names)) if name in needed[place]]
        product = _product(builder, product, factor, order if place == len(terms) - 1 else kept)
    if list(product.names) != order:
        product = _Term(builder.op("transpose", product.value, permutation=tuple(map(product.names.index, order))), tuple(order))
    return close(body, known, order, product.value, pattern.output, kinds[0])


def _known(body: Body, opened: Sequence[Opened], pattern: tree.Pattern) -> dict[str, Axis]:
    """The axes by name, of one size in all operands."""
    known: dict[str, Axis] = {}
    for one, part in zip(opened, pattern.inputs, strict=True):
        for name, axis in zip(one.names, one.axes, strict=True):
            if known.setdefault(name, axis).size != axis.size:
                body.report.fail("E0401", f"axis {name} is {known[name].size} in one operand and {axis.size} in the other", part.span)
    return known


def _diagonal(builder: Builder, opened: Opened) -> _Term:
    """Of an axis that stands twice, the places where both are the same: the sum of what lies there and -0.0 elsewhere, which changes no
    bit of it."""
    value, names = opened.value, list(opened.names)
    for name in dict.fromkeys(names):
        while names.count(name) > 1:
            first = names.index(name)
            second = names.index(name, first + 1)
            kind = result_type(value)
            one, other = (builder.op("iota", axes=kind.axes, position=place) for place in (first, second))
            there = builder.op("select", builder.op("eq", one, other), value, builder.full(-0.0, kind))
            value = builder.op("sum", there, positions=(second,))
            del names[second]
    return _Term(value, tuple(names))


def _summed(builder: Builder, term: _Term, needed: Collection[str]) -> _Term:
    """The axes that only this operand has, summed."""
    positions = tuple(place for place, name in enumerate(term.names) if name not in needed)
    if not positions:
        return term
    return _Term(builder.op("sum", term.value, positions=positions), tuple(name for name in term.names if name in needed))


def _product(builder: Builder, left: _Term, right: _Term, out: Sequence[str]) -> _Term:
    letters = {name: number for number, name in enumerate(dict.fromkeys((*left.names, *right.names)))}
    ours, theirs, result = (tuple(letters[name] for name in names) for names in (left.names, right.names, out))
    return _Term(builder.op("contraction", left.value, right.value, left=ours, right=theirs, out=result), tuple(out))
