"""What a checkpoint's file tells of itself at a look: nothing of its tensors is read, and nothing checked that isn't read."""

from __future__ import annotations

import os
from typing import Any, BinaryIO

import numpy as np

from shapescript.runtime.entries import FACTS
from shapescript.runtime.files import regular_file
from shapescript.runtime.formats import is_safetensors
from shapescript.runtime.pickle_reader import read_pickle
from shapescript.runtime.pickle_tensors import LostTensor, Storages
from shapescript.runtime.safetensors_format import read_header, tree_of
from shapescript.runtime.torch_format import opened_archive


def outlined_step(path: str | os.PathLike[str]) -> int | None:
    """The step in a file's facts, None where it has none. Raises OSError, UnusableFileError."""
    with regular_file(path).open("rb") as file:
        tree = _safetensors(file) if is_safetensors(path) else _torch(file)
    facts = tree.get(FACTS) if isinstance(tree, dict) else None
    step = facts.get("step") if isinstance(facts, dict) else None
    return step if type(step) is int and step >= 0 else None


def _torch(file: BinaryIO) -> Any:
    archive, root = opened_archive(file)
    return read_pickle(archive.read(f"{root}/data.pkl"), Storages(lambda key: None, widen=False))


def _safetensors(file: BinaryIO) -> Any:
    header = read_header(file, os.fstat(file.fileno()).st_size)
    return tree_of(header, {name: LostTensor(np.dtype(np.uint8), ()) for name in header.tensors})
