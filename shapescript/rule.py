"""What a parameter takes from Python: the contract of all kinds of parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from shapescript.axes import Sizes
from shapescript.compiler.check.types import Type
from shapescript.runtime.errors import ArgumentError
from shapescript.runtime.mode import Train


class Rule(ABC):
    """Prepared once, applied at every call: checks a value, binds the sizes that it shows, appends what the engine gets
    (compiler/ops/protocol.py)."""

    __slots__ = ("name", "type")

    def __init__(self, name: str, type_: Type) -> None:
        self.name, self.type = name, type_

    @abstractmethod
    def take(self, value: Any, sizes: Sizes, arguments: list[Any]) -> None:
        """Raises ArgumentError R1001 to R1006, or DisagreementError."""

    def seen(self, value: Any) -> str | None:
        """What a value that was taken looks like, for messages; None for one that shows no sizes."""
        return None

    def wrong_type(self, wanted: str, value: Any) -> ArgumentError:
        if isinstance(value, type):
            hint = "; a value is needed, not the class" + (": Train(seed=0)" if value is Train else "")
            return ArgumentError("R1004", f"{self.name}: expected {wanted}, got the class {value.__name__}{hint}")
        return ArgumentError("R1004", f"{self.name}: expected {wanted}, got {type(value).__name__}")
