"""Errors of native code as exceptions, in the words that both engines share."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence

import numpy as np

from shapescript.compiler.codegen.lowering import Site
from shapescript.compiler.codegen.pointers import Array, tensor_at
from shapescript.compiler.ir.flat import flat_layout
from shapescript.compiler.ir.nodes import Function, Op
from shapescript.compiler.ir.sizes import InexactDivision
from shapescript.compiler.ir.types import Element, ModelType, TensorType
from shapescript.compiler.numerics.bfloat16_arrays import numbers_of
from shapescript.compiler.ops.protocol import (
    ExecutionError,
    failed_check,
    index_out_of_range,
    inexact_axis,
    integer_division,
    no_batches,
    no_distribution,
    not_finite_gradient,
    not_finite_loss,
    out_of_range,
    reduction_of_nothing,
    slice_out_of_range,
    start_out_of_range,
    window_does_not_fit,
)

NO_STEP = -1


def failure(function: Function, site: Site, details: Sequence[int]) -> ExecutionError:
    """The exception for a site at which native code left, with its details as int64."""
    op = site.op
    span = op.span if op else function.span
    match site.kind:
        case "inexact axis":
            return inexact_axis(f"axis {site.data[0]}: {InexactDivision(details[0], details[1])}", span)
        case "negative axis":
            return inexact_axis(f"axis {site.data[0]} would have {details[0]} elements", span)
    assert op is not None
    match site.kind:
        case "window":
            return window_does_not_fit(op, op.attributes["room"][int(site.data[0])], details[0])
        case "range":
            return out_of_range(op, struct.unpack("<d", struct.pack("<q", details[0]))[0])
        case "check":
            return failed_check(op)
        case "integer division":
            return integer_division(op, details[0], details[1])
        case "no batches":
            return no_batches(op, details[0], details[1], bool(details[2]))
        case "index":
            return index_out_of_range(op, details[0], details[1], details[2])
        case "slice":
            return slice_out_of_range(op, details[0], details[1], details[2])
        case "reduction of nothing":
            return reduction_of_nothing(op)
        case "start":
            return start_out_of_range(op, details[0], details[1])
        case "no distribution":
            return no_distribution(op, details[0])
    assert site.kind == "not finite", site.kind
    return _not_finite(op, details)


def _not_finite(op: Op, details: Sequence[int]) -> ExecutionError:
    """details: the step or NO_STEP; the address of what was checked, for a number its bits as f64; how many elements it has."""
    step = None if details[0] == NO_STEP else details[0]
    tensors = list(_checked(op, details[1], details[2]))
    name, values = next((tensor for tensor in tensors if not np.isfinite(tensor[1]).all()), tensors[0])
    if op.attributes.get("what") == "loss":
        return not_finite_loss(op, next((float(value) for value in values if not np.isfinite(value)), math.nan), step)
    return not_finite_gradient(op, name, any(bool(np.isnan(numbers).any()) for _, numbers in tensors), step)


def _checked(op: Op, where: int, count: int) -> Iterator[tuple[str, Array]]:
    operand = op.operands[0]
    match operand.type:
        case ModelType():
            layout = flat_layout(operand.type)
            for part in layout.leaves:
                if part.leaf.is_trained:
                    yield part.leaf.name, _numbers(where + part.offset, part.leaf.type.element, part.count)
        case TensorType(_, ()):
            yield operand.hint or "the tensor", np.array(struct.unpack("<d", struct.pack("<q", where)))
        case TensorType(element, _):
            yield operand.hint or "the tensor", _numbers(where, element, count)


def _numbers(where: int, element: Element, count: int) -> Array:
    found = tensor_at(where, element, (count,))
    return numbers_of(found) if element is Element.BF16 else found
