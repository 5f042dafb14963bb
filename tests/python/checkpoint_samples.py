"""What the tests of checkpoints share: small models, notices, and what a folder holds."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import shapescript
from shapescript.runtime.notices import listening


@contextmanager
def notices() -> Iterator[list[str]]:
    """What is told inside."""
    told: list[str] = []
    with listening(told.append):
        yield told


def folder_hash(folder: Path) -> dict[str, str]:
    """Every file below a folder with a hash of its bytes."""
    return {
        str(path.relative_to(folder)): hashlib.blake2b(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def state_hash(*values: Any) -> str:
    """Of models', optimisers', modes' and sinks' whole state."""
    digest = hashlib.blake2b()
    for value in values:
        match value:
            case shapescript.Model():
                digest.update(value.buffer.tobytes())
            case shapescript.Train():
                digest.update(f"{value.seed} {value.draws}".encode())
            case shapescript.LogSink():
                digest.update(repr(sorted(value.position().items())).encode())
            case _:
                digest.update(f"{value.step} {value.options}".encode())
                for name in value.slot_names:
                    digest.update(np.asarray(value.slot(name)).tobytes())
    return digest.hexdigest()
