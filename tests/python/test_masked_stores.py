"""A vector whose end is masked touches no element behind it, whatever LLVM makes of the mask and of what the value comes from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from kernel_harness import TARGETS, Array, native

from shapescript.compiler.codegen import emit
from shapescript.compiler.codegen.emit import F32, F64, I8, I16, I32, I64, LANES, PTR, Builder, ElementType, Value
from shapescript.compiler.codegen.target import Target

DTYPES: dict[ElementType, Any] = {F32: np.float32, F64: np.float64, I8: np.int8, I16: np.int16, I32: np.int32, I64: np.int64}
FILL = 77


def made(b: Builder, numbers: Value, element: ElementType) -> Value:
    """Sixteen whole numbers of 32 bits, turned into another type in registers, as results are before they are stored."""
    kind = emit.vector_of(element, LANES)
    if emit.is_float(element):
        return b.sitofp(numbers, kind)
    if element == I64:
        return b.sext(numbers, kind)
    return numbers if element == I32 else b.trunc(numbers, kind)


def stored(level: Target, element: ElementType, mask: Sequence[int] | int) -> Array:
    """Twice sixteen elements, into the first of which the numbers 1 to 16 were stored by a mask that is known, or so many lanes of them by
    one that is not."""

    def body(b: Builder, arguments: Sequence[Value]) -> None:
        source, target, valid = arguments
        lanes = emit.lane_mask(b, valid, LANES) if isinstance(mask, int) else emit.lanes_of(1, tuple(mask))
        emit.store(b, made(b, emit.load(b, source, I32, LANES), element), target, lanes)

    numbers, result = np.arange(1, LANES + 1, dtype=np.int32), np.full(2 * LANES, FILL, DTYPES[element])
    native(level, [PTR, PTR, I64], body)(numbers, result, mask if isinstance(mask, int) else 0)
    return result


def expected(element: ElementType, mask: Sequence[int]) -> Array:
    numbers = np.where(mask, np.arange(1, LANES + 1), FILL)
    return np.concatenate([numbers, np.full(LANES, FILL)]).astype(DTYPES[element])


@pytest.mark.parametrize("element", list(DTYPES), ids=str)
@pytest.mark.parametrize("level", TARGETS, ids=lambda level: level.name)
def test_a_masked_store_writes_the_lanes_of_its_mask_alone(level: Target, element: ElementType) -> None:
    for count in range(LANES + 1):
        mask = [int(lane < count) for lane in range(LANES)]
        for given in (mask, count):
            np.testing.assert_array_equal(stored(level, element, given), expected(element, mask), f"{count} lanes, {given}")
    for lane in range(1, LANES):
        alone = [int(lane == place) for place in range(LANES)]
        np.testing.assert_array_equal(stored(level, element, alone), expected(element, alone), f"lane {lane}")
