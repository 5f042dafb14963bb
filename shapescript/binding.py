"""One overload of a function: a call's arguments checked against its parameters, each and then together, before anything runs."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shapescript.argument_names import ArgumentNames
from shapescript.axes import DisagreementError, Sizes
from shapescript.compiler.check import types as check
from shapescript.compiler.check.program import Signature
from shapescript.compiler.diagnostics.model import Span
from shapescript.compiler.ir.types import Element
from shapescript.layouts import Layouts
from shapescript.parameters import ChangedArrayRule, rule_for
from shapescript.results import giver_for
from shapescript.rule import Rule
from shapescript.runtime.arrays import Bytes, address_of
from shapescript.runtime.errors import ArgumentError
from shapescript.runtime.model import Model
from shapescript.runtime.optimiser import Optimiser
from shapescript.signatures import signature_text

Bound = tuple[list[Any], Sizes]  # arguments that fit: the engine's, and the sizes that they show


class Overload:
    """`names` are the parameters in order, `in_order` puts a call's arguments into it; `dims` are those sizes that need an instance of
    their own for each value."""

    def __init__(self, signature: Signature, layouts: Layouts) -> None:
        self.signature = signature
        self.rules: tuple[Rule, ...] = tuple(rule_for(parameter, layouts) for parameter in signature.parameters)
        self._takes = tuple((place, rule.take) for place, rule in enumerate(self.rules))  # half the time of a loop over a strict zip
        names = ArgumentNames(signature)
        self.names, self.in_order = names.names, names.in_order
        self.mutable = tuple(place for place, parameter in enumerate(signature.parameters) if parameter.mutable)
        self.takes_bf16 = any(isinstance(p.type, check.Tensor) and p.type.element is Element.BF16 for p in signature.parameters)
        self._changes_arrays = any(isinstance(rule, ChangedArrayRule) for rule in self.rules)
        self.dims, self._defaults = signature.dims, signature.defaults
        self.give = giver_for(signature.result, layouts)

    def bind(self, positional: Sequence[Any], named: Mapping[str, Any]) -> Bound:
        """Raises ArgumentError R1001 to R1006; nothing has run or changed then."""
        values = positional if not named and len(positional) == len(self.rules) else self.in_order(positional, named)
        sizes = Sizes()
        arguments: list[Any] = []
        try:
            for place, take in self._takes:
                take(values[place], sizes, arguments)
            if sizes.open or self._defaults:
                sizes.close(self._defaults)
        except DisagreementError:
            raise self._disagreement(values) from None
        except ArgumentError as error:
            error.span = self._refusing(values)
            raise
        if self.mutable:
            arguments = self._apart(values, arguments)
            if self._changes_arrays:
                self._refuse_shared(values)
        if self.dims and not all(symbol in sizes.values for symbol in self.dims):
            missing = next(symbol for symbol in self.dims if symbol not in sizes.values)
            raise ArgumentError("R1003", f"{self.signature.name}: {missing} can't be told from the arguments")
        return arguments, sizes

    def _refusing(self, values: Sequence[Any]) -> Span | None:
        """Where the parameter is declared that refuses its value; None where only all arguments together don't fit."""
        for rule, parameter, value in zip(self.rules, self.signature.parameters, values, strict=True):
            try:
                rule.take(value, Sizes(), [])
            except (ArgumentError, DisagreementError):
                return parameter.span
        return None

    # ---- what only all arguments together show

    def _disagreement(self, values: Sequence[Any]) -> ArgumentError:
        """All sizes that arguments give twice, then what was given, then what else is bound."""
        found: dict[str, dict[object, list[str]]] = {}
        for rule, value in zip(self.rules, values, strict=True):
            alone = Sizes()
            try:
                rule.take(value, alone, [])
            except DisagreementError:
                return ArgumentError("R1003", f"{rule.seen(value)}: one axis has two sizes")
            for symbol, size in alone.values.items():
                found.setdefault(symbol.name, {}).setdefault(size, []).append(rule.name)
            for symbol, shape in alone.leading.items():
                found.setdefault(f"..{symbol.name}", {}).setdefault(shape, []).append(rule.name)
        clashes = [f"{name} = {_sources(sizes)}" for name, sizes in found.items() if len(sizes) > 1]
        others = [f"{name} = {_sources(sizes)}" for name, sizes in found.items() if len(sizes) == 1]
        shown = [text for rule, value in zip(self.rules, values, strict=True) if (text := rule.seen(value))]
        return ArgumentError("R1003", "; ".join([", ".join(clashes), *shown, *([f"also {', '.join(others)}"] if others else [])]))

    def _apart(self, values: Sequence[Any], arguments: list[Any]) -> list[Any]:
        """No value is changed under two names: a state given twice is refused, an array that views one is copied."""
        states = [(place, *_memory(value)) for place, value in enumerate(values) if isinstance(value, Model | Optimiser)]
        for (one, start, end), (other, begin, stop) in itertools.combinations(states, 2):
            if start < stop and begin < end and (one in self.mutable or other in self.mutable):
                changed, also = (self.names[place] for place in ((one, other) if one in self.mutable else (other, one)))
                message = f"{changed} and {also} are the same value, and {self.signature.name} changes {changed} (mut)"
                raise ArgumentError("R1006", f"{message}; give it a copy: .copy()")
        models = [value.buffer for value in values if isinstance(value, Model)]
        return [argument.copy() if _views(argument, models) else argument for argument in arguments]

    def _refuse_shared(self, values: Sequence[Any]) -> None:
        """An array that is changed shares no memory with another argument, as the engine gets it."""
        given: list[list[Any]] = [[] for _ in values]
        for (place, take), arguments in zip(self._takes, given, strict=True):
            take(values[place], Sizes(), arguments)
        for one, rule in enumerate(self.rules):
            for other, arguments in enumerate(given) if isinstance(rule, ChangedArrayRule) else ():
                if other != one and any(isinstance(array, np.ndarray) and np.may_share_memory(given[one][0], array) for array in arguments):
                    message = f"{self.names[one]} and {self.names[other]} share memory, and {self.signature.name} changes {self.names[one]}"
                    raise ArgumentError("R1006", f"{message} (mut); give it a copy: array.copy()")

    def __str__(self) -> str:
        return signature_text(self.signature)


def _memory(value: Model | Optimiser) -> tuple[int, int]:
    """The addresses that tell a state apart from others: those of a model's parameters, of an optimiser's block."""
    memory = value.buffer if isinstance(value, Model) else value.block
    start = address_of(memory)
    return start, start + max(memory.nbytes, 1)


def _views(argument: Any, models: Sequence[Bytes]) -> bool:
    """Whether an engine's argument is a tensor in the memory of a model."""
    is_tensor = isinstance(argument, np.ndarray) and argument.dtype != np.uint8
    return is_tensor and any(np.may_share_memory(argument, model) for model in models)


def _sources(sizes: Mapping[object, Sequence[str]]) -> str:
    return ", ".join(f"{size} from {' and '.join(names)}" for size, names in sizes.items())
