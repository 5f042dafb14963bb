"""A call's arguments by position and by name, put in the order of a function's parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shapescript.compiler.check.program import Signature
from shapescript.runtime.errors import ArgumentError, did_you_mean
from shapescript.signatures import signature_text


class ArgumentNames:
    """`names` are the parameters in order, `defaults` the values of those that have one."""

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self.names = tuple(parameter.name for parameter in signature.parameters)
        self.defaults = {p.name: p.default for p in signature.parameters if p.default is not None}

    def in_order(self, positional: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """A value for each parameter. Raises ArgumentError R1005."""
        values, used = list(positional), 0
        for name in self.names[len(values) :]:
            if name in named:
                values.append(named[name])
                used += 1
            elif name in self.defaults:
                values.append(self.defaults[name])
            else:
                raise self._wrong_names(positional, named)
        if used < len(named) or len(values) > len(self.names):
            raise self._wrong_names(positional, named)
        return values

    def _wrong_names(self, positional: Sequence[Any], named: Mapping[str, Any]) -> ArgumentError:
        function, shown = self.signature.name, signature_text(self.signature)
        if len(positional) > len(self.names):
            return ArgumentError("R1005", f"{function} takes {len(self.names)} arguments, got {len(positional)}; it is {shown}")
        given = self.names[: len(positional)]
        for name in named:
            if name not in self.names:
                unset = [known for known in self.names if known not in given and known not in named]
                return ArgumentError("R1005", f"{function} has no parameter {name!r}{did_you_mean(name, unset)}; it is {shown}")
            if name in given:
                return ArgumentError("R1005", f"{function}: {name} is given twice, by position and by name")
        missing = [name for name in self.names if name not in given and name not in named and name not in self.defaults]
        return ArgumentError("R1005", f"{function}: no value for {', '.join(missing)}; it is {shown}")
