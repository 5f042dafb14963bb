"""Structured control flow, calls, and the request for a gradient. Carried values go in as operands and come out as results.

What a region changes in a `mut` variable of an outer block is a carried value. Loops over model lists, calls and gradients are gone after
the passes `specialise` and `differentiate`, checkpoints after `expand`; only if, while, for_range and for_batches reach an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shapescript.compiler.ir.nodes import Block, Op
from shapescript.compiler.ir.sizes import of
from shapescript.compiler.ir.types import BOOL, INT, DatasetType, ListType, ModelType, TensorType, Type, member_at
from shapescript.compiler.ops.build import same_types
from shapescript.compiler.ops.datasets import dataset_of, field_types
from shapescript.compiler.ops.table import Control, NoDerivative, OpEntry, attribute, register, require


def _yields(op: Op, block: Block, types: Sequence[Type]) -> None:
    require(same_types(block.yields) == tuple(types), op, f"a region yields ({', '.join(map(str, same_types(block.yields)))})")


def _parameters(op: Op, block: Block, types: Sequence[Type]) -> None:
    require(same_types(block.parameters) == tuple(types), op, f"a region takes ({', '.join(map(str, same_types(block.parameters)))})")


def _regions(op: Op, count: int) -> tuple[Block, ...]:
    require(len(op.regions) == count, op, f"has {count} regions")
    return op.regions


def _infer_if(op: Op) -> tuple[Type, ...]:
    require(same_types(op.operands) == (BOOL,), op, "takes a condition")
    yes, no = _regions(op, 2)
    _parameters(op, yes, ())
    _parameters(op, no, ())
    _yields(op, no, same_types(yes.yields))
    return same_types(yes.yields)


def _infer_apart(op: Op) -> tuple[Type, ...]:
    (body,) = _regions(op, 1)
    require(not op.operands, op, "takes no operands")
    _parameters(op, body, ())
    return same_types(body.yields)


def _infer_while(op: Op) -> tuple[Type, ...]:
    condition, body = _regions(op, 2)
    carried = same_types(op.operands)
    _parameters(op, condition, carried)
    _parameters(op, body, carried)
    _yields(op, condition, (BOOL,))
    _yields(op, body, carried)
    return carried


def _infer_range(op: Op) -> tuple[Type, ...]:
    (body,) = _regions(op, 1)
    require(same_types(op.operands[:2]) == (INT, INT), op, "takes start and stop")
    carried = same_types(op.operands[2:])
    _parameters(op, body, (INT, *carried))
    _yields(op, body, carried)
    return carried


def _infer_batches(op: Op) -> tuple[Type, ...]:
    (body,) = _regions(op, 1)
    dataset = dataset_of(op.operands[0].type)
    numbers = same_types(op.operands[1:5])
    require(dataset is not None and numbers == (INT, BOOL, INT, INT), op, "takes a dataset, a size, drop_last, start and prefetch")
    require(len(body.symbols) == 1, op, "the region binds the rows of a batch")
    assert dataset is not None
    carried = same_types(op.operands[5:])
    _parameters(op, body, (*field_types(DatasetType(dataset.record, of(body.symbols[0]))), *carried))
    _yields(op, body, carried)
    return carried


def _infer_list(op: Op) -> tuple[Type, ...]:
    (body,) = _regions(op, 1)
    model = op.operands[0].type
    require(isinstance(model, ModelType), op, "takes a model")
    assert isinstance(model, ModelType)
    found = member_at(model, attribute(op, "path"))
    require(isinstance(found, ListType), op, "the path is no list")
    assert isinstance(found, ListType)
    carried = same_types(op.operands[1:])
    _parameters(op, body, (found.element, *carried))
    _yields(op, body, carried)
    return carried


def _infer_call(op: Op) -> tuple[Type, ...]:
    attribute(op, "callee")
    attribute(op, "sizes")
    return tuple(attribute(op, "types"))


def _infer_gradient(op: Op) -> tuple[Type, ...]:
    (body,) = _regions(op, 1)
    require(len(op.operands) == 1 and same_types(body.parameters) == same_types(op.operands), op, "takes what the gradient is taken of")
    require(bool(body.yields), op, "yields a scalar first")
    loss, *others = same_types(body.yields)
    require(isinstance(loss, TensorType) and not loss.axes, op, "yields a scalar first")
    return loss, op.operands[0].type, *others


def _control(name: str, rule: Callable[[Op], tuple[Type, ...]]) -> None:
    register(OpEntry(name, rule, NoDerivative.STRUCTURAL, Control(name), ordered=True))


# if(condition): two regions without parameters.
_control("if", _infer_if)
# checkpoint(): a region without parameters, whose inner values no gradient keeps: the backward pass computes them again. `expand` puts the
# region's operations in its place.
_control("checkpoint", _infer_apart)
# isolated(): a region without parameters that shares no stored value with what computes the same outside of it. The pass `join_isolated`
# puts the region's operations in its place.
_control("isolated", _infer_apart)
# while(carried...): the first region gives the condition, the second the next carried values.
_control("while", _infer_while)
# for_range(start, stop, carried...): the region takes the index and the carried values; stop <= start is empty. {name}: the loop variable.
_control("for_range", _infer_range)
# for_batches(data, size, drop_last, start, prefetch, carried...): from the example at place `start` on; the region binds the batch's rows
# and takes its fields and the carried values. `prefetch` batches are read ahead where examples have to be read; -1 leaves that to the host.
# R1102, R1107.
_control("for_batches", _infer_batches)
# for_list(model, carried...) {path}: for each element of a list of sub-models.
_control("for_list", _infer_list)
# call(arguments...) {callee, sizes, types}: sizes maps the callee's dims and axis variables to sizes here, as pairs.
_control("call", _infer_call)
# value_and_grad(x) {nonfinite?}: the region computes a scalar from its parameter, and may yield more values behind it; gives the scalar,
# its gradient with the type of x, and those other values, to which no gradient belongs. A scalar that isn't finite is R1104, but not
# with nonfinite = "allow".
_control("value_and_grad", _infer_gradient)
