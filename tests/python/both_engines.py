"""A program in both engines: each call is made in the reference evaluator too, and must give the same bytes."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np

import shapescript


class Both:
    """`call` calls a function in native code, and before it in the reference evaluator with copies of the arguments."""

    def __init__(self, folder: Path, text: str, **dims: int) -> None:
        path = folder / "program.ss"
        path.write_text(text)
        self.native: Any = shapescript.load(path, dims)
        self.reference: Any = shapescript.load(path, dims, engine="numpy")

    def call(self, name: str, *arguments: Any) -> Any:
        apart = [copy.deepcopy(argument) for argument in arguments]
        wanted, found = getattr(self.reference, name)(*apart), getattr(self.native, name)(*arguments)
        assert contents(found) == contents(wanted), name
        assert contents(arguments) == contents(apart), name
        return found


def contents(value: Any) -> Any:
    """What two equal values have in common, to the bit."""
    match value:
        case shapescript.Model():
            return {name: contents(array) for name, array in value.state_dict().items()}
        case np.ndarray():
            return value.dtype.str, value.shape, value.tobytes()
        case float():
            return np.float64(value).tobytes()
        case tuple() | list():
            return [contents(part) for part in value]
        case shapescript.Train():
            return value.seed, value.draws
        case bool() | int() | str() | None:
            return value
    return type(value)
