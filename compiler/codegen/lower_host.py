"""Operations that the host does: their operands go to the exchange, Python is called, and results are taken from the exchange.

    operand                         words
    number                          its bits
    tensor with axes                its address, then its axes' sizes
    model, optimiser                the address of its buffer or block
    mode, dataset, order,           the number of its object
    sink, string

    result                          before the call           after it
    number                                                    its bits
    tensor with axes                its axes' sizes           the address to copy it from
    model, optimiser                                          the address to copy it from
    mode, dataset, order                                      the number of its object, the address of its block
    sink, string                                              the number of its object

An order is in registers what a dataset is, its object and its block, and behind them the block of the dataset that it orders.

Strings and `Eval` never change: their objects are numbered below 0, by the site at which Python makes them when it first needs them.
"""

from __future__ import annotations

from collections.abc import Iterator

from llvmlite import ir

from shapescript.compiler.codegen import emit
from shapescript.compiler.codegen.context import load_address, load_number, load_word, store_number, store_word
from shapescript.compiler.codegen.emit import I64, Value, load
from shapescript.compiler.codegen.lowering import RULES, Lowering, Site, lowers
from shapescript.compiler.codegen.storage import copy_contents
from shapescript.compiler.ir import nodes
from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.types import (
    MODE,
    DatasetType,
    ModelType,
    OptimiserType,
    OrderedType,
    TensorType,
    Type,
)
from shapescript.compiler.ops.table import Host, entries

MODE_WORDS = 4


def operand_words(kind: Type) -> int:
    return 1 + len(kind.axes) if isinstance(kind, TensorType) else 1


def asked_words(kind: Type) -> int:
    """Words before the call that describe a result."""
    return len(kind.axes) if isinstance(kind, TensorType) else 0


def answer_words(kind: Type) -> int:
    return 2 if kind == MODE or isinstance(kind, DatasetType | OrderedType) else 1


def perform(low: Lowering, op: Op, site: int) -> None:
    """Have Python do the operation of a site now."""
    first = low.layout.first_exchange
    place = first + put_operands(low, op, low.context, first)
    for result in op.results:
        if isinstance(result.type, TensorType):
            for axis in result.type.axes:
                store_word(low.b, emit.size(low.size(axis)), low.context, place)
                place += 1
    low.call_site(site)
    for result in op.results:
        _result(low, op, result, place)
        place += answer_words(result.type)
    low.exchange_words = max(low.exchange_words, place - first)


def put_operands(low: Lowering, op: Op, block: Value, place: int) -> int:
    """Write what Python needs of an operation's operands to a block's words from `place` on; gives how many they are."""
    words = [word for operand in op.operands for word in _operand(low, operand)]
    for index, value in enumerate(words, place):
        store_number(low.b, value, block, index)
    return len(words)


def _perform(low: Lowering, op: Op) -> None:
    perform(low, op, low.site(Site("host", op)))


def _operand(low: Lowering, value: nodes.Value) -> Iterator[Value]:
    match value.type:
        case TensorType(_, ()):
            yield low.number(value)
        case TensorType(_, axes):
            yield low.b.ptrtoint(low.pointer(value), I64)
            for axis in axes:
                yield emit.size(low.size(axis))
        case ModelType() | OptimiserType():
            yield low.b.ptrtoint(low.pointer(value), I64)
        case _:
            yield low.values[value][0]


def _result(low: Lowering, op: Op, value: nodes.Value, place: int) -> None:
    b, kind = low.b, value.type
    match kind:
        case TensorType(element, ()):
            low.define(value, load_number(b, low.context, place, element))
        case TensorType() | ModelType() | OptimiserType():
            copy_contents(low, kind, load_address(b, low.context, place), low.plan.locations[value])
        case DatasetType():
            block = load_address(b, low.context, place + 1)
            low.define(value, load_word(b, low.context, place), block)
            bind_rows(low, kind, block)
        case OrderedType():
            data_block = low.values[op.operands[0]][-1]
            low.define(value, load_word(b, low.context, place), load_address(b, low.context, place + 1), data_block)
        case _ if kind == MODE:
            low.define(value, load_word(b, low.context, place), load_address(b, low.context, place + 1))
        case _:
            low.define(value, load_word(b, low.context, place))


def bind_rows(low: Lowering, dataset: DatasetType, block: Value) -> None:
    """The size of a dataset that has just come from the host."""
    rows = load(low.b, block, I64)
    for symbol in dataset.rows.symbols():
        if symbol.value is None and symbol.quotient is None:
            low.sizes.bind(symbol, rows)


for _name, _entry in entries().items():
    if isinstance(_entry.lowering, Host):
        RULES[_name] = _perform


@lowers("string")
def _string(low: Lowering, op: Op) -> None:
    low.define(op.result, I64(-low.site(Site("constant object", op))))


@lowers("mode_eval")
def _mode_eval(low: Lowering, op: Op) -> None:
    known = low.module.globals.get("eval.mode")
    if known is None:
        kind = ir.ArrayType(I64, MODE_WORDS)
        known = ir.GlobalVariable(low.module, kind, "eval.mode")
        known.linkage, known.global_constant, known.initializer = "internal", True, ir.Constant(kind, [0] * MODE_WORDS)
        emit.untyped(known)
    low.define(op.result, I64(-low.site(Site("constant object", op))), known)
