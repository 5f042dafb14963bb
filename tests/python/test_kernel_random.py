"""Native random words and dropout masks against the streams on the host."""

from typing import Any

import numpy as np
import pytest
from kernel_harness import WIDTHS, Array, native

from shapescript.compiler.codegen import emit, random
from shapescript.compiler.codegen.emit import I32, I64, PTR
from shapescript.compiler.codegen.target import Target
from shapescript.compiler.numerics.philox import Domain, stream_words
from shapescript.compiler.numerics.random import dropout_threshold

each_target = pytest.mark.parametrize("level", WIDTHS, ids=lambda level: level.name)
SEED, NUMBER = 0x9ABCDEF0_89ABCDEF - (1 << 64), (1 << 61) + 0xF0000005


@each_target
@pytest.mark.parametrize("domain", list(Domain), ids=lambda domain: domain.name)
def test_words_of_any_elements(level: Target, domain: Domain) -> None:
    places = [0, 1, 15, 16, 63, 64, 100, 64 * (1 << 33) + 61]
    for lanes in (1, 4, 8, 16):

        def body(b: Any, arguments: Any, lanes: int = lanes) -> None:
            source = random.stream(b, arguments[1], domain, arguments[2])
            words = random.emit_words(b, source, arguments[3], lanes)
            emit.store(b, b.trunc(words, emit.vector_of(I32, lanes)), arguments[0])

        call, out = native(level, [PTR, I64, I64, I64], body), np.zeros(lanes, np.uint32)
        for place in places:
            call(out, SEED, NUMBER, place)
            assert (out == stream_words(SEED, domain, NUMBER, place, lanes)).all(), (lanes, place)


@each_target
def test_runs_of_64(level: Target) -> None:
    def body(b: Any, arguments: Any) -> None:
        source = random.stream(b, arguments[1], Domain.DRAW, arguments[2])
        for word, words in enumerate(random.emit_run(b, source, arguments[3])):
            emit.store(b, words, emit.at(b, arguments[0], 16 * word, I64))

    out = np.zeros(64, np.int64)
    for run in (0, 3, 1 << 33):
        native(level, [PTR, I64, I64, I64], body)(out, 7, NUMBER, run)
        assert (out == stream_words(7, Domain.DRAW, NUMBER, 64 * run, 64)).all()


def masks(level: Target, threshold: int, low: int, high: int) -> Array:
    """Of runs of 64 elements; nothing beyond them is written."""

    def body(b: Any, arguments: Any) -> None:
        source = random.stream(b, arguments[1], Domain.DRAW, arguments[2])
        random.emit_kept(b, source, arguments[3], arguments[4], arguments[5], arguments[0])

    out = np.full(64 * high + 64, 9, np.uint8)
    native(level, [PTR] + [I64] * 5, body)(out[32:], SEED, NUMBER, threshold, low, high)
    assert (out[: 32 + 64 * low] == 9).all() and (out[32 + 64 * high :] == 9).all()
    return out[32 + 64 * low : 32 + 64 * high]


@each_target
def test_masks_of_any_runs(level: Target) -> None:
    threshold = dropout_threshold(0.3)
    for low, high in ((0, 0), (0, 1), (0, 5), (2, 3), (3, 9)):
        expected = stream_words(SEED, Domain.DRAW, NUMBER, 64 * low, 64 * (high - low)) >= np.uint64(threshold)
        assert (masks(level, threshold, low, high) == expected).all(), (low, high)


@each_target
def test_nothing_and_everything_is_kept(level: Target) -> None:
    assert masks(level, dropout_threshold(0.0), 1, 3).all()
    assert not masks(level, dropout_threshold(1.0), 1, 3).any()


@each_target
def test_the_first_groups(level: Target) -> None:
    def body(b: Any, arguments: Any) -> None:
        source = random.stream(b, arguments[1], Domain.ORDER, arguments[2])
        for word, words in enumerate(random.emit_first_groups(b, source, 4)):
            emit.store(b, words, emit.at(b, arguments[0], 4 * word, I64))

    out = np.zeros((4, 4), np.int64)
    native(level, [PTR, I64, I64], body)(out, SEED, NUMBER)
    assert (out == stream_words(SEED, Domain.ORDER, NUMBER, 0, 64).reshape(4, 16)[:, :4]).all()
