"""Datasets: loading, orders, batches."""

from __future__ import annotations

from dataclasses import replace

from shapescript.compiler.check import types
from shapescript.compiler.check.site import Site
from shapescript.compiler.check.type_names import TypeReader
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.ir.sizes import fresh, of
from shapescript.compiler.syntax import tree


def _load_data(site: Site) -> Typed:
    """`load_data[Digit]("file.npz")`: the dataset's rows are an axis of its own."""
    record = None
    match site.items:
        case (tree.AxisList(_, (tree.AxisName(span, name),)),):
            qualified = tree.QualifiedName(span, (tree.Identifier(span, name),))
            record = TypeReader(site.body.context, site.body.report).applied(qualified, None, span)
        case (tree.AxisList(_, (tree.Applied(span, qualified, None),)),):
            record = TypeReader(site.body.context, site.body.report).applied(qualified, None, span)
    if not isinstance(record, types.Record):
        site.fail("E0301", '`load_data` is told the record: `load_data[Digit]("file.npz")`')
    found = replace(site, items=None).arguments(("path",))
    path = site.value(found["path"], types.STR)
    kind = types.Dataset(record, types.Axis("rows", of(fresh("rows"))))
    return Typed(kind, site.body.builder.emit("load_data", path.value, dataset=types.lower_dataset(kind)))


def _shuffle(site: Site) -> Typed:
    found = site.arguments(("data", "k"), ("seed",))
    dataset, kind = _dataset(site, found["data"])
    if kind.ordered:
        site.body.report.not_built("shuffling what is shuffled", site.span)
    number = site.value(found["k"], types.INT)
    seed = site.value(found["seed"], types.INT) if "seed" in found else site.body.constant(0)
    value = site.body.builder.op("order", dataset.value, number.value, seed.value)
    return Typed(replace(kind, ordered=True), (value,))


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


HANDLERS = {"load_data": _load_data, "shuffle": _shuffle, "batches": _batches}
