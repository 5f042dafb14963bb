"""Arithmetic on whole models, as vectors of their parameters: operators and elementwise functions, leaf by leaf."""

from __future__ import annotations

from collections.abc import Sequence

from shapescript.compiler.check import types
from shapescript.compiler.check.body import Body
from shapescript.compiler.check.powers import LARGEST_POWER
from shapescript.compiler.check.site import Site
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.check.types import Tensor
from shapescript.compiler.diagnostics.model import Span
from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ops.table import entries
from shapescript.compiler.syntax import tree

OPERATORS = {"+": "add", "-": "sub", "*": "mul", "/": "div"}
OF_ONE = (
    *("abs", "sign", "sqrt", "rsqrt", "exp", "expm1", "log", "log1p", "sin", "cos", "erf"),
    *("tanh", "sigmoid", "relu", "floor", "ceil", "round"),
)
OF_TWO = ("minimum", "maximum", "pow")

Operand = tuple[Typed, Span]


def is_model(typed: Typed) -> bool:
    return isinstance(typed.type, types.Model)


def arithmetic(body: Body, node: tree.Binary, left: Typed, right: Typed) -> Typed:
    """`+ - * / **` of models and numbers."""
    operands = [(left, node.left.span), (right, node.right.span)]
    with body.builder.at(node.span):
        if node.operator == "**":
            return _power(body, node, left) if _is_whole(node.right) else zipped(body, "pow", operands, "`**`", node.span)
        if node.operator not in OPERATORS:
            body.report.fail("E0301", f"`{node.operator}` is not for models, which have + - * / and `**`", node.span)
        return zipped(body, OPERATORS[node.operator], operands, f"`{node.operator}`", node.span)


def negative(body: Body, node: tree.Unary, operand: Typed) -> Typed:
    with body.builder.at(node.span):
        return zipped(body, "neg", [(operand, node.operand.span)], "`-`", node.span)


def _is_whole(node: tree.Expression) -> bool:
    """Whether it is an integer literal, with its sign."""
    return isinstance(node, tree.IntLiteral) or (isinstance(node, tree.Unary) and isinstance(node.operand, tree.IntLiteral))


def _power(body: Body, node: tree.Binary, base: Typed) -> Typed:
    """A repeated product, as of tensors: x ** (2m) = (x ** m) ** 2, x ** (2m + 1) = x ** (2m) * x."""
    if not isinstance(node.right, tree.IntLiteral) or not 1 <= node.right.value <= LARGEST_POWER:
        body.report.fail("E0503", f"a repeated product of models takes an exponent from 1 to {LARGEST_POWER}", node.right.span)

    def repeated(count: int) -> Value:
        if count == 1:
            return base.value
        half = repeated(count - 1 if count % 2 else count // 2)
        return body.builder.op("zip_leaves", half, base.value if count % 2 else half, op="mul")

    return Typed(base.type, (repeated(node.right.value),))


def applied(site: Site) -> Typed | None:
    """An elementwise function on models; None where no operand is one."""
    arity = 1 if site.name in OF_ONE else 2 if site.name in OF_TWO else 0
    arguments = site.node.arguments
    if len(arguments) != arity or any(argument.name or argument.is_mut for argument in arguments) or site.node.pattern is not None:
        return None
    operands = [site.evaluate(argument) for argument in arguments]
    if not any(map(is_model, operands)) or site.name not in entries():
        return None
    pairs = [(operand, argument.value.span) for operand, argument in zip(operands, arguments, strict=True)]
    return zipped(site.body, site.name, pairs, f"`{site.name}`", site.span)


def zipped(body: Body, op: str, operands: Sequence[Operand], what: str, span: Span) -> Typed:
    """The operation on each parameter of models of one type; numbers take part with every parameter."""
    models = [typed.type for typed, _ in operands if is_model(typed)]
    for typed, place in operands:
        if is_model(typed):
            if typed.type != models[0]:
                body.report.fail("E0301", f"{what} takes models of one type, found {models[0]} and {typed.type}", span)
        elif not _is_number(typed):
            body.report.fail("E0301", f"{what} takes models, numbers and `[]` together, found {typed.type}", place)
    values = [typed.value if is_model(typed) else body.convert(typed, types.FLOAT, place, lambda: what).value for typed, place in operands]
    return Typed(models[0], (body.builder.op("zip_leaves", *values, op=op),))


def _is_number(typed: Typed) -> bool:
    if isinstance(typed.type, Tensor):
        return not typed.type.axes and typed.type.element.is_float
    return typed.type in (types.INT, types.FLOAT)
