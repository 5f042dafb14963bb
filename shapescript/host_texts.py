"""Texts and vocabularies, as an engine's host makes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.types import DatasetType
from shapescript.handles import DatasetHandle
from shapescript.layouts import Layouts
from shapescript.runtime.errors import DataError
from shapescript.runtime.npz import find_data_file
from shapescript.runtime.texts import load_bytes, load_lines, load_text, read_text
from shapescript.runtime.vocabulary import ByteVocabulary, Vocabulary

BYTES = ByteVocabulary()

Handler = Callable[[Op, Sequence[Any]], Sequence[Any]]


class TextHost:
    """What one program's host does for texts; `folder` is where its file lies."""

    def __init__(self, layouts: Layouts, folder: Path) -> None:
        self._layouts, self._folder = layouts, folder
        self.handlers: dict[str, Handler] = {
            "load_text": self._load_text,
            "vocabulary": lambda op, operands: (Vocabulary.of_text(read_text(self._found(operands[0]))),),
            "byte_vocabulary": lambda op, operands: (BYTES,),
            "decode": lambda op, operands: (operands[0].decode(operands[1]),),
            "encode_one": lambda op, operands: (_only_id(*operands),),
            "encoded_size": lambda op, operands: (len(operands[0].encode(operands[1])),),
            "encode": lambda op, operands: (operands[0].encode(operands[1]),),
        }

    def _load_text(self, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
        kind = op.result.type
        assert isinstance(kind, DatasetType)
        path, *vocabulary = operands
        record, place = self._layouts.dataset(kind), self._found(path)
        load = {"characters": load_text, "bytes": load_bytes, "lines": load_lines}[op.attributes["unit"]]
        return (DatasetHandle(load(record, place, *vocabulary)),)

    def _found(self, path: str) -> Path:
        return find_data_file(path, (self._folder, Path.cwd()))


def _only_id(vocabulary: Vocabulary, text: str) -> int:
    ids = vocabulary.encode(text)
    if len(ids) != 1:
        raise DataError("R1203", f"encode_one: {text!r} is {len(ids)} ids, not one")
    return int(ids[0])
