"""PyTorch's `.pt` format without PyTorch: a zip archive of a pickle and one member for each storage.

What `torch.save` writes since PyTorch 1.6: `data.pkl`, `byteorder`, `data/0`, `data/1`, … and `version` in one folder, data at
multiples of 64 bytes. The same tree gives the same bytes.
"""

from __future__ import annotations

from typing import Any, BinaryIO

from shapescript.runtime.arrays import canonical_nan
from shapescript.runtime.file_errors import DamagedFileError, UnusableFileError
from shapescript.runtime.pickle_reader import read_pickle
from shapescript.runtime.pickle_tensors import Storages
from shapescript.runtime.pickle_writer import pickled
from shapescript.runtime.zip_reader import ZipReader
from shapescript.runtime.zip_writer import ZipWriter

_ROOT = "archive"
_VERSION, _NEWEST_VERSION = b"3\n", 10
_LEGACY_START = bytes.fromhex("80028a0a6cfc9c46f9206aa85019")  # the pickled magic number that torch.save wrote before 1.6


def write_torch(file: BinaryIO, tree: dict[str, Any]) -> None:
    """Write a tree of dicts, lists, tuples, host values and NumPy arrays. Raises TypeError for any other value."""
    pickle, arrays = pickled(tree)
    archive = ZipWriter(file)
    archive.add(f"{_ROOT}/data.pkl", pickle)
    archive.add(f"{_ROOT}/.format_version", b"1")
    archive.add(f"{_ROOT}/.storage_alignment", b"64")
    archive.add(f"{_ROOT}/byteorder", b"little")
    for key, array in enumerate(arrays):
        archive.add(f"{_ROOT}/data/{key}", canonical_nan(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
    archive.add(f"{_ROOT}/version", _VERSION)
    archive.finish()


def read_torch(file: BinaryIO, widen: bool = False) -> Any:
    """The tree in a file: OrderedDicts come as dicts, tensors as read-only arrays that may share memory with each other.

    With `widen` tensors of bf16 come as the float32 numbers that they hold. Every byte of the file that carries meaning is checked.
    Raises TruncatedFileError, DamagedFileError, UnusableFileError.
    """
    archive, root = opened_archive(file)
    unread = set(archive.members)

    def storage(key: str) -> bytes:
        unread.discard(f"{root}/data/{key}")
        return archive.read(f"{root}/data/{key}")

    unread.discard(f"{root}/data.pkl")
    tree = read_pickle(archive.read(f"{root}/data.pkl"), Storages(storage, widen))
    for name in unread:
        archive.read(name)  # for its checksum
    return tree


def opened_archive(file: BinaryIO) -> tuple[ZipReader, str]:
    """The archive that a file is, and the folder in it that has the pickle. Raises UnusableFileError."""
    if file.read(len(_LEGACY_START)) == _LEGACY_START:
        raise UnusableFileError("it was written by PyTorch before 1.6; load it there and torch.save it again", "version")
    archive = ZipReader(file)
    pickles = [name for name in archive.members if name.count("/") == 1 and name.endswith("/data.pkl")]
    if len(pickles) != 1:
        raise DamagedFileError("it holds no data.pkl, as files of torch.save do")
    root = pickles[0].removesuffix("/data.pkl")
    _check_version(archive, root)
    return archive, root


def _check_version(archive: ZipReader, root: str) -> None:
    if f"{root}/constants.pkl" in archive.members:
        raise UnusableFileError("it is a TorchScript program, not a checkpoint", "version")
    version = archive.read(f"{root}/version").strip()
    if not version.isdigit() or not 1 <= int(version) <= _NEWEST_VERSION:
        raise UnusableFileError(f"it has version {version.decode('ascii', 'replace')} of PyTorch's format", "version")
    order = f"{root}/byteorder"
    if order in archive.members and archive.read(order) != b"little":
        raise UnusableFileError("its numbers are in big-endian order", "version")
