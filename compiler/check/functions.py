"""A function's whole body: what it returns, and its IR."""

from __future__ import annotations

from collections.abc import Iterable

from shapescript.compiler.check import types
from shapescript.compiler.check.axes import AxisContext, accepts
from shapescript.compiler.check.body import MOST_PATHS, Body
from shapescript.compiler.check.changes import ends, returning, returns
from shapescript.compiler.check.expressions import attach, condition
from shapescript.compiler.check.generics import Instances
from shapescript.compiler.check.report import Report, Reported
from shapescript.compiler.check.scope import FunctionInfo
from shapescript.compiler.check.statements import checked
from shapescript.compiler.check.typed import Typed, Variable, split
from shapescript.compiler.check.types import Axis, Tensor
from shapescript.compiler.check.wording import mend, size_note
from shapescript.compiler.diagnostics.model import Label, Span
from shapescript.compiler.ir.nodes import Function, Value
from shapescript.compiler.ops.build import Builder
from shapescript.compiler.syntax import tree


def check_function(info: FunctionInfo, instances: Instances, report: Report) -> tuple[Function | None, list[tuple[str, Span]]]:
    """The function's IR, None where a mistake was found, and the functions that it calls."""
    signature = info.signature
    context = AxisContext(info.scope, report, dict(info.axes), types=info.types)
    body = Body(report, info.scope, info, instances, context, Builder(info.declaration.span))
    attach(body)
    parameters: list[Value] = []
    mutable: list[bool] = []
    for parameter in signature.parameters:
        values = tuple(Value(kind, parameter.name) for kind in types.lower(parameter.type))
        parameters += values
        mutable += [parameter.mutable] * len(values)
        body.environment[parameter.name] = Variable(parameter.name, Typed(parameter.type, values), parameter.mutable, 0, parameter.span)
    before = len(report.diagnostics)
    try:
        yields = finish(body, info.declaration.body)
    except Reported:
        return None, body.calls
    if any(diagnostic.is_error for diagnostic in report.diagnostics) and len(report.diagnostics) > before:
        return None, body.calls
    block = body.builder.block(parameters, yields)
    results = len(types.lower(signature.result))
    return Function(signature.name, signature.dims, block, tuple(mutable), results, signature.span), body.calls


Blocks = tuple[tuple[tree.Statement, ...], ...]


def finish(body: Body, statements: tuple[tree.Statement, ...], after: Blocks = ()) -> tuple[Value, ...]:
    """Check statements, and those of the blocks around that come `after`, to the function's end: gives its results and the last values of
    its `mut` parameters.

    Where a branch returns, what follows the `if` goes on inside the branches that don't.
    """
    for place, statement in enumerate(statements):
        rest = statements[place + 1 :]
        if rest and ends((statement,)):
            body.report.warn("E0312", "this is never reached: every way before it returns", rest[0].span)
        match statement:
            case tree.Return():
                return _returned(body, statement)
            case tree.If() if any(returns(branch.body) for branch in statement.branches) or returns(statement.otherwise or ()):
                return _branch(body, statement.branches, statement.otherwise or (), (rest, *after), statement.span)
            case tree.For() | tree.While() if returns(statement.body):
                body.report.not_built("`return` inside a loop", next(returning(statement.body)).span)
        checked(body, statement)
    if after:
        return finish(body, after[0], after[1:])
    _count_path(body)
    if body.info.signature.result != types.NOTHING:
        body.report.fail(
            "E0307", f"`{body.info.signature.name}` ends without returning its {body.info.signature.result}", body.info.signature.span
        )
    return _changed(body)


def _branch(
    body: Body, branches: tuple[tree.Branch, ...], otherwise: tuple[tree.Statement, ...], after: Blocks, span: Span
) -> tuple[Value, ...]:
    first, more = branches[0], branches[1:]
    with body.builder.at(span):
        decided = condition(body, first.condition)
        with body.region() as inner:
            yes = inner.block((), finish(body, first.body, after))
        with body.region() as inner:
            no = inner.block((), _branch(body, more, otherwise, after, span) if more else finish(body, otherwise, after))
        return body.builder.emit("if", decided.value, regions=(yes, no))


def _new_name(body: Body, pairs: Iterable[tuple[Axis, Axis]]) -> str | None:
    """The mend where a pattern gave another name to an axis of the result."""
    pairs = list(pairs)
    for wanted, found in pairs:
        if found.name in body.context.aliases and wanted.size.known() == found.size.known():
            if [axis.name for axis, _ in pairs].count(wanted.name) > 1:
                axes = " ".join(axis.name for axis, _ in pairs)
                return f"`{found}` is a new name that a pattern gave to this axis: `|> rearrange({axes} -> {axes})` calls it `{wanted}`"
            return f"`{found}` is a new name that a pattern gave to this axis: write `{wanted}` there"
    return None


def _count_path(body: Body) -> None:
    """Each way to the end is code of its own, and `if`s in a row multiply them."""
    body.paths += 1
    if body.paths > MOST_PATHS:
        body.report.not_built(
            f"a function with `return` inside of `if` and more than {MOST_PATHS} ways to its end", body.info.signature.span
        )


def _changed(body: Body) -> tuple[Value, ...]:
    parameters = [p.name for p in body.info.signature.parameters if p.mutable]
    return tuple(value for name in parameters for value in body.environment[name].typed.values)


def _returned(body: Body, node: tree.Return) -> tuple[Value, ...]:
    _count_path(body)
    signature = body.info.signature
    label = (Label(signature.span, "declared here"),)
    if node.value is None:
        if signature.result != types.NOTHING:
            body.report.fail("E0307", f"`{signature.name}` returns {signature.result}, and here nothing", node.span, label)
        return _changed(body)
    typed = body.evaluate(node.value)
    if signature.result == typed.type == types.NOTHING:
        body.report.fail("E0301", "this gives no value to return", node.value.span, help="write it on a line of its own, then `return`")
    if signature.result == types.NOTHING:
        body.report.fail(
            "E0301",
            f"`{signature.name}` declares no result, and here returns {typed.type}",
            node.value.span,
            label,
            f"add `-> {typed.type}` to its signature",
        )
    wanted = signature.result
    if isinstance(wanted, types.Tuple):
        if not isinstance(typed.type, types.Tuple) or len(typed.type.elements) != len(wanted.elements):
            body.report.fail("E0301", f"`{signature.name}` returns {wanted}, found {typed.type}", node.value.span, label)
        pairs = list(zip(wanted.elements, split(typed.type, typed.values), strict=True))
    else:
        pairs = [(wanted, typed)]
    values: list[Value] = []
    for kind, part in pairs:
        values += _result(body, kind, part, node.value.span, label).values
    return (*values, *_changed(body))


def _result(body: Body, wanted: types.Type, typed: Typed, span: Span, label: tuple[Label, ...]) -> Typed:
    if isinstance(wanted, Tensor) and isinstance(typed.type, Tensor) and wanted.element == typed.type.element:
        pairs = list(zip(wanted.axes, typed.type.axes, strict=False))
        if len(wanted.axes) != len(typed.type.axes) or not all(accepts(a, b) for a, b in pairs):
            note = next((size_note(a, b) for a, b in pairs if not accepts(a, b)), "")
            text = f"the result is declared as {wanted}, and here is {typed.type}{note}"
            body.report.fail("E0404", text, span, label, mend(wanted, typed.type) or _new_name(body, pairs))
    return body.convert(typed, wanted, span, lambda: f"the result of `{body.info.signature.name}`", label)
