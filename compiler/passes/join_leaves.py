"""Elementwise work on all parameters of a model as work on its buffer: one pass over it, whatever the number of parameters.

Where each operand of a `pack` is the same expression of parameters with its own name (of models laid out alike), of numbers and constants,
the expression is computed of the whole buffers (`flat`), and is the model (`pack_flat`). An optimiser that a program writes over models as
vectors comes to one kernel so. What lies between the parameters is computed too, and cleared.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import partial

from shapescript.compiler.ir.flat import flat_layout
from shapescript.compiler.ir.nodes import Block, Function, Op, Value, free_values
from shapescript.compiler.ir.types import ModelType, TensorType, sorted_leaves
from shapescript.compiler.ops.build import Builder, rebuilt, result_type
from shapescript.compiler.ops.models import flat_type
from shapescript.compiler.ops.table import Scalar, entry
from shapescript.compiler.passes.dead import drop_dead
from shapescript.compiler.passes.symbols import attribute_key

FEWEST = 2  # leaves that make it worth while


def join_leaves(function: Function) -> Function:
    body = drop_dead(_joined(function.body, {}))
    return Function(function.name, function.dims, body, function.mutable, function.results, function.span)


def _joined(block: Block, outer: Mapping[Value, Op]) -> Block:
    definitions = dict(outer)
    for op in block.ops:
        definitions.update((result, op) for result in op.results)
    packs = _alike(block, _Leaves(definitions))
    builder, leaves, replaced = Builder(), _Leaves(definitions), dict[Value, Value]()
    for op in block.ops:
        operands = [replaced.get(operand, operand) for operand in op.operands]
        with builder.at(op.span):
            if op in packs:
                packed = builder.op("pack_flat", leaves.whole(builder, op), model=op.attributes["model"], hint=op.result.hint)
                replaced[op.result] = packed
                _use_parts(builder, op, packed, replaced)
            else:
                regions = [_joined(_renamed(region, replaced), definitions) for region in op.regions]
                builder.ops.append(rebuilt(op, operands, regions, op.results))
    yields = [replaced.get(value, value) for value in block.yields]
    return Block(block.parameters, tuple(builder.ops), tuple(yields), block.symbols)


def _use_parts(builder: Builder, pack: Op, packed: Value, replaced: dict[Value, Value]) -> None:
    """What follows reads a packed tensor where it lies in the model."""
    for leaf, operand in zip(sorted_leaves(pack.attributes["model"]), pack.operands, strict=True):
        replaced[operand] = builder.op("leaf", packed, path=leaf.name, hint=operand.hint)


def _renamed(block: Block, replaced: Mapping[Value, Value]) -> Block:
    ops = []
    for op in block.ops:
        regions = [_renamed(region, replaced) for region in op.regions]
        ops.append(rebuilt(op, [replaced.get(operand, operand) for operand in op.operands], regions, op.results))
    return Block(block.parameters, tuple(ops), tuple(replaced.get(value, value) for value in block.yields), block.symbols)


def _alike(block: Block, leaves: _Leaves) -> set[Op]:
    """The packs to make so: what their expressions compute on the way is used in such expressions only."""
    found = {op: inside for op in block.ops if op.name == "pack" and (inside := leaves.inside(op)) is not None}
    users: dict[Value, set[Op | None]] = {}
    places = {op: place for place, op in enumerate(block.ops)}
    for op in block.ops:
        for value in (*op.operands, *(value for region in op.regions for value in free_values(region))):
            users.setdefault(value, set()).add(op)
    for value in block.yields:
        users.setdefault(value, set()).add(None)
    while True:
        within = {leaves.definitions[value] for values in found.values() for value in values} | set(found)
        is_apart = partial(_is_apart, users, places, within)
        left = {pack: values for pack, values in found.items() if all(is_apart(pack, value) for value in values)}
        if len(left) == len(found):
            return set(found)
        found = left


def _is_apart(users: Mapping[Value, set[Op | None]], places: Mapping[Op, int], within: set[Op], pack: Op, value: Value) -> bool:
    """Whether nothing but these operations needs the value; or it is a tensor of the pack, and what needs it comes later."""
    others = users.get(value, set()) - within
    return not others or (value in pack.operands and all(user is None or places[user] > places[pack] for user in others))


class _Leaves:
    """Reads tensors as expressions of the parameters of one name."""

    def __init__(self, definitions: Mapping[Value, Op]) -> None:
        self.definitions = definitions
        self.flats: dict[Hashable, Value] = {}

    def inside(self, pack: Op) -> set[Value] | None:
        """What the expressions of a pack compute, where they are all the same; else None."""
        model: ModelType = pack.attributes["model"]
        names = [leaf.name for leaf in sorted_leaves(model)]
        if len(names) < FEWEST or flat_type(model) is None:
            return None
        values: set[Value] = set()
        keys = {self._key(operand, name, model, values) for operand, name in zip(pack.operands, names, strict=True)}
        return values if len(keys) == 1 and None not in keys and values else None

    def _key(self, value: Value, name: str, model: ModelType, inside: set[Value]) -> Hashable | None:
        op = self.definitions.get(value)
        if op is None or not result_type(value).axes:
            return None
        if op.name == "leaf":
            return self._source(op, name, model)
        operands = op.operands
        if op.name == "broadcast" and not result_type(operands[0]).axes:
            constant = self.definitions.get(operands[0])
            is_constant = constant is not None and constant.name == "constant"
            number = (repr(constant.attributes["value"]), constant.attributes["element"]) if is_constant and constant else operands[0]
            return "broadcast", number
        if not isinstance(entry(op.name).lowering, Scalar):
            return None
        inside.add(value)
        keys = tuple(self._key(operand, name, model, inside) for operand in operands)
        attributes = tuple((key, attribute_key(part)) for key, part in op.attributes.items())
        return None if None in keys else (op.name, attributes, keys)

    def _source(self, op: Op, name: str, model: ModelType) -> Hashable | None:
        """A parameter of that name in a model, or part of one, that is laid out as this one."""
        source, path = op.operands[0], op.attributes["path"]
        if path != name and not path.endswith("." + name):
            return None
        prefix = path[: len(path) - len(name)]
        assert isinstance(source.type, ModelType)
        start = [part for part in flat_layout(source.type).leaves if part.leaf.name.startswith(prefix)]
        own = flat_layout(model).leaves
        if [(part.offset - start[0].offset, part.leaf.type) for part in start] != [(part.offset, part.leaf.type) for part in own]:
            return None
        return "leaf", source, prefix

    def whole(self, b: Builder, pack: Op) -> Value:
        """The expression of the whole buffers."""
        model: ModelType = pack.attributes["model"]
        kind = flat_type(model)
        assert kind is not None
        name = sorted_leaves(model)[0].name
        return self._computed(b, pack.operands[0], name, model, kind)

    def _computed(self, b: Builder, value: Value, name: str, model: ModelType, kind: TensorType) -> Value:
        key = (model, self._key(value, name, model, set()))
        if key not in self.flats:
            self.flats[key] = self._compute(b, value, name, model, kind)
        return self.flats[key]

    def _compute(self, b: Builder, value: Value, name: str, model: ModelType, kind: TensorType) -> Value:
        op = self.definitions[value]
        if op.name == "leaf":
            source, prefix = op.operands[0], op.attributes["path"][: len(op.attributes["path"]) - len(name)]
            part = b.op("submodel", source, path=prefix[:-1]) if prefix else source
            return b.op("flat", part)
        if op.name == "broadcast":
            return b.spread(op.operands[0], TensorType(result_type(value).element, kind.axes))
        operands = [self._computed(b, operand, name, model, kind) for operand in op.operands]
        return b.op(op.name, *operands, hint=value.hint, **op.attributes)
