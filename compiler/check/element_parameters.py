"""Type parameters that stand for the elements of tensors: a function with `[F: float]` is one for each type of floats."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from shapescript.compiler.check import types
from shapescript.compiler.check.site import Site
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.check.types import Tensor
from shapescript.compiler.ir.types import Element
from shapescript.compiler.syntax import tree

KIND = "float"
CHOICES = (Element.F32, Element.F64, Element.BF16)

Elements = Mapping[str, Element]


def element_choices(generics: Sequence[tree.Generic]) -> Iterator[Elements]:
    """What the element parameters may be together: once nothing where there are none."""
    names = [generic.name.text for generic in generics if generic.kind is not None and generic.kind.text == KIND]
    for chosen in product(CHOICES, repeat=len(names)):
        yield dict(zip(names, chosen, strict=True))


def converted(site: Site, element: Element) -> Typed:
    """`F(x)`: a tensor or a host number as a tensor of these elements."""
    argument = site.arguments(("x",))["x"]
    typed = site.evaluate(argument)
    if not isinstance(typed.type, Tensor | types.Scalar) or typed.type == types.STR:
        site.fail("E0301", f"`{site.name}` converts numbers, found {typed.type}", argument.value.span)
    axes = typed.type.axes if isinstance(typed.type, Tensor) else ()
    return Typed(Tensor(element, axes), (site.body.builder.convert(typed.value, element),))
