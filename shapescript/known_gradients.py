"""Programs in which nothing is wrong with gradients, remembered in the cache: finding out takes longer than all other checking of a large
model, and it is the same for the same checked functions."""

from __future__ import annotations

import hashlib
import json

from shapescript.cache_settings import user_cache
from shapescript.code_digest import code_at_first, compiler_code
from shapescript.compiler.check.program import Program
from shapescript.compiler.ir.data import Encoder, Unencodable
from shapescript.compiler.ir.nodes import Module
from shapescript.object_cache import Damaged

WHO = hashlib.sha256(b"gradients").digest()


class KnownGradients:
    """What is known of one program. Raises ArgumentError as `user_cache` does."""

    def __init__(self, program: Program, module: Module) -> None:
        self._program, self._module = program, module
        self._cache = user_cache()
        self._code = code_at_first()
        self._name = self._named() if self._cache and self._code and not self._cache.problem() else None

    def are_right(self) -> bool:
        if self._cache is None or self._name is None:
            return False
        try:
            return self._cache.read(self._name) is not None
        except Damaged:
            return False

    def remember(self) -> None:
        """Unless the compiler's files have changed meanwhile."""
        if self._cache is not None and self._name is not None and compiler_code() == self._code:
            self._cache.write(self._name, WHO, b"")

    def _named(self) -> str | None:
        """By all functions, and by which of them are looked at."""
        functions = self._module.functions
        alone = {one.key for overloads in self._program.functions.values() for one in overloads if not one.dims and not one.types}
        encoder = Encoder({key: number for number, key in enumerate(functions)})
        try:
            checked = [(encoder.function(function), key in alone) for key, function in functions.items()]
        except Unencodable:
            return None
        digest = hashlib.sha256(json.dumps([encoder.nodes, checked]).encode("utf-8", "surrogatepass"))
        return f"gradients-{digest.hexdigest()}-{(self._code or b'').hex()}"
