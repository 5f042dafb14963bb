"""Sizes and types that are written where the grammar has expressions: `Padding=K//2` in a model's brackets, `stride=2` in a call."""

from __future__ import annotations

from typing import get_args

from shapescript.compiler.diagnostics.model import Span
from shapescript.compiler.syntax import tree
from shapescript.compiler.syntax.tree_parts import AxisOperator


def as_axis(node: object) -> tree.Axis | None:
    """The expression read as an axis, or as the model that stands in brackets; None for one that is neither."""
    match node:
        case tree.IntLiteral(span, value):
            return tree.AxisInt(span, value)
        case tree.Name(span, name):
            return tree.AxisName(span, name)
        case tree.Binary(span, operator, left, right) if operator in get_args(AxisOperator):
            one, other = as_axis(left), as_axis(right)
            return None if one is None or other is None else tree.AxisArithmetic(span, operator, one, other)  # type: ignore[arg-type]
        case tree.Attribute():
            return _applied(node, None, node.span)
        case tree.Bracket(span, base, items):
            return _applied(base, items, span)
    return None


def _applied(node: tree.Expression, items: tuple[tree.Item, ...] | None, span: Span) -> tree.Applied | None:
    """A name, or one of a module, with what stands in its brackets."""
    parts: list[tree.Identifier] = []
    root = node
    while isinstance(root, tree.Attribute):
        parts.insert(0, root.name)
        root = root.base
    if not isinstance(root, tree.Name):
        return None
    return tree.Applied(span, tree.QualifiedName(node.span, (tree.Identifier(root.span, root.name), *parts)), items)
