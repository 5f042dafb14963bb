"""Which format a checkpoint has: its name's ending decides, `.safetensors` or, for any other, PyTorch's."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, BinaryIO

from shapescript.runtime.safetensors_format import SUFFIX, needed_package, read_safetensors
from shapescript.runtime.safetensors_writer import content_of, write_safetensors
from shapescript.runtime.torch_format import read_torch, write_torch

PathLike = str | os.PathLike[str]


def is_safetensors(path: PathLike) -> bool:
    return os.fspath(path).lower().endswith(SUFFIX)


def writer_of(path: PathLike, tree: dict[str, Any]) -> Callable[[BinaryIO], None]:
    """What writes the tree in the format of `path`.

    Raises ArgumentError R1001 or R1004 for a tree that the format can't hold, PackageMissing R1502 where its package isn't installed.
    """
    if not is_safetensors(path):
        return lambda file: write_torch(file, tree)
    needed_package()
    content = content_of(tree)
    return lambda file: write_safetensors(file, content)


def read_tree(path: PathLike, file: BinaryIO, widen: bool = False) -> Any:
    """The tree in a file that is called `path`; with `widen` tensors of bf16 come as float32.

    Raises UnusableFileError, PackageMissing R1502.
    """
    return read_safetensors(file, widen) if is_safetensors(path) else read_torch(file, widen)
