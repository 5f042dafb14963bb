"""What can still be read of a damaged checkpoint, for people to look at: never for a program to load."""

from __future__ import annotations

import math
import struct
import zlib
from typing import Any, BinaryIO

import numpy as np

from shapescript.runtime import zip_format as z
from shapescript.runtime.file_errors import UnusableFileError
from shapescript.runtime.pickle_reader import read_pickle
from shapescript.runtime.pickle_tensors import LostTensor, Storages
from shapescript.runtime.safetensors_format import DTYPES, read_header, tree_of
from shapescript.runtime.zip_reader import ZipReader

Tree = dict[str, Any]


def salvaged_torch(file: BinaryIO, size: int) -> Tree:
    """The tree of a `.pt` file whose pickle is whole; a tensor whose bytes are damaged or missing is a LostTensor.

    Raises UnusableFileError where the pickle can't be read either.
    """
    try:
        members = ZipReader(file).members
    except UnusableFileError:
        members = _members_from_the_front(file, size)
    pickles = [name for name in members if name.count("/") == 1 and name.endswith("/data.pkl")]
    if len(pickles) != 1:
        raise UnusableFileError("the member data.pkl isn't there")
    root = pickles[0].removesuffix("data.pkl")

    def whole(name: str) -> bytes | None:
        member = members.get(name)
        return None if member is None else _stored_bytes(file, member, size)

    pickle = whole(pickles[0])
    if pickle is None:
        raise UnusableFileError("the member data.pkl is damaged")
    tree = read_pickle(pickle, Storages(lambda key: whole(f"{root}data/{key}"), widen=False))
    if not isinstance(tree, dict):
        raise UnusableFileError("it holds no values with names")
    return tree


def _stored_bytes(file: BinaryIO, member: z.Member, size: int) -> bytes | None:
    """The member's bytes where they are all there and have their checksum."""
    if member.data + member.size > size:
        return None
    file.seek(member.data)
    data = file.read(member.size)
    return data if zlib.crc32(data) == member.crc else None


def _members_from_the_front(file: BinaryIO, size: int) -> dict[str, z.Member]:
    """The members that stand one behind the other from the first byte on, though the directory behind them is damaged or missing."""
    members: dict[str, z.Member] = {}
    at = 0
    while at + z.LOCAL.size <= size:
        file.seek(at)
        fields = z.LOCAL.unpack(file.read(z.LOCAL.size))
        crc, length, name_length, extra_length = fields[6], fields[7], fields[9], fields[10]
        if fields[0] != z.LOCAL_SIGNATURE or fields[2] & z.SIZES_FOLLOW_FLAG or length == z.FULL32:
            break
        name = file.read(name_length).decode("utf-8", "replace")
        data = at + z.LOCAL.size + name_length + extra_length
        members[name] = z.Member(name, crc, length, at, data)
        at = data + length
    return members


def salvaged_safetensors(file: BinaryIO, size: int) -> Tree:
    """The tree of a `.safetensors` file whose header is whole; a tensor whose bytes aren't all there is a LostTensor.

    The numbers of the others are what the file holds now. Raises UnusableFileError where the header can't be read.
    """
    header = read_header(file, size)
    arrays: dict[str, Any] = {}
    for name, told in header.tensors.items():
        try:
            arrays[name] = _tensor(file, header.data, size, told)
        except (KeyError, TypeError, ValueError, OverflowError, struct.error) as error:
            raise UnusableFileError(f"what it says of the tensor {name} can't be") from error
    return tree_of(header, arrays)


def _tensor(file: BinaryIO, begin: int, size: int, told: Any) -> Any:
    shape, dtype, (start, end) = tuple(told["shape"]), DTYPES[told["dtype"]], told["data_offsets"]
    if any(type(number) is not int or number < 0 for number in (*shape, start, end)) or math.prod(shape) * dtype.itemsize != end - start:
        raise ValueError("shape and place don't fit")
    if begin + end > size:
        return LostTensor(dtype, shape)
    file.seek(begin + start)
    return np.frombuffer(file.read(end - start), dtype).reshape(shape)
