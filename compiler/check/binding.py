"""A call's arguments against a signature: which overload fits, what the signature's axes and dims are here, what the result is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shapescript.compiler.check import types
from shapescript.compiler.check.axes import agree, shown
from shapescript.compiler.check.program import Signature, SignatureParameter
from shapescript.compiler.check.report import Report
from shapescript.compiler.check.types import Axis, Type, group, single
from shapescript.compiler.diagnostics.model import Label, Span
from shapescript.compiler.ir.sizes import Size, Symbol, of
from shapescript.compiler.ir.types import ModelType


def fits(parameter: Type, argument: Type) -> bool:
    """Whether an argument's type fits, but for the names of axes: what overloads are chosen by."""
    match parameter, argument:
        case types.Tensor(element, axes), types.Tensor(found, others):
            leading = any(axis.leading for axis in axes)
            return element == found and (len(others) >= len(axes) - 1 if leading else len(axes) == len(others))
        case types.Tensor(element, ()), types.Scalar(name):
            return element.is_float and name in ("int", "float")
        case types.Scalar("float"), types.Scalar(name):
            return name in ("int", "float")
        case types.Scalar("float"), types.Tensor(element, ()):
            return element.is_float
        case types.Scalar("bool"), types.Tensor(element, ()):
            return element.value == "bool"
        case types.Scalar(name), types.Scalar(other):
            return name == other
        case types.Handle(name), types.Handle(other):
            return name == other
        case types.Model(model), types.Model(other):
            return _same_declaration(model, other)
        case types.Optimiser(kind, model), types.Optimiser(other_kind, other):
            return kind == other_kind and _same_declaration(model, other)
        case types.Record(), types.Record():
            return parameter == argument
        case types.Batch(record), types.Batch(other):
            return record == other
        case types.Dataset(record), types.Dataset(other):
            return record == other
    return False


def _same_declaration(left: ModelType, right: ModelType) -> bool:
    return (left.name, left.module) == (right.name, right.module)


@dataclass
class Binding:
    """What a call's signature symbols are at the call. `sources` says which argument bound each."""

    signature: Signature
    report: Report
    span: Span
    axes: dict[Symbol, Axis] = field(default_factory=dict)
    sources: dict[Symbol, str] = field(default_factory=dict)

    @property
    def sizes(self) -> Mapping[Symbol, Size]:
        return {symbol: axis.size for symbol, axis in self.axes.items()}

    def parameter(self, parameter: SignatureParameter, argument: Type, span: Span) -> None:
        """Bind the parameter's symbols by one argument; what doesn't agree is reported at the argument."""
        self._type(parameter.type, argument, parameter, span)

    def _type(self, wanted: Type, found: Type, parameter: SignatureParameter, span: Span) -> None:
        match wanted, found:
            case types.Tensor(_, axes), types.Tensor(_, others):
                self._axes(axes, others, parameter, span)
            case types.Model(model), types.Model(other):
                self._model(model, other, parameter, span)
            case types.Optimiser(_, model), types.Optimiser(_, other):
                self._model(model, other, parameter, span)
            case types.Batch(_, axis), types.Batch(_, other):
                self._axis(axis, other, parameter, span, (axis,), (other,))
            case types.Dataset(_, rows), types.Dataset(_, other):
                self.axes[next(iter(rows.size.symbols()))] = other

    def _model(self, wanted: ModelType, found: ModelType, parameter: SignatureParameter, span: Span) -> None:
        shown_wanted, shown_found = tuple(map(single, wanted.arguments)), tuple(map(single, found.arguments))
        for size, other in zip(wanted.arguments, found.arguments, strict=True):
            self._axis(single(size), single(other), parameter, span, shown_wanted, shown_found)

    def _axes(self, wanted: tuple[Axis, ...], found: tuple[Axis, ...], parameter: SignatureParameter, span: Span) -> None:
        rest = found
        if wanted and wanted[0].leading:
            count = len(found) - len(wanted) + 1
            self._leading(wanted[0], found[:count], parameter, span)
            wanted, rest = wanted[1:], found[count:]
        for axis, other in zip(wanted, rest, strict=True):
            self._axis(axis, other, parameter, span, wanted, found)

    def _leading(self, wanted: Axis, found: tuple[Axis, ...], parameter: SignatureParameter, span: Span) -> None:
        symbol = next(iter(wanted.size.symbols()))
        whole = found[0] if len(found) == 1 else group(found)
        bound = self.axes.setdefault(symbol, whole)
        self.sources.setdefault(symbol, parameter.name)
        if not agree(bound, whole):
            self._disagree(wanted, bound, whole, parameter, span)

    def _axis(
        self,
        wanted: Axis,
        found: Axis,
        parameter: SignatureParameter,
        span: Span,
        all_wanted: tuple[Axis, ...],
        all_found: tuple[Axis, ...],
    ) -> None:
        if len(wanted.parts) == len(found.parts) > 0:
            for part, other in zip(wanted.parts, found.parts, strict=True):
                self._axis(part, other, parameter, span, all_wanted, all_found)
            return
        free = [symbol for symbol in dict.fromkeys(wanted.size.symbols()) if symbol.value is None and symbol not in self.axes]
        if len(free) == 1 and wanted.size == of(free[0]):
            self.axes[free[0]] = found
            self.sources[free[0]] = parameter.name
            return
        if len(free) == 1 and (solved := _solve(wanted.size.substitute(self.sizes), found.size, free[0])) is not None:
            self.axes[free[0]] = single(solved)
            self.sources[free[0]] = parameter.name
            return
        here = self.axis(wanted)
        if free or not agree(here, found):
            symbol = next((s for s in wanted.size.symbols() if s in self.axes), None)
            if symbol is not None:
                self._disagree(wanted, here, found, parameter, span)
            self.report.fail(
                "E0401",
                f"argument `{parameter.name}` of `{self.signature.name}`: axis {wanted} is wanted where {found} stands; "
                f"wanted {shown(all_wanted)}, found {shown(all_found)}",
                span,
                [Label(parameter.span, "declared here")],
            )

    def _disagree(self, wanted: Axis, bound: Axis, found: Axis, parameter: SignatureParameter, span: Span) -> None:
        symbol = next(s for s in wanted.size.symbols() if s in self.axes)
        source = self.sources.get(symbol, "an argument before")
        self.report.fail(
            "E0401",
            f"argument `{parameter.name}` of `{self.signature.name}`: axis {wanted} is {bound} from `{source}`, but {found} here",
            span,
            [Label(parameter.span, "declared here")],
        )

    def axis(self, axis: Axis) -> Axis:
        """A signature's axis at the call."""
        symbols = list(axis.size.symbols())
        if len(symbols) == 1 and axis.size == of(symbols[0]):
            return self.axes.get(symbols[0], axis)
        if axis.parts:
            return group(tuple(self.axis(part) for part in axis.parts))
        return single(axis.size.substitute(self.sizes))

    def result(self, type_: Type) -> Type:
        """The result's type at the call; leading axes `..s` become what they stand for."""
        match type_:
            case types.Tensor(element, axes):
                here: list[Axis] = []
                for axis in axes:
                    here += leading_parts(self.axis(axis)) if axis.leading else (self.axis(axis),)
                return types.Tensor(element, tuple(here))
            case types.Tuple(elements):
                return types.Tuple(tuple(self.result(element) for element in elements))
        return types.map_axes(type_, self.axis, self.sizes)


def leading_parts(bound: Axis) -> tuple[Axis, ...]:
    """What leading axes stand for: a group is several (`group(())` none), anything else is one."""
    return bound.parts if bound.parts or bound.name == "()" else (bound,)


def _solve(wanted: Size, found: Size, symbol: Symbol) -> Size | None:
    """The symbol's size from an equation in which it stands alone in one term: n+1 = found, 3*D = found."""
    terms = [(monomial, count) for monomial, count in wanted.terms if symbol in monomial]
    if len(terms) != 1 or terms[0][0].count(symbol) != 1:
        return None
    term = Size((terms[0],))
    factor = term / of(symbol)
    rest = found - (wanted - term)
    try:
        solved = rest / factor
    except (ValueError, ZeroDivisionError):
        return None
    return None if any(part.quotient for part in solved.symbols()) else solved


def describe(arguments: Sequence[Type]) -> str:
    return f"({', '.join(map(str, arguments))})"
