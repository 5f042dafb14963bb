"""Datasets: loading, orders, parts, batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from shapescript.compiler.check import types
from shapescript.compiler.check.body import Body
from shapescript.compiler.check.site import Site, in_range
from shapescript.compiler.check.type_names import TypeReader
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ir.sizes import fresh, of
from shapescript.compiler.ir.types import Element
from shapescript.compiler.ops.datasets import WEIGHTS
from shapescript.compiler.syntax import tree

NOT_GIVEN = -1  # as how many batches to read ahead: the host's own choice
ROWS_HELP = "each dataset has rows of its own: take the field from this one, `data.all`"


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
    """`load_data[Digit]("digits.npz")`, or by name a file for each field."""
    record = told_record(site)
    call, fields = site.without_brackets(), tuple(name for name, _ in record.fields)
    named = [argument.name for argument in site.node.arguments if argument.name is not None]
    if named and len(named) < len(site.node.arguments) and all(name.text in fields for name in named):
        site.fail("E0302", f"`{site.name}` takes one file, or by name a file for each field of {record}; found both", named[0].span)
    by_field = bool(named) and ([name.text for name in named] != ["path"] or "path" in fields)
    found = call.arguments(fields if by_field else ("path",))
    paths = [site.value(argument, types.STR).value for argument in found.values()]
    kind = made_dataset(site, record)
    told: dict[str, Any] = {"fields": tuple(found)} if by_field else {}
    return Typed(kind, site.body.builder.emit("load_data", *paths, dataset=types.lower_dataset(kind), **told))


def _shuffle(site: Site) -> Typed:
    found = site.arguments(("data", "k"), ("seed",))
    dataset, kind = _dataset(site, found["data"])
    number = site.value(found["k"], types.INT)
    value = site.body.builder.op("order", dataset.value, number.value, _seed(site, found))
    return Typed(replace(kind, ordered=True), (value,))


def _sample(site: Site) -> Typed:
    found = site.arguments(("data", "count", "k"), ("seed", "weights"))
    dataset, kind = _dataset(site, found["data"])
    count, number = _count(site, found["count"]), site.value(found["k"], types.INT)
    numbers = [count.value, number.value, _seed(site, found)]
    if "weights" in found:
        numbers.append(_over_rows(site, found["weights"], kind, "`weights` are f32 or f64 over the dataset's rows", WEIGHTS))
    value = site.body.builder.op("sample_order", dataset.value, *numbers)
    return Typed(replace(kind, ordered=True, repeats=True), (value,))


def _seed(site: Site, found: dict[str, tree.Argument]) -> Value:
    if "seed" not in found:
        return site.body.constant(0).value
    return _at_least(site, found["seed"], 0, "a seed is at least 0").value


def _at_least(site: Site, argument: tree.Argument, least: int, what: str) -> Typed:
    """A host int; E0503 for a constant below the least."""
    number = site.value(argument, types.INT)
    if isinstance(number.constant, int) and number.constant < least:
        site.fail("E0503", f"{what}, not {number.constant}", argument.value.span)
    return number


def _over_rows(site: Site, argument: tree.Argument, kind: types.Dataset, what: str, elements: Sequence[Element]) -> Value:
    """A tensor with one number for each example. E0301 for another type, E0401 for another axis."""
    typed = site.evaluate(argument)
    if not isinstance(typed.type, types.Tensor) or typed.type.element not in elements or len(typed.type.axes) != 1:
        site.fail("E0301", f"{what}, found {typed.type}", argument.value.span)
    (axis,) = typed.type.axes
    if axis.size != kind.rows.size:
        text = f"{what}: {axis} is not {kind.rows}" if axis.name != kind.rows.name else f"{what}: these are the {axis} of another dataset"
        site.fail("E0401", text, argument.value.span, ROWS_HELP)
    return typed.value


def _count(site: Site, argument: tree.Argument) -> Typed:
    return _at_least(site, argument, 0, "a number of examples is at least 0")


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


def _own_order(site: Site, argument: tree.Argument) -> tuple[Typed, types.Dataset]:
    """A dataset that is no order of one."""
    dataset, kind = _dataset(site, argument)
    if kind.ordered:
        text = f"`{site.name}` takes a dataset in its own order, found a {kind}"
        site.fail("E0301", text, argument.value.span, f"`{site.name}` first, and then shuffle or sample")
    return dataset, kind


def _random_split(site: Site) -> Typed:
    found = site.arguments(("data", "fraction"), ("seed",))
    dataset, kind = _own_order(site, found["data"])
    fraction = site.value(found["fraction"], types.FLOAT)
    in_range(site, "fraction", fraction, found["fraction"].value.span)
    parts = tuple(made_dataset(site, kind.record) for _ in range(2))
    lowered = tuple(map(types.lower_dataset, parts))
    values = site.body.builder.emit("dataset_split", dataset.value, fraction.value, _seed(site, found), dataset=lowered)
    return Typed(types.Tuple(parts), tuple(values))


def _filter(site: Site) -> Typed:
    found = site.arguments(("data", "keep"))
    dataset, kind = _own_order(site, found["data"])
    keep = _over_rows(site, found["keep"], kind, "`keep` is a bool tensor over the dataset's own rows", (Element.BOOL,))
    made = made_dataset(site, kind.record)
    return Typed(made, site.body.builder.emit("dataset_filter", dataset.value, keep, dataset=types.lower_dataset(made)))


def concat_datasets(site: Site) -> Typed:
    """The overload of `concat` whose first argument is a dataset: the examples of one behind those of the other, with rows of their own."""
    values: list[Value] = []
    kinds: list[types.Dataset] = []
    for argument in site.node.arguments:
        if argument.name is not None:
            hint = "`over=` says where tensors are joined; datasets are, example behind example"
            site.fail("E0311", f"`concat` of datasets has no parameter `{argument.name}`", argument.name.span, hint)
        if argument.is_mut:
            site.fail("E0604", "`concat` changes nothing: `mut` doesn't stand here", argument.span)
        typed = site.evaluate(argument)
        if not isinstance(typed.type, types.Dataset):
            text = f"`concat` is of datasets or of tensors, not of both: found {kinds[0]} and {typed.type}"
            site.fail("E0301", text, argument.value.span)
        dataset, kind = _own_order(site, argument)
        if kinds and kind.record != kinds[0].record:
            text = f"datasets of one record are put together, found {kinds[0]} and {kind}"
            site.fail("E0301", text, argument.value.span)
        values.append(dataset.value)
        kinds.append(kind)
    made = made_dataset(site, kinds[0].record)
    return Typed(made, site.body.builder.emit("dataset_concat", *values, dataset=types.lower_dataset(made)))


def _batches(site: Site) -> Typed:
    found = site.arguments(("data", "size"), ("drop_last", "start", "prefetch"))
    dataset, kind = _dataset(site, found["data"])
    builder = site.body.builder
    size = _at_least(site, found["size"], 1, "a batch has at least 1 example")
    drop = site.value(found["drop_last"], types.BOOL) if "drop_last" in found else site.body.constant(False)
    start = site.body.constant(0)
    if "start" in found:
        start = _at_least(site, found["start"], 0, "a loop over batches starts at example 0 or later")
    ahead = site.body.constant(NOT_GIVEN)
    if "prefetch" in found:
        ahead = _at_least(site, found["prefetch"], 0, "so many batches are read ahead, at least 0")
        if ahead.constant is None:
            builder.emit("check", builder.op("ge", ahead.value, site.body.constant(0).value), failure="prefetch")
    return Typed(types.Batches(kind), dataset.values, None, "", (size.value, drop.value, start.value, ahead.value))


HANDLERS = {
    "load_data": _load_data,
    "shuffle": _shuffle,
    "sample": _sample,
    "take": _take,
    "skip": _skip,
    "part": _part,
    "random_split": _random_split,
    "filter": _filter,
    "batches": _batches,
}
