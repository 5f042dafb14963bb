"""Host scalars that are known: an operation on constants is evaluated here, by the expressions and rules that both engines use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from shapescript.compiler.ir.nodes import Op, Value
from shapescript.compiler.ir.types import Element, TensorType
from shapescript.compiler.numerics.bfloat16 import bits_of_number, number_of_bits
from shapescript.compiler.numerics.elementary import division_fails, floor_divide, modulo
from shapescript.compiler.numerics.evaluation import DTYPES, evaluate
from shapescript.compiler.numerics.scalar import BOOL, F32, F64, I64, Argument, Expr
from shapescript.compiler.ops.build import Builder, result_type
from shapescript.compiler.ops.elementwise import KINDS
from shapescript.compiler.ops.table import Scalar, entry

Number = float | int | bool
Definitions = Mapping[Value, Op]

MODES = ("mode_eval", "mode_train")
_WHOLE = {"floordiv": floor_divide, "mod": modulo}
_LARGEST_EXPONENT = {F32: 127, F64: 1023}


def known(value: Value, definitions: Definitions) -> Number | None:
    """The number that a value is, everywhere where it has axes; None where that isn't known."""
    op = definitions.get(value)
    while op is not None and op.name == "broadcast":
        op = definitions.get(op.operands[0])
    if op is None or op.name != "constant":
        return None
    number: Number = op.attributes["value"]
    return number


def is_known(value: Value, number: Number, definitions: Definitions) -> bool:
    """Whether the value is this number, zeros told apart by their sign."""
    found = known(value, definitions)
    return found is not None and found == number and np.signbit(found) == np.signbit(number)


def fold(op: Op, definitions: Definitions, builder: Builder) -> Value | None:
    """The operation's result as a constant, where it is a host scalar and its operands are constants."""
    if op.name == "size":
        count = op.attributes["size"].constant()
        return None if count is None else builder.constant(count, Element.I64)
    if op.name == "mode_is_train":
        mode = definitions.get(op.operands[0])
        return builder.constant(mode.name == "mode_train", Element.BOOL) if mode is not None and mode.name in MODES else None
    is_scalar = isinstance(entry(op.name).lowering, Scalar) and not result_type(op.result).axes
    if not is_scalar and op.name not in _WHOLE:
        return None
    numbers = [known(operand, definitions) for operand in op.operands]
    if any(number is None for number in numbers):
        return None
    elements = tuple(operand.type.element for operand in op.operands if isinstance(operand.type, TensorType))
    arguments = [DTYPES[KINDS[element]].type(_stored(number, element)) for element, number in zip(elements, numbers, strict=True)]
    if op.name in _WHOLE and bool(evaluate(_division_fails(), arguments)):
        return None
    found, element = evaluate(_expression(op.name, elements), arguments).item(), result_type(op.result).element
    return builder.constant(number_of_bits(found) if element is Element.BF16 else found, element)


def _stored(number: Number | None, element: Element) -> Number | None:
    """A bf16 as the expressions have it."""
    return bits_of_number(number) if element is Element.BF16 and number is not None else number


@cache
def _expression(name: str, elements: tuple[Element, ...]) -> Expr:
    arguments: Sequence[Expr] = [Argument(place, KINDS[element]) for place, element in enumerate(elements)]
    if name in _WHOLE:
        return _WHOLE[name](*arguments)
    lowering = entry(name).lowering
    assert isinstance(lowering, Scalar)
    return lowering.build(arguments)


@cache
def _division_fails() -> Expr:
    return division_fails(Argument(0, I64), Argument(1, I64))


def exact_inverse(number: Number, element: Element) -> float | None:
    """1 / number, where dividing by the number and multiplying with this give the same bits: a power of two, both normal."""
    kind = KINDS[element]
    if kind in (I64, BOOL) or number == 0 or not np.isfinite(number):
        return None
    mantissa, exponent = np.frexp(float(number))
    limit = _LARGEST_EXPONENT[kind] - 1  # the smallest normal number's exponent, without its sign
    return float(1 / number) if abs(mantissa) == 0.5 and abs(exponent - 1) <= limit else None
