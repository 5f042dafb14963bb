"""The tree's nodes, built bottom up as the parser completes rules: a program's nesting never meets the interpreter's limit."""

from __future__ import annotations

from shapescript.compiler.diagnostics.model import Diagnostic, Source, Span
from shapescript.compiler.syntax.machine import Entry, Part
from shapescript.compiler.syntax.rules import Parts, Rule
from shapescript.compiler.syntax.rules_axes import AXIS_RULES
from shapescript.compiler.syntax.rules_declarations import DECLARATION_RULES
from shapescript.compiler.syntax.rules_expressions import EXPRESSION_RULES

RULES: dict[str, Rule] = AXIS_RULES | EXPRESSION_RULES | DECLARATION_RULES

# What reads the tree may recurse, some four calls a level: this keeps it far from Python's thousand.
DEEPEST = 100
LEVELS = frozenset(
    (
        *("applied", "group", "axis_arithmetic", "attribute", "unary", "negate", "binary", "comparison", "either", "both"),
        *("bracket", "call", "pipe", "tuple", "dict", "if", "while", "for"),
    )
)


class Builder:
    """Builds the nodes of one text. `problems` are what the grammar couldn't refuse: numbers, escapes, spaces."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.problems: list[Diagnostic] = []
        self._too_deep: list[Diagnostic] = []

    def build(self, rule: str, part: Part, entries: list[Entry]) -> None:
        """Give a part its value and its levels, by the parts of its rule."""
        start, end = part.start or 0, part.end or 0
        levels = 0
        for entry in entries:
            if isinstance(entry, Part) and entry.levels > levels:
                levels = entry.levels
        if rule in LEVELS:
            levels += 1
            if levels == DEEPEST + 1:
                self._too_deep.append(deep_diagnostic(Span(self.source, start, end)))
        part.levels = levels
        part.value = RULES[rule](Parts(self.source, start, end, entries, self.problems))

    def found(self) -> list[Diagnostic]:
        """The problems, nesting that is too deep among them: once."""
        return self.problems + sorted(self._too_deep, key=lambda problem: problem.place)[:1]


def deep_diagnostic(span: Span) -> Diagnostic:
    return Diagnostic(
        "E0112",
        f"this is nested more than {DEEPEST} levels deep",
        span,
        help="bind parts of it to names, or move them into functions",
    )
