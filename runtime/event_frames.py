"""The frames of TensorBoard's event files: length, its checksum, the event, its checksum. Checksums are CRC-32C, masked."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO

_POLYNOMIAL = 0x82F63B78  # of CRC-32C, its bits reversed
_HEAD, _CHECKSUM = struct.Struct("<Q"), struct.Struct("<I")
_MASK_DELTA = 0xA282EAD8


def _table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
        table.append(byte)
    return tuple(table)


_TABLE = _table()


def frame(event: bytes) -> bytes:
    """An event as it stands in a file."""
    length = _HEAD.pack(len(event))
    return length + masked_checksum(length) + event + masked_checksum(event)


def whole_frames(content: BinaryIO) -> Iterator[bytes]:
    """The frames of a file, from its begin; one that is torn or damaged ends them."""
    size = content.seek(0, 2)
    content.seek(0)
    while True:
        begin = content.read(_HEAD.size + _CHECKSUM.size)
        length = begin[: _HEAD.size]
        if len(begin) < _HEAD.size + _CHECKSUM.size or begin[_HEAD.size :] != masked_checksum(length):
            return
        (count,) = _HEAD.unpack(length)
        if count + _CHECKSUM.size > size - content.tell():
            return
        rest = content.read(count + _CHECKSUM.size)
        if rest[count:] != masked_checksum(rest[:count]):
            return
        yield begin + rest


def masked_checksum(data: bytes) -> bytes:
    value = 0xFFFFFFFF
    for byte in data:
        value = _TABLE[(value ^ byte) & 0xFF] ^ value >> 8
    value ^= 0xFFFFFFFF
    return _CHECKSUM.pack(((value >> 15 | value << 17) + _MASK_DELTA) & 0xFFFFFFFF)
