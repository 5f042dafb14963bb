"""Builds functions of the IR by hand and runs them in the reference evaluator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from shapescript.compiler.diagnostics.model import Source, Span
from shapescript.compiler.ir.nodes import Function, Op, Value
from shapescript.compiler.ir.sizes import Size, dim, fresh, number, of
from shapescript.compiler.ir.types import Element, Member, ModelType, TensorType, Type
from shapescript.compiler.ir.verifier import verify_function
from shapescript.compiler.numerics.optimisers import BLOCK_WORDS, KINDS
from shapescript.compiler.numerics.random import order
from shapescript.compiler.numerics.sampling import sampled_rows
from shapescript.compiler.ops import protocol
from shapescript.compiler.ops.build import Builder
from shapescript.compiler.ops.protocol import OptimiserState
from shapescript.compiler.ops.table import infer
from shapescript.compiler.reference.engine import Evaluator
from shapescript.compiler.reference.layouts import Layout, aligned
from shapescript.runtime.errors import DataError

SPAN = Span(Source("test.ss", "a line of a program"), 2, 6)
DTYPES = {Element.F32: np.float32, Element.F64: np.float64, Element.BF16: np.uint16, Element.I64: np.int64, Element.BOOL: np.bool_}
Build = Callable[..., Value | Sequence[Value]]


class RecordingHost:
    """Notes what it is asked; `results` gives the results of operations by name. Orders of datasets that aren't fed it makes itself."""

    def __init__(self, **results: Any) -> None:
        self.results, self.calls, self.polls = {**ORDERS, **results}, [], 0

    def perform(self, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
        self.calls.append((op.name, list(operands)))
        found = self.results.get(op.name, ())
        return found(*operands) if callable(found) else found

    def feed(self, op: Op, examples: Any, size: int, start: int, end: int, prefetch: int) -> Any:
        raise AssertionError("no dataset of these tests is fed")

    gather = columns = feed

    def poll(self) -> None:
        self.polls += 1


def axis(name: str) -> Size:
    return of(fresh(name))


def tensor(*axes: int | Size, element: Element = Element.F32) -> TensorType:
    return TensorType(element, tuple(number(size) if isinstance(size, int) else size for size in axes))


def function_of(types: Sequence[Type], build: Build, mutable: Sequence[int] = (), hints: Sequence[str] = ()) -> Function:
    """The function that `build(builder, *parameters)` makes, valid by the verifier; the last yields belong to the `mutable` parameters."""
    names = list(hints) + [f"p{place}" for place in range(len(hints), len(types))]
    parameters = [Value(type_, name) for type_, name in zip(types, names, strict=True)]
    builder = Builder(SPAN)
    made = build(builder, *parameters)
    yields = [made] if isinstance(made, Value) else list(made)
    flags = tuple(place in mutable for place in range(len(types)))
    function = Function("tested", (), builder.block(parameters, yields), flags, len(yields) - len(mutable), SPAN)
    verify_function(function, infer)
    return function


def type_of(argument: Any) -> TensorType:
    """The type of an argument of known sizes."""
    array = np.asarray(argument)
    element = next(element for element, dtype in DTYPES.items() if array.dtype == dtype)
    return tensor(*array.shape, element=element)


def evaluate(build: Build, *arguments: Any, host: RecordingHost | None = None) -> Any:
    """The results of a function whose parameters have the arguments' types: one alone, or a list. Operands must stay as they are."""
    before = [np.array(argument) for argument in arguments]
    function = function_of([type_of(argument) for argument in arguments], build)
    results = Evaluator(function).run(arguments, host or RecordingHost())
    for argument, copy in zip(arguments, before, strict=True):
        np.testing.assert_array_equal(argument, copy)
    return results[0] if len(results) == 1 else results


def apply(name: str, *arguments: Any, **attributes: Any) -> Any:
    """The results of one operation of the table."""
    return evaluate(lambda b, *operands: b.emit(name, *operands, **attributes), *arguments)


def dataset(*arrays: np.ndarray) -> SimpleNamespace:
    """What stands for a dataset at an engine's border."""
    fields = [word for array in arrays for word in (array.ctypes.data, array.strides[0])]
    return dataset_at([len(arrays[0]), 0, *fields], *arrays)


def dataset_at(block: Sequence[int], *arrays: np.ndarray, **more: Any) -> SimpleNamespace:
    """A dataset whose block is this one."""
    return SimpleNamespace(block=np.array(block, np.int64), arrays=arrays, shapes=[array.shape[1:] for array in arrays], **more)


def _ordered(kind: int, data: Any, rows: np.ndarray, k: int, seed: int, first: int = 0) -> list[SimpleNamespace]:
    block = np.array([len(rows), kind, k, seed, first], np.int64)
    return [SimpleNamespace(block=block, dataset=data, rows=lambda start, count: rows[start : start + count], numbers=(kind, k, seed))]


def _order_part(ordered: Any, start: int, stop: int) -> list[SimpleNamespace]:
    if not 0 <= start <= stop <= ordered.block[0]:
        raise DataError("R1107", f"{start}..{stop}")
    kind, k, seed = ordered.numbers
    return _ordered(kind, ordered.dataset, ordered.rows(start, stop - start), k, seed, int(ordered.block[4]) + start)


def _sample(data: Any, count: int, k: int, seed: int) -> list[SimpleNamespace]:
    if count < 0 or not data.block[0]:
        raise DataError("R1102", f"{count}")
    return _ordered(protocol.DRAWN, data, sampled_rows(int(data.block[0]), seed, k, 0, count), k, seed)


ORDERS: dict[str, Callable[..., Any]] = {
    "order": lambda data, k, seed: _ordered(protocol.PERMUTED, data, order(int(data.block[0]), seed, k), k, seed),
    "sample_order": _sample,
    "order_part": _order_part,
}


def mode(kind: int, seed: int = 0, draws: int = 0) -> SimpleNamespace:
    return SimpleNamespace(block=np.array([kind, seed, draws, 0], np.int64))


# ---- models


def linear(inputs: Size, outputs: Size) -> ModelType:
    members = (Member("weight", TensorType(Element.F32, (outputs, inputs))), Member("bias", TensorType(Element.F32, (outputs,))))
    return ModelType("Linear", "nn", (inputs, outputs), members)


def mlp(inputs: int, hidden: int, outputs: int) -> ModelType:
    sizes = [of(dim(name, value)) for name, value in (("In", inputs), ("Hidden", hidden), ("Out", outputs))]
    return ModelType("Mlp", "main", (), (Member("hidden", linear(*sizes[:2])), Member("output", linear(*sizes[1:]))))


def flat_model(model: ModelType, tensors: dict[str, np.ndarray]) -> np.ndarray:
    """The buffer of a model with these tensors."""
    layout = Layout(model)
    assert sorted(tensors) == sorted(layout.places)
    buffer = aligned(layout.total)
    for name, value in tensors.items():
        layout.places[name].view(buffer)[...] = value
    return buffer


def tensors_of(model: ModelType, buffer: np.ndarray) -> dict[str, np.ndarray]:
    return {name: place.view(buffer) for name, place in Layout(model).places.items()}


def fresh_state(model: ModelType, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, decay: float = 0.01) -> OptimiserState:
    """A state of AdamW."""
    return state_of("AdamW", model, *betas, eps, decay, 0.0)


def state_of(kind: str, model: ModelType, *constants: float) -> OptimiserState:
    """A fresh state with the slots that its constants ask for."""
    made = KINDS[kind]
    state = OptimiserState(np.zeros(BLOCK_WORDS, np.int64), [None] * len(made.slots))
    state.constants(made)[:] = constants
    for slot in made.slots_of(constants):
        state.put(made.slots.index(slot), aligned(Layout(model).total))
    return state
