"""Records for logs. The first of a place in the program is written at once, and so is one that comes half a poll's time behind the last
hand-over or later; those in between are kept in the call's block of records (late_records.py), which Python takes all at once. A call back
to Python costs some 10 µs, a third of a small model's step."""

from __future__ import annotations

from shapescript.compiler.codegen.context import WORD_BYTES, Word, load_address, load_word, store_word
from shapescript.compiler.codegen.emit import I64, Value
from shapescript.compiler.codegen.late_records import SITE_WORDS, record_sites, record_words
from shapescript.compiler.codegen.lower_host import perform, put_operands
from shapescript.compiler.codegen.lowering import Lowering, Site, lowers
from shapescript.compiler.ir.nodes import Op


@lowers("write")
def _write(low: Lowering, op: Op) -> None:
    b, place = low.b, len(record_sites(low.sites))
    site = low.site(Site("host", op))
    written = b.add(low.values[op.operands[0]][0], I64(1))
    block, now = load_address(b, low.context, Word.RECORDS), low.clock()
    with b.if_else(_may_wait(low, op, b.icmp_signed("==", load_word(b, block, place), written), now)) as (wait, hand_over):
        with wait:
            free = load_address(b, low.context, Word.RECORDS_NEXT)
            store_word(b, I64(site), free, 0)
            put_operands(low, op, free, SITE_WORDS)
            store_word(b, _behind(low, op), low.context, Word.RECORDS_NEXT)
        with hand_over:
            perform(low, op, site)
            store_word(b, written, block, place)
            soon = b.lshr(load_word(b, low.context, Word.BUDGET), I64(1))
            store_word(b, b.add(now, soon), low.context, Word.RECORDS_DUE)


def _may_wait(low: Lowering, op: Op, known: Value, now: Value) -> Value:
    """Whether a record of a place that is known to write to its sink may be kept."""
    b = low.b
    is_early = b.icmp_signed("<", now, load_word(b, low.context, Word.RECORDS_DUE))
    fits = b.icmp_signed("<=", _behind(low, op), load_word(b, low.context, Word.RECORDS_END))
    return b.and_(known, b.and_(is_early, fits))


def _behind(low: Lowering, op: Op) -> Value:
    """The address behind a record that is kept next."""
    return low.b.add(load_word(low.b, low.context, Word.RECORDS_NEXT), I64(WORD_BYTES * record_words(op)))
