"""Axes as they are written, turned into axes as the checker knows them; and which axes agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from shapescript.compiler.check.report import Report, Reported, did_you_mean, nearest
from shapescript.compiler.check.scope import BrokenEntity, ConstEntity, DimEntity, ModuleEntity, ModuleScope
from shapescript.compiler.check.types import Axis, Type, group, single
from shapescript.compiler.diagnostics.model import Label, Span
from shapescript.compiler.ir import sizes
from shapescript.compiler.ir.sizes import LARGEST, InexactDivision, Size, fresh, of
from shapescript.compiler.records.dataclass import dataclass
from shapescript.compiler.syntax import tree


def agree(left: Axis, right: Axis) -> bool:
    """The same axis: name and size. A group agrees with the plain product of its parts."""
    if left.size != right.size or left.leading != right.leading:
        return False
    if left.parts and right.parts:
        return len(left.parts) == len(right.parts) and all(map(agree, left.parts, right.parts))
    return left.name == right.name or _is_product(left, right) or _is_product(right, left)


def accepts(wanted: Axis, found: Axis) -> bool:
    """Whether `found` stands where `wanted` is declared: a group as the plain product of its parts (its order is then forgotten), never
    a plain product as a group."""
    return agree(wanted, found) and (bool(found.parts) or not wanted.parts)


def _is_product(plain: Axis, grouped: Axis) -> bool:
    """Of axes with one size: whether `plain` is the product of the other's parts, and no axis with a name of its own."""
    return bool(grouped.parts) and not plain.parts and plain.name == str(plain.size)


def is_dim_name(name: str) -> bool:
    return name[:1].isupper()


def axis_variables(size: Size) -> list[sizes.Symbol]:
    """The symbols of a size that only a run knows: neither dims nor dim parameters, whose sizes are known when code is made."""
    return [symbol for symbol in size.symbols() if symbol.value is None and symbol.quotient is None and not _is_dim(symbol)]


def _is_dim(symbol: sizes.Symbol) -> bool:
    """Whether it is a dim or dim parameter; the length of a slice `D[i..j]` is none."""
    return is_dim_name(symbol.name) and symbol.name.isidentifier()


def places_called(axes: Sequence[Axis], text: str) -> list[int]:
    """The axes that a name stands for: those of that name, a group by its parts, leading axes `..s` by `s`; where there is none, groups by
    the plain product of their parts, `h*w`; then slices of an axis of the name whose length a run decides, `n[i..j]`."""
    named = [place for place, axis in enumerate(axes) if text in (axis.name, axis.name.strip("()")) or axis.name == f"..{text}"]
    products = [place for place, axis in enumerate(axes) if axis.parts and str(axis.size) == text]
    return named or products or [place for place, axis in enumerate(axes) if axis.name.startswith(f"{text}[")]


@dataclass
class AxisContext:
    """The axis names in force: a function's or model's own, then the module's dims.

    While a signature is read (`binding`), a lower-case name that isn't known yet becomes an axis variable. `aliases` are the new names
    that patterns gave to axes, the same for a whole function; `types` are a generic function's type parameters, or what stands for them.
    """

    scope: ModuleScope
    report: Report
    names: dict[str, Axis] = field(default_factory=dict)
    binding: bool = False
    variables: list[sizes.Symbol] = field(default_factory=list)
    aliases: dict[str, Axis] = field(default_factory=dict)
    types: dict[str, Type] = field(default_factory=dict)

    def known(self, name: str) -> Axis | None:
        """The axis that a pattern or the signature gave the name to."""
        return self.aliases.get(name) or self.names.get(name)

    def axis(self, node: tree.Axis) -> Axis:
        match node:
            case tree.AxisName(span, name):
                return self.named(name, span)
            case tree.AxisInt(_, value):
                return single(sizes.number(value))
            case tree.AxisGroup(_, parts):
                return group(tuple(self.axis(part) for part in parts))
            case tree.LeadingAxes(span, name):
                return self.leading(name.text, span)
            case tree.AxisArithmetic(span, operator, left, right):
                return single(self.arithmetic(operator, self.axis(left).size, self.axis(right).size, span))
            case tree.Applied(span, name, None):
                return self.qualified(name, span)
        self.report.fail("E0203", "an axis is a name, a number, arithmetic of these or a group", node.span)

    def axes(self, nodes: tuple[tree.Axis, ...]) -> tuple[Axis, ...]:
        return tuple(self.axis(node) for node in nodes)

    def leading(self, name: str, span: Span) -> Axis:
        key = f"..{name}"
        if key in self.names:
            return self.names[key]
        if not self.binding:
            self.report.fail("E0203", f"no leading axes `{key}` here: a function's signature declares them", span)
        symbol = fresh(name)
        self.variables.append(symbol)
        self.names[key] = Axis(key, of(symbol), (), True)
        return self.names[key]

    def named(self, name: str, span: Span) -> Axis:
        known = self.known(name)
        if known is not None:
            return known
        entity = self.scope.entities.get(name)
        if isinstance(entity, DimEntity):
            return single(of(entity.symbol))
        if isinstance(entity, BrokenEntity):
            raise Reported
        if isinstance(entity, ConstEntity):
            self.report.fail("E0203", f"`{name}` is a const, and an axis is a dim", span, [Label(entity.span, "declared here")])
        if is_dim_name(name):
            near = [*(n for n in self.names if not n.startswith("..")), *(n for n, _ in self.scope.dims())]
            self.report.fail(
                "E0203",
                f"no dim `{name}`: an upper-case axis is a declared `dim` or a dim parameter",
                span,
                help=did_you_mean(name, near) or f"declare it (`dim {name} = ...`), or in brackets after the function's name",
            )
        if not self.binding:
            self.report.fail(
                "E0203",
                f"no axis `{name}` here: only a function's signature and its patterns bind lower-case axes",
                span,
                help=did_you_mean(name, [n for n in (*self.names, *self.aliases) if not n.startswith("..")]),
            )
        self.warn_near_dim(name, span)
        symbol = fresh(name)
        self.variables.append(symbol)
        self.names[name] = single(of(symbol))
        return self.names[name]

    def warn_near_dim(self, name: str, span: Span) -> None:
        """An axis variable that looks like a dim, mistyped, would bind to any size."""
        known = dict(self.scope.dims())
        for candidate, symbol in known.items():
            one, other = name.lower(), candidate.lower()
            case = one == other
            letter = len(name) >= 4 and len(candidate) >= 4 and _one_letter_apart(one, other)
            if case or letter:
                self.report.warn(
                    "E0207",
                    f"`{name}` is an axis variable of any size, and differs little from the dim `{candidate}`",
                    span,
                    help=f"write `{candidate}` if the dim (now {symbol.value}) is meant",
                )
                return

    def qualified(self, name: tree.QualifiedName, span: Span) -> Axis:
        scope = self.scope
        for part in name.parts[:-1]:
            entity = scope.seen_from(self.scope, part.text)
            if isinstance(entity, BrokenEntity):
                raise Reported
            if not isinstance(entity, ModuleEntity):
                self.report.fail("E0203", f"`{part.text}` is no module", part.span)
            scope = entity.scope
        found = scope.exported(name.parts[-1].text)
        if isinstance(found, BrokenEntity):
            raise Reported
        if not isinstance(found, DimEntity):
            near = nearest(name.parts[-1].text, [n for n, _ in scope.dims()])
            self.report.fail("E0203", f"`{name}` is no dim", span, help=f"did you mean `{near}`?" if near else None)
        return single(of(found.symbol))

    def arithmetic(self, operator: str, left: Size, right: Size, span: Span) -> Size:
        return combine(operator, left, right, span, self.report)


MOST_PRODUCTS, MOST_FACTORS = 1024, 64  # of a size, multiplied out: more is no program that anybody reads


def combine(operator: str, left: Size, right: Size, span: Span, report: Report) -> Size:
    """Arithmetic of sizes: E0501 for a remainder or a division by 0, E0503 for what is no size."""
    products = len(left.terms) * len(right.terms) if operator == "*" else 0
    degree = max((len(monomial) for size in (left, right) for monomial, _ in size.terms), default=0)
    if products > MOST_PRODUCTS or degree > MOST_FACTORS:
        report.fail("E0503", f"the size {span.text[:40]}... multiplies out to too many products", span)
    try:
        match operator:
            case "+":
                result = left + right
            case "-":
                result = left - right
            case "*":
                result = left * right
            case "//":
                result = left // right
            case _:
                result = left / right
    except InexactDivision as error:
        report.fail("E0501", f"{left} / {right} leaves a remainder: {error.numerator} is not a multiple of {error.denominator}", span)
    except ZeroDivisionError:
        report.fail("E0501", f"{left} {operator} {right} divides by zero", span)
    check_range(result, span, report)
    return result


def check_range(size: Size, span: Span, report: Report) -> None:
    value = size.constant()
    if value is not None and not 0 <= value <= LARGEST:
        report.fail("E0503", f"{size} is {value}: a size is from 0 to 2**48", span)


def _one_letter_apart(left: str, right: str) -> bool:
    """One letter replaced, missing or too many."""
    if left == right or abs(len(left) - len(right)) > 1:
        return False
    if len(left) == len(right):
        return sum(a != b for a, b in zip(left, right, strict=True)) == 1
    short, long = sorted((left, right), key=len)
    return any(long[:place] + long[place + 1 :] == short for place in range(len(long)))


def shown(axes: tuple[Axis, ...]) -> str:
    return f"[{' '.join(axis.name for axis in axes)}]"
