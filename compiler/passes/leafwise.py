"""Operations on whole models (`zip_leaves`, `fill_leaves`, `dot_leaves`) made into operations on their leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shapescript.compiler.diagnostics.model import CompileError, Diagnostic
from shapescript.compiler.ir.nodes import Block, Function, Op, Value
from shapescript.compiler.ir.types import Element, LeafType, ModelType, sorted_leaves
from shapescript.compiler.ops.build import Builder, rebuilt
from shapescript.compiler.passes.specialise import MAX_OPERATIONS

Make = Callable[[Builder, Op], Value]


def split_leafwise(function: Function) -> Function:
    """The function without operations on whole models. Raises CompileError E0901 where that comes to too many."""
    body = _Splitting(function).block(function.body)
    return function.with_body(body)


class _Splitting:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.replaced: dict[Value, Value] = {}
        self.made = 0

    def values(self, values: Sequence[Value]) -> tuple[Value, ...]:
        return tuple(self.replaced.get(value, value) for value in values)

    def block(self, block: Block) -> Block:
        ops: list[Op] = []
        for op in block.ops:
            named = rebuilt(op, self.values(op.operands), op.regions, op.results)
            if op.name in MAKERS:
                builder = Builder(op.span)
                self.replaced[op.result] = MAKERS[op.name](builder, named)
                ops += builder.ops
                self._count(len(builder.ops))
            else:
                ops.append(rebuilt(named, named.operands, [self.block(region) for region in op.regions], op.results))
        return Block(block.parameters, tuple(ops), self.values(block.yields), block.symbols)

    def _count(self, made: int) -> None:
        self.made += made
        if self.made > MAX_OPERATIONS:
            message = f"`{self.function.name}` comes to more than {MAX_OPERATIONS} operations on parameters; that isn't built yet"
            raise CompileError(Diagnostic("E0901", message, self.function.span))


def _zip(b: Builder, op: Op) -> Value:
    first = next(operand for operand in op.operands if isinstance(operand.type, ModelType))
    attributes = {name: value for name, value in op.attributes.items() if name != "op"}
    numbers: dict[tuple[Value, Element], Value] = {}

    def part(operand: Value, leaf: LeafType) -> Value:
        if isinstance(operand.type, ModelType):
            return b.op("leaf", operand, path=leaf.name)
        key = operand, leaf.type.element
        if key not in numbers:
            numbers[key] = b.convert(operand, leaf.type.element)
        return b.spread(numbers[key], leaf.type)

    def combined(leaf: LeafType) -> Value:
        if not is_parameter(leaf):
            return b.op("leaf", first, path=leaf.name)
        return b.op(op.attributes["op"], *(part(operand, leaf) for operand in op.operands), **attributes)

    return _packed(b, op, combined)


def _fill(b: Builder, op: Op) -> Value:
    numbers: dict[tuple[float, Element], Value] = {}

    def filled(leaf: LeafType) -> Value:
        number = 0.0
        if is_parameter(leaf) and op.attributes["what"] == "rates":
            number = 0.0 if leaf.treatment.frozen else leaf.treatment.rate
        elif is_parameter(leaf) and op.attributes["what"] == "decays":
            number = float(leaf.treatment.decay)
        key = number, leaf.type.element
        if key not in numbers:
            numbers[key] = b.constant(_as_element(*key), leaf.type.element)
        return b.spread(numbers[key], leaf.type)

    return _packed(b, op, filled)


def _dot(b: Builder, op: Op) -> Value:
    model = op.operands[0].type
    assert isinstance(model, ModelType)
    level = [_product(b, op, leaf) for leaf in sorted_leaves(model) if leaf.is_trained]
    while len(level) > 1:
        pairs = [b.op("add", level[place], level[place + 1]) for place in range(0, len(level) - 1, 2)]
        level = pairs + level[2 * len(pairs) :]
    return level[0] if level else b.float_constant(0.0)


def _product(b: Builder, op: Op, leaf: LeafType) -> Value:
    """One parameter's sum of products, in f64, where a product of two f32 is exact."""
    left, right = (b.convert(b.op("leaf", operand, path=leaf.name), Element.F64) for operand in op.operands)
    product = b.op("mul", left, right)
    positions = tuple(range(leaf.type.rank))
    return b.op("sum", product, positions=positions) if positions else product


def _packed(b: Builder, op: Op, make: Callable[[LeafType], Value]) -> Value:
    model = op.result.type
    assert isinstance(model, ModelType)
    return b.op("pack", *map(make, sorted_leaves(model)), model=model, hint=op.result.hint)


def is_parameter(leaf: LeafType) -> bool:
    return not leaf.is_buffer and leaf.type.element.is_float


def _as_element(number: float, element: Element) -> float | int | bool:
    if element is Element.BOOL:
        return bool(number)
    return number if element.is_float else int(number)


MAKERS: dict[str, Make] = {"zip_leaves": _zip, "fill_leaves": _fill, "dot_leaves": _dot}
