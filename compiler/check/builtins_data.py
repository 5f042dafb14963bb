"""Datasets: loading, orders, parts, batches."""

from __future__ import annotations

from dataclasses import replace

from shapescript.compiler.check import types
from shapescript.compiler.check.body import Body
from shapescript.compiler.check.site import Site
from shapescript.compiler.check.type_names import TypeReader
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ir.sizes import fresh, of
from shapescript.compiler.syntax import tree


def told_record(site: Site) -> types.Record:
    """The record in the brackets of `load_data[Digit]("file.npz")` and its like."""
    record = None
    match site.items:
        case (tree.AxisList(_, (tree.AxisName(span, name),)),):
            qualified = tree.QualifiedName(span, (tree.Identifier(span, name),))
            record = TypeReader(site.body.context, site.body.report).applied(qualified, None, span)
        case (tree.AxisList(_, (tree.Applied(span, qualified, None),)),):
            record = TypeReader(site.body.context, site.body.report).applied(qualified, None, span)
    if not isinstance(record, types.Record):
        site.fail("E0301", f'`{site.name}` is told the record: `{site.name}[Digit]("file")`')
    return record


def made_dataset(site: Site, record: types.Record) -> types.Dataset:
    """The type of a dataset whose rows, an axis of its own, get their size here."""
    rows = fresh("rows")
    site.body.made.add(rows)
    return types.Dataset(record, types.Axis("rows", of(rows)))


def _load_data(site: Site) -> Typed:
    record = told_record(site)
    path = site.value(site.without_brackets().arguments(("path",))["path"], types.STR)
    kind = made_dataset(site, record)
    return Typed(kind, site.body.builder.emit("load_data", path.value, dataset=types.lower_dataset(kind)))


def _shuffle(site: Site) -> Typed:
    found = site.arguments(("data", "k"), ("seed",))
    dataset, kind = _dataset(site, found["data"])
    _own_order(site, kind)
    number = site.value(found["k"], types.INT)
    seed = site.value(found["seed"], types.INT) if "seed" in found else site.body.constant(0)
    value = site.body.builder.op("order", dataset.value, number.value, seed.value)
    return Typed(replace(kind, ordered=True), (value,))


def _sample(site: Site) -> Typed:
    found = site.arguments(("data", "count", "k"), ("seed",))
    dataset, kind = _dataset(site, found["data"])
    _own_order(site, kind)
    count, number = _count(site, found["count"]), site.value(found["k"], types.INT)
    seed = site.value(found["seed"], types.INT) if "seed" in found else site.body.constant(0)
    value = site.body.builder.op("sample_order", dataset.value, count.value, number.value, seed.value)
    return Typed(replace(kind, ordered=True, repeats=True), (value,))


def _own_order(site: Site, kind: types.Dataset) -> None:
    if kind.ordered:
        site.body.report.not_built(f"`{site.name}` of what is shuffled or sampled", site.span)


def _count(site: Site, argument: tree.Argument) -> Typed:
    count = site.value(argument, types.INT)
    if isinstance(count.constant, int) and count.constant < 0:
        site.fail("E0503", f"a number of examples is at least 0, not {count.constant}", argument.value.span)
    return count


def _take(site: Site) -> Typed:
    found = site.arguments(("data", "count"))
    dataset, kind = _dataset(site, found["data"])
    return _part_of(site, dataset, kind, site.body.constant(0).value, _count(site, found["count"]).value)


def _skip(site: Site) -> Typed:
    found = site.arguments(("data", "count"))
    dataset, kind = _dataset(site, found["data"])
    return _part_of(site, dataset, kind, _count(site, found["count"]).value, count_of(site.body, dataset, kind))


def _part(site: Site) -> Typed:
    found = site.arguments(("data", "start", "stop"))
    dataset, kind = _dataset(site, found["data"])
    return _part_of(site, dataset, kind, *(_count(site, found[name]).value for name in ("start", "stop")))


def _part_of(site: Site, dataset: Typed, kind: types.Dataset, start: Value, stop: Value) -> Typed:
    """Of an order a part of its places; of a dataset another one, with rows of its own."""
    builder = site.body.builder
    if kind.ordered:
        return Typed(kind, (builder.op("order_part", dataset.value, start, stop),))
    made = made_dataset(site, kind.record)
    return Typed(made, builder.emit("dataset_part", dataset.value, start, stop, dataset=types.lower_dataset(made)))


def count_of(body: Body, dataset: Typed, kind: types.Dataset) -> Value:
    """How many examples there are, a host int."""
    return body.builder.op("order_size", dataset.value) if kind.ordered else body.builder.size(kind.rows.size)


def _dataset(site: Site, argument: tree.Argument) -> tuple[Typed, types.Dataset]:
    typed = site.evaluate(argument)
    if not isinstance(typed.type, types.Dataset):
        site.fail("E0301", f"`{site.name}` takes a dataset, found {typed.type}", argument.value.span)
    return typed, typed.type


def _batches(site: Site) -> Typed:
    found = site.arguments(("data", "size"), ("drop_last",))
    dataset, kind = _dataset(site, found["data"])
    size = site.value(found["size"], types.INT)
    if isinstance(size.constant, int) and size.constant < 1:
        site.fail("E0503", f"a batch has at least 1 example, not {size.constant}", found["size"].value.span)
    drop = site.value(found["drop_last"], types.BOOL) if "drop_last" in found else site.body.constant(False)
    return Typed(types.Batches(kind), dataset.values, None, "", (size.value, drop.value))


HANDLERS = {
    "load_data": _load_data,
    "shuffle": _shuffle,
    "sample": _sample,
    "take": _take,
    "skip": _skip,
    "part": _part,
    "batches": _batches,
}
