"""Random words and dropout masks in native code, from numerics' Philox streams (numerics/philox.py).

An element's word depends on its stream and row-major index alone, so these may be called for any elements in any order. Whole runs
cost a quarter: one Philox evaluation of 16 counters gives 64 consecutive elements. So a dropout does best to make the bytes of its mask
first, with `emit_kept`, for a few rows or the whole tensor at a time (the backward pass reads the same bytes), and load them in the
product's epilogue.
"""

from __future__ import annotations

from collections.abc import Sequence

from shapescript.compiler.codegen import emit
from shapescript.compiler.codegen.emit import I32, I64, Builder, Size, Value, at, constant, iota, lane_mask, loop, splat, store
from shapescript.compiler.numerics.philox import GROUP_WORDS, KEY_STEPS, MULTIPLIERS, ROUNDS, RUN, STREAM_MASK, VECTOR, Domain
from shapescript.compiler.records.dataclass import dataclass


@dataclass(frozen=True)
class Stream:
    """A stream's Philox key and the upper two words of its counters, each an I32."""

    key: tuple[Value, Value]
    upper: tuple[Value, Value]


def _halves(b: Builder, x: Value) -> tuple[Value, Value]:
    return b.trunc(x, I32), b.trunc(b.lshr(x, I64(32)), I32)


def stream(b: Builder, seed: Value, domain: Domain, number: Value) -> Stream:
    """The stream of an I64 seed and an I64 number, of which the lowest 62 bits count."""
    low, high = _halves(b, b.and_(number, I64(STREAM_MASK)))
    top = domain << 30
    return Stream(_halves(b, seed), (low, b.or_(high, I32(top - (1 << 32) if top >> 31 else top))))


def _evaluate(b: Builder, source: Stream, groups: Value) -> list[Value]:
    """The four words of each group (a vector of I64), in the lower halves of I64 lanes; the upper halves hold anything.

    The multiplier takes two 32-bit numbers from 64-bit lanes and fills such lanes, so words stay in them from round to round: half the
    instructions of packing them in between, and less than half the latency.
    """
    lanes = groups.type.count
    kind, half = groups.type, constant(32, groups.type)
    multipliers = [constant(multiplier, kind) for multiplier in MULTIPLIERS]
    c0, c1 = groups, b.lshr(groups, half)
    c2, c3 = (splat(b, b.zext(word, I64), lanes) for word in source.upper)
    keys = list(source.key)
    for turn in range(ROUNDS):
        if turn:
            keys = [b.add(key, I32(step - (1 << 32))) for key, step in zip(keys, KEY_STEPS, strict=True)]
        k0, k1 = (splat(b, b.zext(key, I64), lanes) for key in keys)
        first, second = (b.mul(_lower_halves(b, word), by) for word, by in zip((c0, c2), multipliers, strict=True))
        c0, c1, c2, c3 = b.xor(b.lshr(second, half), b.xor(c1, k0)), second, b.xor(b.lshr(first, half), b.xor(c3, k1)), first
    return [c0, c1, c2, c3]


def _lower_halves(b: Builder, words: Value) -> Value:
    return b.and_(words, constant(0xFFFFFFFF, words.type))


def emit_run(b: Builder, source: Stream, run: Value) -> list[Value]:
    """Elements 64 run to 64 run + 63, as four vectors of 16 words, zero-extended to I64."""
    first = b.mul(run, I64(VECTOR))
    return [_lower_halves(b, words) for words in _evaluate(b, source, b.add(splat(b, first, VECTOR), iota(VECTOR)))]


def emit_words(b: Builder, source: Stream, index: Value, lanes: int) -> Value:
    """Elements index to index + lanes - 1, as a vector of words, zero-extended to I64; for any index and number of lanes."""
    elements = b.add(splat(b, index, lanes), iota(lanes))
    group_of_run = b.mul(b.lshr(elements, constant(RUN.bit_length() - 1, elements.type)), constant(VECTOR, elements.type))
    words = _evaluate(b, source, b.add(group_of_run, b.and_(elements, constant(VECTOR - 1, elements.type))))
    place = b.and_(b.lshr(elements, constant(VECTOR.bit_length() - 1, elements.type)), constant(GROUP_WORDS - 1, elements.type))
    chosen = words[0]
    for word in range(1, GROUP_WORDS):
        chosen = b.select(b.icmp_signed("==", place, constant(word, place.type)), words[word], chosen)
    return _lower_halves(b, chosen)


def kept(b: Builder, words: Value, threshold: Value) -> Value:
    """Which elements a dropout keeps (I1): those whose word reaches the threshold, an I64 in 0..2^32 (numerics' `dropout_threshold`)."""
    return b.icmp_signed(">=", words, splat(b, threshold, words.type.count))


def emit_kept(b: Builder, source: Stream, threshold: Value, first: Size, count: Size, mask: Value) -> None:
    """mask[i] = 1 where element first + i is kept, else 0, as bytes, for i < count; fastest where first is a multiple of 64."""
    end = emit.plus(b, first, count)
    whole_start = emit.round_up(b, first, RUN)
    whole_end = emit.times(b, emit.quotient(b, end, RUN), RUN)

    def put(index: Value, words: Value, valid: Value | None) -> None:
        place = at(b, mask, emit.minus(b, index, first), emit.I8)
        store(b, emit.stored_condition(b, kept(b, words, threshold)), place, valid)

    def run(index: Value, _: Sequence[Value]) -> None:
        for word, words in enumerate(emit_run(b, source, b.lshr(index, I64(RUN.bit_length() - 1)))):
            put(b.add(index, I64(word * VECTOR)), words, None)

    def piece(index: Value, limit: Size) -> None:
        valid = emit.size(emit.minus(b, limit, index))
        put(index, emit_words(b, source, index, VECTOR), lane_mask(b, valid, VECTOR))

    head_end = emit.least(b, whole_start, end)
    loop(b, first, head_end, VECTOR, lambda i, _: piece(i, head_end))
    loop(b, whole_start, whole_end, RUN, run)
    loop(b, emit.most(b, whole_end, head_end), end, VECTOR, lambda i, _: piece(i, end))


__all__ = ["Domain", "Stream", "emit_kept", "emit_run", "emit_words", "kept", "stream"]
