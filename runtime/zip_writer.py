"""Writes zip archives of stored members whose data begins at multiples of 64 bytes: the same members give the same bytes."""

from __future__ import annotations

import struct
import zlib
from typing import BinaryIO

from shapescript.runtime import zip_format as z
from shapescript.runtime.arrays import ALIGNMENT

_PADDING_EXTRA = 0x4246  # "FB", as PyTorch marks its padding
_VERSION, _VERSION64 = 20, 45


class ZipWriter:
    """Adds members to a file that begins empty; `finish` writes the directory."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._end = 0
        self._members: list[z.Member] = []

    def add(self, name: str, data: bytes) -> None:
        encoded = name.encode()
        header, size, crc = self._end, len(data), zlib.crc32(data)
        large = size >= z.FULL32
        extra = struct.pack("<2H2Q", z.ZIP64_EXTRA, 16, size, size) if large else b""
        unpadded = header + z.LOCAL.size + len(encoded) + len(extra) + 4
        padding = -unpadded % ALIGNMENT
        extra += struct.pack("<2H", _PADDING_EXTRA, padding) + bytes(padding)
        shown = z.FULL32 if large else size
        version = _VERSION64 if large else _VERSION
        sizes = (crc, shown, shown, len(encoded), len(extra))
        local = z.LOCAL.pack(z.LOCAL_SIGNATURE, version, z.UTF8_FLAG, z.STORED, 0, z.DATE_1980, *sizes)
        for part in (local, encoded, extra, data):
            self._write(part)
        self._members.append(z.Member(name, crc, size, header, unpadded + padding))

    def finish(self) -> None:
        start = self._end
        for member in self._members:
            self._write(_central(member))
        count, size = len(self._members), self._end - start
        if count >= z.FULL16 or start >= z.FULL32 or size >= z.FULL32:
            end64 = self._end
            rest = z.END64.size - 12
            self._write(z.END64.pack(z.END64_SIGNATURE, rest, _VERSION64, _VERSION64, 0, 0, count, count, size, start))
            self._write(z.LOCATOR.pack(z.LOCATOR_SIGNATURE, 0, end64, 1))
        shown_count, shown_size, shown_start = min(count, z.FULL16), min(size, z.FULL32), min(start, z.FULL32)
        self._write(z.END.pack(z.END_SIGNATURE, 0, 0, shown_count, shown_count, shown_size, shown_start, 0))

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self._end += len(data)


def _central(member: z.Member) -> bytes:
    encoded = member.name.encode()
    wide = [n for n in (member.size, member.size, member.header) if n >= z.FULL32]
    extra = struct.pack(f"<2H{len(wide)}Q", z.ZIP64_EXTRA, 8 * len(wide), *wide) if wide else b""
    version = _VERSION64 if wide else _VERSION
    size, header = min(member.size, z.FULL32), min(member.header, z.FULL32)
    lengths = (len(encoded), len(extra), 0, 0, 0, 0)
    fixed = z.CENTRAL.pack(
        z.CENTRAL_SIGNATURE, version, version, z.UTF8_FLAG, z.STORED, 0, z.DATE_1980, member.crc, size, size, *lengths, header
    )
    return fixed + encoded + extra
