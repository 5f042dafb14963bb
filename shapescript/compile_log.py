"""What `SHAPESCRIPT_LOG=compile` tells on the error stream: a line for what is compiled or loaded, with cause and times."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from shapescript.cache_settings import is_logged
from shapescript.compiler.ir.nodes import Function
from shapescript.compiler.ir.sizes import Size, Symbol
from shapescript.failures import say


def told(function: Function, sizes: Mapping[Symbol, Size]) -> str:
    """A function with its dims, and where it is."""
    what = function.name
    if sizes:
        what += f"[{', '.join(f'{symbol}={size.constant()}' for symbol, size in sizes.items())}]"
    if function.span is not None:
        what += f" ({Path(function.span.source.path).name}:{function.span.line})"
    return what


class CompileLog:
    """One piece of code on its way. `wanted` is whether anybody reads it. Raises ArgumentError as `is_logged` does."""

    def __init__(self, what: str) -> None:
        self.wanted, self._what = is_logged("compile"), what
        self._parts: list[str] = []
        self._begun = self._last = time.perf_counter()

    def done(self, part: str) -> None:
        """A part ends here, and the next begins."""
        now = time.perf_counter()
        self._parts.append(f"{part} {now - self._last:.3f} s")
        self._last = now

    def compiled(self, cause: str) -> None:
        self._say(f"compiled {self._what}: {cause}; {', '.join(self._parts)}")

    def loaded(self) -> None:
        self._say(f"loaded {self._what} from the cache: {time.perf_counter() - self._begun:.3f} s")

    def not_kept(self, why: str) -> None:
        self._say(f"not kept {self._what}: {why}")

    def _say(self, text: str) -> None:
        if self.wanted:
            say(f"shapescript: {text}")
