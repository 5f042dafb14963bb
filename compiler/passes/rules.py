"""Local rewriting: an operation that can be said in a cheaper way with the same bits. A rule gives the new results, or None.

Bits are kept (docs/exactness.md, rule 4): no x*0, no x+0 (it changes -0), no reassociation, no division turned into multiplication but by
a power of two. x*1, x/1, x-0 and x+(-0) are x.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shapescript.compiler.ir.nodes import Op, Value
from shapescript.compiler.ir.types import Element
from shapescript.compiler.ops.build import Builder, result_type
from shapescript.compiler.ops.shapes import inverse
from shapescript.compiler.ops.table import Reduction, Scalar, entry
from shapescript.compiler.passes.fold import Definitions, exact_inverse, fold, is_known, known

Rule = Callable[[Op, Definitions, Builder], Value | None]

_CONVERSIONS = {f"to_{element.value}": element for element in Element}
_THERE_AND_BACK = (
    ("to_f32", "to_f64", Element.F32),
    ("to_bf16", "to_f32", Element.BF16),
    ("to_bf16", "to_f64", Element.BF16),
)


# ---- arithmetic


def constant(op: Op, definitions: Definitions, b: Builder) -> Value | None:
    return fold(op, definitions, b)


def _neutral(op: Op, definitions: Definitions, b: Builder) -> Value | None:
    """An operand where the other one changes nothing."""
    if len(op.operands) != 2 or op.name not in ("add", "sub", "mul", "div", "and", "or"):
        return None
    left, right = op.operands
    element = result_type(op.result).element
    zero = -0.0 if element.is_float else 0
    neutral = {"add": zero, "sub": 0.0 if element.is_float else 0, "mul": 1, "div": 1, "and": True, "or": False}[op.name]
    if is_known(right, neutral, definitions):
        return left
    return right if op.name not in ("sub", "div") and is_known(left, neutral, definitions) else None


def _division_by_power_of_two(op: Op, definitions: Definitions, b: Builder) -> Value | None:
    number = known(op.operands[1], definitions) if op.name == "div" else None
    factor = None if number is None else exact_inverse(number, result_type(op.result).element)
    return None if factor is None else b.op("mul", op.operands[0], b.full(factor, result_type(op.result)))


def _undone(op: Op, definitions: Definitions, b: Builder) -> Value | None:
    """-(-x), not not x, and a conversion there and back that loses nothing."""
    if op.name not in ("neg", "not", *_CONVERSIONS):
        return None
    (operand,) = op.operands
    if _CONVERSIONS.get(op.name) is result_type(operand).element:
        return operand
    before = definitions.get(operand)
    if before is None or before.name not in ("neg", "not", *_CONVERSIONS):
        return None
    same = before.name == op.name and op.name in ("neg", "not")
    back = (op.name, before.name, result_type(before.operands[0]).element) in _THERE_AND_BACK
    return before.operands[0] if same or back else None


def _chosen(op: Op, definitions: Definitions, b: Builder) -> Value | None:
    if op.name != "select":
        return None
    condition, then, otherwise = op.operands
    number = known(condition, definitions)
    if number is not None:
        return then if number else otherwise
    return then if then is otherwise else None


def _same_along_axes(op: Op, definitions: Definitions, b: Builder) -> Value | None:
    """Elementwise on operands that are all spread along some axes: computed without these, and spread then."""
    if not isinstance(entry(op.name).lowering, Scalar) or not op.operands or not result_type(op.result).axes:
        return None
    sources = [definitions.get(operand) for operand in op.operands]
    if any(source is None or source.name != "broadcast" for source in sources):
        return None
    spreads = [source for source in sources if source is not None]
    positions = sorted({place for source in spreads for place in source.attributes["positions"]})
    axes = result_type(op.result).axes
    if len(positions) == len(axes):
        return None
    inner = [axes[place] for place in positions]
    places = [[positions.index(place) for place in source.attributes["positions"]] for source in spreads]
    operands = [b.broadcast(source.operands[0], inner, own) for source, own in zip(spreads, places, strict=True)]
    return b.broadcast(b.op(op.name, *operands, **op.attributes), axes, positions)


# ---- axes


def _axes_as_before(op: Op, definitions: Definitions, b: Builder) -> Value | None:
    """A transpose, reshape, broadcast or sum that changes nothing."""
    unchanged = (
        (op.name == "transpose" and list(op.attributes["permutation"]) == sorted(op.attributes["permutation"]))
        or (op.name == "reshape" and op.operands[0].type == op.result.type)
        or (op.name == "broadcast" and op.operands[0].type == op.result.type)
        or (op.name == "sum" and not op.attributes["positions"])
    )
    return op.operands[0] if unchanged else None


def _twice(op: Op, definitions: Definitions, b: Builder) -> Value | None:
    """Two transposes or broadcasts as one."""
    before = definitions.get(op.operands[0]) if op.name in ("transpose", "broadcast") else None
    if before is None or before.name != op.name:
        return None
    source = before.operands[0]
    match op.name:
        case "transpose":
            first = before.attributes["permutation"]
            return b.op("transpose", source, permutation=tuple(first[place] for place in op.attributes["permutation"]))
        case "broadcast":
            outer = op.attributes["positions"]
            return b.broadcast(source, op.attributes["axes"], tuple(outer[place] for place in before.attributes["positions"]))
    return None


def _moved_broadcast(op: Op, definitions: Definitions, b: Builder) -> Value | None:
    """A transposed broadcast is a broadcast of the transposed, which has fewer elements."""
    before = definitions.get(op.operands[0]) if op.name == "transpose" else None
    if before is None or before.name != "broadcast":
        return None
    source, positions = before.operands[0], before.attributes["positions"]
    axes = result_type(op.result).axes
    places = [inverse(op.attributes["permutation"])[place] for place in positions]
    order = sorted(range(len(places)), key=lambda index: places[index])
    if order != list(range(len(places))):
        source = b.op("transpose", source, permutation=tuple(order))
    return b.broadcast(source, axes, tuple(sorted(places)))


def _transposed_sum(op: Op, definitions: Definitions, b: Builder) -> Value | None:
    """A reduction reads a transposed operand where it lies, if the order of several reduced axes is the same there."""
    before = definitions.get(op.operands[0]) if isinstance(entry(op.name).lowering, Reduction) else None
    if before is None or before.name != "transpose":
        return None
    permutation, positions = before.attributes["permutation"], op.attributes["positions"]
    reduced = [permutation[place] for place in positions]
    left = [axis for place, axis in enumerate(permutation) if place not in positions]
    if reduced != sorted(reduced):
        return None
    found = b.op(op.name, before.operands[0], positions=tuple(reduced))
    order = tuple(sorted(left).index(axis) for axis in left)
    return found if left == sorted(left) else b.op("transpose", found, permutation=order)


def _transposed_operand(op: Op, definitions: Definitions, b: Builder) -> Value | None:
    """A contraction reads a transposed operand where it lies, but the left one's summed axes keep their order: it is that of the sum."""
    if op.name != "contraction":
        return None
    operands, letters = list(op.operands), [op.attributes["left"], op.attributes["right"]]
    for index, operand in enumerate(op.operands):
        before = definitions.get(operand)
        if before is None or before.name != "transpose":
            continue
        back = inverse(before.attributes["permutation"])
        new = tuple(letters[index][back[place]] for place in range(len(back)))
        if index == 1 or _summed(new, op) == _summed(letters[0], op):
            operands[index], letters[index] = before.operands[0], new
    if operands == list(op.operands):
        return None
    return b.op("contraction", *operands, left=letters[0], right=letters[1], out=op.attributes["out"])


def _summed(letters: Sequence[int], op: Op) -> list[int]:
    return [letter for letter in letters if letter not in op.attributes["out"]]


RULES: tuple[Rule, ...] = (
    constant,
    _neutral,
    _division_by_power_of_two,
    _undone,
    _chosen,
    _same_along_axes,
    _axes_as_before,
    _twice,
    _moved_broadcast,
    _transposed_sum,
    _transposed_operand,
)
