"""Checkpoints as `.safetensors` files, through the package of that name.

A file holds tensors with names and a header of texts. Where one model has all tensors of a checkpoint, they have its bare dotted names, as
others expect; else a name begins with its entry's: "m.hidden.weight", "opt.first.hidden.weight". The rest of the checkpoint's tree is JSON
in the header's metadata, and before it a hash of the whole file, since the format has no checksum. The same tree gives the same bytes.

A file of others, without that, is one dict of names and tensors.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np

from shapescript.compiler.records.dataclass import dataclass
from shapescript.runtime.arrays import BF16, Array, widened
from shapescript.runtime.extras import optional_module
from shapescript.runtime.file_errors import DamagedFileError, TruncatedFileError, UnusableFileError
from shapescript.runtime.tree_texts import of_text, without_doubles

SUFFIX = ".safetensors"
LONGEST_HEADER = 100_000_000  # bytes: the package reads no longer one

ALIGNMENT = 8  # of the data, which spaces behind the header bring about
KEY = "shapescript"  # in the metadata
_CONTENT = re.compile(r"blake2b:([0-9a-f]{32}) (\{.*)", re.DOTALL)
NO_HASH = "0" * 32
METADATA = "__metadata__"
DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype(np.float64),
    "F32": np.dtype(np.float32),
    "F16": np.dtype(np.float16),
    "BF16": BF16,
    "I64": np.dtype(np.int64),
    "I32": np.dtype(np.int32),
    "I16": np.dtype(np.int16),
    "I8": np.dtype(np.int8),
    "U64": np.dtype(np.uint64),
    "U32": np.dtype(np.uint32),
    "U16": np.dtype(np.uint16),
    "U8": np.dtype(np.uint8),
    "BOOL": np.dtype(np.bool_),
    "C64": np.dtype(np.complex64),
}


def needed_package() -> Any:
    """Raises PackageMissing R1502."""
    return optional_module("safetensors", f"a {SUFFIX} file")


def hash_of(*parts: bytes | memoryview) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


@dataclass(frozen=True)
class Header:
    """What stands before the data: what is told of each tensor, where the data begin and end, and our own JSON with its hash."""

    tensors: Mapping[str, Any]
    data: int
    end: int
    text: str | None
    checksum: str

    @property
    def fits_itself(self) -> bool:
        """Whether tensors have the sizes of their shapes and lie one behind the other, as in a file that was only cut short."""
        end = 0
        try:
            for told in sorted(self.tensors.values(), key=lambda told: told["data_offsets"]):
                start, last = told["data_offsets"]
                if start != end or (told["dtype"] in DTYPES and math.prod(told["shape"]) * DTYPES[told["dtype"]].itemsize != last - start):
                    return False
                end = last
        except (KeyError, TypeError, ValueError):
            return False
        return True


def read_safetensors(file: BinaryIO, widen: bool = False) -> dict[str, Any]:
    """The tree in a file; with `widen` tensors of bf16 come as float32. The data are read once, and copied once by the package.

    Raises TruncatedFileError, DamagedFileError, UnusableFileError.
    """
    package = needed_package()
    size = os.fstat(file.fileno()).st_size
    header = read_header(file, size)
    if header.end > size:
        if not header.fits_itself:
            raise DamagedFileError("what its header says of its tensors doesn't fit")
        raise TruncatedFileError(f"it ends at byte {size}, before byte {header.end}")
    if header.end < size:
        raise DamagedFileError(f"it goes on behind byte {header.end}, where its tensors end")
    file.seek(0)
    data = file.read(size)
    if header.text is not None:
        check_hash(data, header)
    try:
        found = package.deserialize(data)
    except package.SafetensorError as error:
        raise DamagedFileError(str(error).removeprefix("Error while deserializing: ")) from error
    arrays = {name: _array(name, told, widen) for name, told in found}
    return tree_of(header, arrays)


def read_header(file: BinaryIO, size: int) -> Header:
    """The header of a file of `size` bytes, of which no more is read. Raises TruncatedFileError or DamagedFileError."""
    start = file.read(8)
    length = int.from_bytes(start, "little")
    return header_of(start + file.read(min(length, size) if length <= LONGEST_HEADER else 0), size)


def header_of(start: bytes, size: int) -> Header:
    """The header of a file of `size` bytes that begins with `start`. Raises TruncatedFileError or DamagedFileError."""
    if size < 8:
        raise TruncatedFileError(f"it ends at byte {size}, inside of its header's length")
    length = int.from_bytes(start[:8], "little")
    text = start[8 : 8 + length]
    if 8 + length > size:
        _explain_length(text, length, size)
    if length > LONGEST_HEADER:
        raise DamagedFileError(f"its header has {length} bytes, more than {LONGEST_HEADER}")
    try:
        told = json.loads(text.decode(), object_pairs_hook=without_doubles)
        metadata = told.pop(METADATA, {})
        end = 8 + length + max((int(each["data_offsets"][1]) for each in told.values()), default=0)
        texts = list(metadata.values())
        ours = [each for each in texts if _CONTENT.fullmatch(each)] or ([metadata[KEY]] if KEY in metadata else [])
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise DamagedFileError("its header isn't what such a file begins with") from error
    if not ours:
        return Header(told, 8 + length, end, None, "")
    match = _CONTENT.fullmatch(ours[0])
    if match is None or len(ours) > 1:
        raise DamagedFileError(f"what its metadata holds under {KEY!r} isn't what was written")
    return Header(told, 8 + length, end, match[2], match[1])


def _explain_length(text: bytes, length: int, size: int) -> None:
    """Raise what fits a header that would reach behind the end: the file is cut short, or the length is wrong."""
    cut = length <= LONGEST_HEADER and b"{".startswith(text[:1])
    try:
        decoded = text.decode("utf-8", "replace")
        _, end = json.JSONDecoder().raw_decode(decoded)
        cut = cut and not decoded[end:].strip(" ") and length - end < ALIGNMENT  # all that is missing is the padding
    except (ValueError, RecursionError):
        pass  # the text has no end yet
    if cut:
        raise TruncatedFileError(f"it ends at byte {size}, before byte {8 + length}")
    raise DamagedFileError(f"its header can't have {length} bytes")


def check_hash(data: bytes, header: Header) -> None:
    """Compare the file's bytes with the hash in them. Raises DamagedFileError."""
    place = data.find(f"blake2b:{header.checksum} ".encode(), 8, header.data) + len("blake2b:")
    view = memoryview(data)
    found = hash_of(view[:place], NO_HASH.encode(), view[place + len(NO_HASH) :])
    if place < 16 or found != header.checksum:
        raise DamagedFileError(f"its bytes have checksum {found}, not {header.checksum}")


def tree_of(header: Header, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The tree that a header describes, over its tensors. Raises DamagedFileError."""
    if header.text is None:
        return {name: arrays[name] for name in header.tensors}
    unused = dict(arrays)
    try:
        tree = of_text(header.text, unused.pop)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedFileError("what its metadata tells of the tensors doesn't fit them") from error
    if unused or not isinstance(tree, dict):
        raise DamagedFileError("what its metadata tells of the tensors doesn't fit them")
    return tree


def _array(name: str, told: Mapping[str, Any], widen: bool) -> Array:
    dtype = DTYPES.get(told["dtype"])
    if dtype is None:
        raise UnusableFileError(f"it holds the tensor {name} of {told['dtype']}, whose element type isn't supported", "dtype")
    data = told["data"]
    if dtype == np.bool_ and np.frombuffer(data, np.uint8).max(initial=0) > 1:
        raise DamagedFileError(f"the tensor {name} holds bools that are neither 0 nor 1")
    try:
        array: Array = np.frombuffer(data, dtype).reshape(told["shape"])
    except ValueError as error:
        raise DamagedFileError(f"the tensor {name} can't have the shape {told['shape']}") from error
    if widen:
        array = widened(array)
    array.flags.writeable = False
    return array
