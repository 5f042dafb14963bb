"""Logs, checkpoints, printing."""

from __future__ import annotations

from shapescript.compiler.check import types
from shapescript.compiler.check.scope import ModelEntity, RecordEntity
from shapescript.compiler.check.site import Site
from shapescript.compiler.check.type_names import BUILT_IN, TypeReader
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ir.types import Type as IRType
from shapescript.compiler.syntax import tree


def _jsonl(site: Site) -> Typed:
    path = site.value(site.arguments(("path",))["path"], types.STR)
    return Typed(types.SINK, site.body.builder.emit("sink_open", path.value, kind="jsonl"))


def _write(site: Site) -> Typed:
    found = site.arguments(("sink", "record"))
    sink = site.value(found["sink"], types.SINK)
    record = site.evaluate(found["record"])
    if not isinstance(record.type, types.Record):
        site.fail("E0301", f"`write` takes a record, found {record.type}", found["record"].value.span)
    for name, kind in record.type.fields:
        if isinstance(kind, types.Tensor) and kind.axes:
            site.fail("E0301", f"a log's fields are single values; `{name}` of {record.type} is {kind}", found["record"].value.span)
    names = tuple(name for name, _ in record.type.fields)
    site.body.builder.emit("write", sink.value, *record.values, record=record.type.name, fields=names)
    return Typed(types.NOTHING)


def _flush(site: Site) -> Typed:
    sink = site.value(site.arguments(("sink",))["sink"], types.SINK)
    site.body.builder.emit("flush", sink.value)
    return Typed(types.NOTHING)


SAVED = types.Model | types.Optimiser | types.Scalar | types.Tensor | types.Handle | types.Dataset


def _named(site: Site) -> tuple[Typed, dict[str, tree.Argument]]:
    """The path, then what is saved or loaded, by name."""
    arguments = site.node.arguments
    if site.node.pattern is not None or site.items is not None or not arguments or arguments[0].name is not None:
        site.fail("E0302", f'`{site.name}` takes a path, then names with values: {site.name}("run.pt", m=...)')
    path = site.value(arguments[0], types.STR)
    found: dict[str, tree.Argument] = {}
    for argument in arguments[1:]:
        if argument.name is None:
            site.fail("E0302", f"what `{site.name}` takes behind the path has a name: `m=m`", argument.span)
        if argument.is_mut:
            site.fail("E0604", f"`mut` doesn't stand in `{site.name}`", argument.span)
        if argument.name.text in found:
            site.fail("E0302", f"`{argument.name}` is given twice", argument.span)
        found[argument.name.text] = argument
    if not found:
        site.fail("E0302", f"`{site.name}` needs at least one name")
    return path, found


def _save(site: Site) -> Typed:
    path, found = _named(site)
    values: list[Value] = []
    for name, argument in found.items():
        values += _kept(site, name, argument).values
    site.body.builder.emit("save", path.value, *values, names=tuple(found))
    return Typed(types.NOTHING)


def _kept(site: Site, name: str, argument: tree.Argument) -> Typed:
    typed = site.evaluate(argument)
    if not isinstance(typed.type, SAVED) or (isinstance(typed.type, types.Dataset) and typed.type.ordered):
        site.fail(
            "E0301",
            f"`{name}`: a checkpoint holds models, optimisers, numbers, tensors, modes, sinks and datasets, not {typed.type}",
            argument.value.span,
        )
    return typed


def _load(site: Site) -> Typed:
    """A type at a name is a result; a handle is restored in place or compared; another value must equal what was saved."""
    path, found = _named(site)
    operands: list[Value] = []
    asked: list[IRType | None] = []
    results: list[types.Type] = []
    for name, argument in found.items():
        kind = _as_type(site, argument.value)
        if kind is None:
            operands += _kept(site, name, argument).values
            asked.append(None)
        elif isinstance(kind, types.Model | types.Optimiser | types.Scalar | types.Tensor):
            results.append(kind)
            asked.append(types.lower(kind)[0])
        else:
            site.fail("E0301", f"`{name}`: {kind} can't be loaded as a type; give the {kind} to restore", argument.value.span)
    values = site.body.builder.emit("load", path.value, *operands, names=tuple(found), asked=tuple(asked))
    if len(results) == 1:
        return Typed(results[0], values)
    return Typed(types.Tuple(tuple(results)), values)


def _as_type(site: Site, node: tree.Expression) -> types.Type | None:
    """The type that an expression names, None where it is a value."""
    reader = TypeReader(site.body.context, site.body.report)
    base, items = (node.base, node.items) if isinstance(node, tree.Bracket) else (node, None)
    name = _qualified(base)
    if name is None or name.parts[0].text in site.body.environment:
        return None
    entity = site.body.entity(base)
    known = str(name) in BUILT_IN or str(name) in site.body.context.types
    if isinstance(entity, ModelEntity | RecordEntity) or (entity is None and known):
        return reader.applied(name, items, node.span)
    return None


def _qualified(node: tree.Expression) -> tree.QualifiedName | None:
    match node:
        case tree.Name(span, name):
            return tree.QualifiedName(span, (tree.Identifier(span, name),))
        case tree.Attribute(span, base, name):
            inner = _qualified(base)
            return None if inner is None else tree.QualifiedName(span, (*inner.parts, name))
    return None


def _print(site: Site) -> Typed:
    values: list[Value] = []
    for argument in site.node.arguments:
        if argument.name is not None or argument.is_mut:
            site.fail("E0311", "`print` takes values without names", argument.span)
        typed = site.evaluate(argument)
        if not isinstance(typed.type, types.Scalar | types.Tensor):
            site.fail("E0301", f"`print` prints numbers, strings and tensors, not {typed.type}", argument.value.span)
        values += typed.values
    site.body.builder.emit("print", *values)
    return Typed(types.NOTHING)


HANDLERS = {"jsonl": _jsonl, "write": _write, "flush": _flush, "save": _save, "load": _load, "print": _print}
