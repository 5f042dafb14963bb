"""Artifacts as bytes, and back: the function and its sites as JSON, of the form of ir/data.py, and behind them the objects."""

from __future__ import annotations

import json
import struct
from typing import Any

from shapescript.compiler.codegen.kernel_objects import Code, with_needs
from shapescript.compiler.codegen.loading import is_object
from shapescript.compiler.codegen.program import Artifact
from shapescript.compiler.ir.data import Decoder, Encoder, Places

_LENGTH = struct.Struct("<Q")


def to_bytes(artifact: Artifact, program: Encoder) -> bytes:
    """`program` has encoded what the artifact was compiled from. Raises Unencodable."""
    encoder = program.of_what_became()
    objects = with_needs([artifact.code])
    places = {one.data: place for place, one in enumerate(objects)}
    about = {
        "function": encoder.value(artifact.function),
        "nodes": encoder.nodes,
        "sites": artifact.sites,
        "exchange_words": artifact.exchange_words,
        "rows": artifact.rows,
        "objects": [(len(one.data), one.names, one.uses, [places[need.data] for need in one.needs]) for one in objects],
    }
    text = json.dumps(about, separators=(",", ":")).encode()
    return b"".join([_LENGTH.pack(len(text)), text, *(one.data for one in objects)])


def from_bytes(data: bytes, places: Places) -> Artifact:
    """What `to_bytes` made of an artifact; `places` are those of the encoder's program. Raises any Exception for other bytes."""
    about, code = _read(data)
    function = Decoder(about["nodes"], places).value(about["function"])
    sites = tuple((kind, number, tuple(parts)) for kind, number, parts in about["sites"])
    rows = tuple((number, part) for number, part in about["rows"])
    return Artifact(code, function, sites, about["exchange_words"], rows)


def code_from_bytes(data: bytes) -> Code:
    """The code alone, of whatever program. Raises as `from_bytes` does."""
    return _read(data)[1]


def _read(data: bytes) -> tuple[dict[str, Any], Code]:
    (length,) = _LENGTH.unpack_from(data)
    start = _LENGTH.size + length
    about = json.loads(data[_LENGTH.size : start])
    objects: list[Code] = []
    for size, names, uses, needs in about["objects"]:
        code = data[start : start + size]
        if len(code) != size or not is_object(code):
            raise ValueError("not an object file")
        objects.append(Code(code, tuple(names), tuple(uses), tuple(objects[place] for place in needs)))
        start += size
    return about, objects[-1]
