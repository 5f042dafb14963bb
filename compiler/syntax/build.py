"""The parser's tree to ours, bottom up and without recursion: a program's nesting never meets the interpreter's limit."""

from __future__ import annotations

from typing import Any

from lark import Token, Tree

from shapescript.compiler.diagnostics.model import Diagnostic, Source, Span
from shapescript.compiler.syntax.layout import place
from shapescript.compiler.syntax.rules import Parts, Rule
from shapescript.compiler.syntax.rules_axes import AXIS_RULES
from shapescript.compiler.syntax.rules_declarations import DECLARATION_RULES
from shapescript.compiler.syntax.rules_expressions import EXPRESSION_RULES
from shapescript.compiler.syntax.tree import Declaration

RULES: dict[str, Rule] = AXIS_RULES | EXPRESSION_RULES | DECLARATION_RULES

# What reads the tree may recurse, some four calls a level: this keeps it far from Python's thousand.
DEEPEST = 100
LEVELS = frozenset(
    (
        *("applied", "group", "axis_arithmetic", "attribute", "unary", "negate", "binary", "comparison", "either", "both"),
        *("bracket", "call", "pipe", "tuple", "dict", "if", "while", "for"),
    )
)


def build(source: Source, root: Tree[Token]) -> tuple[tuple[Declaration, ...], list[Diagnostic]]:
    """The declarations of a parse, and what the grammar couldn't refuse (numbers, escapes, spaces, nesting)."""
    problems: list[Diagnostic] = []
    too_deep: list[Diagnostic] = []
    built: dict[int, Any] = {}
    depths: dict[int, int] = {}
    for subtree in root.iter_subtrees():  # children come before their parents
        rule = str(subtree.data)
        start, end = place_of(subtree) or (0, 0)
        depth = max((depths.pop(id(child)) for child in subtree.children if isinstance(child, Tree)), default=0)
        if rule in LEVELS:
            depth += 1
            if depth == DEEPEST + 1:
                too_deep.append(deep_diagnostic(Span(source, start, end)))
        depths[id(subtree)] = depth
        children = [built.pop(id(child)) if isinstance(child, Tree) else child for child in subtree.children]
        places = [outer_place(child) for child in subtree.children]
        built[id(subtree)] = RULES[rule](Parts(source, start, end, children, places, problems))
    problems += sorted(too_deep, key=lambda problem: problem.place)[:1]
    return built[id(root)], problems


def place_of(part: Tree[Token] | Token) -> tuple[int, int] | None:
    """Offsets of a parser's node, None where it has no text."""
    if isinstance(part, Token):
        return place(part)
    return None if part.meta.empty else (part.meta.start_pos, part.meta.end_pos)


def outer_place(part: Tree[Token] | Token | None) -> tuple[int, int] | None:
    """Offsets with the brackets around it, which lark calls the container of a node."""
    if not isinstance(part, Tree):
        return None if part is None else place(part)
    meta: Any = part.meta  # lark declares no types for a container's place
    return None if meta.empty else (meta.container_start_pos, meta.container_end_pos)


def deep_diagnostic(span: Span) -> Diagnostic:
    return Diagnostic(
        "E0112",
        f"this is nested more than {DEEPEST} levels deep",
        span,
        help="bind parts of it to names, or move them into functions",
    )
