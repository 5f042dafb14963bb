"""Statements of a block. What an inner block changes in outer `mut` variables is carried through it as values."""

from __future__ import annotations

from dataclasses import replace

from shapescript.compiler.check import types
from shapescript.compiler.check.body import Body
from shapescript.compiler.check.carried import carried_names, carried_values, leave_region
from shapescript.compiler.check.expressions import condition, no_mut
from shapescript.compiler.check.indexing import assign_places
from shapescript.compiler.check.parts import assign_part
from shapescript.compiler.check.positions import PositionReader, note_range
from shapescript.compiler.check.report import Reported
from shapescript.compiler.check.typed import Typed, Variable, split
from shapescript.compiler.diagnostics.model import Span
from shapescript.compiler.ir import types as ir
from shapescript.compiler.ir.nodes import Block, Value
from shapescript.compiler.ir.sizes import Symbol, fresh, of
from shapescript.compiler.syntax import tree


def checked(body: Body, statement: tree.Statement) -> None:
    """One statement; a mistake in it is reported, and the names that it would have bound are left broken."""
    try:
        with body.builder.at(statement.span):
            _statement(body, statement)
    except Reported:
        for target in statement.targets if isinstance(statement, tree.Assign) else ():
            if isinstance(target, tree.Target):
                body.bind_broken(target.name)


def _statement(body: Body, statement: tree.Statement) -> None:
    match statement:
        case tree.Assign():
            _assign(body, statement)
        case tree.Evaluate(_, value):
            typed = body.evaluate(value)
            if not isinstance(value, tree.Call | tree.Pipe):
                body.report.warn("E0313", "this line computes a value that nothing uses", value.span, help="bind it, or remove the line")
            elif typed.values and typed.values == _loaded(body):
                text = "`load` gives what it loads, and changes no variable: nothing uses it here"
                body.report.warn("E0313", text, value.span, help="bind it: `m = load(...)`")
        case tree.If():
            _if(body, statement.branches, statement.otherwise or ())
        case tree.While():
            _while(body, statement)
        case tree.For():
            _for(body, statement)


def _loaded(body: Body) -> tuple[Value, ...]:
    """The results of a load that has just been read."""
    last = body.builder.ops[-1] if body.builder.ops else None
    return last.results if last is not None and last.name == "load" else ()


def _assign(body: Body, statement: tree.Assign) -> None:
    typed = body.evaluate(statement.value)
    if len(statement.targets) == 1:
        if typed.type == types.NOTHING:
            body.report.fail("E0301", "this gives no value to bind", statement.value.span)
        _assign_one(body, statement.targets[0], typed, statement.value.span)
        return
    if not isinstance(typed.type, types.Tuple) or len(typed.type.elements) != len(statement.targets):
        count = len(typed.type.elements) if isinstance(typed.type, types.Tuple) else 1
        body.report.fail(
            "E0302", f"{len(statement.targets)} names for {count} value{'s' if count != 1 else ''}: {typed.type}", statement.span
        )
    names = [target.name.text if isinstance(target, tree.Target) else target.span.text for target in statement.targets]
    for place, target in enumerate(statement.targets):
        if names.index(names[place]) < place:
            body.report.fail("E0202", f"`{names[place]}` stands twice among the names", target.span)
    for target, part in zip(statement.targets, split(typed.type, typed.values), strict=True):
        _assign_one(body, target, part, statement.value.span)


def _assign_one(body: Body, target: tree.AnyTarget, typed: Typed, value: Span) -> None:
    match target:
        case tree.Target(_, name, is_mut):
            body.bind(name, typed, is_mut)
        case tree.TargetPart(_, place):
            assign_part(body, place, typed)
        case tree.TargetPlaces(_, place):
            assign_places(body, place, typed, value)


def _enter(body: Body, names: list[str]) -> list[Value]:
    """Give carried variables the region's parameters."""
    parameters: list[Value] = []
    for name in names:
        variable = body.environment[name]
        values = tuple(Value(value.type, name) for value in variable.typed.values)
        body.environment[name] = replace(variable, typed=Typed(variable.typed.type, values))
        parameters += values
    return parameters


def _block(body: Body, statements: tuple[tree.Statement, ...]) -> None:
    for statement in statements:
        checked(body, statement)


def _if(body: Body, branches: tuple[tree.Branch, ...], otherwise: tuple[tree.Statement, ...]) -> None:
    first, more = branches[0], branches[1:]
    decided = condition(body, first.condition)
    everything = [s for branch in branches for s in (tree.Evaluate(branch.condition.span, branch.condition), *branch.body)] + list(
        otherwise
    )
    names = carried_names(body, everything)
    with body.region() as inner:
        _block(body, first.body)
        yes = inner.block((), carried_values(body, names))
    with body.region() as inner:
        if more:
            _if(body, more, otherwise)
        else:
            _block(body, otherwise)
        no = inner.block((), carried_values(body, names))
    hints = [value.hint for value in carried_values(body, names)]
    leave_region(body, names, body.builder.emit("if", decided.value, regions=(yes, no), hints=hints))


def _while(body: Body, statement: tree.While) -> None:
    no_mut(body, statement.condition, "in the condition of `while`, which changes nothing")
    names = carried_names(body, (statement,))
    outside = carried_values(body, names)
    with body.region() as inner:
        parameters = _enter(body, names)
        decided = condition(body, statement.condition)
        head = inner.block(parameters, decided.values)
    with body.region() as inner:
        parameters = _enter(body, names)
        _block(body, statement.body)
        block = inner.block(parameters, carried_values(body, names))
    leave_region(body, names, body.builder.emit("while", *outside, regions=(head, block), hints=[value.hint for value in outside]))


def _for(body: Body, statement: tree.For) -> None:
    if isinstance(statement.iterable, tree.Range):
        assert statement.iterable.start is not None and statement.iterable.stop is not None
        reader = PositionReader(body, "a range's end", exact=False)
        start, stop = reader.read(statement.iterable.start), reader.read(statement.iterable.stop)
        variable = Value(ir.INT, statement.variable.text)
        note_range(body, variable, start.size, stop.size)
        _loop(body, statement, "for_range", [start.value, stop.value], Typed(types.INT, (variable,)), {"name": statement.variable.text})
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
            body.report.fail(
                "E0301",
                "a dataset is iterated in batches",
                statement.iterable.span,
                help=f"write `{statement.iterable.span.text} |> batches(64)`",
            )
        case other:
            body.report.fail("E0301", f"a loop goes over a range, batches or a list of sub-models, not {other}", statement.iterable.span)


def _loop(
    body: Body,
    statement: tree.For,
    name: str,
    operands: list[Value],
    item: Typed,
    attributes: dict[str, object],
    symbols: tuple[Symbol, ...] = (),
) -> None:
    carried = [found for found in carried_names(body, statement.body) if found != statement.variable.text]
    outside = carried_values(body, carried)
    with body.region() as inner:
        body.made.update(symbols)
        parameters = _enter(body, carried)
        variable = statement.variable
        body.environment[variable.text] = Variable(variable.text, item, False, body.depth, variable.span, rebindable=False)
        _block(body, statement.body)
        block: Block = inner.block((*item.values, *parameters), carried_values(body, carried), symbols)
    hints = [value.hint for value in outside]
    leave_region(body, carried, body.builder.emit(name, *operands, *outside, regions=(block,), hints=hints, **attributes))
