"""Logs: sinks made, records written."""

from __future__ import annotations

from shapescript.compiler.check import types
from shapescript.compiler.check.site import Handler, Site
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.ir.nodes import Value


def _file_sink(kind: str, appends: bool) -> Handler:
    """`jsonl(path, append=…)` and its like."""

    def sink(site: Site) -> Typed:
        found = site.arguments(("path",), ("append",) if appends else ())
        operands = [site.value(found["path"], types.STR).value]
        if "append" in found:
            operands.append(site.value(found["append"], types.BOOL).value)
        return _opened(site, kind, operands)

    return sink


def _memory(site: Site) -> Typed:
    site.arguments(())
    return _opened(site, "memory", [])


def _tee(site: Site) -> Typed:
    if site.node.pattern is not None or site.items is not None:
        site.fail("E0306", "`tee` takes neither a pattern nor brackets")
    if not site.node.arguments:
        site.fail("E0302", "`tee` takes at least one sink: `tee(a, b)`")
    sinks: list[Value] = []
    for argument in site.node.arguments:
        if argument.name is not None:
            site.fail("E0311", f"`tee` has no parameter `{argument.name}`", argument.name.span, "it takes sinks: `tee(a, b)`")
        if argument.is_mut:
            site.fail("E0604", "`tee` doesn't change its sinks: `mut` doesn't stand here", argument.span)
        sinks.append(site.value(argument, types.SINK).value)
    return _opened(site, "tee", sinks)


def _opened(site: Site, kind: str, operands: list[Value]) -> Typed:
    return Typed(types.SINK, site.body.builder.emit("sink_open", *operands, kind=kind))


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


HANDLERS: dict[str, Handler] = {
    "jsonl": _file_sink("jsonl", appends=True),
    "csv": _file_sink("csv", appends=True),
    "tensorboard": _file_sink("tensorboard", appends=False),
    "memory": _memory,
    "tee": _tee,
    "write": _write,
    "flush": _flush,
}
