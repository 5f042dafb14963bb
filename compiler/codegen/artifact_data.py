"""Artifacts as bytes, and back: the function and its sites as JSON, of the form of ir/data.py, and behind them the machine code."""

from __future__ import annotations

import json
import struct

from shapescript.compiler.codegen.program import Artifact
from shapescript.compiler.ir.data import Decoder, Encoder, Places

_LENGTH = struct.Struct("<Q")


def to_bytes(artifact: Artifact, program: Encoder) -> bytes:
    """`program` has encoded what the artifact was compiled from. Raises Unencodable."""
    encoder = program.of_what_became()
    about = {
        "function": encoder.value(artifact.function),
        "nodes": encoder.nodes,
        "sites": artifact.sites,
        "exchange_words": artifact.exchange_words,
        "rows": artifact.rows,
    }
    text = json.dumps(about, separators=(",", ":")).encode()
    return _LENGTH.pack(len(text)) + text + artifact.code


def from_bytes(data: bytes, places: Places) -> Artifact:
    """What `to_bytes` made of an artifact; `places` are those of the encoder's program. Raises any Exception for other bytes."""
    (length,) = _LENGTH.unpack_from(data)
    start = _LENGTH.size + length
    about = json.loads(data[_LENGTH.size : start])
    function = Decoder(about["nodes"], places).value(about["function"])
    sites = tuple((kind, number, tuple(parts)) for kind, number, parts in about["sites"])
    rows = tuple((number, part) for number, part in about["rows"])
    return Artifact(data[start:], function, sites, about["exchange_words"], rows)
