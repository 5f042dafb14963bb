"""Calls of a program's functions from Python: the overload that fits, its compiled instance, its results."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from keyword import iskeyword
from typing import Any

from shapescript import measuring
from shapescript.axes import Sizes
from shapescript.binding import Bound, Overload
from shapescript.compiler.check import types as check
from shapescript.compiler.check.program import Generics, Signature, SignatureParameter
from shapescript.compiler.ir.nodes import Module
from shapescript.compiler.ops.protocol import ExecutionError
from shapescript.engines import Compiled, EngineName, compiled
from shapescript.generic_calls import GenericSignatures
from shapescript.host import ProgramHost, as_error, out_of_memory
from shapescript.layouts import Layouts
from shapescript.ordinary_calls import OrdinaryCall, OrdinaryCalls
from shapescript.runtime.errors import ArgumentError, ShapeScriptError
from shapescript.signatures import literal, signature_text

_OTHER_KIND = ("R1004", "R1005")  # codes that say that a call means another overload


class Instances:
    """What has been compiled of a module: one instance for each function and choice of dims, and one more where it was measured. Safe to
    share between threads."""

    def __init__(self, module: Module, engine: EngineName, generics: Generics) -> None:
        self.module, self.engine, self.generics = module, engine, generics
        self._made: dict[tuple[str, tuple[int, ...], bool], Compiled] = {}
        self._lock = threading.Lock()

    def instance(self, overload: Overload, sizes: Sizes) -> Compiled:
        """Compiles at the first call. Raises CompileError and InternalError."""
        dims, measured = overload.signature.dims, self.engine == "native" and measuring.current() is not None
        key = (overload.signature.key, tuple([sizes.values[symbol] for symbol in dims]) if dims else (), measured)
        found = self._made.get(key)
        if found is None:
            with self._lock:
                found = self._made.get(key)
                if found is None:
                    self.generics.complete(overload.signature.key)
                    values = sizes.as_dims()
                    known = {symbol: values[symbol] for symbol in dims}
                    with measuring.part("compiling"):
                        found = compiled(self.engine, self.module, overload.signature.key, known, measured)
                    self._made[key] = found
        return found

    def __len__(self) -> int:
        return len(self._made)


Shared = tuple[Instances, Layouts, ProgramHost, GenericSignatures]


class Calls:
    """One function's name with all its overloads."""

    def __init__(self, name: str, signatures: Sequence[Signature], shared: Shared) -> None:
        self.name, self.signatures = name, signatures
        self._instances, self._layouts, self._host, self._generics = shared
        self._overloads: tuple[Overload, ...] = ()
        self._generic: dict[str, Overload] = {}
        self._ordinary_calls: OrdinaryCalls | None = None
        self._ordinary: OrdinaryCall | None = None  # that of the latest call which had to be looked at in general

    def call(self, positional: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Raises ArgumentError before anything runs; CompileError at a first call; what the program raises."""
        ordinary = self._ordinary
        if ordinary is not None and measuring.current() is None:
            values = positional if not named and len(positional) == ordinary.count else ordinary.overload.in_order(positional, named)
            arguments = ordinary.bind(values)
            if arguments is not None:
                return ordinary.give(self._ran(ordinary.instance, arguments, ordinary.overload.signature))
        return self._general_call(positional, named)

    def _general_call(self, positional: Sequence[Any], named: Mapping[str, Any]) -> Any:
        overloads = self._overloads or self._made(positional, named)
        overload = overloads[0]
        if len(overloads) == 1:
            arguments, sizes = overload.bind(positional, named)
        else:
            overload, (arguments, sizes) = self._chosen(overloads, positional, named)
        instance = self._instances.instance(overload, sizes)
        if self._ordinary_calls is not None and measuring.current() is None:
            self._ordinary = self._ordinary_calls.like(positional, named, sizes, instance)
        return overload.give(iter(self._ran(instance, arguments, overload.signature)), sizes)

    def _ran(self, instance: Compiled, arguments: Sequence[Any], signature: Signature) -> Sequence[Any]:
        """What the engine gives, once all that was saved is safe."""
        if not instance.has_host_operations:  # nothing is written or saved, which 1 µs would be spent on
            return self._values(instance, arguments, signature)
        self._host.logs.begin()
        try:
            values = self._values(instance, arguments, signature)
            self._host.saves.wait()
        except ShapeScriptError as error:
            self._host.logs.failed(error)
            raise
        finally:
            self._host.end_call()
        return values

    def _values(self, instance: Compiled, arguments: Sequence[Any], signature: Signature) -> Sequence[Any]:
        """An engine's errors become those that users catch."""
        try:
            return instance.run(arguments, self._host)
        except ExecutionError as error:
            raise as_error(error) from None
        except MemoryError as error:
            raise out_of_memory(error, self.name, signature.span) from None

    def _made(self, positional: Sequence[Any], named: Mapping[str, Any]) -> tuple[Overload, ...]:
        """The overloads: kept, unless one of them is generic and depends on this call's arguments."""
        if not any(signature.types for signature in self.signatures):
            self._overloads = tuple(Overload(signature, self._layouts) for signature in self.signatures)
            if len(self._overloads) == 1:
                self._ordinary_calls = OrdinaryCalls.of(self._overloads[0])
            return self._overloads
        if len(self.signatures) == 1:
            return (self._instance(self.signatures[0], positional, named),)
        found: list[Overload] = []
        refused: list[ArgumentError] = []
        for signature in self.signatures:
            try:
                found.append(self._instance(signature, positional, named))
            except ArgumentError as error:
                refused.append(error)
        if not found:
            raise refused[0]
        return tuple(found)

    def _instance(self, signature: Signature, positional: Sequence[Any], named: Mapping[str, Any]) -> Overload:
        made = self._generics.instance(signature, positional, named) if signature.types else signature
        if made.key not in self._generic:
            self._generic[made.key] = Overload(made, self._layouts)
        return self._generic[made.key]

    def _chosen(self, overloads: Sequence[Overload], positional: Sequence[Any], named: Mapping[str, Any]) -> tuple[Overload, Bound]:
        """The only overload that fits; where none does, the error of the only one that takes arguments of these kinds."""
        fitting: list[tuple[Overload, Bound]] = []
        refused: list[ArgumentError] = []
        for overload in overloads:
            try:
                fitting.append((overload, overload.bind(positional, named)))
            except ArgumentError as error:
                refused.append(error)
        if len(fitting) > 1:  # float32 is f32 where that is wanted, and bf16 where only that is
            fitting = [(overload, bound) for overload, bound in fitting if not overload.takes_bf16] or fitting
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            shown = "; ".join(str(overload) for overload, _ in fitting)
            raise ArgumentError("R1004", f"{self.name}: more than one overload fits these arguments: {shown}")
        meant = [error for error in refused if error.code not in _OTHER_KIND]
        if len(meant) == 1:
            raise meant[0]
        reasons = "; ".join(f"{overload} ({error.message})" for overload, error in zip(overloads, refused, strict=True))
        raise ArgumentError("R1004", f"{self.name}: no overload fits these arguments: {reasons}")


def python_function(calls: Calls, module: str) -> Callable[..., Any]:
    """A function that `help` shows as the program writes it."""

    def call(*positional: Any, **named: Any) -> Any:
        return calls.call(positional, named)

    call.__name__ = call.__qualname__ = calls.name
    call.__module__ = module
    call.__doc__ = "\n".join(f"fn {signature_text(signature)}" for signature in calls.signatures)
    if len(calls.signatures) == 1 and _writable_in_python(calls.signatures[0]):
        call.__signature__ = _python_signature(calls.signatures[0])  # type: ignore[attr-defined]
    return call


class _Written:
    """An annotation that shows a type of the language as it is written."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _writable_in_python(signature: Signature) -> bool:
    """Python has keywords that are names here, `lambda`, and no parameter without a default behind one with a default."""
    defaults = [parameter.default is not None for parameter in signature.parameters]
    return defaults == sorted(defaults) and not any(iskeyword(parameter.name) for parameter in signature.parameters)


def _python_signature(signature: Signature) -> inspect.Signature:
    def parameter(given: SignatureParameter) -> inspect.Parameter:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        default = inspect.Parameter.empty if given.default is None else _Written(literal(given.default))
        return inspect.Parameter(given.name, kind, default=default, annotation=_Written(f"{'mut ' if given.mutable else ''}{given.type}"))

    result = None if signature.result == check.NOTHING else _Written(str(signature.result))
    return inspect.Signature([parameter(given) for given in signature.parameters], return_annotation=result)
