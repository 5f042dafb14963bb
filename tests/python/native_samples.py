"""What tests of native code call: models, states, data, numbers of every kind, training programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from built_programs import MLP, train_mlp
from evaluating import dataset, flat_model, fresh_state, mlp, mode, tensor
from native_harness import NotingHost

from shapescript.compiler.ir.nodes import Block, Function, Value
from shapescript.compiler.ir.sizes import fresh, number, of
from shapescript.compiler.ir.types import (
    DatasetType,
    Element,
    Member,
    ModelType,
    RecordType,
    TensorType,
    Type,
)
from shapescript.compiler.numerics.bfloat16_arrays import bits_of
from shapescript.compiler.ops.build import Builder
from shapescript.compiler.passes.pipeline import compile_entry
from shapescript.compiler.reference.layouts import Layout

I64, F32, F64 = Element.I64, Element.F32, Element.F64


def block(types: Sequence[Type], body: Callable[..., Sequence[Value]], symbols: Sequence[Any] = ()) -> Block:
    inner, parameters = Builder(), [Value(type_) for type_ in types]
    return inner.block(parameters, body(inner, *parameters), symbols)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


SMALL = mlp(3, 5, 2)
MIXED = ModelType(
    "Mixed",
    "main",
    (),
    (
        Member("steps", TensorType(I64, (number(3),))),
        Member("scale", tensor()),
        Member("wide", TensorType(F64, (number(40),))),
        Member("inner", SMALL),
        Member("flag", TensorType(Element.BOOL, (number(5),))),
        Member("last", tensor(2, 33)),
    ),
)


def model_of(kind: ModelType, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    places = Layout(kind).places
    return flat_model(
        kind,
        {
            name: (rng.standard_normal(place.shape) * 3).astype(place.view(np.zeros(place.stop, np.uint8)).dtype)
            for name, place in places.items()
        },
    )


ROWS = of(fresh("rows"))
RECORD = RecordType(
    "Digit",
    (
        ("pixels", tensor(37)),
        ("label", TensorType(I64)),
        ("flag", TensorType(Element.BOOL, (number(3),))),
        ("exact", TensorType(F64, (number(2), number(2)))),
    ),
)
DIGITS = DatasetType(RECORD, ROWS)


def digits(count: int) -> Any:
    rng = np.random.default_rng(count)
    flags, exact = rng.integers(0, 2, (count, 3)).astype(np.bool_), rng.standard_normal((count, 2, 2))
    return dataset(normal(count, 37), np.arange(count) * 10, flags, exact)


class StepHost(NotingHost):
    def __init__(self) -> None:
        super().__init__(string=["ckpt.pt"])


def trained(key: str, verify: bool = True) -> Function:
    return compile_entry(train_mlp(), key, {}, verify=verify)


def digits_of_classes(count: int) -> Any:
    return dataset(normal(count, 64), np.random.default_rng(1).integers(0, 10, count))


def run_arguments(examples: int = 150, epochs: int = 1) -> list[Any]:
    return [model_of(MLP), fresh_state(MLP), digits_of_classes(examples), "a sink", 0, epochs, mode(1, 7)]


SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 1e-40, -1e-40, 3.4e38, -3.4e38, np.inf, -np.inf, np.nan, 2.5, 1e10, -7.25, 0.1, 88.8, -104.0]


BOOLS = Element.BOOL
DTYPES = {F32: np.float32, F64: np.float64, I64: np.int64, BOOLS: np.bool_}


def some(element: Element, *shape: int, seed: int = 0) -> np.ndarray:
    """Numbers of both signs, zeros among them; no NaN. Of bf16 their bits."""
    rng = np.random.default_rng(seed)
    match element:
        case Element.BOOL:
            return rng.integers(0, 2, shape).astype(np.bool_)
        case Element.I64:
            return rng.integers(-5, 6, shape)
        case Element.BF16:
            return bits_of(some(F32, *shape, seed=seed))
    return np.round(rng.standard_normal(shape) * 3, 2).astype(DTYPES[element])


def special(element: Element, count: int, seed: int) -> np.ndarray:
    """Every special number, in some order, repeated to `count` of them."""
    if not element.is_float:
        return some(element, count, seed=seed)
    with np.errstate(over="ignore"):
        wide = np.array(SPECIAL).astype(DTYPES.get(element, np.float32))
    numbers = bits_of(wide) if element is Element.BF16 else wide
    return np.random.default_rng(seed).permutation(np.resize(numbers, count))


def letters(text: str) -> tuple[int, ...]:
    return tuple(ord(letter) - ord("a") for letter in text)


def contraction(b: Builder, spec: str, x: Value, y: Value) -> Value:
    operands, out = spec.split("->")
    left, right = operands.split(",")
    return b.op("contraction", x, y, left=letters(left), right=letters(right), out=letters(out))
