"""What is wrong in a program that only inlining and differentiation see."""

from __future__ import annotations

from collections.abc import Iterator

from shapescript.checking import stage
from shapescript.compiler.check.program import Program
from shapescript.compiler.diagnostics.model import CompileError, Diagnostic, Severity, Span
from shapescript.compiler.ir.nodes import Function, Module, Value, walk
from shapescript.compiler.ir.types import ModelType
from shapescript.compiler.ops.table import Scalar, entry
from shapescript.compiler.passes.differentiate import differentiate
from shapescript.compiler.passes.leafwise import split_leafwise
from shapescript.compiler.passes.specialise import specialise
from shapescript.compiler.passes.unreached import gradients

MOST_SHOWN = 5  # parameters of a warning


def found_by_gradients(program: Program, module: Module) -> list[Diagnostic]:
    """Each mistake once, sorted by place; functions with dim or type parameters have to wait for a call."""
    alone = {one.key: one.span for overloads in program.functions.values() for one in overloads if not one.dims and not one.types}
    found: dict[tuple[str, tuple[str, int, int]], Diagnostic] = {}
    unreached = Unreached()
    too_large: set[str] = set()
    for key in _callees_first(module):
        if not too_large.isdisjoint(_callees(module.functions[key])):
            too_large.add(key)  # one report is enough, and finding it out again for each caller takes seconds
            continue
        if key not in alone:
            continue
        try:
            with stage("gradients", alone[key]):
                function = split_leafwise(specialise(module, key, {}))
            diagnostics = _gradients_of(module, key, function, unreached)
        except CompileError as error:
            diagnostics = error.diagnostics
            if any(diagnostic.code == "E0901" for diagnostic in diagnostics):
                too_large.add(key)
        for diagnostic in diagnostics:
            found.setdefault((diagnostic.code, diagnostic.place), diagnostic)
    return sorted([*found.values(), *unreached.warnings()], key=lambda diagnostic: diagnostic.place)


class Unreached:
    """The parameters that no gradient reaches, by the place that takes it: in none of the functions that come there."""

    def __init__(self) -> None:
        self._found: dict[tuple[Span, ModelType], tuple[str, ...]] = {}

    def add(self, function: Function) -> None:
        """A function behind `differentiate`."""
        for gradient in gradients(function):
            if gradient.span is not None:
                key = gradient.span, gradient.model
                before = self._found.get(key, gradient.absent)
                self._found[key] = tuple(name for name in gradient.absent if name in before)

    def warnings(self) -> Iterator[Diagnostic]:
        """One for each place."""
        warned: set[Span] = set()
        for (span, model), names in self._found.items():
            if names and span not in warned:
                warned.add(span)
                shown = [f"`{name}`" for name in names[:MOST_SHOWN]]
                rest = [f"{len(names) - MOST_SHOWN} more"] if len(names) > MOST_SHOWN else []
                *others, last = shown + rest
                listed = f"{', '.join(others)} and {last}" if others else last
                which = "them" if len(names) > 1 else "it"
                text = f"no gradient reaches {listed} of `{model}`: the value doesn't depend on {which}"
                stays = "they are" if len(names) > 1 else "it is"
                help_ = f"an update leaves {which} as {stays}; a group with frozen=true says that this is meant"
                yield Diagnostic("E0805", text, span, help=help_, severity=Severity.WARNING)


def _callees(function: Function) -> set[str]:
    return {op.attributes["callee"] for op in walk(function.body) if op.name == "call"}


def _callees_first(module: Module) -> list[str]:
    """All functions, each behind those that it calls. No function reaches itself, but chains of calls may be long."""
    order: dict[str, None] = {}
    stack = list(module.functions)[::-1]
    while stack:
        key = stack[-1]
        waiting = [] if key in order else [callee for callee in sorted(_callees(module.functions[key])) if callee not in order]
        if waiting:
            stack += waiting
        else:
            order[stack.pop()] = None
    return list(order)


def _gradients_of(module: Module, key: str, function: Function, unreached: Unreached) -> tuple[Diagnostic, ...]:
    if _has_known_condition(function):
        return _after_folding(module, key, function.span, unreached)
    try:
        with stage("gradients", function.span):
            unreached.add(differentiate(function))
    except CompileError as error:
        return error.diagnostics
    return ()


def _has_known_condition(function: Function) -> bool:
    """Whether a branch may be gone when gradients are taken: its condition is computed of constants and sizes."""
    known: set[Value] = set()
    for op in walk(function.body):
        if op.name == "if" and op.operands[0] in known:
            return True
        if op.name in ("constant", "size") or (isinstance(entry(op.name).lowering, Scalar) and known.issuperset(op.operands)):
            known.update(op.results)
    return False


def _after_folding(module: Module, key: str, span: Span | None, unreached: Unreached) -> tuple[Diagnostic, ...]:
    """The same once known conditions have been decided: that needs NumPy, which is loaded only where it may change the answer."""
    from shapescript.compiler.passes.pipeline import compile_entry

    try:
        with stage("gradients", span):
            unreached.add(compile_entry(module, key, {}, stop_after="grad"))
    except CompileError as error:
        return error.diagnostics
    return ()
