"""Texts and vocabularies: the host reads files and decodes."""

from __future__ import annotations

from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.types import INT, STRING, VOCABULARY, Element, TensorType, Type
from shapescript.compiler.ops.table import Host, NoDerivative, OpEntry, attribute, register, require

TEXT_UNITS = ("characters", "bytes", "lines")


def _kinds(op: Op) -> list[Type]:
    return [operand.type for operand in op.operands]


# ---- datasets ---------------------------------------------------------------------------------------------------------------------------


def _infer_load_text(op: Op) -> tuple[Type, ...]:
    require(_kinds(op) in ([STRING], [STRING, VOCABULARY]), op, "takes a path, and may take a vocabulary")
    require(attribute(op, "unit") in TEXT_UNITS, op, "the examples are windows of characters or bytes, or lines")
    return (attribute(op, "dataset"),)


# load_text(path[, vocabulary]) {dataset, unit}: all windows of a text, or its lines. R1201, R1202, R1203. As for load_data, the dataset's
# rows symbol gets its size here.
register(OpEntry("load_text", _infer_load_text, NoDerivative.ZERO, Host("load_text"), ordered=True))


# ---- vocabularies -----------------------------------------------------------------------------------------------------------------------


def _infer_vocabulary(op: Op) -> tuple[Type, ...]:
    require(_kinds(op) == ([STRING] if op.name == "vocabulary" else []), op, "takes a path, that of bytes nothing")
    return (VOCABULARY,)


def _infer_decode(op: Op) -> tuple[Type, ...]:
    vocabulary, ids = _kinds(op)
    is_ids = isinstance(ids, TensorType) and ids.element is Element.I64 and ids.rank == 1
    require(vocabulary == VOCABULARY and is_ids, op, "takes a vocabulary, and ids along one axis")
    return (STRING,)


def _infer_of_text(op: Op) -> tuple[Type, ...]:
    require(_kinds(op) == [VOCABULARY, STRING], op, "takes a vocabulary and a text")
    return (TensorType(Element.I64, (attribute(op, "size"),)),) if op.name == "encode" else (INT,)


# vocabulary(path): the characters of a text. R1201, R1202. byte_vocabulary(): the values of a byte.
register(OpEntry("vocabulary", _infer_vocabulary, NoDerivative.ZERO, Host("vocabulary"), ordered=True))
register(OpEntry("byte_vocabulary", _infer_vocabulary, NoDerivative.ZERO, Host("byte_vocabulary")))
# decode(vocabulary, ids): their text. R1203.
register(OpEntry("decode", _infer_decode, NoDerivative.ZERO, Host("decode"), ordered=True))
# encode_one(vocabulary, text): the id of the text's only character. R1203.
register(OpEntry("encode_one", _infer_of_text, NoDerivative.ZERO, Host("encode_one"), ordered=True))
# encoded_size(vocabulary, text): how many ids the text has. encode(vocabulary, text) {size}: these ids. R1203.
register(OpEntry("encoded_size", _infer_of_text, NoDerivative.ZERO, Host("encoded_size"), ordered=True))
register(OpEntry("encode", _infer_of_text, NoDerivative.ZERO, Host("encode"), ordered=True))
