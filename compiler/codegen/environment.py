"""The floating-point environment: set at every entry of native code and in every worker, restored after.

Other libraries change rounding, flush-to-zero and traps for the whole process; native code runs with IEEE's defaults, all traps masked.
"""

from __future__ import annotations

from llvmlite import ir

from shapescript.compiler.codegen.emit import I32, I64, PTR, VOID, Builder, Value, declared, stack
from shapescript.compiler.codegen.target import Target

MXCSR_DEFAULT = 0x1F80  # round to nearest even, no flush to zero, no denormals-are-zero, all exceptions masked
FPCR_DEFAULT = 0


def enter(b: Builder, target: Target) -> Value:
    """Set the default environment; returns the caller's, for `leave`."""
    if target.is_x86:
        saved, ours = stack(b, I32, 1), stack(b, I32, 1)
        b.store(I32(MXCSR_DEFAULT), ours)
        b.call(declared(b, "llvm.x86.sse.stmxcsr", VOID, [PTR]), [saved])
        b.call(declared(b, "llvm.x86.sse.ldmxcsr", VOID, [PTR]), [ours])
        return saved
    caller = b.call(declared(b, "llvm.aarch64.get.fpcr", I64, []), [])
    b.call(declared(b, "llvm.aarch64.set.fpcr", VOID, [I64]), [I64(FPCR_DEFAULT)])
    return caller


def leave(b: Builder, target: Target, caller: Value) -> None:
    """Restore the environment that `enter` returned."""
    if target.is_x86:
        b.call(declared(b, "llvm.x86.sse.ldmxcsr", VOID, [PTR]), [caller])
    else:
        b.call(declared(b, "llvm.aarch64.set.fpcr", VOID, [I64]), [caller])


def emit_entry(module: ir.Module, target: Target, name: str, body: ir.Function) -> ir.Function:
    """The exported function `name`, which calls `body` (internal, of the same type) in the default environment.

    The body is a function of its own because LLVM takes arithmetic to be free of the environment, and may move it past the change within
    one function.
    """
    body.attributes.add("noinline")
    entry = ir.Function(module, body.function_type, name)
    entry.attributes.add("nounwind")
    b = ir.IRBuilder(entry.append_basic_block("entry"))
    caller = enter(b, target)
    result = b.call(body, entry.args)
    leave(b, target, caller)
    if body.function_type.return_type == VOID:
        b.ret_void()
    else:
        b.ret(result)
    return entry
