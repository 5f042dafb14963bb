"""Expressions of a model's parameters that are the same for each, and so can be computed of its whole buffer (`join_leaves.py`).

One value for each parameter is looked at side by side. What they read are parameters of those names, in one model that is laid out alike,
or what an earlier `pack` puts there. Their numbers may differ from parameter to parameter, as rates and decays of groups do (`by_leaf`);
and some may be multiplied by a number where others are not, since an element times 1 is the element.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import field

from shapescript.compiler.ir.flat import flat_layout
from shapescript.compiler.ir.nodes import Op, Value
from shapescript.compiler.ir.types import Element, ModelType, TensorType, sorted_leaves
from shapescript.compiler.ops.build import Builder, result_type
from shapescript.compiler.ops.models import flat_type
from shapescript.compiler.ops.table import Scalar, entry
from shapescript.compiler.passes.symbols import attribute_key
from shapescript.compiler.records.dataclass import dataclass

FEWEST = 2  # leaves that make it worth while
Values = tuple[Value, ...]  # one for each parameter of the model


@dataclass(frozen=True)
class Constant:
    """`text` tells -0 from 0."""

    text: str
    value: float | int | bool = field(compare=False)


Number = Value | Constant


@dataclass(frozen=True)
class Part:
    """A model, or the part of it with this name."""

    source: Value
    name: str


@dataclass(frozen=True)
class Numbers:
    """One for each parameter."""

    element: Element
    numbers: tuple[Number, ...]


@dataclass(frozen=True)
class Computed:
    """As an operation does it for one parameter, of other expressions."""

    example: Op
    operands: tuple[int, ...]


@dataclass
class _Found:
    """An expression, as a number that equal ones share, and what it computes on the way."""

    number: int
    inside: set[Value]


@dataclass(frozen=True)
class Packed:
    """A model that an operation packs of these tensors."""

    model: Value
    operands: Values


class LeafExpressions:
    """`definitions` of the values that are known; `packed`: models whose tensors may be read there, by one of them."""

    def __init__(self, definitions: Mapping[Value, Op], packed: Mapping[Value, Packed]) -> None:
        self.definitions = definitions
        self.packed = dict(packed)
        self.numbers: dict[Hashable, int] = {}
        self.expressions: list[Part | Numbers | Computed] = []
        self.known: dict[tuple[ModelType, Values], _Found | None] = {}
        self.flats: dict[int, Value] = {}
        self.constants: dict[tuple[Constant, Element], Value] = {}
        self.replaced: dict[Value, Value] = {}

    def of_pack(self, pack: Op) -> _Found | None:
        """The expression that the operands of a pack are, if they are one."""
        model: ModelType = pack.attributes["model"]
        if len(pack.operands) < FEWEST or flat_type(model) is None:
            return None
        found = _Reading(self, model).found(pack.operands)
        return found if found is not None and found.inside else None

    def put(self, packed: Packed) -> None:
        """What follows may read these tensors in the packed model."""
        self.packed[packed.operands[0]] = packed
        self.known.clear()

    def numbered(self, key: Hashable, expression: Part | Numbers | Computed) -> int:
        if key not in self.numbers:
            self.numbers[key] = len(self.expressions)
            self.expressions.append(expression)
        return self.numbers[key]

    # ---- computed of whole buffers

    def whole(self, b: Builder, pack: Op) -> Value:
        found = self.of_pack(pack)
        kind = flat_type(pack.attributes["model"])
        assert found is not None and kind is not None
        return self._computed(b, found.number, pack.attributes["model"], kind)

    def _computed(self, b: Builder, number: int, model: ModelType, kind: TensorType) -> Value:
        if number not in self.flats:
            self.flats[number] = self._compute(b, number, model, kind)
        return self.flats[number]

    def _compute(self, b: Builder, number: int, model: ModelType, kind: TensorType) -> Value:
        match self.expressions[number]:
            case Part(source, prefix):
                source = self.replaced.get(source, source)
                return b.op("flat", b.op("submodel", source, path=prefix) if prefix else source)
            case Numbers(element, numbers):
                return _by_leaf(b, [self._number(b, one, element) for one in numbers], model, TensorType(element, kind.axes))
            case Computed(example, operands):
                done = [self._computed(b, operand, model, kind) for operand in operands]
                return b.op(example.name, *done, hint=example.result.hint, **example.attributes)

    def _number(self, b: Builder, number: Number, element: Element) -> Value:
        if isinstance(number, Value):
            return self.replaced.get(number, number)
        if (number, element) not in self.constants:
            self.constants[number, element] = b.constant(number.value, element)
        return self.constants[number, element]


def _by_leaf(b: Builder, numbers: Sequence[Value], model: ModelType, kind: TensorType) -> Value:
    """A tensor with a number for each parameter in its part of the buffer."""
    layout = flat_layout(model)
    width = layout.leaves[0].leaf.type.element.bytes
    ends: dict[int, Value] = {}  # of neighbours that have one number
    for number, part, end in zip(numbers, layout.leaves, (*(part.offset for part in layout.leaves[1:]), layout.total), strict=True):
        if part.count:
            if ends and next(reversed(ends.values())) is number:
                ends.popitem()
            ends[end // width] = number
    made = list(dict.fromkeys(ends.values()))
    if len(made) < 2:
        return b.spread(made[0] if made else numbers[0], kind)
    return b.op("by_leaf", *made, axes=kind.axes, ends=tuple(ends), choice=tuple(made.index(number) for number in ends.values()))


@dataclass
class _Reading:
    """Of one model's parameters."""

    all: LeafExpressions
    model: ModelType

    def found(self, values: Values) -> _Found | None:
        key = self.model, values
        if key not in self.all.known:
            self.all.known[key] = self._packed(values) or self._find(values)
        return self.all.known[key]

    def _packed(self, values: Values) -> _Found | None:
        packed = self.all.packed.get(values[0])
        if packed is None or packed.operands != values or packed.model.type != self.model:
            return None
        return self._part(packed.model, "")

    def _find(self, values: Values) -> _Found | None:
        ops = [op for value in values if (op := self.all.definitions.get(value)) is not None]
        if (found := self._numbers(values)) is not None:
            return found
        if len(ops) < len(values):
            return None
        if all(op.name == "leaf" for op in ops):
            return self._source(ops)
        first, keys = ops[0], {(op.name, len(op.operands), _attributes(op)) for op in ops}
        if len(keys) > 1:
            return self._partly_multiplied(values, ops)
        if not isinstance(entry(first.name).lowering, Scalar):
            return None
        return self._op(first, set(values), list(zip(*(op.operands for op in ops), strict=True)))

    def _op(self, op: Op, inside: set[Value], operands: Sequence[Values]) -> _Found | None:
        parts = [part for operand in operands if (part := self.found(operand)) is not None]
        if len(parts) < len(operands):
            return None
        return self._computed(op, [part.number for part in parts], inside.union(*(part.inside for part in parts)))

    def _computed(self, op: Op, operands: Sequence[int], inside: set[Value]) -> _Found:
        key = op.name, _attributes(op), tuple(operands)
        return _Found(self.all.numbered(key, Computed(op, tuple(operands))), inside)

    def _source(self, ops: Sequence[Op]) -> _Found | None:
        """Parameters of those names in a model, or part of one, that is laid out as this one."""
        source, path = ops[0].operands[0], ops[0].attributes["path"]
        names = [leaf.name for leaf in sorted_leaves(self.model)]
        prefix = path[: len(path) - len(names[0])]
        if any(op.operands[0] is not source or op.attributes["path"] != prefix + name for op, name in zip(ops, names, strict=True)):
            return None
        assert isinstance(source.type, ModelType)
        start = [part for part in flat_layout(source.type).leaves if part.leaf.name.startswith(prefix)]
        own = flat_layout(self.model).leaves
        if [(part.offset - start[0].offset, part.leaf.type) for part in start] != [(part.offset, part.leaf.type) for part in own]:
            return None
        return self._part(source, prefix[:-1])

    def _part(self, source: Value, name: str) -> _Found:
        part = Part(source, name)
        return _Found(self.all.numbered(part, part), set())

    # ---- numbers

    def _numbers(self, values: Values) -> _Found | None:
        keys = [self._number(value) for value in values]
        found = [key for key in keys if key is not None]
        element = result_type(values[0]).element
        if len(found) < len(values) or (len(set(found)) > 1 and not element.is_float):
            return None
        if not any(result_type(value).axes for value in values) and len(set(found)) > 1:
            return None  # all parameters are numbers, and these may be computed of them
        numbers = Numbers(element, tuple(found))
        return _Found(self.all.numbered(numbers, numbers), set())

    def _number(self, value: Value) -> Number | None:
        """What stands for a number, the same at all places: the value itself, of a constant what it is."""
        op = self.all.definitions.get(value)
        if result_type(value).axes:
            if op is None or op.name != "broadcast" or result_type(op.operands[0]).axes:
                return None
            value = op.operands[0]
            op = self.all.definitions.get(value)
        if op is None or op.name != "constant":
            return value
        number = op.attributes["value"]
        return Constant(repr(number), number)

    def _partly_multiplied(self, values: Values, ops: Sequence[Op]) -> _Found | None:
        """Where some are multiplied by a number, the others are by 1."""
        example = next((op for op in ops if self._multiplier(op) is not None), None)
        if example is None or not result_type(values[0]).element.is_float:
            return None
        side = self._multiplier(example) or 0
        rests: list[Value] = []
        numbers: list[Number | None] = []
        inside: set[Value] = set()
        for value, op in zip(values, ops, strict=True):
            is_multiplied = op.name == "mul" and (self._multiplier(op) == side or not result_type(value).axes)
            rests.append(op.operands[1 - side] if is_multiplied else value)
            numbers.append(self._number(op.operands[side]) if is_multiplied else Constant("1.0", 1.0))
            inside.update([value] if is_multiplied else [])
        known = [number for number in numbers if number is not None]
        rest = self.found(tuple(rests))
        if rest is None or len(known) < len(numbers):
            return None
        given = Numbers(result_type(values[0]).element, tuple(known))
        parts = [rest.number, rest.number]
        parts[side] = self.all.numbered(given, given)
        return self._computed(example, parts, inside | rest.inside)

    def _multiplier(self, op: Op) -> int | None:
        """Which operand of a product is a number, the same at all places."""
        if op.name != "mul" or not result_type(op.result).axes:
            return None
        sides = [side for side, operand in enumerate(op.operands) if self._number(operand) is not None]
        return sides[0] if len(sides) == 1 else None


def _attributes(op: Op) -> Hashable:
    return tuple((name, attribute_key(part)) for name, part in op.attributes.items())
