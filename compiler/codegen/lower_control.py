"""Conditions and loops. What they carry in registers becomes phis; what lies in storage is moved to its place at the ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shapescript.compiler.codegen.block import lower_block, move, region
from shapescript.compiler.codegen.context import Word, load_word, store_word
from shapescript.compiler.codegen.emit import I64, Value
from shapescript.compiler.codegen.lowering import Lowering, Registers, lowers
from shapescript.compiler.ir import nodes
from shapescript.compiler.ir.nodes import Block, Op, walk
from shapescript.compiler.ir.types import DatasetType, HandleType, OrderedType
from shapescript.compiler.ops.locations import has_storage
from shapescript.compiler.ops.table import Host, entry


@lowers("if")
def _if(low: Lowering, op: Op) -> None:
    b = low.b
    branches = [b.append_basic_block(name) for name in ("then", "else")]
    join = b.append_basic_block("join")
    b.cbranch(low.number(op.operands[0]), *branches)
    arrived: list[tuple[list[Registers], object]] = []
    for branch, body in zip(branches, op.regions, strict=True):
        b.position_at_end(branch)
        with region(low):
            lower_block(low, body)
            _move_all(low, body.yields, op.results)
            registers = [() if has_storage(value) else low.values[value] for value in body.yields]
        arrived.append((registers, b.block))
        b.branch(join)
    b.position_at_end(join)
    for place, result in enumerate(op.results):
        if not has_storage(result):
            phis = [b.phi(register.type) for register in arrived[0][0][place]]
            for registers, block in arrived:
                for phi, register in zip(phis, registers[place], strict=True):
                    phi.add_incoming(register, block)
            low.define(result, *phis)


def _move_all(low: Lowering, yields: Sequence[nodes.Value], to: Sequence[nodes.Value]) -> None:
    for value, target in zip(yields, to, strict=True):
        if has_storage(value):
            move(low, value, low.plan.locations[target])


class Carried:
    """The values that a loop carries: phis at its head, defined anew by each iteration."""

    def __init__(self, low: Lowering, operands: Sequence[nodes.Value]) -> None:
        """With the builder at the end of what comes before the loop; goes to its head."""
        self.low, self.operands = low, operands
        b = low.b
        self.objects = load_word(b, low.context, Word.OBJECTS)
        before, self.head = b.block, b.append_basic_block("loop")
        b.branch(self.head)
        b.position_at_end(self.head)
        self.phis: list[Registers] = []
        for operand in operands:
            registers = () if has_storage(operand) else low.values[operand]
            phis = tuple(b.phi(register.type) for register in registers)
            for phi, register in zip(phis, registers, strict=True):
                phi.add_incoming(register, before)
            self.phis.append(phis)

    def counter(self, before: object, start: Value) -> Value:
        """A phi of I64 that `step` moves on; made before any other operation at the head."""
        phi = self.low.b.phi(I64)
        phi.add_incoming(start, before)
        return phi

    def define(self, values: Sequence[nodes.Value]) -> None:
        for value, registers in zip(values, self.phis, strict=True):
            if not has_storage(value):
                self.low.define(value, *registers)

    def turn(self, body: Block, results: Sequence[nodes.Value], fill: Callable[[], None] | None = None) -> list[Registers]:
        """Emit an iteration; gives the registers of what it yields."""
        lower_block(self.low, body, fill)
        _move_all(self.low, body.yields, results)
        if _makes_objects(body) and not any(map(_is_object, body.yields)):
            store_word(self.low.b, self.objects, self.low.context, Word.OBJECTS)  # what the turn had of Python's nobody sees any more
        return [() if has_storage(value) else self.low.values[value] for value in body.yields]

    def close(self, grown: Sequence[Registers]) -> None:
        """Go back to the head with the next values."""
        b = self.low.b
        for phis, registers in zip(self.phis, grown, strict=True):
            for phi, register in zip(phis, registers, strict=True):
                phi.add_incoming(register, b.block)
        b.branch(self.head)


def _is_object(value: nodes.Value) -> bool:
    return isinstance(value.type, HandleType | DatasetType | OrderedType)


def _makes_objects(body: Block) -> bool:
    """Whether the host makes objects of Python's for the block, or keeps the fields of a dataset for it."""
    return any(
        op.name == "dataset_all" or (isinstance(entry(op.name).lowering, Host) and any(map(_is_object, op.results))) for op in walk(body)
    )


@lowers("while")
def _while(low: Lowering, op: Op) -> None:
    b = low.b
    condition, body = op.regions
    carried = Carried(low, op.operands)
    with region(low):
        carried.define(condition.parameters)
        objects = load_word(b, low.context, Word.OBJECTS) if _makes_objects(condition) else None
        lower_block(low, condition)
        if objects is not None:  # what a condition had of Python's nobody sees behind it
            store_word(b, objects, low.context, Word.OBJECTS)
        (goes_on,) = low.values[condition.yields[0]]
    inside, after = b.append_basic_block("body"), b.append_basic_block("after")
    b.cbranch(goes_on, inside, after)
    b.position_at_end(inside)
    with region(low):
        carried.define(body.parameters)
        grown = carried.turn(body, op.results)
    low.poll()
    carried.close(grown)
    b.position_at_end(after)
    carried.define(op.results)


@lowers("for_range")
def _for_range(low: Lowering, op: Op) -> None:
    start, stop, *operands = op.operands
    (body,) = op.regions

    def begin(i: Value) -> None:
        low.define(body.parameters[0], i)

    counted_loop(low, (low.number(start), low.number(stop), I64(1)), operands, op, body.parameters[1:], begin)


def counted_loop(
    low: Lowering,
    limits: tuple[Value, Value, Value],
    operands: Sequence[nodes.Value],
    op: Op,
    parameters: Sequence[nodes.Value],
    begin: Callable[[Value], None],
    fill: Callable[[Value], None] | None = None,
) -> None:
    """A loop over range(start, stop, step). `operands` and `parameters`: outside and inside, what it carries.

    `begin(i)` defines what the body takes beside, and `fill(i)` sets the contents of parameters that have slots.
    """
    start, stop, step = limits
    (body,) = op.regions
    b = low.b
    before = b.block
    carried = Carried(low, operands)
    i = carried.counter(before, start)
    inside, after = b.append_basic_block("body"), b.append_basic_block("after")
    b.cbranch(b.icmp_signed("<", i, stop), inside, after)
    b.position_at_end(inside)
    with region(low):
        carried.define(parameters)
        begin(i)
        grown = carried.turn(body, op.results, (lambda: fill(i)) if fill else None)
    low.poll()
    following = b.add(i, step)
    if step != I64(1):  # one more than what is below the stop doesn't wrap
        following = b.select(b.icmp_signed("<", following, i), stop, following)
    i.add_incoming(following, b.block)
    carried.close(grown)
    b.position_at_end(after)
    carried.define(op.results)
