"""Statements and whole bodies: the IR of a function."""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from shapescript.compiler.check import types
from shapescript.compiler.check.axes import AxisContext, agree
from shapescript.compiler.check.body import Body
from shapescript.compiler.check.expressions import attach, condition
from shapescript.compiler.check.report import Report, Reported
from shapescript.compiler.check.scope import FunctionInfo
from shapescript.compiler.check.typed import Typed, Variable, split
from shapescript.compiler.check.types import Tensor
from shapescript.compiler.diagnostics.model import Label, Span
from shapescript.compiler.ir import types as ir
from shapescript.compiler.ir.nodes import Block, Function, Value
from shapescript.compiler.ir.sizes import Symbol, fresh, of
from shapescript.compiler.ops.build import Builder
from shapescript.compiler.syntax import tree


def check_function(info: FunctionInfo, report: Report) -> tuple[Function | None, list[tuple[str, Span]]]:
    """The function's IR, None where a mistake was found, and the functions that it calls."""
    signature = info.signature
    context = AxisContext(info.scope, report, dict(info.axes))
    body = Body(report, info.scope, info, context, Builder(info.declaration.span))
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


# ---- bodies that return ---------------------------------------------------------------------------------------------------------------------

def finish(body: Body, statements: tuple[tree.Statement, ...]) -> tuple[Value, ...]:
    """Check statements to the function's end: gives its results and the last values of its `mut` parameters.

    Where a branch returns, what follows the `if` goes on inside the branches that don't.
    """
    for place, statement in enumerate(statements):
        match statement:
            case tree.Return():
                return _returned(body, statement)
            case tree.If() if any(_returns(branch.body) for branch in statement.branches) or _returns(statement.otherwise or ()):
                return _branch(body, statement.branches, statement.otherwise or (), statements[place + 1:], statement.span)
            case tree.For() | tree.While() if _returns(statement.body):
                body.report.not_built("`return` inside a loop", next(_returning(statement.body)).span)
        checked(body, statement)
    if body.info.signature.result != types.NOTHING:
        body.report.fail("E0307", f"`{body.info.signature.name}` ends without returning its {body.info.signature.result}",
                         body.info.signature.span)
    return _changed(body)


def _branch(body: Body, branches: tuple[tree.Branch, ...], otherwise: tuple[tree.Statement, ...], rest: tuple[tree.Statement, ...],
            span: Span) -> tuple[Value, ...]:
    first, more = branches[0], branches[1:]
    decided = condition(body, first.condition)
    with body.region() as inner:
        yes = inner.block((), finish(body, (*first.body, *rest)))
    with body.region() as inner:
        no = inner.block((), _branch(body, more, otherwise, rest, span) if more else finish(body, (*otherwise, *rest)))
    with body.builder.at(span):
        return body.builder.emit("if", decided.value, regions=(yes, no))


def _returning(statements: Iterable[tree.Statement]) -> Iterator[tree.Return]:
    for statement in statements:
        match statement:
            case tree.Return():
                yield statement
            case tree.If(_, branches, otherwise):
                for branch in branches:
                    yield from _returning(branch.body)
                yield from _returning(otherwise or ())
            case tree.For(_, _, _, inner) | tree.While(_, _, inner):
                yield from _returning(inner)


def _returns(statements: Iterable[tree.Statement]) -> bool:
    return any(True for _ in _returning(statements))


def _changed(body: Body) -> tuple[Value, ...]:
    parameters = [p.name for p in body.info.signature.parameters if p.mutable]
    return tuple(value for name in parameters for value in body.environment[name].typed.values)


def _returned(body: Body, node: tree.Return) -> tuple[Value, ...]:
    signature = body.info.signature
    label = (Label(signature.span, "declared here"),)
    if node.value is None:
        if signature.result != types.NOTHING:
            body.report.fail("E0307", f"`{signature.name}` returns {signature.result}, and here nothing", node.span, label)
        return _changed(body)
    typed = body.evaluate(node.value)
    if signature.result == types.NOTHING:
        body.report.fail("E0301", f"`{signature.name}` declares no result, and here returns {typed.type}", node.value.span, label,
                         f"add `-> {typed.type}` to its signature")
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
        fits = len(wanted.axes) == len(typed.type.axes) and all(agree(a, b) for a, b in zip(wanted.axes, typed.type.axes, strict=True))
        if not fits:
            body.report.fail("E0404", f"the result is declared as {wanted}, and here is {typed.type}", span, label)
    return body.convert(typed, wanted, span, lambda: f"the result of `{body.info.signature.name}`", label)


# ---- single statements ----------------------------------------------------------------------------------------------------------------------

def checked(body: Body, statement: tree.Statement) -> None:
    """One statement; a mistake in it is reported, and what it would have bound is left broken."""
    try:
        with body.builder.at(statement.span):
            _statement(body, statement)
    except Reported:
        for name in changed_names((statement,)):
            body.bind_broken(name)


def _statement(body: Body, statement: tree.Statement) -> None:
    match statement:
        case tree.Assign():
            _assign(body, statement)
        case tree.Evaluate(_, value):
            body.evaluate(value)
        case tree.If():
            _if(body, statement.branches, statement.otherwise or ())
        case tree.While():
            _while(body, statement)
        case tree.For():
            _for(body, statement)


def _assign(body: Body, statement: tree.Assign) -> None:
    typed = body.evaluate(statement.value)
    if len(statement.targets) == 1:
        if typed.type == types.NOTHING:
            body.report.fail("E0301", "this gives no value to bind", statement.value.span)
        body.bind(statement.targets[0].name, typed, statement.targets[0].is_mut)
        return
    if not isinstance(typed.type, types.Tuple) or len(typed.type.elements) != len(statement.targets):
        count = len(typed.type.elements) if isinstance(typed.type, types.Tuple) else 1
        body.report.fail("E0302", f"{len(statement.targets)} names for {count} value{'s' if count != 1 else ''}: {typed.type}", statement.span)
    for target, part in zip(statement.targets, split(typed.type, typed.values), strict=True):
        body.bind(target.name, part, target.is_mut)


def _carried(body: Body, statements: Iterable[tree.Statement]) -> list[str]:
    """Outer `mut` variables that a block changes, in a fixed order."""
    names = dict.fromkeys(name.text for name in changed_names(statements))
    return [name for name in names if name in body.environment and body.environment[name].mutable and not body.environment[name].broken]


def changed_names(statements: Iterable[tree.Statement]) -> Iterator[tree.Identifier]:
    """Names that statements assign or pass as `mut`."""
    for statement in statements:
        match statement:
            case tree.Assign(_, targets, value):
                yield from (target.name for target in targets)
                yield from _mut_names(value)
            case tree.Evaluate(_, value):
                yield from _mut_names(value)
            case tree.Return(_, value) if value is not None:
                yield from _mut_names(value)
            case tree.If(_, branches, otherwise):
                for branch in branches:
                    yield from _mut_names(branch.condition)
                    yield from changed_names(branch.body)
                yield from changed_names(otherwise or ())
            case tree.While(_, decided, inner):
                yield from _mut_names(decided)
                yield from changed_names(inner)
            case tree.For(_, _, iterable, inner):
                yield from _mut_names(iterable)
                yield from changed_names(inner)


def _mut_names(node: object) -> Iterator[tree.Identifier]:
    """Roots of `mut` arguments anywhere in an expression."""
    waiting = [node]
    while waiting:
        here = waiting.pop()
        if isinstance(here, tree.Argument) and here.is_mut:
            root: object = here.value
            while isinstance(root, tree.Attribute):
                root = root.base
            if isinstance(root, tree.Name):
                yield tree.Identifier(root.span, root.name)
        if isinstance(here, tuple):
            waiting.extend(here)
        elif isinstance(here, tree.Node):
            waiting.extend(getattr(here, name) for name in here.__dataclass_fields__ if name not in ("span", "header"))


def _enter(body: Body, names: list[str]) -> list[Value]:
    """Give carried variables the region's parameters."""
    parameters: list[Value] = []
    for name in names:
        variable = body.environment[name]
        values = tuple(Value(value.type, name) for value in variable.typed.values)
        body.environment[name] = replace(variable, typed=replace(variable.typed, values=values))
        parameters += values
    return parameters


def _leave(body: Body, names: list[str], results: tuple[Value, ...]) -> None:
    start = 0
    for name in names:
        variable = body.environment[name]
        width = len(variable.typed.values)
        body.environment[name] = replace(variable, typed=Typed(variable.typed.type, results[start:start + width]))
        start += width


def _values(body: Body, names: list[str]) -> tuple[Value, ...]:
    return tuple(value for name in names for value in body.environment[name].typed.values)


def _block(body: Body, statements: tuple[tree.Statement, ...]) -> None:
    for statement in statements:
        if isinstance(statement, tree.Return):
            body.report.not_built("`return` here", statement.span)
        checked(body, statement)


def _if(body: Body, branches: tuple[tree.Branch, ...], otherwise: tuple[tree.Statement, ...]) -> None:
    first, more = branches[0], branches[1:]
    decided = condition(body, first.condition)
    everything = [s for branch in branches for s in (tree.Evaluate(branch.condition.span, branch.condition), *branch.body)] + list(otherwise)
    names = _carried(body, everything)
    with body.region() as inner:
        _block(body, first.body)
        yes = inner.block((), _values(body, names))
    with body.region() as inner:
        if more:
            _if(body, more, otherwise)
        else:
            _block(body, otherwise)
        no = inner.block((), _values(body, names))
    hints = [value.hint for value in _values(body, names)]
    _leave(body, names, body.builder.emit("if", decided.value, regions=(yes, no), hints=hints))


def _while(body: Body, statement: tree.While) -> None:
    names = _carried(body, (statement,))
    outside = _values(body, names)
    with body.region() as inner:
        parameters = _enter(body, names)
        decided = condition(body, statement.condition)
        head = inner.block(parameters, decided.values)
    with body.region() as inner:
        parameters = _enter(body, names)
        _block(body, statement.body)
        block = inner.block(parameters, _values(body, names))
    _leave(body, names, body.builder.emit("while", *outside, regions=(head, block), hints=[value.hint for value in outside]))


def _for(body: Body, statement: tree.For) -> None:
    if isinstance(statement.iterable, tree.Range):
        assert statement.iterable.start is not None and statement.iterable.stop is not None
        ends = [body.convert(body.evaluate(end), types.INT, end.span, lambda: "a range's end").value
                for end in (statement.iterable.start, statement.iterable.stop)]
        _loop(body, statement, "for_range", ends, Typed(types.INT, (Value(ir.INT, statement.variable.text),)), {"name": statement.variable.text})
        return
    iterated = body.evaluate(statement.iterable)
    match iterated.type:
        case types.Batches(dataset):
            symbol = fresh(statement.variable.text)
            kind = types.Batch(dataset.record, types.single(of(symbol)))
            fields = tuple(Value(part, name) for (name, _), part in zip(dataset.record.fields, types.lower(kind), strict=True))
            _loop(body, statement, "for_batches", [iterated.value, *iterated.batches], Typed(kind, fields), {}, (symbol,))
        case types.ModelList(kinds):
            item = Typed(types.Model(kinds.element), (Value(kinds.element, statement.variable.text),))
            _loop(body, statement, "for_list", [iterated.values[0]], item, {"path": iterated.path})
        case types.Dataset():
            body.report.fail("E0301", "a dataset is iterated in batches", statement.iterable.span,
                             help=f"write `{statement.iterable.span.text} |> batches(64)`")
        case other:
            body.report.fail("E0301", f"a loop goes over a range, batches or a list of sub-models, not {other}", statement.iterable.span)


def _loop(body: Body, statement: tree.For, name: str, operands: list[Value], item: Typed, attributes: dict[str, object],
          symbols: tuple[Symbol, ...] = ()) -> None:
    carried = [found for found in _carried(body, statement.body) if found != statement.variable.text]
    outside = _values(body, carried)
    with body.region() as inner:
        parameters = _enter(body, carried)
        variable = statement.variable
        body.environment[variable.text] = Variable(variable.text, item, False, body.depth, variable.span)
        _block(body, statement.body)
        block: Block = inner.block((*item.values, *parameters), _values(body, carried), symbols)
    hints = [value.hint for value in outside]
    _leave(body, carried, body.builder.emit(name, *operands, *outside, regions=(block,), hints=hints, **attributes))
