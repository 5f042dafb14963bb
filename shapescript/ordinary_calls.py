"""Calls whose arguments are what is mostly given: arrays of the right dtype in one piece, whole models, Python's own numbers.

What binding.py does at such a call depends on the signature and the dims alone, so it is written out as Python source, which compares and
words no errors. What it doesn't know it leaves to the general code, which decides. For a model and an array that takes 0.4 µs in the place
of 1.8, beside 2 µs of native code for a small model's forward pass on one example.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from shapescript.axes import Shape, Sizes
from shapescript.binding import Overload
from shapescript.compiler.check import types as check
from shapescript.compiler.codegen.pointers import address_of
from shapescript.compiler.ir.sizes import Symbol
from shapescript.compiler.ir.types import Element
from shapescript.compiler.numerics.optimisers import BLOCK_WORDS
from shapescript.engines import Compiled
from shapescript.handles import optimiser_state
from shapescript.object_rules import BatchRule, HandleRule, ModelArgument, OptimiserArgument
from shapescript.parameters import ArrayRule, ChangedArrayRule, NumberRule
from shapescript.results import given_as_it_is
from shapescript.rule import Rule
from shapescript.runtime.layout import Layout
from shapescript.runtime.model import Model
from shapescript.runtime.optimiser import OPTIMISERS
from shapescript.runtime.record import Batch
from shapescript.scalars import LARGEST_F32

_NUMBERS = {  # by the type's name: the test of a value v, and what the engine gets
    "int": ("type({v}) is int and -0x8000000000000000 <= {v} <= 0x7FFFFFFFFFFFFFFF", "{v}"),
    "float": ("type({v}) is float", "{v}"),
    "bool": ("type({v}) is bool", "{v}"),
    "str": ("type({v}) is str", "{v}"),
    Element.I64: ("type({v}) is int and -0x8000000000000000 <= {v} <= 0x7FFFFFFFFFFFFFFF", "{v}"),
    Element.F64: ("type({v}) is float", "{v}"),
    Element.F32: ("type({v}) is float and -largest <= {v} <= largest", "float(float32({v}))"),
    Element.BOOL: ("type({v}) is bool", "{v}"),
}


class OrdinaryCall:
    """An instance of a function. `bind` makes the engine's arguments of the values of all `count` parameters, None where it doesn't know
    them; `layouts` are those that it knows of each model or optimiser, by their identity."""

    __slots__ = ("bind", "count", "give", "instance", "layouts", "overload")

    def __init__(self, overload: Overload, sizes: Mapping[Symbol, int], values: Sequence[Any], instance: Compiled) -> None:
        self.overload, self.instance, self.count = overload, instance, len(overload.rules)
        self.layouts: dict[int, dict[int, Layout]] = {place: {} for place, _ in _states(overload)}
        nbytes = {place: values[place].layout.nbytes for place, _ in _states(overload)}
        source = "\n".join(["def bind(values):", *_Source(overload, sizes, nbytes).lines()])
        names: dict[str, Any] = {
            "Batch": Batch,
            "Model": Model,
            "address": address_of,
            "float32": np.float32,
            "largest": LARGEST_F32,
            "ndarray": np.ndarray,
            "state": optimiser_state,
            "uint8": np.uint8,
            **{f"layouts{place}": known for place, known in self.layouts.items()},
            **dict(_constants(overload.rules)),
        }
        exec(compile(source, f"<arguments of {overload.signature.name}>", "exec"), names)
        self.bind: Callable[[Sequence[Any]], list[Any] | None] = names["bind"]
        self.give = _giver(overload.signature.result, overload)

    def knows(self, values: Sequence[Any], instance: Compiled) -> bool:
        return instance is self.instance and all(id(values[place].layout) in known for place, known in self.layouts.items())

    def learn(self, values: Sequence[Any]) -> None:
        """The general code has found that these values fit, with the same sizes of models."""
        for place, known in self.layouts.items():
            layout = values[place].layout
            known[id(layout)] = layout


class OrdinaryCalls:
    """Those of one overload, one for each choice of its dims."""

    def __init__(self, overload: Overload) -> None:
        self._overload = overload
        self._made: dict[tuple[tuple[Symbol, int], ...], OrdinaryCall] = {}
        self._latest: OrdinaryCall | None = None

    @classmethod
    def of(cls, overload: Overload) -> OrdinaryCalls | None:
        """None where a parameter or the result is of a sort that only the general code knows."""
        known = all(map(_is_known, overload.rules)) and not _needs_sizes(overload.signature.result)
        return cls(overload) if known else None

    def like(self, positional: Sequence[Any], named: Mapping[str, Any], sizes: Sizes, instance: Compiled) -> OrdinaryCall:
        """For further calls like one that the general code has bound."""
        values = self._overload.in_order(positional, named)
        if self._latest is not None and self._latest.knows(values, instance):
            return self._latest
        fixed = {symbol: size for symbol, size in sizes.values.items() if symbol in self._overload.dims}  # those of models among them
        key = tuple(fixed.items())
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = OrdinaryCall(self._overload, fixed, values, instance)
        made.learn(values)
        self._latest = made
        return made


class _Source:
    """The lines of `bind`: v0, v1, ... are the values, s0, s1, ... the shapes that they show."""

    def __init__(self, overload: Overload, sizes: Mapping[Symbol, int], nbytes: Mapping[int, int]) -> None:
        self.overload, self.nbytes = overload, nbytes
        self.sizes: dict[Symbol, str] = {symbol: str(size) for symbol, size in sizes.items()}
        self.tensors: list[str] = []  # what the engine gets of tensors where they lie

    def lines(self) -> Iterator[str]:
        rules = self.overload.rules
        if rules:
            yield f"    {', '.join(f'v{place}' for place in range(len(rules)))}, = values"
        arguments: list[str] = []
        for place, rule in enumerate(rules):
            arguments += yield from self._argument(rule, place)
        if self.overload.mutable:
            yield from self._apart()
        yield f"    return [{', '.join(arguments)}]"

    def _argument(self, rule: Rule, place: int) -> Generator[str, None, list[str]]:
        """Returns what the engine gets of it."""
        value = f"v{place}"
        match rule:
            case ModelArgument():
                yield from _unless(f"type({value}) is Model and id({value}.layout) in layouts{place}")
                return [f"{value}.buffer"]
            case OptimiserArgument():
                yield from _unless(f"type({value}) is kind{place} and id({value}.layout) in layouts{place}")
                return [f"state({value})"]
            case BatchRule():
                yield from _unless(f"type({value}) is Batch and {value}.record_type is record{place}")
                yield f"    columns, s{place} = {value}.columns, (len({value}),)"
                yield from self._shape(rule.shape, f"s{place}")
                names = [f"{value}_{field}" for field in range(len(rule.fields))]
                yield from (f"    {name} = columns[{field!r}]" for name, field in zip(names, rule.fields, strict=True))
                self.tensors += names
                return names
            case HandleRule():
                yield from _unless(f"isinstance({value}, kind{place})")
                return [value]
            case NumberRule():
                test, engine_value = _NUMBERS[_number_type(rule)]
                yield from _unless(test.format(v=value))
                return [engine_value.format(v=value)]
        assert isinstance(rule, ArrayRule)
        yield from _unless(f"type({value}) is ndarray and {value}.dtype is dtype{place}")
        yield f"    flags, s{place} = {value}.flags, {value}.shape"
        yield from _unless(f"flags.c_contiguous and flags.aligned and len(s{place}) == {len(rule.shape.axes)}")
        yield from self._shape(rule.shape, f"s{place}")
        if rule.is_bool:
            return [f"{value}.view(uint8) != 0"]
        self.tensors.append(value)
        return [value]

    def _shape(self, shape: Shape, found: str) -> Iterator[str]:
        tests = [f"{found}[{axis}] == {size}" for axis, size in shape.constants]
        for axis, symbol in shape.symbols:
            if symbol in self.sizes:
                tests.append(f"{found}[{axis}] == {self.sizes[symbol]}")
            else:
                self.sizes[symbol] = f"{found}[{axis}]"
        if tests:
            yield from _unless(" and ".join(tests))

    def _apart(self) -> Iterator[str]:
        """Nothing that is changed lies where something else does that is given."""
        changed = self.overload.mutable
        states = [place for place, _ in _states(self.overload)]
        models = [place for place, rule in _states(self.overload) if isinstance(rule, ModelArgument)]
        for place in states:
            begin = f"v{place}.address" if place in models else f"address(v{place}.block)"
            size = max(self.nbytes[place], 1) if place in models else 8 * BLOCK_WORDS
            yield f"    a{place} = {begin}"
            yield f"    e{place} = a{place} + {size}"
        for one, other in combinations(states, 2):
            if one in changed or other in changed:
                yield from _unless(f"e{one} <= a{other} or e{other} <= a{one}")
        for tensor in self.tensors if models else ():
            yield f"    begin = address({tensor})"
            yield f"    end = begin + {tensor}.nbytes"
            yield from _unless(" and ".join(f"(end <= a{place} or e{place} <= begin)" for place in models))


def _unless(test: str) -> Iterator[str]:
    yield f"    if not ({test}):"
    yield "        return None"


def _is_known(rule: Rule) -> bool:
    match rule:
        case ChangedArrayRule():
            return False
        case ArrayRule():
            return rule.element is not Element.BF16 and not (rule.shape.leading or rule.shape.others)
        case BatchRule():
            return all(field.dtype != "bf16" for field in rule.record.fields) and not (rule.shape.leading or rule.shape.others)
        case NumberRule():
            return _number_type(rule) in _NUMBERS
    return isinstance(rule, ModelArgument | OptimiserArgument | HandleRule)


def _number_type(rule: NumberRule) -> str | Element:
    return rule.type.element if isinstance(rule.type, check.Tensor) else str(rule.type)


def _states(overload: Overload) -> list[tuple[int, ModelArgument | OptimiserArgument]]:
    return [(place, rule) for place, rule in enumerate(overload.rules) if isinstance(rule, ModelArgument | OptimiserArgument)]


def _constants(rules: Sequence[Rule]) -> Iterator[tuple[str, object]]:
    """What the source compares with, by its names there."""
    for place, rule in enumerate(rules):
        match rule:
            case ArrayRule():
                yield f"dtype{place}", rule.dtype
            case BatchRule():
                yield f"record{place}", rule.record
            case OptimiserArgument():
                yield f"kind{place}", OPTIMISERS[rule.kind]
            case HandleRule():
                yield f"kind{place}", rule.kind


def _needs_sizes(result: check.Type) -> bool:
    if isinstance(result, check.Tuple):
        return any(map(_needs_sizes, result.elements))
    return isinstance(result, check.Model | check.Optimiser)


def _giver(result: check.Type, overload: Overload) -> Callable[[Sequence[Any]], Any]:
    if given_as_it_is(result):
        return lambda values: values[0]
    return lambda values: overload.give(iter(values), Sizes())
