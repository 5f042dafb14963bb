"""A call of something built in: its arguments by name, checked where they are taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import NoReturn

from shapescript.compiler.check import types
from shapescript.compiler.check.axes import places_called
from shapescript.compiler.check.body import Body
from shapescript.compiler.check.report import did_you_mean
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.check.types import Tensor, Type
from shapescript.compiler.check.written_sizes import as_axis
from shapescript.compiler.diagnostics.model import Span
from shapescript.compiler.ir.types import Element
from shapescript.compiler.numerics.ranges import RANGES
from shapescript.compiler.records.dataclass import dataclass
from shapescript.compiler.syntax import tree


@dataclass(frozen=True)
class Site:
    body: Body
    name: str
    node: tree.Call
    items: tuple[tree.Item, ...] | None
    known: dict[int, Typed] = field(default_factory=dict)  # what arguments are, by identity: each is evaluated once

    @property
    def span(self) -> Span:
        return self.node.span

    def fail(self, code: str, message: str, span: Span | None = None, help: str | None = None) -> NoReturn:
        self.body.report.fail(code, message, span or self.span, help=help)

    def arguments(self, required: Sequence[str], optional: Sequence[str] = (), mutable: Sequence[str] = ()) -> dict[str, tree.Argument]:
        """The arguments by the parameters' names; what is missing, unknown or wrongly `mut` is reported."""
        names = [*required, *optional]
        found: dict[str, tree.Argument] = {}
        if self.node.pattern is not None or self.items is not None:
            self.fail("E0306", f"`{self.name}` takes neither a pattern nor brackets")
        for place, argument in enumerate(self.node.arguments):
            if argument.name is not None and argument.name.text not in names:
                self.fail(
                    "E0311",
                    f"`{self.name}` has no parameter `{argument.name}`",
                    argument.name.span,
                    did_you_mean(argument.name.text, names) or f"it takes {self._listed(required, optional)}",
                )
            if argument.name is None and place >= len(names):
                self.fail("E0302", f"`{self.name}` takes {self._listed(required, optional)}, found one argument more", argument.span)
            name = argument.name.text if argument.name else names[place]
            if name in found:
                self.fail("E0302", f"`{self.name}`: `{name}` is given twice", argument.span)
            found[name] = argument
        missing = [name for name in required if name not in found]
        if missing:
            self.fail("E0302", f"`{self.name}` takes {self._listed(required, optional)}: {', '.join(missing)} missing")
        for name, argument in found.items():
            if name in mutable and not argument.is_mut:
                self.fail(
                    "E0601",
                    f"`{self.name}` changes `{argument.value.span.text}`: say so with `mut`",
                    argument.span,
                    f"mut {argument.value.span.text}",
                )
            if name not in mutable and argument.is_mut:
                self.fail("E0604", f"`{self.name}` doesn't change its `{name}`: `mut` doesn't stand here", argument.span)
        return found

    def _listed(self, required: Sequence[str], optional: Sequence[str]) -> str:
        return f"({', '.join([*required, *(f'{name}=...' for name in optional)])})"

    def without_brackets(self) -> Site:
        """The call once its brackets have been read."""
        return replace(self, items=None)

    def evaluate(self, argument: tree.Argument) -> Typed:
        if id(argument) not in self.known:
            self.known[id(argument)] = self.body.evaluate(argument.value)
        return self.known[id(argument)]

    def value(self, argument: tree.Argument, wanted: Type) -> Typed:
        """The argument as the wanted type, converted where the language does."""
        name = argument.name.text if argument.name else argument.value.span.text
        return self.body.convert(self.evaluate(argument), wanted, argument.value.span, lambda: f"`{name}` of `{self.name}`")

    def tensor(self, argument: tree.Argument, floats: bool = True) -> tuple[Typed, Tensor]:
        """The argument, which must be a tensor, of floats unless said otherwise."""
        typed = self.evaluate(argument)
        if not isinstance(typed.type, Tensor):
            self.fail("E0301", f"`{self.name}` takes a tensor, found {typed.type}", argument.value.span)
        if floats and not typed.type.element.is_float:
            self.fail("E0310", f"`{self.name}` is for floats, found {typed.type}", argument.value.span, "convert with f32(...)")
        if typed.type.element is Element.BOOL:
            self.fail("E0310", f"`{self.name}` is not for bools", argument.value.span, "convert with int(...) or f32(...)")
        return typed, typed.type

    def axes_over(self, argument: tree.Argument | None, operand: Tensor) -> tuple[int, ...]:
        """The places of the axes that `over=` names, ascending."""
        listed = ", ".join(axis.name for axis in operand.axes)
        if argument is None:
            self.fail(
                "E0406",
                f"`{self.name}` needs to know over which axis: {operand} has {listed or 'none'}",
                help=f"over={operand.axes[-1].name}" if operand.axes else None,
            )
        nodes = argument.value.elements if isinstance(argument.value, tree.Tuple) else (argument.value,)
        places: list[int] = []
        for node in nodes:
            places.append(self._place(node, operand, listed))
            if places.count(places[-1]) > 1:
                self.fail("E0407", f"`{self.name}`: {node.span.text} is named twice", node.span)
        return tuple(sorted(places))

    def _place(self, node: tree.Expression, operand: Tensor, listed: str) -> int:
        text = node.span.text.replace(" ", "")
        found = places_called(operand.axes, name_of_axis(self.body, node))
        if len(found) > 1:
            self.fail("E0403", f"axis {text} stands {len(found)} times in {operand}: which one is open", node.span)
        if not found:
            near = did_you_mean(text, [axis.name for axis in operand.axes])
            self.fail("E0402", f"axis {text} is not in {operand}", node.span, near or f"its axes are {listed or 'none'}")
        return found[0]


def name_of_axis(body: Body, node: tree.Expression) -> str:
    """The name of the axis that stands where an expression does. Arithmetic goes by its normal form, not as it is written."""
    if isinstance(node, tree.Binary) and (axis := as_axis(node)) is not None:
        return body.context.axis(axis).name
    text = node.span.text.replace(" ", "")
    return text.rsplit(".", 1)[-1] if isinstance(node, tree.Attribute) else text


def in_range(site: Site, rule: str, number: Typed, span: Span) -> None:
    """E0503 for a constant out of its range (numerics/ranges.py); a number that a run computes is checked there."""
    if not isinstance(number.constant, float):
        site.body.builder.emit("check_range", number.value, rule=rule)
    elif not RANGES[rule].holds(number.constant):
        site.fail("E0503", RANGES[rule].fault(number.constant), span)


def chosen(site: Site, found: Mapping[str, tree.Argument], name: str, choices: Sequence[str], why: str) -> str:
    """Which of these strings an argument is; the first where it isn't given. `why` it is a constant ends the message for one that isn't."""
    if name not in found:
        return choices[0]
    argument = found[name]
    given = site.value(argument, types.STR).constant
    if not isinstance(given, str):
        site.fail("E0301", f"`{name}` is a string that the program says: {why}", argument.value.span)
    if given not in choices:
        *others, last = (f'"{choice}"' for choice in choices)
        site.fail("E0301", f"`{name}` is {', '.join(others)} or {last}", argument.value.span, did_you_mean(given, choices))
    return given


def host_float(site: Site, argument: tree.Argument | None, default: float) -> Typed:
    return site.body.constant(default) if argument is None else site.value(argument, types.FLOAT)


Handler = Callable[[Site], Typed]
