"""Reads zip archives of stored members strictly: every byte that carries meaning is checked, nothing is read on trust.

A flipped byte is found by a member's CRC-32 or by a disagreement between directory and headers; a truncated file by the
directory that is missing at its end.
"""

from __future__ import annotations

import os
import struct
import zlib
from typing import BinaryIO

from shapescript.runtime import zip_format as z
from shapescript.runtime.file_errors import DamagedFileError, TruncatedFileError


class ZipReader:
    """An archive whose directory has been checked against the file's size and the members' headers."""

    def __init__(self, file: BinaryIO) -> None:
        """Raises TruncatedFileError or DamagedFileError."""
        self._file = file
        self._size = os.fstat(file.fileno()).st_size
        start, size, count = self._directory_place()
        self.members: dict[str, z.Member] = {}
        previous_end = 0
        for entry in sorted(self._entries(start, size, count), key=lambda entry: entry.header):
            if entry.header < previous_end:
                raise DamagedFileError(f"{entry.name} overlaps another member")
            member = self._located(entry, start)
            previous_end = member.data + member.size
            if member.name in self.members:
                raise DamagedFileError(f"two members are called {member.name}")
            self.members[member.name] = member

    def read(self, name: str) -> bytes:
        """A member's bytes, whose CRC-32 has been compared. Raises DamagedFileError."""
        member = self.members.get(name)
        if member is None:
            raise DamagedFileError(f"{name} is missing")
        data = self._bytes(member.data, member.size)
        if (found := zlib.crc32(data)) != member.crc:
            raise DamagedFileError(f"{name} has checksum {found:08x}, not {member.crc:08x}")
        return data

    def _bytes(self, start: int, size: int) -> bytes:
        if start < 0 or start + size > self._size:
            raise DamagedFileError(f"it points to byte {start + size}, behind its end at {self._size}")
        self._file.seek(start)
        data = self._file.read(size)
        if len(data) != size:
            raise TruncatedFileError(f"it ends at byte {start + len(data)}, not {start + size}")
        return data

    def _directory_place(self) -> tuple[int, int, int]:
        """The directory's first byte, its size and its number of entries."""
        end = self._size - z.END.size
        if end < 0 or self._bytes(end, 4) != z.END_SIGNATURE:
            self._explain_missing_end()
        _, disk, start_disk, here, count, size, start, comment = z.END.unpack(self._bytes(end, z.END.size))
        if disk or start_disk or here != count or comment:
            raise DamagedFileError("its end record doesn't fit")
        if count == z.FULL16 or z.FULL32 in (size, start):
            start, size, count, end = self._wide_place(end - z.LOCATOR.size)
        # PyTorch writes the zip64 records always, behind a plain one whose numbers hold where they fit.
        if end - (start + size) not in (0, z.END64.size + z.LOCATOR.size):
            raise DamagedFileError("its directory doesn't lie before its end")
        return start, size, count

    def _wide_place(self, locator: int) -> tuple[int, int, int, int]:
        signature, _, end64, _ = z.LOCATOR.unpack(self._bytes(locator, z.LOCATOR.size))
        record = z.END64.unpack(self._bytes(end64, z.END64.size))
        if signature != z.LOCATOR_SIGNATURE or record[0] != z.END64_SIGNATURE:
            raise DamagedFileError("its zip64 end record is missing")
        *_, here, count, size, start = record
        if here != count:
            raise DamagedFileError("its zip64 end record doesn't fit")
        return start, size, count, end64

    def _entries(self, start: int, size: int, count: int) -> list[z.Member]:
        directory = self._bytes(start, size)
        entries, at = [], 0
        for _ in range(count):
            if at + z.CENTRAL.size > size or directory[at : at + 4] != z.CENTRAL_SIGNATURE:
                raise DamagedFileError("its directory doesn't hold what its end record says")
            fields = z.CENTRAL.unpack_from(directory, at)
            flags, method, crc, packed, full, name_length, extra_length, comment_length = (fields[i] for i in (3, 4, 7, 8, 9, 10, 11, 12))
            header = fields[16]
            at += z.CENTRAL.size
            name = _name(directory[at : at + name_length])
            extra = directory[at + name_length : at + name_length + extra_length]
            at += name_length + extra_length + comment_length
            full, packed, header = _widened(name, extra, (full, packed, header))
            if method != z.STORED or flags & z.ENCRYPTED_FLAG or packed != full:
                raise DamagedFileError(f"{name} is compressed or encrypted")
            entries.append(z.Member(name, crc, full, header, -1))
        if at != size:
            raise DamagedFileError("its directory doesn't hold what its end record says")
        return entries

    def _located(self, entry: z.Member, directory: int) -> z.Member:
        """The entry with the place of its data, its local header compared with the directory."""
        fields = z.LOCAL.unpack(self._bytes(entry.header, z.LOCAL.size))
        signature, flags, method, crc, packed, full, name_length, extra_length = (fields[i] for i in (0, 2, 3, 6, 7, 8, 9, 10))
        name = _name(self._bytes(entry.header + z.LOCAL.size, name_length))
        extra = self._bytes(entry.header + z.LOCAL.size + name_length, extra_length)
        data = entry.header + z.LOCAL.size + name_length + extra_length
        same = signature == z.LOCAL_SIGNATURE and name == entry.name and method == z.STORED
        if same and not flags & z.SIZES_FOLLOW_FLAG:
            full, packed, _ = _widened(name, extra, (full, packed, 0))
            same = (crc, full, packed) == (entry.crc, entry.size, entry.size)
        if not same or data + entry.size > directory:
            raise DamagedFileError(f"the header of {entry.name} isn't what the directory says")
        return entry._replace(data=data)

    def _explain_missing_end(self) -> None:
        """Raise what fits a file without an end record at its end, by walking its records from the front."""
        if not z.LOCAL_SIGNATURE.startswith(self._bytes(0, min(4, self._size))):
            raise DamagedFileError("it is no zip archive")
        at = 0
        while at < self._size:
            signature = self._prefix(at, 4)
            if signature == z.LOCAL_SIGNATURE:
                fields = z.LOCAL.unpack(self._prefix(at, z.LOCAL.size))
                name_length, extra_length = fields[9], fields[10]
                packed = fields[7]
                if fields[2] & z.SIZES_FOLLOW_FLAG or packed == z.FULL32:
                    break
                at += z.LOCAL.size + name_length + extra_length + packed
            elif signature == z.CENTRAL_SIGNATURE:
                fields = z.CENTRAL.unpack(self._prefix(at, z.CENTRAL.size))
                at += z.CENTRAL.size + fields[10] + fields[11] + fields[12]
            elif signature == z.END64_SIGNATURE:
                at += z.END64.size
            elif signature == z.LOCATOR_SIGNATURE:
                at += z.LOCATOR.size
            elif signature == z.END_SIGNATURE and self._size - at >= z.END.size:
                raise DamagedFileError("bytes follow its end")
            else:
                self._prefix(at, z.END.size)
                raise DamagedFileError(f"byte {at} begins no record of an archive")
        raise TruncatedFileError(f"it ends at byte {self._size}, before {'its end record' if at <= self._size else f'byte {at}'}")

    def _prefix(self, at: int, size: int) -> bytes:
        if at + size > self._size:
            raise TruncatedFileError(f"it ends at byte {self._size}, before byte {at + size}")
        return self._bytes(at, size)


def _name(encoded: bytes) -> str:
    try:
        return encoded.decode()
    except UnicodeDecodeError:
        raise DamagedFileError(f"a member's name isn't UTF-8: {encoded!r}") from None


def _widened(name: str, extra: bytes, shown: tuple[int, int, int]) -> list[int]:
    """Sizes and offset, those that say so replaced by the values in the zip64 extra field, in its order."""
    if z.FULL32 not in shown:
        return list(shown)
    at = 0
    while at + 4 <= len(extra):
        tag, length = struct.unpack_from("<2H", extra, at)
        if tag == z.ZIP64_EXTRA:
            count = sum(value == z.FULL32 for value in shown)
            if length < 8 * count or at + 4 + 8 * count > len(extra):
                break
            wide = iter(struct.unpack_from(f"<{count}Q", extra, at + 4))
            return [next(wide) if value == z.FULL32 else value for value in shown]
        at += 4 + length
    raise DamagedFileError(f"the size of {name} is missing")
