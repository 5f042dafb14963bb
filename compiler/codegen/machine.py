"""What a core does beside arithmetic: its clock, waiting, and calls of functions whose addresses are values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from shapescript.compiler.codegen.emit import I32, I64, VOID, Builder, Value, declared
from shapescript.compiler.codegen.target import Target


def clock(b: Builder, target: Target) -> Value:
    """The time, in ticks of a counter that goes on while nothing runs."""
    return b.call(declared(b, "llvm.readcyclecounter" if target.is_x86 else "llvm.readsteadycounter", I64, []), [])


def pause(b: Builder, target: Target) -> None:
    """Tells the core that it waits."""
    if target.is_x86:
        b.call(declared(b, "llvm.x86.sse2.pause", VOID, []), [])
    else:
        b.call(declared(b, "llvm.aarch64.hint", VOID, [I32]), [I32(1)])


class FunctionAt:
    """A function whose address is a value, as llvmlite's `call` wants one: its own typed pointers are gone from LLVM."""

    def __init__(self, address: Any, result: Any, arguments: Sequence[Any], var_arg: bool = False) -> None:
        self.address, self.function_type = address, ir.FunctionType(result, arguments, var_arg=var_arg)

    def get_reference(self) -> str:
        reference: str = self.address.get_reference()
        return reference
