"""A program at a stage of compiling, as text."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

from shapescript.checking import stage
from shapescript.compiler.check.program import Program
from shapescript.compiler.diagnostics.model import CompileError, Diagnostic, Source, Span
from shapescript.compiler.ir.nodes import Function
from shapescript.compiler.syntax.tree_parts import Identifier, QualifiedName


def emitted(name: str, file: Path, checked: Program | None, key: str) -> str:
    """The stage's text, with a line break at its end. `checked` and the entry's `key` are needed behind the tree.

    Raises CompileError, for a file that can't be read too, and InternalError.
    """
    if name == "tree" or checked is None or checked.module is None:
        return _tree(file)
    function = checked.module.functions[key]
    if name in ("llvm", "asm"):
        return _native(name, checked, key)

    from shapescript.compiler.ir.printer import print_function
    from shapescript.compiler.passes.pipeline import compile_entry

    with stage("passes", function.span):
        compiled = compile_entry(checked.module, key, {}, stop_after=name)
        counts = _memory_lines(compiled) if name in ("fused", "final") else ()
        return print_function(compiled) + "".join(f"{line}\n" for line in counts)


def _memory_lines(function: Function) -> Iterator[str]:
    """How many passes over memory each block makes."""
    from shapescript.compiler.passes.memory_passes import block_traffic

    for path, traffic in block_traffic(function):
        yield f"# {path or 'outside'}: {traffic.passes} passes over memory by {traffic.operations} operations, {traffic.bytes} bytes"


def _native(name: str, checked: Program, key: str) -> str:
    from shapescript.compiler.codegen.program import assembly, llvm_text
    from shapescript.compiler.codegen.target import host
    from shapescript.compiler.passes.pipeline import compile_entry

    assert checked.module is not None
    span = checked.module.functions[key].span
    with stage("passes", span):
        function = compile_entry(checked.module, key, {})
    with stage("codegen", span):
        text = (llvm_text if name == "llvm" else assembly)(function, host())
    return text if text.endswith("\n") else f"{text}\n"


def _tree(file: Path) -> str:
    from shapescript.compiler.syntax.parse import parse

    try:
        text = file.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise CompileError(Diagnostic("E0204", f"cannot read {file}: {reason}", None)) from None
    module, diagnostics = parse(Source(str(file), text))
    if module is None:
        raise CompileError(diagnostics)
    return "\n".join(_tree_lines(module, "")) + "\n"


def _tree_lines(node: Any, label: str) -> Iterator[str]:
    """A node's own values behind its name, its parts below it."""
    fields = [(field.name, getattr(node, field.name)) for field in dataclasses.fields(node)]
    own = [f"{name}={_leaf(value)}" for name, value in fields if not _has_nodes(value) and not isinstance(value, Span)]
    yield f"{label}{type(node).__name__}({', '.join(own)})"
    for name, value in fields:
        if not _has_nodes(value):
            continue
        if not isinstance(value, tuple):
            yield from (f"    {line}" for line in _tree_lines(value, f"{name}: "))
            continue
        for part in value:
            lines = _tree_lines(part, f"{name}: ") if _is_node(part) else iter([f"{name}: {_leaf(part)}"])
            yield from (f"    {line}" for line in lines)


def _is_node(value: Any) -> bool:
    """Whether a value gets lines of its own; names don't."""
    return dataclasses.is_dataclass(value) and not isinstance(value, type | Span | Identifier | QualifiedName)


def _has_nodes(value: Any) -> bool:
    return _is_node(value) or (isinstance(value, tuple) and any(_is_node(part) for part in value))


def _leaf(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_leaf, value))}]"
    if isinstance(value, Enum):
        return value.name
    return str(value) if isinstance(value, Identifier | QualifiedName) else repr(value)
