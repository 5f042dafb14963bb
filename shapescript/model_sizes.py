"""Whether a model from Python is the one that a parameter asks for, and which dims it shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from shapescript.axes import DisagreementError, Sizes, plain_symbol
from shapescript.compiler.ir.sizes import InexactDivision, Size, Symbol, number
from shapescript.compiler.ir.types import ListType, ModelType, TensorType, substitute_model
from shapescript.layouts import Layouts
from shapescript.runtime.arrays import sizes as shape_text
from shapescript.runtime.errors import ArgumentError
from shapescript.runtime.layout import Layout, Tree


class ModelRule:
    """The layouts that fit a parameter's model type, with the dims that each shows; a layout is compared once."""

    def __init__(self, name: str, model: ModelType, layouts: Layouts) -> None:
        self.name, self.model, self.layouts = name, model, layouts
        self._known: dict[int, tuple[Layout, Mapping[Symbol, int]]] = {}  # by identity, which the layout held here keeps

    def shown(self, layout: Layout) -> Mapping[Symbol, int]:
        """The dims that a model of this layout shows. Raises ArgumentError R1004 for another model, R1002 for other dims."""
        known = self._known.get(id(layout))
        if known is None:
            known = self._known[id(layout)] = (layout, self._compared(layout))
        return known[1]

    def described(self, layout: Layout) -> str:
        _, shown = self._known.get(id(layout), (layout, {}))
        arguments = [argument.substitute({symbol: number(value) for symbol, value in shown.items()}) for argument in self.model.arguments]
        return layout.model_name + (f"[{', '.join(map(str, arguments))}]" if arguments else "")

    def _compared(self, layout: Layout) -> Mapping[Symbol, int]:
        if layout.model_name != self.model.name:
            raise ArgumentError("R1004", f"{self.name}: expected a model {self.model}, got {layout.model_name}")
        found = Sizes()
        try:
            for size, dim in zip(self.model.arguments, layout.dims, strict=False):
                _unify(str(size), size, dim, found)
            for where, size, value in _pairs(self.model, layout.tree, layout, ""):
                _unify(f"{self.name}.{where}", size, value, found)
            found.close()
            exact = substitute_model(self.model, found.as_dims())
        except (DisagreementError, InexactDivision):
            raise self._other_dims(layout) from None
        wanted = self.layouts.layout(exact)
        if [(leaf.name, leaf.shape, leaf.dtype) for leaf in wanted] != [(leaf.name, leaf.shape, leaf.dtype) for leaf in layout]:
            raise self._other_dims(layout, wanted)
        if layout.dims and layout.dims != wanted.dims:
            raise self._other_dims(layout)
        return found.values

    def _other_dims(self, layout: Layout, wanted: Layout | None = None) -> ArgumentError:
        shown = f"{layout.model_name}[{', '.join(map(str, layout.dims))}]" if layout.dims else f"a {layout.model_name} of other dims"
        text = f"{self.name}: expected a model {self.model}, got {shown}"
        for leaf in wanted or ():
            if leaf.name not in layout:
                return ArgumentError("R1002", f"{text}: it has no {leaf.name}")
            found = layout.leaf(leaf.name)
            if (found.shape, found.dtype) != (leaf.shape, leaf.dtype):
                return ArgumentError("R1002", f"{text}: {leaf} is expected, {found.dtype} {shape_text(found.shape)} was found")
        return ArgumentError("R1002", text)


def _unify(where: str, size: Size, found: int, sizes: Sizes) -> None:
    symbol = plain_symbol(size)
    if symbol is not None:
        sizes.bind(symbol, found)
    elif size.constant() is None:
        sizes.open.append((where, size, found))


def _pairs(model: ModelType, branch: Tree, layout: Layout, prefix: str) -> Iterator[tuple[str, Size, int]]:
    """Sizes of the declaration beside those of a layout, as far as both have the same names; what differs is told later."""
    for member in model.members:
        below, where = branch.get(member.name), prefix + member.name
        if isinstance(member.type, TensorType) and isinstance(below, str):
            shape = layout.leaf(below).shape
            yield from ((where, size, value) for size, value in zip(member.type.axes, shape, strict=False))
        elif isinstance(member.type, ModelType) and isinstance(below, dict):
            yield from _pairs(member.type, below, layout, where + ".")
        elif isinstance(member.type, ListType) and isinstance(below, dict):
            yield where, member.type.count, len(below)
            for index, part in below.items():
                yield from _pairs(member.type.element, part, layout, f"{where}.{index}.")
