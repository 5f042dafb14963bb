"""What the lowering of one function knows and shares: the builder, where values are, sizes, sites, and kernels already emitted."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from llvmlite import ir

from shapescript.compiler.codegen import emit, environment, extents, machine, memory
from shapescript.compiler.codegen.context import DETAILS, ContextLayout, Word, load_address, load_word, store_word
from shapescript.compiler.codegen.emit import I64, PTR, VOID, Builder, ElementType, Value
from shapescript.compiler.codegen.machine import FunctionAt
from shapescript.compiler.codegen.measurement import Row
from shapescript.compiler.codegen.profile import Probes
from shapescript.compiler.codegen.sizes import SizeValues
from shapescript.compiler.codegen.target import Target
from shapescript.compiler.codegen.work import does_work
from shapescript.compiler.ir import nodes
from shapescript.compiler.ir.nodes import Function, Op
from shapescript.compiler.ir.sizes import ZERO, Size, product
from shapescript.compiler.ir.types import Element
from shapescript.compiler.ops.build import result_type
from shapescript.compiler.ops.guards import guarded_optimisers
from shapescript.compiler.ops.locations import (
    Borrowed,
    Location,
    ParameterStorage,
    Plan,
    ResultStorage,
    RowStorage,
    argument_symbols,
    is_late,
    part_offset,
)
from shapescript.compiler.records.dataclass import dataclass

Registers = tuple[Value, ...]

HOST_FAILED = 1  # the site of a callback that didn't come to its end
GROW, POLL, START_WORKERS = -1, -2, -3  # what else a callback may be asked than to do a site's operation

MEMORY_TYPES: dict[Element, ElementType] = {element: emit.element_type(element.value) for element in Element}
REGISTER_TYPES: dict[Element, ElementType] = {**MEMORY_TYPES, Element.BOOL: emit.I1}


@dataclass(frozen=True)
class Site:
    """A place where native code leaves with an error, or calls the host. `kind` says which; `data` is what else Python needs to know."""

    kind: str
    op: Op | None = None
    data: tuple[str | int, ...] = ()


Rule = Callable[["Lowering", Op], None]
RULES: dict[str, Rule] = {}  # how each operation is lowered, by its name


def lowers(*names: str) -> Callable[[Rule], Rule]:
    """Enters a function as the lowering of operations."""

    def enter(rule: Rule) -> Rule:
        for name in names:
            RULES[name] = rule
        return rule

    return enter


class MaskCache:
    """The masks of dropouts made so far in the blocks around the builder."""

    def __init__(self) -> None:
        self._scopes: list[dict[Hashable, Value]] = [{}]

    @contextmanager
    def scope(self) -> Iterator[None]:
        self._scopes.append({})
        yield
        self._scopes.pop()

    def find(self, key: Hashable) -> Value | None:
        return next((scope[key] for scope in self._scopes if key in scope), None)

    def add(self, key: Hashable, pointer: Value) -> Value:
        self._scopes[-1][key] = pointer
        return pointer


class Lowering:
    """One function on its way to LLVM IR; the builder stands in the native function that is the whole program."""

    def __init__(self, function: Function, target: Target, plan: Plan, layout: ContextLayout, profile: bool = False) -> None:
        self.function, self.target, self.plan, self.layout = function, target, plan, layout
        self.module = ir.Module(function.name)
        native, self.b = emit.function(self.module, "program", [PTR], I64)
        self.native: Any = native
        self.context: Value = native.args[0]
        self.exit = native.append_basic_block("exit")
        symbols = argument_symbols(function)
        self.late_results = {place for place, value in enumerate(function.body.yields[: function.results]) if is_late(value.type, symbols)}
        self.guards = guarded_optimisers(function)
        self.sizes = SizeValues()
        self.masks = MaskCache()
        self.values: dict[nodes.Value, Registers] = {}
        self.slots: dict[int, Value] = {}
        self.borrowed: dict[nodes.Value, Value] = {}
        self.sites: list[Site] = [Site("none"), Site("host failed")]
        self.exchange_words = 0
        self.takes = 0  # how often the arena was asked so far
        self._kernels: dict[Hashable, Any] = {}
        self._bases: dict[Location, Value] = {}
        self.probes = Probes(self.b, self.context, Word.PROFILE, target, self.size) if profile else None

    # ---- values

    def define(self, value: nodes.Value, *registers: Value) -> None:
        self.values[value] = registers

    def number(self, value: nodes.Value) -> Value:
        """The register of a tensor without axes; a bool is I1."""
        (register,) = self.values[value]
        return register

    def pointer(self, value: nodes.Value) -> Value:
        """Where a tensor with axes or a model begins; an optimiser's block."""
        return self.address(self.plan.locations[value])

    def address(self, location: Location) -> Value:
        base = self._base(location)
        return emit.at(self.b, base, location.offset, emit.I8)

    def _base(self, location: Location) -> Value:
        match location.storage:
            case ParameterStorage(index):
                return self._at_entry(Location(location.storage), self.parameter_word(index))
            case ResultStorage(index):
                if index in self.late_results:
                    return load_address(self.b, self.context, self.layout.first_result + index)
                return self._at_entry(Location(location.storage), self.layout.first_result + index)
            case Borrowed(value):
                return self.borrowed[value]
            case RowStorage(whole, start, places):
                with self.sizes.scope():
                    return self._row(whole, start, places)
            case _:
                return self.slots[location.storage.slot]

    def _row(self, whole: nodes.Value, start: nodes.Value, places: Size) -> Value:
        kind = result_type(whole)
        most = extents.minus(self.b, self.size(kind.axes[0]), self.size(places))
        first = extents.most(self.b, extents.least(self.b, self.number(start), most), 0)
        step = self.size(product(kind.axes[1:]))
        return emit.at(self.b, self.pointer(whole), extents.times(self.b, first, step), MEMORY_TYPES[kind.element])

    def caller_word(self, location: Location) -> int:
        """Which word of the context holds the address of what the caller gave for a storage of its own."""
        match location.storage:
            case ParameterStorage(index):
                return self.parameter_word(index)
            case ResultStorage(index):
                return self.layout.first_result + index
        raise ValueError(f"{location} is no storage of the caller's")

    def parameter_word(self, index: int) -> int:
        return self.layout.first_symbol - self.layout.parameters + index

    def _at_entry(self, storage: Location, index: int) -> Value:
        """An address that the caller gave, loaded once."""
        if storage not in self._bases:
            with self.b.goto_entry_block():
                self._bases[storage] = load_address(self.b, self.context, index)
        return self._bases[storage]

    def part(self, value: nodes.Value, path: str) -> Value:
        """Where a part of a model begins."""
        return emit.at(self.b, self.pointer(value), part_offset(value.type, path), emit.I8)

    def load_number(self, pointer: Value, element: Element) -> Value:
        """A register from memory."""
        value = emit.load(self.b, pointer, MEMORY_TYPES[element])
        return emit.condition_of(self.b, value) if element is Element.BOOL else value

    def store_number(self, value: Value, pointer: Value) -> None:
        emit.store(self.b, emit.stored_condition(self.b, value) if value.type == emit.I1 else value, pointer)

    def has_place(self, value: nodes.Value) -> bool:
        """Whether a stored value is made at all."""
        return value in self.plan.locations

    def size(self, size: Size) -> emit.Size:
        return self.sizes.of(self.b, size)

    # ---- leaving

    def site(self, site: Site) -> int:
        self.sites.append(site)
        return len(self.sites) - 1

    def fail_if(self, condition: Value, site: Site, details: Sequence[Value] = ()) -> None:
        """Leave at the site with these I64 details where the condition holds."""
        assert len(details) <= DETAILS
        with self.b.if_then(condition, likely=False):
            for place, detail in enumerate(details):
                store_word(self.b, detail, self.context, Word.DETAIL + place)
            self.leave(self.site(site))

    def leave(self, site: int) -> None:
        store_word(self.b, I64(site), self.context, Word.SITE)
        self.b.branch(self.exit)

    # ---- the host

    def call_host(self, site: Site) -> None:
        """Have Python do a site's operation, whose operands are in the exchange; its results are there afterwards."""
        self.call_site(self.site(site))

    def call_site(self, site: int) -> None:
        """The same of a site that has its number already."""
        answered = ask(self.b, self.target, self.context, I64(site))
        with self.b.if_then(self.b.not_(answered), likely=False):
            self.leave(HOST_FAILED)

    def clock(self) -> Value:
        """The time, in ticks of a counter that goes on while nothing runs."""
        return machine.clock(self.b, self.target)

    def set_deadline(self, now: Value) -> None:
        store_word(self.b, self.b.add(now, load_word(self.b, self.context, Word.BUDGET)), self.context, Word.DEADLINE)

    def poll(self) -> None:
        """Let the host look for interruptions if it is time."""
        b, now = self.b, self.clock()
        with b.if_then(b.icmp_signed(">", now, load_word(b, self.context, Word.DEADLINE)), likely=False):
            answered = ask(b, self.target, self.context, I64(POLL))
            self.set_deadline(now)
            with b.if_then(b.not_(answered), likely=False):
                self.leave(HOST_FAILED)

    # ---- measuring

    def measured(self, op: Op) -> AbstractContextManager[None]:
        """The lowering of an operation that is emitted inside is a row of a profile."""
        return nullcontext() if self.probes is None or not does_work(op) else self.probes.operation(op, self.plan)

    def measured_part(self, op: Op, part: str, bytes_: Size = ZERO) -> AbstractContextManager[None]:
        """So is a part of it; bytes other than 0 are computed at its end, for the block around."""
        return nullcontext() if self.probes is None else self.probes.row(Row(op, part), bytes_=bytes_)

    # ---- memory

    def take(self, count: emit.Size) -> Value:
        """More bytes of the arena, until it is reset; leaves where there are none."""
        self.takes += 1
        pointer = memory.take(self.b, self.context, count, lambda b, bytes_: _ask_for_memory(b, self.target, b.function.args[0], bytes_))
        with self.b.if_then(self.b.icmp_unsigned("==", pointer, ir.Constant(PTR, None)), likely=False):
            self.leave(HOST_FAILED)
        return pointer

    @contextmanager
    def scratch(self, count: emit.Size) -> Iterator[Value]:
        """Bytes of the arena for what is emitted inside; a null pointer for none."""
        if isinstance(count, int) and count == 0:
            yield ir.Constant(PTR, None)
            return
        before = memory.mark(self.b, self.context)
        yield self.take(count)
        memory.reset(self.b, self.context, before)

    # ---- kernels

    def shared(
        self,
        name: str,
        key: Hashable,
        arguments: Sequence[Value],
        body: Callable[[Builder, Sequence[Value]], Value | None],
        result: ElementType = VOID,
    ) -> Value:
        """Call a function of the module that `body` emits; calls with equal names and keys share it.

        `body(builder, arguments)` gives what the function returns. It must use nothing of the caller but its arguments.
        """
        kinds = tuple(str(argument.type) for argument in arguments)
        known = self._kernels.get((name, key, kinds))
        if known is None:
            known, b = emit.function(self.module, name, [argument.type for argument in arguments], result)
            self._kernels[name, key, kinds] = known
            value = body(b, known.args)
            if value is None:
                b.ret_void()
            else:
                b.ret(value)
        return self.b.call(known, arguments)


def ask(b: Builder, target: Target, context: Value, request: Value) -> Value:
    """Call back into Python; gives whether it came to its end (I1). It sets the floating-point environment again: Python may have
    called what changes it."""
    fn = b.module.globals.get("host.ask")
    if fn is None:
        fn, inner = emit.function(b.module, "host.ask", [PTR, I64], emit.I1)
        fn.attributes.add("noinline")
        words, wanted = fn.args
        store_word(inner, I64(0), words, Word.ANSWERED)
        callback = load_address(inner, words, Word.CALLBACK)
        inner.call(FunctionAt(callback, I64, [I64]), [wanted])
        environment.enter(inner, target)
        inner.ret(inner.icmp_signed("!=", load_word(inner, words, Word.ANSWERED), I64(0)))
    return b.call(fn, [context, request])


def _ask_for_memory(b: Builder, target: Target, context: Value, count: Value) -> Value:
    store_word(b, count, context, Word.DETAIL)
    return ask(b, target, context, I64(GROW))
