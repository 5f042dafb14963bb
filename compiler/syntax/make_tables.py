"""The parser's tables from the grammar, by lark, as plain data:  python -m shapescript.compiler.syntax.make_tables

To be run after a change of grammar.lark; a test fails until it is. States and rules are numbered in an order of their own, so that the same
grammar always gives the same file.
"""

from __future__ import annotations

import json
from typing import Any

from lark import Lark
from lark.grammar import Rule
from lark.lexer import PatternStr, TerminalDef
from lark.parsers.lalr_analysis import Shift

from shapescript.compiler.syntax.tables import ABSENT, GRAMMAR, SHIPPED, checksum

START, END = "start", "$END"


def made_tables(grammar: str) -> dict[str, Any]:
    """What `Tables` reads. Raises lark's errors for a grammar that is wrong."""
    lark: Any = Lark(grammar, start=START, parser="lalr", lexer="basic", maybe_placeholders=True)  # lark declares few of its parts
    rules = sorted(lark.rules, key=lambda rule: (rule.origin.name, [symbol.name for symbol in rule.expansion]))
    numbers = {rule: number for number, rule in enumerate(rules)}
    table = lark.parser.parser._parse_table
    first = table.start_states[START]
    order = _in_order(first, table.states)
    states = [
        {symbol: order[to] if action is Shift else ~numbers[to] for symbol, (action, to) in sorted(table.states[state].items())}
        for state in order
    ]
    return {
        "grammar": checksum(grammar),
        **_words(lark),
        "rules": [_reduction(rule) for rule in rules],
        "start": order[first],
        "end": order[table.end_states[START]],
        "states": states,
    }


def _in_order(first: Any, states: Any) -> dict[Any, int]:
    """The states numbered in the order in which they are reached, by the names of what leads there."""
    order = {first: 0}
    waiting = [first]
    while waiting:
        reached = []
        for state in waiting:
            for _, (action, to) in sorted(states[state].items(), key=lambda item: str(item[0])):
                if action is Shift and to not in order:
                    order[to] = len(order)
                    reached.append(to)
        waiting = reached
    return order


def _words(lark: Any) -> dict[str, Any]:
    """The lexer's part. A fixed word that a pattern matches too is a keyword: the pattern finds it."""
    lexer = lark.parser.lexer
    (expression,) = lexer.scanner._mres
    keywords: dict[str, str] = {}
    for callback in lexer.callback.values():
        for terminal in callback.scanner.terminals:
            assert isinstance(terminal, TerminalDef) and isinstance(terminal.pattern, PatternStr)
            keywords[terminal.pattern.value] = terminal.name
    return {"pattern": expression.pattern, "keywords": dict(sorted(keywords.items())), "ignored": sorted(lexer.ignore_types)}


def _reduction(rule: Rule) -> list[Any]:
    """The arguments of `Reduction`. Tokens with a name that begins with `_`, and fixed ones without a name, are no parts of the tree."""
    options: Any = rule.options
    placed = options.empty_indices or (False,) * len(rule.expansion)  # True: something optional is absent here
    symbols = iter(enumerate(rule.expansion))
    kept: list[int] = []
    for absent in placed:
        if absent:
            kept.append(ABSENT)
            continue
        index, symbol = next(symbols)
        if not (symbol.is_term and getattr(symbol, "filter_out", False)):
            kept.append(index)
    transparent = bool(options.expand1) and not rule.alias
    return [rule.origin.name, rule.alias or rule.origin.name, len(rule.expansion), kept, transparent]


def text_of(data: dict[str, Any]) -> str:
    """As compact JSON, one entry of a list a line."""
    parts = []
    for name, value in data.items():
        if isinstance(value, list):
            parts.append(f'"{name}":[\n' + ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in value) + "\n]")
        else:
            parts.append(f'"{name}":{json.dumps(value, separators=(",", ":"))}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    SHIPPED.write_text(text_of(made_tables(GRAMMAR.read_text("utf-8"))), "utf-8")
