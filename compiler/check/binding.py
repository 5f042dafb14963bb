"""A call's arguments against a signature: which overload fits, what the signature's axes and dims are here, what the result is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from shapescript.compiler.check import types
from shapescript.compiler.check.axes import accepts, agree, shown
from shapescript.compiler.check.program import Signature, SignatureParameter
from shapescript.compiler.check.report import Report
from shapescript.compiler.check.type_names import default_size
from shapescript.compiler.check.types import Axis, Type, group, single
from shapescript.compiler.check.wording import order_hint, size_note
from shapescript.compiler.diagnostics.model import Label, Span
from shapescript.compiler.ir.sizes import Size, Symbol, of, product
from shapescript.compiler.ir.types import ModelType
from shapescript.compiler.records.dataclass import dataclass


def fits(parameter: Type, argument: Type) -> bool:
    """Whether an argument's type fits, but for the names of axes: what overloads are chosen by."""
    match parameter, argument:
        case types.Tensor(element, axes), types.Tensor(found, others):
            leading = any(axis.leading for axis in axes)
            return element == found and (len(others) >= len(axes) - 1 if leading else len(axes) == len(others))
        case types.Tensor(element, ()), types.Scalar(name):
            return name in {"i64": ("int",), "bool": ("bool",)}.get(element.value, ("int", "float"))
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
        case types.Dataset(record, _, ordered), types.Dataset(other, _, found):
            return record == other and ordered == found
    return False


def _same_declaration(left: ModelType, right: ModelType) -> bool:
    same = (left.name, left.module, left.elements) == (right.name, right.module, right.elements) and len(left.models) == len(right.models)
    return same and all(_same_declaration(one, other) for one, other in zip(left.models, right.models, strict=True))


@dataclass(frozen=True)
class Equation:
    """An axis of the signature, and the one that an argument has there; then all axes of both, for the message."""

    wanted: Axis
    found: Axis
    parameter: SignatureParameter
    span: Span
    all_wanted: tuple[Axis, ...] = ()
    all_found: tuple[Axis, ...] = ()


@dataclass
class Binding:
    """What a call's signature symbols are at the call. `sources` says what bound each."""

    signature: Signature
    report: Report
    span: Span
    axes: dict[Symbol, Axis] = field(default_factory=dict)
    sources: dict[Symbol, str] = field(default_factory=dict)
    _waiting: list[Equation] = field(default_factory=list)

    @property
    def sizes(self) -> Mapping[Symbol, Size]:
        return {symbol: axis.size for symbol, axis in self.axes.items()}

    def parameter(self, parameter: SignatureParameter, argument: Type, span: Span) -> None:
        """Bind the parameter's symbols by one argument; what doesn't agree is reported at the argument."""
        self._type(parameter.type, argument, parameter, span)

    def give(self, symbol: Symbol, axis: Axis) -> None:
        """A dim that stands in brackets at the call."""
        self.axes[symbol] = axis
        self.sources[symbol] = "the brackets"

    def finish(self) -> None:
        """Solve what one argument alone left open, such as n*m, once all have been seen; dims that none binds take their defaults."""
        while self._waiting:
            waiting, self._waiting = self._waiting, []
            for equation in waiting:
                self._solve(equation)
            if len(self._waiting) == len(waiting) and not self._take_defaults():
                equation = waiting[0]
                open_names = " and ".join(symbol.name for symbol in self._free(equation.wanted))
                self.report.fail(
                    "E2301",
                    f"argument `{equation.parameter.name}` of `{self.signature.name}`: {equation.found} stands where {equation.wanted} is "
                    f"wanted, which doesn't say what {open_names} would be",
                    equation.span,
                    [Label(equation.parameter.span, "declared here")],
                    help="a parameter in whose type it is an axis of its own says it",
                )
        self._take_defaults()

    def _take_defaults(self) -> bool:
        """Whether there were any."""
        found = False
        for symbol, default in self.signature.defaults.items():
            if symbol not in self.axes:
                self.axes[symbol] = single(default_size(default, symbol, self.sizes, self.span, self.report))
                self.sources[symbol] = "its default"
                found = True
        return found

    def _type(self, wanted: Type, found: Type, parameter: SignatureParameter, span: Span) -> None:
        match wanted, found:
            case types.Tensor(_, axes), types.Tensor(_, others):
                self._axes(axes, others, parameter, span)
            case types.Model(model), types.Model(other):
                self._model(model, other, parameter, span)
            case types.Optimiser(_, model), types.Optimiser(_, other):
                self._model(model, other, parameter, span)
            case types.Batch(_, axis), types.Batch(_, other):
                self._solve(Equation(axis, other, parameter, span, (axis,), (other,)))
            case types.Dataset(_, rows), types.Dataset(_, other):
                self.axes[next(iter(rows.size.symbols()))] = other

    def _model(self, wanted: ModelType, found: ModelType, parameter: SignatureParameter, span: Span) -> None:
        shown_wanted, shown_found = tuple(map(single, wanted.arguments)), tuple(map(single, found.arguments))
        for size, other in zip(wanted.arguments, found.arguments, strict=True):
            self._solve(Equation(single(size), single(other), parameter, span, shown_wanted, shown_found))
        for one, inner in zip(wanted.models, found.models, strict=True):
            self._model(one, inner, parameter, span)

    def _axes(self, wanted: tuple[Axis, ...], found: tuple[Axis, ...], parameter: SignatureParameter, span: Span) -> None:
        rest = found
        if wanted and wanted[0].leading:
            count = len(found) - len(wanted) + 1
            self._leading(wanted[0], found[:count], parameter, span)
            wanted, rest = wanted[1:], found[count:]
        for axis, other in zip(wanted, rest, strict=True):
            self._solve(Equation(axis, other, parameter, span, wanted, found))

    def _leading(self, wanted: Axis, found: tuple[Axis, ...], parameter: SignatureParameter, span: Span) -> None:
        symbol = next(iter(wanted.size.symbols()))
        whole = Axis(shown(found), product(axis.size for axis in found), found, leading=True)
        bound = self.axes.setdefault(symbol, whole)
        self.sources.setdefault(symbol, f"`{parameter.name}`")
        if not agree(bound, whole):
            self._disagree(Equation(wanted, whole, parameter, span), bound)

    def _free(self, wanted: Axis) -> list[Symbol]:
        symbols = dict.fromkeys(wanted.size.symbols())
        return [symbol for symbol in symbols if symbol.value is None and symbol.quotient is None and symbol not in self.axes]

    def _solve(self, equation: Equation) -> None:
        """Bind a symbol, or compare where all are bound; equations that can't be solved yet wait."""
        wanted, found = equation.wanted, equation.found
        if len(wanted.parts) == len(found.parts) > 0:
            for part, other in zip(wanted.parts, found.parts, strict=True):
                self._solve(replace(equation, wanted=part, found=other))
            return
        free = self._free(wanted)
        if len(free) == 1 and wanted.size == of(free[0]):
            self._bind(free[0], found, equation)
        elif len(free) == 1 and (solved := solve(wanted.size.substitute(self.sizes), found.size, free[0])) is not None:
            self._bind(free[0], single(solved), equation)
        elif free:
            self._waiting.append(equation)
        elif not (accepts if wanted.parts else agree)(here := self.axis(wanted), found):
            self._disagree(equation, here)

    def _bind(self, symbol: Symbol, axis: Axis, equation: Equation) -> None:
        self.axes[symbol] = axis
        self.sources[symbol] = f"`{equation.parameter.name}`"

    def _disagree(self, equation: Equation, here: Axis) -> None:
        wanted, found, parameter = equation.wanted, equation.found, equation.parameter
        source = next((self.sources[symbol] for symbol in wanted.size.symbols() if symbol in self.sources), None)
        note = size_note(here, found)
        text = f"axis {wanted} is {here} from {source}, but {found} here{note}"
        if source is None:
            whole = f"wanted {shown(equation.all_wanted)}, found {shown(equation.all_found)}"
            text = f"axis {wanted} is wanted where {found} stands{note}; {whole}"
        self.report.fail(
            "E0401",
            f"argument `{parameter.name}` of `{self.signature.name}`: {text}",
            equation.span,
            [Label(parameter.span, "declared here")],
            order_hint((wanted,), (found,)),
        )

    def axis(self, axis: Axis) -> Axis:
        """A signature's axis at the call."""
        symbols = list(axis.size.symbols())
        if len(symbols) == 1 and axis.size == of(symbols[0]):
            return self.axes.get(symbols[0], axis)
        if axis.parts:
            return group(tuple(self.axis(part) for part in axis.parts))
        by_dims = axis.size.substitute({symbol: size for symbol, size in self.sizes.items() if symbol in self.signature.dims})
        alone = next((symbol for symbol in self.signature.axes if by_dims == of(symbol)), None)
        if alone is not None:  # with these dims the arithmetic is the axis itself, whatever its size: a padding of 1 for a window of 3
            return self.axes.get(alone, axis)
        return single(axis.size.substitute(self.sizes))

    def result(self, type_: Type) -> Type:
        """The result's type at the call; leading axes `..s` become what they stand for."""
        match type_:
            case types.Tensor(element, axes):
                here: list[Axis] = []
                for axis in axes:
                    here += self.axis(axis).parts if axis.leading else (self.axis(axis),)
                return types.Tensor(element, tuple(here))
            case types.Tuple(elements):
                return types.Tuple(tuple(self.result(element) for element in elements))
        return types.map_axes(type_, self.axis, self.sizes)


def solve(wanted: Size, found: Size, symbol: Symbol) -> Size | None:
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
