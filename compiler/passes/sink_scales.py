"""The scaling of a clipped gradient done where the gradient is read, and no pass of its own, where elementwise work alone reads it.

`update` takes the factor by itself (`single_use.py`). An optimiser that a program writes reads the parameters' gradients one by one: each
is multiplied there, with the bits of `scale_model`. A factor of f64 may have to be split in two, which only a run shows; the first of two
is 1 where it isn't (numerics/norms.py): an element times 1 is the element.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from shapescript.compiler.ir.nodes import Block, Function, Op, Value
from shapescript.compiler.ir.types import Element, LeafType, ModelType, sorted_leaves
from shapescript.compiler.numerics.norms import FIRST_FACTOR, SECOND_FACTOR, SMALLEST_FACTOR
from shapescript.compiler.ops.build import Builder, rebuilt, result_type
from shapescript.compiler.ops.storage import LOOPS
from shapescript.compiler.ops.table import Scalar, entry
from shapescript.compiler.passes.dead import drop_dead

Factors = Mapping[Element, tuple[Value, ...]]  # what elements of a type are multiplied by, one after the other


def sink_scales(function: Function) -> Function:
    uses = _Uses()
    uses.look(function.body, None)
    sunk = {value: op for value, op in uses.scaled.items() if uses.is_read_by_elements(value)}
    if not sunk:
        return function
    body = drop_dead(_Sinking(sunk).block(function.body))
    return function.with_body(body)


class _Uses:
    """Scaled models, who reads them, and in which turn of a loop: `loops` has the innermost loop around each operation."""

    def __init__(self) -> None:
        self.scaled: dict[Value, Op] = {}
        self.readers: dict[Value, list[Op | None]] = {}
        self.blocks: dict[Op, Block] = {}
        self.loops: dict[Op, Op | None] = {}

    def look(self, block: Block, loop: Op | None) -> None:
        for op in block.ops:
            self.blocks[op], self.loops[op] = block, loop
            if op.name == "scale_model":
                self.scaled[op.result] = op
            for operand in op.operands:
                self.readers.setdefault(operand, []).append(op)
            for region in op.regions:
                self.look(region, op if op.name in LOOPS else loop)
        for value in block.yields:
            self.readers.setdefault(value, []).append(None)

    def is_read_by_elements(self, scaled: Value) -> bool:
        """Whether nothing but elementwise operations of one block needs the elements, as often as they are scaled now."""
        readers = [reader for reader in self.readers.get(scaled, []) if reader is None or not goes_by_norm(reader, scaled)]
        leaves = [reader for reader in readers if reader is not None and reader.name == "leaf"]
        if not leaves or len(leaves) != len(readers) or self.loops[leaves[0]] is not self.loops[self.scaled[scaled]]:
            return False
        users = [user for leaf in leaves for user in self.readers.get(leaf.result, [])]
        return all(user is not None and isinstance(entry(user.name).lowering, Scalar) for user in users) and (
            len({self.blocks[user] for user in users if user is not None}) == 1
        )


def goes_by_norm(op: Op, value: Value) -> bool:
    """Whether an operation looks at the value only to say what is wrong with it, once its norm has shown that something is."""
    return op.name == "check_finite" and len(op.operands) == 2 and op.operands[0] is value


class _Sinking:
    def __init__(self, sunk: Mapping[Value, Op]) -> None:
        self.sunk = sunk
        self.factors: dict[Value, Factors] = {}
        self.replaced: dict[Value, Value] = {}

    def block(self, block: Block) -> Block:
        builder = Builder()
        for op in block.ops:
            with builder.at(op.span):
                if op.results and op.results[0] in self.sunk:
                    self.factors[op.result] = _factors(builder, op.operands[1], _elements(op))
                if op.name == "leaf" and op.operands[0] in self.sunk:
                    self.replaced[op.result] = self.scaled_leaf(builder, op)
                    continue
                operands = [self.replaced.get(operand, operand) for operand in op.operands]
                if operands and goes_by_norm(op, operands[0]):
                    operands[0] = self.source(operands[0])
                builder.ops.append(rebuilt(op, operands, [self.block(region) for region in op.regions], op.results))
        return builder.block(block.parameters, [self.replaced.get(value, value) for value in block.yields], block.symbols)

    def source(self, value: Value) -> Value:
        """The gradient before it was scaled."""
        while value in self.sunk:
            value = self.sunk[value].operands[0]
        return value

    def scaled_leaf(self, b: Builder, leaf: Op) -> Value:
        scaled = self.sunk[leaf.operands[0]]
        path = leaf.attributes["path"]
        found = self.leaf_of(b, scaled.operands[0], path)
        leaf_type, kind = _leaf_type(scaled, path), result_type(found)
        if not kind.element.is_float:
            return found
        wide = b.convert(found, Element.F32) if kind.element is Element.BF16 else found  # if not trained too: one expression for all
        for factor in self.factors[scaled.result][kind.element] if leaf_type.is_trained else ():
            wide = b.op("mul", wide, b.spread(factor, result_type(wide)))
        return b.convert(wide, kind.element)

    def leaf_of(self, b: Builder, model: Value, path: str) -> Value:
        """A leaf of a model, which may be scaled itself."""
        found = b.op("leaf", model, path=path)
        return self.scaled_leaf(b, b.ops.pop()) if model in self.sunk else found


def _elements(op: Op) -> Iterator[Element]:
    assert isinstance(op.result.type, ModelType)
    yield from dict.fromkeys(leaf.type.element for leaf in sorted_leaves(op.result.type) if leaf.is_trained)


def _leaf_type(op: Op, path: str) -> LeafType:
    assert isinstance(op.result.type, ModelType)
    return next(leaf for leaf in sorted_leaves(op.result.type) if leaf.name == path)


def _factors(b: Builder, factor: Value, elements: Iterator[Element]) -> Factors:
    """See codegen/leaf_updates.py: the factor as tensors of each type take it."""
    kind = result_type(factor).element
    if kind is Element.F32:
        return {element: (b.convert(factor, Element.F64 if element is Element.F64 else Element.F32),) for element in elements}
    is_split = b.op("lt", factor, b.float_constant(SMALLEST_FACTOR))
    second = b.op("mul", factor, b.float_constant(SECOND_FACTOR))
    first = b.op("select", is_split, b.float_constant(FIRST_FACTOR), b.float_constant(1.0))
    narrow = b.convert(b.op("select", is_split, second, factor), Element.F32)
    narrow_first = b.convert(first, Element.F32)
    found: dict[Element, tuple[Value, ...]] = {}
    for element in elements:
        if element is Element.F64:
            found[element] = first, b.op("select", is_split, second, b.convert(narrow, Element.F64))
        else:
            found[element] = narrow_first, narrow
    return found
