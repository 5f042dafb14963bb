"""One entry function made whole: sizes put in, calls inlined, loops over lists of sub-models unrolled.

What an operation says is kept; its values are made anew with the sizes of this call. A symbol that a block or `load_data` binds (the rows
of a batch, of a dataset) gets a fresh symbol each time its code is inlined. Calls nest to any depth without recursion here: frames of
callees lie on an explicit stack, and only regions are entered by recursion.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field

from shapescript.compiler.diagnostics.model import CompileError, Diagnostic, InternalError, Label, Span
from shapescript.compiler.ir.nodes import Block, Function, Module, Op, Value
from shapescript.compiler.ir.sizes import LARGEST, InexactDivision, Size, Symbol, fresh, of
from shapescript.compiler.ir.types import ListType, ModelType, TensorType, Type, member_at
from shapescript.compiler.ops.build import rebuilt
from shapescript.compiler.ops.windows import misfit, room_to_check
from shapescript.compiler.passes.dead import drop_dead_views
from shapescript.compiler.passes.symbols import bind, rows_bound, substitute_attribute, substitute_type
from shapescript.compiler.records.dataclass import dataclass

STAGE = "specialise"
PARTS = ("leaf", "submodel")
MAX_REGION_DEPTH = 100  # of nested loops and conditions after inlining: what follows recurses once a level
MAX_OPERATIONS = 200_000  # of one entry with all that it calls: functions that call others twice multiply


@dataclass
class _Scope:
    """One inlined body: what its values and symbols are here, and the call that it belongs to."""

    call: Span | None
    sizes: dict[Symbol, Size]
    values: dict[Value, Value] = field(default_factory=dict)


@dataclass
class _Frame:
    """Operations still to inline; at their end `results` in the outer scope become what `yields` are in the scope."""

    scope: _Scope
    ops: Iterator[Op]
    yields: tuple[Value, ...]
    outer: _Scope
    results: tuple[Value, ...]
    again: Iterator[_Frame] | None = None


def specialise(module: Module, key: str, sizes: Mapping[Symbol, Size]) -> Function:
    """The function `key` with these sizes in the place of its symbols, without calls and loops over lists.

    Raises CompileError E0501 where a size in it becomes a division with a remainder, E0503 where a tensor has too many elements, E0112
    where loops nest too deeply, E0901 where calls make it too large.
    """
    function = module.functions[key]
    scope = _Scope(None, dict(sizes))
    inliner = _Inliner(module, function)
    with _exact_sizes(None, function.span):
        parameters = inliner.define(function.body.parameters, scope)
    ops = inliner.inline(function.body.ops, scope, 0)
    yields = tuple(scope.values[value] for value in function.body.yields)
    body = drop_dead_views(Block(parameters, tuple(ops), yields, function.body.symbols))
    dims = tuple(symbol for symbol in function.dims if symbol not in sizes)
    return Function(function.name, dims, body, function.mutable, function.results, function.span)


@contextmanager
def _exact_sizes(call: Span | None, inner: Span | None) -> Iterator[None]:
    try:
        yield
    except (InexactDivision, ZeroDivisionError) as error:
        reason = str(error) if isinstance(error, InexactDivision) else "a size is divided by 0"
        labels = (Label(inner, "this needs the quotient"),) if inner and call and inner != call else ()
        raise CompileError(Diagnostic("E0501", f"a size is not a whole number here: {reason}", call or inner, labels)) from error


class _Inliner:
    """Emits operations in program order; knows which new values are sub-models of which."""

    def __init__(self, module: Module, entry: Function) -> None:
        self.module, self.entry = module, entry
        self.parts: dict[Value, tuple[Value, str]] = {}
        self.operations = 0

    def define(self, values: tuple[Value, ...], scope: _Scope) -> tuple[Value, ...]:
        made = tuple(Value(substitute_type(value.type, scope.sizes), value.hint) for value in values)
        scope.values.update(zip(values, made, strict=True))
        return made

    def inline(self, ops: tuple[Op, ...], scope: _Scope, depth: int) -> list[Op]:
        """The operations with everything inlined, in the scope's values."""
        found: list[Op] = []
        stack = [_Frame(scope, iter(ops), (), scope, ())]
        while stack:
            frame = stack[-1]
            op = next(frame.ops, None)
            if op is None:
                stack.pop()
                following = self._finish(frame)
                if following:
                    stack.append(following)
                continue
            self._count()
            with _exact_sizes(op.span if op.name == "call" else frame.scope.call, op.span):
                if op.name == "call":
                    stack.append(self._call(op, frame.scope))
                elif op.name == "for_list":
                    first = next(unrolled := self._elements(op, frame.scope, found), None)
                    assert first is not None
                    first.again = unrolled
                    stack.append(first)
                else:
                    found.append(self._copy(op, frame.scope, depth))
        return found

    def _count(self) -> None:
        self.operations += 1
        if self.operations > MAX_OPERATIONS:
            message = f"`{self.entry.name}` comes to more than {MAX_OPERATIONS} operations with all that it calls; that isn't built yet"
            raise CompileError(Diagnostic("E0901", message, self.entry.span))

    def _finish(self, frame: _Frame) -> _Frame | None:
        following = next(frame.again, None) if frame.again else None
        if following:
            following.again = frame.again
            return following
        for result, value in zip(frame.results, frame.yields, strict=True):
            actual = frame.scope.values[value]
            bind(result.type, actual.type, frame.outer.sizes)
            frame.outer.values[result] = actual
        return None

    def _call(self, op: Op, scope: _Scope) -> _Frame:
        callee = self.module.functions[op.attributes["callee"]]
        sizes = {symbol: size.substitute(scope.sizes) for symbol, size in op.attributes["sizes"]}
        inner = _Scope(op.span or scope.call, sizes)
        for parameter, operand in zip(callee.body.parameters, op.operands, strict=True):
            actual = scope.values[operand]
            bind(parameter.type, actual.type, sizes)
            inner.values[parameter] = actual
        return _Frame(inner, iter(callee.body.ops), callee.body.yields, scope, op.results)

    def _elements(self, op: Op, scope: _Scope, found: list[Op]) -> Iterator[_Frame]:
        """A frame for each element of the list, then one that hands the carried values on."""
        (body,), path = op.regions, op.attributes["path"]
        model = scope.values[op.operands[0]]
        assert isinstance(model.type, ModelType)
        listed = member_at(model.type, path)
        if not isinstance(listed, ListType) or (count := listed.count.constant()) is None:
            raise InternalError(STAGE, f"the length of {path} is not known", op.span)
        carried = [scope.values[operand] for operand in op.operands[1:]]
        for index in range(count):
            self._count()
            element = Value(listed.element, body.parameters[0].hint)
            found.append(self._part(Op("submodel", (model,), {"path": f"{path}.{index}"}, (element,), (), op.span)))
            scope.values.update(zip(body.parameters, (element, *carried), strict=True))
            yield _Frame(scope, iter(body.ops), (), scope, ())
            carried = [scope.values[value] for value in body.yields]
        scope.values.update(zip(op.results, carried, strict=True))
        yield _Frame(scope, iter(()), (), scope, ())

    def _copy(self, op: Op, scope: _Scope, depth: int) -> Op:
        if op.regions and depth == MAX_REGION_DEPTH:
            message = f"loops, conditions and gradients nest deeper than {MAX_REGION_DEPTH} here, functions called counted"
            raise CompileError(Diagnostic("E0112", message, op.span))
        for symbol in rows_bound(op):
            scope.sizes[symbol] = of(fresh(symbol.name))
        attributes = {name: substitute_attribute(value, scope.sizes) for name, value in op.attributes.items()}
        operands = tuple(scope.values[operand] for operand in op.operands)
        regions = tuple(self._region(region, scope, depth + 1) for region in op.regions)
        results = self.define(op.results, scope)
        if "room" in attributes:
            attributes["room"] = room_to_check(op.name, attributes)
        made = rebuilt(op, operands, regions, results, attributes)
        _refuse_misfit(made, op.span or scope.call)
        for result in results:
            _refuse_too_large(result.type, op.span or scope.call)
        if op.name in (*PARTS, "replace_submodel"):
            _refuse_missing(made, op.span or scope.call)
        return self._part(made)

    def _region(self, block: Block, scope: _Scope, depth: int) -> Block:
        symbols = tuple(fresh(symbol.name) for symbol in block.symbols)
        scope.sizes.update({old: of(new) for old, new in zip(block.symbols, symbols, strict=True)})
        parameters = self.define(block.parameters, scope)
        ops = self.inline(block.ops, scope, depth)
        return Block(parameters, tuple(ops), tuple(scope.values[value] for value in block.yields), symbols)

    def _part(self, op: Op) -> Op:
        """A leaf or sub-model of a sub-model is one of the whole."""
        if op.name not in PARTS:
            return op
        path: str = op.attributes["path"]
        base = op.operands[0]
        if base in self.parts:
            base, outer = self.parts[base]
            path = f"{outer}.{path}"
        if op.name == "submodel":
            self.parts[op.result] = base, path
        return rebuilt(op, (base,), (), op.results, {"path": path})


def _refuse_missing(op: Op, span: Span | None) -> None:
    """An index past the end of a list whose length is known only here."""
    model, path = op.operands[0].type, op.attributes["path"]
    assert isinstance(model, ModelType)
    try:
        member_at(model, path)
    except KeyError:
        raise CompileError(Diagnostic("E0503", f"{model} has no `{path}`: the list ends before", span)) from None


def _refuse_misfit(op: Op, span: Span | None) -> None:
    for size in op.attributes.get("room", ()):
        value = size.constant()
        if value is not None and value < 0:
            raise CompileError(Diagnostic("E0503", misfit(op, size, value), span))


def _refuse_too_large(type_: Type, span: Span | None) -> None:
    """Where every size is known; what has an axis that isn't is looked at as if that had one element."""
    if not isinstance(type_, TensorType):
        return
    count = 1
    for axis in type_.axes:
        size = axis.constant()
        if size is not None and size < 0:
            raise CompileError(Diagnostic("E0503", f"axis {axis} would have {size} elements", span))
        count *= max(abs(factor) for _, factor in axis.known().terms) if size is None else size
    if count > LARGEST:
        raise CompileError(Diagnostic("E0503", f"a tensor of {count} elements: it has at most 2**48", span))
