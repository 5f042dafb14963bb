"""How messages say that one type stands where another is wanted, and how that is mended."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from shapescript.compiler.check import types
from shapescript.compiler.check.axes import agree
from shapescript.compiler.check.types import Axis, Tensor, Type
from shapescript.compiler.ir.types import Element

ELEMENT_NAMES = {Element.F32: "f32", Element.F64: "f64", Element.BF16: "bf16", Element.I64: "int", Element.BOOL: "bool"}


def wanted_and_found(wanted: Type, found: Type) -> str:
    text = f"{wanted} is wanted, found {found}"
    return f"{text}: {_apart(wanted, found)}" if str(wanted) == str(found) else text


def mismatch(wanted: Type, found: Type) -> str:
    """The code for a type that doesn't fit."""
    if _differ_in_elements(wanted, found):
        return "E0310"
    if not isinstance(wanted, Tensor) or not isinstance(found, Tensor):
        return "E0301"
    return "E0310" if wanted.element is not found.element else "E0405"


def _differ_in_elements(wanted: Type, found: Type) -> bool:
    """Whether two types of one model differ in what it is made of."""
    match wanted, found:
        case (types.Model(one), types.Model(two)) | (types.Optimiser(_, one), types.Optimiser(_, two)):
            return (one.name, one.module) == (two.name, two.module) and one.elements != two.elements
    return False


def _apart(wanted: Type, found: Type) -> str:
    """What tells apart two types that read the same."""
    match wanted, found:
        case types.Dataset(), types.Dataset():
            return "two datasets, each with rows of its own"
        case types.Record(_, module, _), types.Record(_, other, _):
            return f"the one declared in {Path(module).name} and the one in {Path(other).name}"
        case (types.Model(one), types.Model(two)) | (types.Optimiser(_, one), types.Optimiser(_, two)) if one.module != two.module:
            return f"the one declared in {Path(one.module).name} and the one in {Path(two.module).name}"
    return "two axes of one name, from different places"


def mend(wanted: Type, found: Type) -> str | None:
    """The conversion, or other step, that makes the one of the other."""
    if _differ_in_elements(wanted, found):
        return "a model isn't converted: tensors are, f64(...), or the model is declared with other elements in its brackets"
    match wanted, found:
        case Tensor(element), Tensor(other) if element is not other:
            return f"convert it: {ELEMENT_NAMES[element]}(...)"
        case Tensor(_, axes), Tensor(_, others):
            return order_hint(axes, others)
        case types.Scalar("int"), types.Scalar("float") | Tensor(_, ()):
            return "convert it: int(...)"
        case types.Scalar("float"), Tensor(Element.I64, ()):
            return "convert it: float(...)"
        case types.Scalar("bool"), types.Scalar("int" | "float") | Tensor(Element.F32 | Element.F64 | Element.BF16 | Element.I64, ()):
            return "compare it, for instance with `!= 0`"
        case types.Dataset(ordered=False), types.Dataset(ordered=True):
            return "give the dataset, and shuffle it where it is iterated"
    return None


def order_hint(axes: Sequence[Axis], others: Sequence[Axis]) -> str | None:
    """For plain products where groups are wanted."""
    if not any(agree(one, other) and one.parts and not other.parts for one, other in zip(axes, others, strict=False)):
        return None
    pattern = " ".join(axis.name for axis in axes)
    return f"a plain product has no order of its parts; a pattern says one: `rearrange(x: {pattern} -> {pattern})`"


def size_note(one: Axis, other: Axis) -> str:
    """Why two axes that seem equal aren't."""
    if agree(one, other):
        return ""
    if one.name == other.name:
        return " (two axes of one name, from different places)"
    known = one.size.constant()
    return f" (both {known} here, but axes agree by name)" if known is not None and known == other.size.constant() else ""
