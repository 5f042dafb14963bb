"""From the grammar's rules of expressions to the tree's nodes."""

from __future__ import annotations

from shapescript.compiler.diagnostics.model import Label, Span
from shapescript.compiler.records.dataclass import dataclass
from shapescript.compiler.syntax.rules import Parts, Rule, float_value, int_value, string_value
from shapescript.compiler.syntax.tree import (
    Applied,
    Argument,
    Attribute,
    Binary,
    BoolLiteral,
    Bracket,
    Call,
    Comparison,
    Dict,
    Expression,
    FloatLiteral,
    IntLiteral,
    List,
    Logical,
    Name,
    Pair,
    Pattern,
    Pipe,
    Stage,
    StringLiteral,
    Tuple,
    Unary,
)


@dataclass(frozen=True, slots=True)
class Inside:
    """A call's brackets: what stands in them."""

    arguments: tuple[Argument, ...]
    pattern: Pattern | None


def name(parts: Parts) -> Name:
    return Name(parts.span, str(parts.children[0]))


def int_literal(parts: Parts) -> IntLiteral:
    return IntLiteral(parts.span, int_value(parts, parts.children[0]))


def float_literal(parts: Parts) -> FloatLiteral:
    return FloatLiteral(parts.span, float_value(parts, parts.children[0]))


def string_literal(parts: Parts) -> StringLiteral:
    return StringLiteral(parts.span, string_value(parts, parts.children[0]))


def true_literal(parts: Parts) -> BoolLiteral:
    return BoolLiteral(parts.span, True)


def false_literal(parts: Parts) -> BoolLiteral:
    return BoolLiteral(parts.span, False)


def tuple_of(parts: Parts) -> Tuple:
    return Tuple(parts.span, tuple(parts.children))


def list_of(parts: Parts) -> List:
    return List(parts.span, tuple(parts.present))


def dict_of(parts: Parts) -> Dict:
    return Dict(parts.span, tuple(parts.present))


def pair(parts: Parts) -> Pair:
    return Pair(parts.span, *parts.children)


def attribute(parts: Parts) -> Attribute:
    base, selected = parts.children
    if isinstance(base, (IntLiteral, FloatLiteral)) and base.span.end == (parts.places[0] or (0, 0))[1]:
        help = "a number has digits on both sides of its point: write `1.0`, not `1.`"
        parts.report("E0109", f"`{base.span.text}.` is no number", parts.span, help)
    return Attribute(parts.span, base, parts.identifier(selected))


def unary(parts: Parts) -> Unary:
    operator, operand = parts.children
    return Unary(parts.span, str(operator), operand)  # type: ignore[arg-type]


def negate(parts: Parts) -> Unary:
    return Unary(parts.span, "not", parts.children[0])


def binary(parts: Parts) -> Binary:
    left, operator, right = parts.children
    return Binary(parts.span, str(operator), left, right)  # type: ignore[arg-type]


def comparison(parts: Parts) -> Comparison:
    left, operator, right = parts.children
    return Comparison(parts.span, str(operator), left, right)  # type: ignore[arg-type]


def either(parts: Parts) -> Logical:
    return Logical(parts.span, "or", *parts.children)


def both(parts: Parts) -> Logical:
    return Logical(parts.span, "and", *parts.children)


def bracket(parts: Parts) -> Bracket:
    return Bracket(parts.span, *parts.children)


def call(parts: Parts) -> Call:
    callee, inside = parts.children
    if inside.pattern is not None and all(given.name is not None for given in inside.arguments):
        refuse_missing_operands(parts, inside.pattern)
    return Call(parts.span, callee, inside.arguments, inside.pattern)


def refuse_missing_operands(parts: Parts, pattern: Pattern) -> None:
    """`rearrange(x, b n -> n b)` arrives as a pattern of two inputs, x and b n."""
    operands = [axes.span.text for axes in pattern.inputs[:-1] if len(axes.axes) == 1]
    help = f"a colon stands before the pattern: `{', '.join(operands) or 'x'}: …`"
    parts.report("E0130", "this pattern has no operand", pattern.span, help)


def pipe(parts: Parts) -> Pipe:
    return Pipe(parts.span, *parts.children)


def stage(parts: Parts) -> Stage:
    callee: Applied = parts.children[0]
    inside: Inside | None = parts.children[1]
    if inside is None:
        return Stage(parts.span, as_expression(callee))
    return Stage(parts.span, as_expression(callee), inside.arguments, inside.pattern, is_called=True)


def as_expression(applied: Applied) -> Expression:
    """A name with its brackets, as the expression that the same text is elsewhere."""
    first, *others = applied.name.parts
    expression: Expression = Name(first.span, first.text)
    for part in others:
        expression = Attribute(first.span.to(part.span), expression, part)
    return expression if applied.items is None else Bracket(applied.span, expression, applied.items)


def inside_brackets(parts: Parts) -> Inside:
    arguments = tuple(part for part in parts.present if isinstance(part, Argument))
    pattern = next((part for part in parts.present if isinstance(part, Pattern)), None)
    check_order(parts, arguments)
    return Inside(arguments, pattern)


def check_order(parts: Parts, arguments: tuple[Argument, ...]) -> None:
    """A named argument is followed by named ones only, and no name stands twice."""
    seen: dict[str, Span] = {}
    last_named: Argument | None = None
    for given in arguments:
        if given.name is None:
            if last_named is not None:
                message = "an argument without a name can't follow one with a name"
                parts.report("E0124", message, given.span, labels=(Label(last_named.span, "this one has a name"),))
                return
            continue
        last_named = given
        if given.name.text in seen:
            labels = (Label(seen[given.name.text], "given here first"),)
            parts.report("E0125", f"the argument `{given.name}` is given twice", given.name.span, labels=labels)
        seen.setdefault(given.name.text, given.name.span)


def argument(parts: Parts) -> Argument:
    if len(parts.children) == 2:
        return Argument(parts.span, None, parts.children[1], is_mut=True)
    only = parts.children[0]
    return only if isinstance(only, Argument) else Argument(parts.span, None, only)


def named(parts: Parts) -> Argument:
    name_token, value = parts.children
    return Argument(parts.span, parts.identifier(name_token), value)


EXPRESSION_RULES: dict[str, Rule] = {
    "name": name,
    "int": int_literal,
    "float": float_literal,
    "string": string_literal,
    "true": true_literal,
    "false": false_literal,
    "tuple": tuple_of,
    "list": list_of,
    "dict": dict_of,
    "pair": pair,
    "attribute": attribute,
    "unary": unary,
    "negate": negate,
    "binary": binary,
    "comparison": comparison,
    "either": either,
    "both": both,
    "bracket": bracket,
    "call": call,
    "pipe": pipe,
    "stage": stage,
    "inside": inside_brackets,
    "argument": argument,
    "named": named,
}
