"""Modes and datasets: draws, all of a dataset, the size of an order."""

from __future__ import annotations

from shapescript.compiler.codegen.direct import Direct, either
from shapescript.compiler.codegen.emit import I64, at, load, store
from shapescript.compiler.codegen.feeds import ask_columns
from shapescript.compiler.codegen.lowering import Lowering, lowers
from shapescript.compiler.codegen.orders import SIZE, is_fed
from shapescript.compiler.ir.nodes import Op

KIND, SEED, DRAWS = range(3)  # words of a mode's block


@lowers("mode_draw")
def _mode_draw(low: Lowering, op: Op) -> None:
    """In Train the stream's position moves; Eval gives -1."""
    b, (_, block) = low.b, low.values[op.operands[0]]
    kind, seed, draws = (load(b, at(b, block, word, I64), I64) for word in (KIND, SEED, DRAWS))
    trains = b.icmp_signed("!=", kind, I64(0))
    with b.if_then(trains):
        store(b, b.add(draws, I64(1)), at(b, block, DRAWS, I64))
    low.define(op.results[0], seed)
    low.define(op.results[1], b.select(trains, draws, I64(-1)))


@lowers("mode_is_train")
def _mode_is_train(low: Lowering, op: Op) -> None:
    b, (_, block) = low.b, low.values[op.operands[0]]
    low.define(op.result, b.icmp_signed("!=", load(b, at(b, block, KIND, I64), I64), I64(0)))


@lowers("dataset_all")
def _dataset_all(low: Lowering, op: Op) -> None:
    """Whole fields where they lie; only where rows overlap they are copied apart. Those of a fed dataset the host reads."""
    b, (object_, block) = low.b, low.values[op.operands[0]]
    kept = {field: value for field, value in enumerate(op.results) if low.has_place(value)}
    if not kept:
        return
    examples, fed = load(b, at(b, block, SIZE, I64), I64), is_fed(b, block)
    rows = Direct(low, block, kept)
    memory = low.take(b.select(fed, I64(0), rows.room(examples)))
    found = either(b, fed, lambda: ask_columns(low, op, object_, kept), lambda: rows.pieces(I64(0), examples, memory))
    low.borrowed.update((value, found[field]) for field, value in kept.items())


@lowers("order_size")
def _order_size(low: Lowering, op: Op) -> None:
    low.define(op.result, load(low.b, at(low.b, low.values[op.operands[0]][1], SIZE, I64), I64))
