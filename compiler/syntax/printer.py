"""The untyped tree as text, for `--emit=tree` and for tests: one node a line, its parts indented below it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from shapescript.compiler.diagnostics.model import Span
from shapescript.compiler.syntax.tree import Identifier, Node, QualifiedName

STEP = "  "


def print_tree(node: Node) -> str:
    """Words and numbers stand beside the node's kind as `part=value`, nodes below it after `part:`; what is absent is left out."""
    return "\n".join(lines_of(node, "", "")) + "\n"


def lines_of(node: Node, indent: str, label: str) -> Iterator[str]:
    parts = [(part.name, getattr(node, part.name)) for part in fields(node)]
    flags = {name for name, value in parts if value is False and name.startswith("is_")}
    inline = "".join(f" {name}={shown}" for name, value in parts if name not in flags and (shown := shown_inline(value)) is not None)
    yield f"{indent}{label}{type(node).__name__}{inline}"
    for name, value in parts:
        if isinstance(value, tuple):
            for element in value:
                if shown_inline(element) is None:
                    yield from part_lines(element, indent + STEP, f"{name}: ")
        elif shown_inline(value) is None:
            yield from part_lines(value, indent + STEP, f"{name}: ")


def part_lines(value: Any, indent: str, label: str) -> Iterator[str]:
    if isinstance(value, Node):
        yield from lines_of(value, indent, label)


def shown_inline(value: Any) -> str | None:
    """What stands beside the kind; None for what stands below it or not at all."""
    if isinstance(value, (Identifier, QualifiedName)):
        return str(value)
    if isinstance(value, tuple):
        words = [shown_inline(element) for element in value]
        return ",".join(word for word in words if word is not None) or None
    if value is None or isinstance(value, (Node, Span)):
        return None
    return repr(value) if isinstance(value, str) else str(value)
