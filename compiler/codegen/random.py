"""Random words and dropout masks in native code, from numerics' Philox streams (numerics/philox.py).

An element's word depends on its stream and row-major index alone, so these may be called for any elements in any order. Whole runs
cost a quarter: one Philox evaluation of 16 counters gives 64 consecutive elements. So a dropout makes the bytes of its mask first, with
`emit_kept` (the backward pass reads the same bytes), in whole runs: code for the last run's part would be twice that of the loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from shapescript.compiler.codegen import emit
from shapescript.compiler.codegen.emit import I32, I64, Builder, Size, Value, at, constant, iota, loop, splat, store
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
    state = _counters(b, source, groups)
    for _ in range(ROUNDS):
        state = _round(b, state)
    return state[:GROUP_WORDS]


def _counters(b: Builder, source: Stream, groups: Value) -> list[Value]:
    """The state before the first round: four words, and the two of the key."""
    upper = [splat(b, b.zext(word, I64), groups.type.count) for word in source.upper]
    return [groups, b.lshr(groups, constant(32, groups.type)), *upper, *source.key]


def _round(b: Builder, state: Sequence[Value]) -> list[Value]:
    c0, c1, c2, c3, *keys = state
    kind, half = c0.type, constant(32, c0.type)
    k0, k1 = (splat(b, b.zext(key, I64), kind.count) for key in keys)
    first, second = (b.mul(_lower_halves(b, word), constant(by, kind)) for word, by in zip((c0, c2), MULTIPLIERS, strict=True))
    words = [b.xor(b.lshr(second, half), b.xor(c1, k0)), second, b.xor(b.lshr(first, half), b.xor(c3, k1)), first]
    return [*words, *(b.add(key, I32(step - (1 << 32))) for key, step in zip(keys, KEY_STEPS, strict=True))]


def _lower_halves(b: Builder, words: Value) -> Value:
    return b.and_(words, constant(0xFFFFFFFF, words.type))


def emit_run(b: Builder, source: Stream, run: Value) -> list[Value]:
    """Elements 64 run to 64 run + 63, as four vectors of 16 words, zero-extended to I64."""
    first = b.mul(run, I64(VECTOR))
    return [_lower_halves(b, words) for words in _evaluate(b, source, b.add(splat(b, first, VECTOR), iota(VECTOR)))]


def emit_first_groups(b: Builder, source: Stream, count: int) -> list[Value]:
    """The four words of groups 0 to count - 1, each a vector of them, zero-extended to I64. For a few numbers: round by round in a loop,
    a fifth of the code."""
    state = loop(b, 0, ROUNDS, 1, lambda _, state: _round(b, state), _counters(b, source, iota(count)))
    return [_lower_halves(b, words) for words in state[:GROUP_WORDS]]


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


def emit_kept(b: Builder, source: Stream, threshold: Value, low: Size, high: Size, mask: Value) -> None:
    """mask[i] = 1 where element i is kept, else 0, as bytes, for the elements of runs low to high."""

    def turn(run: Value, _: Sequence[Value]) -> None:
        place = at(b, mask, b.mul(run, I64(RUN)), emit.I8)
        for word, words in enumerate(emit_run(b, source, run)):
            store(b, emit.stored_condition(b, kept(b, words, threshold)), at(b, place, word * VECTOR, emit.I8))

    loop(b, low, high, 1, turn)


__all__ = ["Domain", "Stream", "emit_first_groups", "emit_kept", "emit_run", "emit_words", "kept", "stream"]
