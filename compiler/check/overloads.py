"""Which function a call means: what each overload would get of the arguments, and what is said where not exactly one fits."""

from __future__ import annotations

from shapescript.compiler.check.binding import describe, fits
from shapescript.compiler.check.body import Body
from shapescript.compiler.check.generics import takes, wrong_kind
from shapescript.compiler.check.program import Signature, SignatureParameter
from shapescript.compiler.check.report import did_you_mean
from shapescript.compiler.check.scope import FunctionInfo
from shapescript.compiler.check.typed import Place, Typed
from shapescript.compiler.check.wording import mend, mismatch, wanted_and_found
from shapescript.compiler.diagnostics.model import Label
from shapescript.compiler.records.dataclass import dataclass
from shapescript.compiler.syntax import tree

Declared = tuple[str, int]
"""A declaration's module and place: functions for several types of elements have one together."""


@dataclass(frozen=True)
class Argument:
    node: tree.Argument
    typed: Typed
    place: Place | None


def laid_out(signature: Signature, arguments: list[Argument]) -> list[Argument | None] | None:
    """Arguments by parameter (None: its default); None where they can't be laid out."""
    found: dict[str, Argument] = {}
    names = [parameter.name for parameter in signature.parameters]
    for place, argument in enumerate(arguments):
        if argument.node.name is None:
            if place >= len(names):
                return None
            name = names[place]
        else:
            name = argument.node.name.text
        if name not in names or name in found:
            return None
        found[name] = argument
    if any(parameter.name not in found and parameter.default is None for parameter in signature.parameters):
        return None
    return [found.get(name) for name in names]


def takes_argument(signature: Signature, parameter: SignatureParameter, argument: Argument) -> bool:
    generic = takes(signature.types, parameter.type, argument.typed.type)
    return fits(parameter.type, argument.typed.type) if generic is None else generic


def explain(
    body: Body,
    overloads: tuple[FunctionInfo, ...],
    fitting: list[tuple[FunctionInfo, list[Argument | None]]],
    arguments: list[Argument],
    node: tree.Call,
) -> None:
    name = overloads[0].signature.name
    found = describe([argument.typed.type for argument in arguments])
    if fitting and len({_place(info) for info, _ in fitting}) == 1:
        text = f"`{name}` is for tensors of any floats, and no argument of {found} says which"
        label = [Label(overloads[0].signature.span, "declared here")]
        body.report.fail("E2303", text, node.span, label, help="a host number is none of them: convert one with f32(...)")
    if fitting:
        labels = [Label(info.signature.span, "this one fits") for info, _ in fitting]
        body.report.fail("E0305", f"{len(fitting)} functions `{name}` fit {found}, and none is preferred", node.span, labels)
    overloads = _nearest_of_each(overloads, arguments)
    if len(overloads) > 1:
        labels = [Label(info.signature.span, _why_not(info.signature, arguments)) for info in overloads]
        body.report.fail("E0304", f"no function `{name}` fits {found}", node.span, labels)
    signature = overloads[0].signature
    matched = laid_out(signature, arguments)
    label = [Label(signature.span, "declared here")]
    if matched is None:
        unknown = next(
            (a.node.name for a in arguments if a.node.name and a.node.name.text not in [p.name for p in signature.parameters]), None
        )
        if unknown is not None:
            body.report.fail(
                "E0311",
                f"`{name}` has no parameter `{unknown}`",
                unknown.span,
                label,
                help=did_you_mean(unknown.text, [p.name for p in signature.parameters]),
            )
        body.report.fail(
            "E0302",
            f"`{name}` takes ({', '.join(f'{p.name}: {p.type}' for p in signature.parameters)}), called with {found}",
            node.span,
            label,
        )
    for parameter, argument in zip(signature.parameters, matched, strict=True):
        if argument is not None and not takes_argument(signature, parameter, argument):
            kind = wrong_kind(signature.types, parameter.type, argument.typed.type)
            if kind is not None:
                body.report.fail(
                    "E2305",
                    f"argument `{parameter.name}` of `{name}`: {kind}",
                    argument.node.value.span,
                    [Label(parameter.span, "declared here")],
                )
            body.report.fail(
                mismatch(parameter.type, argument.typed.type),
                f"argument `{parameter.name}` of `{name}`: {wanted_and_found(parameter.type, argument.typed.type)}",
                argument.node.value.span,
                [Label(parameter.span, "declared here")],
                mend(parameter.type, argument.typed.type),
            )


def _nearest_of_each(overloads: tuple[FunctionInfo, ...], arguments: list[Argument]) -> tuple[FunctionInfo, ...]:
    """Of each declaration one function: where it is made for several types of elements, the one that most arguments fit."""
    found: dict[Declared, FunctionInfo] = {}
    for info in sorted(overloads, key=lambda info: -_count_fitting(info.signature, arguments)):
        found.setdefault(_place(info), info)
    return tuple(info for info in overloads if info in found.values())


def _place(info: FunctionInfo) -> Declared:
    return info.scope.name, info.signature.span.start


def _count_fitting(signature: Signature, arguments: list[Argument]) -> int:
    pairs = zip(signature.parameters, laid_out(signature, arguments) or [], strict=False)
    return sum(argument is not None and takes_argument(signature, parameter, argument) for parameter, argument in pairs)


def _why_not(signature: Signature, arguments: list[Argument]) -> str:
    matched = laid_out(signature, arguments)
    if matched is None:
        return f"takes {len(signature.parameters)} arguments: ({', '.join(p.name for p in signature.parameters)})"
    wrong = next(p for p, a in zip(signature.parameters, matched, strict=True) if a is not None and not takes_argument(signature, p, a))
    return f"wants {wrong.type} for `{wrong.name}`"
