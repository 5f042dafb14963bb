"""The typed IR as plain data, and back: what the compile cache keeps, and what its keys are made of.

The data is one list of nodes that JSON can hold, each before those that mention it. A node is a list: a tag, then its fields. A field is a
number, a string, a bool or null as it is, and `[n]` for the node with that number. Equal types, sizes and attributes are one node; values,
operations and blocks are one node each.

Data is the same for the same program, wherever its files lie and whatever was checked before it: symbols without a value are numbered in
the order of their first mention, modules are numbers in place of paths, and a place inside of a function counts from the function's start.
What these numbers stand for is in `Places`, which is no part of the data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields
from operator import attrgetter
from typing import Any

from shapescript.compiler.diagnostics.model import Source, Span
from shapescript.compiler.ir import starts, types
from shapescript.compiler.ir.nodes import Block, Function, Op, Value
from shapescript.compiler.ir.sizes import Size, Symbol, fresh, in_order
from shapescript.compiler.records.dataclass import dataclass

Node = list[Any]
Reference = list[int]

_CLASSES = (
    Size,
    types.TensorType,
    types.Member,
    types.Treatment,
    types.Group,
    types.ModelType,
    types.ListType,
    types.OptimiserType,
    types.RecordType,
    types.DatasetType,
    types.OrderedType,
    types.HandleType,
    starts.StartRule,
    starts.HostNumber,
    Value,
    Block,
    Function,
)
_FIELDS: dict[type, Callable[[Any], Any]] = {cls: attrgetter(*(part.name for part in fields(cls))) for cls in _CLASSES}
_OF_ONE_FIELD = (Size, types.HandleType)
_BY_TAG: dict[str, Any] = {cls.__name__: cls for cls in _CLASSES}
_OWN = (Block, Function)  # two of them are never one node, nor are two values or operations
_PLAIN = (bool, int, float, str, type(None))
_TUPLE, _MAPPING, _ELEMENT, _SYMBOL, _SPAN, _TEXT_SPAN, _MODULE = "()", "{}", "Element", "Symbol", "Span", "TextSpan", "Module"


@dataclass
class Places:
    """What data mentions by number: paths of modules, places of functions, and sources, each in the order of its first mention."""

    modules: list[str] = field(default_factory=list)
    functions: list[Span] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)


class Unencodable(ValueError):
    """A value that the IR's data has no form for."""


class Encoder:
    """Makes data. `callees`: the numbers of functions, for calls to name them by."""

    def __init__(self, callees: Mapping[str, int] | None = None) -> None:
        self.nodes: list[Node] = []
        self.places = Places()
        self._callees = callees or {}
        self._by_identity: dict[int, Reference] = {}
        self._by_content: dict[str, Reference] = {}
        self._alive: list[Any] = []  # what identities in `_by_identity` belong to
        self._symbols: dict[int, int] = {}
        self._spans: dict[tuple[int, int, int], Node] = {}
        self._function: Span | None = None
        self._is_closed = False

    def function(self, function: Function) -> Reference:
        """Places in it, and in what is encoded behind it, count from its start where they aren't known already."""
        self._function = function.span
        if function.span is not None:
            self.places.functions.append(function.span)
        reference: Reference = self.value(function)
        return reference

    def of_what_became(self) -> Encoder:
        """Makes data of its own, at the same places: for what was made of all that this one has encoded. It refuses other places."""
        encoder = Encoder()
        encoder.places, encoder._spans, encoder._alive, encoder._is_closed = self.places, self._spans, self._alive, True
        return encoder

    def value(self, value: Any) -> Any:
        """A field's form, with its nodes entered. Raises Unencodable."""
        if type(value) in _PLAIN:
            return value
        known = self._by_identity.get(id(value))
        if known is None:
            known = self._by_identity[id(value)] = self._entered(value)
            self._alive.append(value)
        return known

    def _entered(self, value: Any) -> Reference:
        cls = type(value)
        if cls is tuple:
            return self._shared([_TUPLE, *map(self.value, value)])
        if cls is Span:
            return self._span(value)
        if cls is Symbol:
            return self._symbol(value)
        if cls is types.Element:
            return self._shared([_ELEMENT, value.value])
        if cls is Value:
            return self._added(["Value", self.value(value.type), value.hint])
        if cls is Op:
            return self._op(value)
        if isinstance(value, Mapping):
            return self._shared([_MAPPING, *(self.value(part) for item in value.items() for part in item)])
        if cls is types.ModelType:
            name, module, *others = _parts(value)
            return self._shared(["ModelType", name, self._module(module), *map(self.value, others)])
        if cls not in _FIELDS:
            raise Unencodable(f"{cls.__name__} in the IR")
        node = [cls.__name__, *map(self.value, _parts(value))]
        return self._added(node) if cls in _OWN else self._shared(node)

    def _op(self, op: Op) -> Reference:
        """Nearly all nodes are operations and values: theirs are made without a look for equal ones."""
        attributes: list[Any] = []
        for name, value in op.attributes.items():
            attributes += (name, self._callees[value] if name == "callee" else self.value(value))
        lists = [[self.value(part)[0] for part in parts] for parts in (op.operands, op.results, op.regions)]
        return self._added(["Op", op.name, attributes, *lists, self.value(op.span)])

    def _symbol(self, symbol: Symbol) -> Reference:
        number = self._symbols.setdefault(symbol.number, len(self._symbols) + 1) if symbol.number else 0
        return self._shared([_SYMBOL, symbol.name, number, symbol.value, self.value(symbol.quotient), symbol.rounded])

    def _module(self, path: str) -> Reference:
        return self._shared([_MODULE, self._number(self.places.modules, path)])

    def _span(self, span: Span) -> Reference:
        key = (id(span.source), span.start, span.end)
        if key not in self._spans:
            self._alive.append(span)
            self._spans[key] = self._placed(span)
        return self._shared(self._spans[key])

    def _placed(self, span: Span) -> Node:
        if self._is_closed:
            raise Unencodable(f"a place that the program doesn't mention: {span}")
        base = self._function
        if base is not None and base.source is span.source and base.start <= span.start:
            return [_SPAN, len(self.places.functions) - 1, span.start - base.start, span.end - base.start]
        return [_TEXT_SPAN, self._number(self.places.sources, span.source), span.start, span.end]

    def _number(self, known: list[Any], value: Any) -> int:
        if value not in known:
            if self._is_closed:
                raise Unencodable(f"a module that the program doesn't mention: {value}")
            known.append(value)
        return known.index(value)

    def _shared(self, node: Node) -> Reference:
        content = repr(node)  # it tells 1 from 1.0 and from true
        if content not in self._by_content:
            self._by_content[content] = self._added(node)
        return self._by_content[content]

    def _added(self, node: Node) -> Reference:
        self.nodes.append(node)
        return [len(self.nodes) - 1]


def _parts(value: Any) -> tuple[Any, ...]:
    parts = _FIELDS[type(value)](value)
    return parts if type(value) not in _OF_ONE_FIELD else (parts,)


class Decoder:
    """What `nodes` stand for, at these places. Symbols without a value are new ones. Raises what damaged data leads to: any Exception."""

    def __init__(self, nodes: Sequence[Node], places: Places) -> None:
        self._places = places
        self._made: list[Any] = []
        self._numbers: dict[int, int] = {}
        for node in nodes:
            self._made.append(self._decoded(*node))

    def value(self, form: Any) -> Any:
        return self._made[form[0]] if type(form) is list else form

    def _decoded(self, tag: str, *parts: Any) -> Any:
        if tag == _SPAN:
            base = self._places.functions[parts[0]]
            return Span(base.source, base.start + parts[1], base.start + parts[2])
        if tag == _TEXT_SPAN:
            return Span(self._places.sources[parts[0]], parts[1], parts[2])
        if tag == _MODULE:
            return self._places.modules[parts[0]]
        if tag == "Op":
            return self._op(*parts)
        values = [self.value(part) for part in parts]
        if tag == _TUPLE:
            return tuple(values)
        if tag == _MAPPING:
            return dict(zip(values[::2], values[1::2], strict=True))
        if tag == _ELEMENT:
            return types.Element(values[0])
        if tag == _SYMBOL:
            return self._symbol(*values)
        if tag == "Size":
            return in_order(values[0])
        return _BY_TAG[tag](*values)

    def _op(self, name: str, attributes: list[Any], *parts: Any) -> Op:
        values = map(self.value, attributes[1::2])
        operands, results, regions = (tuple(self._made[number] for number in numbers) for numbers in parts[:3])
        return Op(name, operands, dict(zip(attributes[::2], values, strict=True)), results, regions, self.value(parts[3]))

    def _symbol(self, name: str, number: int, value: int | None, quotient: tuple[Size, Size] | None, rounded: bool) -> Symbol:
        if number and number not in self._numbers:
            self._numbers[number] = fresh(name).number
        return Symbol(name, self._numbers[number] if number else 0, value, quotient, rounded)
