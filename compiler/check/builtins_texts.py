"""Texts: as datasets of windows or lines, and the vocabularies that their ids are of."""

from __future__ import annotations

from shapescript.compiler.check import types
from shapescript.compiler.check.builtins_data import made_dataset, told_record
from shapescript.compiler.check.site import Handler, Site
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.check.types import Axis, Tensor
from shapescript.compiler.ir.sizes import fresh, of
from shapescript.compiler.ir.types import Element
from shapescript.compiler.syntax import tree

UNITS = {"load_text": "characters", "load_bytes": "bytes", "load_lines": "lines"}  # what the examples are made of


def _load(site: Site) -> Typed:
    """`load_text[Window]("input.txt")` and its like."""
    record = told_record(site)
    (_check_lines if site.name == "load_lines" else _check_window)(site, record)
    found = site.without_brackets().arguments(("path",), () if site.name == "load_bytes" else ("vocabulary",))
    operands = [site.value(found["path"], types.STR)]
    if "vocabulary" in found:
        operands.append(site.value(found["vocabulary"], types.VOCABULARY))
    kind = made_dataset(site, record)
    values = [operand.value for operand in operands]
    return Typed(kind, site.body.builder.emit("load_text", *values, dataset=types.lower_dataset(kind), unit=UNITS[site.name]))


def _is_ids(kind: types.Tensor | types.Scalar) -> bool:
    return isinstance(kind, Tensor) and kind.element is Element.I64 and len(kind.axes) == 1


def _check_window(site: Site, record: types.Record) -> None:
    if len(record.fields) != 1 or not _is_ids(record.fields[0][1]):
        site.fail(
            "E0301",
            f"`{site.name}` makes windows: {record} must have one field, of whole numbers along one axis",
            help="a field is declared as `ids: int[Span]`",
        )


def _check_lines(site: Site, record: types.Record) -> None:
    ids = [name for name, kind in record.fields if _is_ids(kind)]
    lengths = [name for name, kind in record.fields if kind in (types.INT, Tensor(Element.I64))]
    if len(ids) != 1 or len(lengths) > 1 or len(ids) + len(lengths) != len(record.fields):
        site.fail(
            "E0301",
            f"`{site.name}` gives ids and a length: {record} must have one field of whole numbers along one axis, and may have an int",
            help="fields are declared as `ids: int[Longest]` and `length: int`",
        )


# ---- vocabularies


def _vocabulary(site: Site) -> Typed:
    path = site.value(site.arguments(("path",))["path"], types.STR)
    return Typed(types.VOCABULARY, site.body.builder.emit("vocabulary", path.value))


def _byte_vocabulary(site: Site) -> Typed:
    site.arguments(())
    return Typed(types.VOCABULARY, site.body.builder.emit("byte_vocabulary"))


def _decode(site: Site) -> Typed:
    found = site.arguments(("vocabulary", "ids"))
    vocabulary = site.value(found["vocabulary"], types.VOCABULARY)
    ids = site.evaluate(found["ids"])
    if not isinstance(ids.type, Tensor) or not _is_ids(ids.type):
        site.fail("E0301", f"`decode` takes ids along one axis, int[n], found {ids.type}", found["ids"].value.span)
    return Typed(types.STR, site.body.builder.emit("decode", vocabulary.value, ids.value))


def _encode_one(site: Site) -> Typed:
    vocabulary, text = _text_of(site)
    return Typed(types.INT, site.body.builder.emit("encode_one", vocabulary.value, text.value))


def _encode(site: Site) -> Typed:
    """The ids, along an axis of their own."""
    vocabulary, text = _text_of(site)
    builder, symbol = site.body.builder, fresh("characters")
    site.body.made.add(symbol)
    (count,) = builder.emit("encoded_size", vocabulary.value, text.value)
    builder.emit("bind_size", count, size=of(symbol))
    ids = builder.emit("encode", vocabulary.value, text.value, size=of(symbol))
    return Typed(Tensor(Element.I64, (Axis("characters", of(symbol)),)), ids)


def _text_of(site: Site) -> tuple[Typed, Typed]:
    found: dict[str, tree.Argument] = site.arguments(("vocabulary", "text"))
    return site.value(found["vocabulary"], types.VOCABULARY), site.value(found["text"], types.STR)


HANDLERS: dict[str, Handler] = {
    "load_text": _load,
    "load_bytes": _load,
    "load_lines": _load,
    "vocabulary": _vocabulary,
    "byte_vocabulary": _byte_vocabulary,
    "decode": _decode,
    "encode_one": _encode_one,
    "encode": _encode,
}
