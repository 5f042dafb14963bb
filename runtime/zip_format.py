"""The parts of the zip format that checkpoints use: stored members, zip64 where sizes need it.

Source of the layouts: PKWARE's APPNOTE.TXT 6.3, sections 4.3.7, 4.3.12, 4.3.14 to 4.3.16 and 4.5.3.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

LOCAL_SIGNATURE, CENTRAL_SIGNATURE = b"PK\x03\x04", b"PK\x01\x02"
END_SIGNATURE, END64_SIGNATURE, LOCATOR_SIGNATURE = b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07"

# signature, version, flags, method, time, date, crc, size in file, size, length of name, length of extra
LOCAL = struct.Struct("<4s5H3L2H")
# signature, version made by, version, flags, method, time, date, crc, size in file, size,
# lengths of name, extra and comment, disk, two attributes, offset of the local header
CENTRAL = struct.Struct("<4s6H3L5H2L")
# signature, disk, directory's disk, entries here, entries, directory's size, directory's offset, length of comment
END = struct.Struct("<4s4H2LH")
# signature, size of the rest, two versions, two disks, entries here, entries, directory's size, directory's offset
END64 = struct.Struct("<4sQ2H2L4Q")
# signature, disk, offset of the zip64 end, number of disks
LOCATOR = struct.Struct("<4sLQL")

FULL16, FULL32 = 0xFFFF, 0xFFFFFFFF  # "look in the zip64 field"
ZIP64_EXTRA = 1
STORED = 0
SIZES_FOLLOW_FLAG, ENCRYPTED_FLAG, UTF8_FLAG = 0x0008, 0x0001, 0x0800
DATE_1980 = 0x21


class Member(NamedTuple):
    """A stored member: its name, CRC-32, size, and the places of its local header and its data in the file."""

    name: str
    crc: int
    size: int
    header: int
    data: int
