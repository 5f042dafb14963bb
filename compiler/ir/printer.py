"""The IR as text, for people and for golden files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shapescript.compiler.ir.nodes import Block, Function, Module, Op, Value
from shapescript.compiler.ir.sizes import Size, Symbol
from shapescript.compiler.ir.types import Element


class _Names:
    """Each value's name: its hint, numbered where the hint is taken."""

    def __init__(self) -> None:
        self.of: dict[Value, str] = {}
        self.counts: dict[str, int] = {}

    def name(self, value: Value) -> str:
        if value not in self.of:
            hint = value.hint
            number = self.counts.get(hint, 0)
            self.counts[hint] = number + 1
            self.of[value] = f"%{hint}{f'.{number}' if number else ''}" if hint else f"%{number}"
        return self.of[value]


def print_module(module: Module) -> str:
    return "\n".join(print_function(function) for function in module.functions.values())


def print_function(function: Function) -> str:
    names = _Names()
    dims = f"[{', '.join(symbol.name for symbol in function.dims)}]" if function.dims else ""
    parameters = ", ".join(
        f"{'mut ' if mutable else ''}{names.name(value)}: {value.type}"
        for value, mutable in zip(function.body.parameters, function.mutable, strict=True)
    )
    head = f"fn {function.name}{dims}({parameters}):\n"
    return head + _block_text(function.body, names, "    ", "return")


def print_block(block: Block) -> str:
    names = _Names()
    return f"({_typed(block.parameters, names)}):\n" + _block_text(block, names, "    ", "yield")


def _typed(values: tuple[Value, ...], names: _Names) -> str:
    return ", ".join(f"{names.name(value)}: {value.type}" for value in values)


def _block_text(block: Block, names: _Names, margin: str, ending: str) -> str:
    lines = [line for op in block.ops for line in _op_lines(op, names, margin)]
    if block.yields or ending == "return":
        lines.append(f"{margin}{ending} {', '.join(names.name(value) for value in block.yields)}".rstrip())
    return "\n".join(lines) + "\n"


def _op_lines(op: Op, names: _Names, margin: str) -> list[str]:
    operands = ", ".join(names.name(value) for value in op.operands)
    results = f"{_typed(op.results, names)} = " if op.results else ""
    lines = [f"{margin}{results}{op.name}({operands}){_attributes(op.attributes)}"]
    for region in op.regions:
        symbols = f"<{', '.join(symbol.name for symbol in region.symbols)}> " if region.symbols else ""
        lines.append(f"{margin}  {{ {symbols}({_typed(region.parameters, names)}):")
        lines += _block_text(region, names, margin + "    ", "yield").rstrip("\n").split("\n")
        lines.append(f"{margin}  }}")
    return [line for line in lines if line.strip()]


def _attributes(attributes: Mapping[str, Any]) -> str:
    shown = ", ".join(f"{name}={_attribute(value)}" for name, value in attributes.items())
    return f" {{{shown}}}" if shown else ""


def _attribute(value: Any) -> str:
    match value:
        case tuple():
            return f"({' '.join(_attribute(part) for part in value)})"
        case Size() | Symbol():
            return str(value)
        case Element():
            return value.value
        case float():
            return repr(value)
        case str():
            return f'"{value}"' if " " in value or not value else value
        case dict():
            return "{" + ", ".join(f"{key}: {_attribute(part)}" for key, part in value.items()) + "}"
    return str(value)
