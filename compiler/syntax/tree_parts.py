"""The smaller parts of the untyped tree: names, axes, types, patterns and expressions. Read `tree.py` first; import from it."""

from __future__ import annotations

from dataclasses import field
from typing import Literal, TypeAlias

from shapescript.compiler.diagnostics.model import Span
from shapescript.compiler.records.dataclass import dataclass

AxisOperator: TypeAlias = Literal["+", "-", "*", "/", "//"]
UnaryOperator: TypeAlias = Literal["-", "not", "!"]
BinaryOperator: TypeAlias = Literal["+", "-", "*", "/", "//", "%", "@", "**", "&", "|"]
ComparisonOperator: TypeAlias = Literal["==", "!=", "<", "<=", ">", ">="]
LogicalOperator: TypeAlias = Literal["and", "or"]


@dataclass(frozen=True, slots=True)
class Node:
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Identifier(Node):
    """A name where it is declared or selected: what follows `fn`, a parameter's name, `loss` in `m.loss` or `loss=1`."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class QualifiedName(Node):
    """`Linear`, `nn.Linear`, `shapescript.std.nn`: one part or more."""

    parts: tuple[Identifier, ...]

    def __str__(self) -> str:
        return ".".join(part.text for part in self.parts)


# ---- axes -------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AxisName(Node):
    """`b`, `In`."""

    name: str


@dataclass(frozen=True, slots=True)
class AxisInt(Node):
    """`3`: a size, or one axis of that size."""

    value: int


@dataclass(frozen=True, slots=True)
class AxisArithmetic(Node):
    """`n+1`, `3*D`, `(n+1)/2`, `(n-1)//2+1`."""

    operator: AxisOperator
    left: Axis
    right: Axis


@dataclass(frozen=True, slots=True)
class AxisGroup(Node):
    """`(H Dh)`: two axes or more, as one."""

    axes: tuple[Axis, ...]


@dataclass(frozen=True, slots=True)
class LeadingAxes(Node):
    """`..s`: any number of axes, bound to a name."""

    name: Identifier


@dataclass(frozen=True, slots=True)
class AxisList(Node):
    """Axes side by side: `b n D`. May be empty on a pattern's right side only; then its span is empty too."""

    axes: tuple[Axis, ...]


# ---- types ------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Applied(Node):
    """`int`, `Mlp`, `nn.Linear[In, Hidden]`, `f64[b n]`, `Digit[b]`, `AdamW[Mlp]`: a name, with what stands in its brackets.

    `items` is None where no bracket stands. As an axis it is never a bare name (that is an AxisName).
    """

    name: QualifiedName
    items: tuple[Item, ...] | None


@dataclass(frozen=True, slots=True)
class TensorType(Node):
    """`[b n D]`: f32 with these axes; `[]` is a scalar."""

    axes: tuple[Axis, ...]


@dataclass(frozen=True, slots=True)
class TupleType(Node):
    """`([b D], float)`, two or more; only as a result."""

    elements: tuple[Type, ...]


# ---- expressions ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Name(Node):
    name: str


@dataclass(frozen=True, slots=True)
class IntLiteral(Node):
    """0 to 2**63 - 1."""

    value: int


@dataclass(frozen=True, slots=True)
class FloatLiteral(Node):
    """A finite number. The text as written is `span.text`."""

    value: float


@dataclass(frozen=True, slots=True)
class StringLiteral(Node):
    """Without quotes, escapes replaced."""

    value: str


@dataclass(frozen=True, slots=True)
class BoolLiteral(Node):
    value: bool


@dataclass(frozen=True, slots=True)
class Tuple(Node):
    """`(b, n)`, and `a, b` after `return` or `=`: two or more."""

    elements: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class List(Node):
    """`[1.0, 2.0]`: a small tensor; rows are lists in a list."""

    elements: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Pair(Node):
    """`"old": "new"` in braces."""

    key: Expression
    value: Expression


@dataclass(frozen=True, slots=True)
class Dict(Node):
    """`{"old": "new"}`: what names stand for, as an argument of what takes one."""

    pairs: tuple[Pair, ...]


@dataclass(frozen=True, slots=True)
class Attribute(Node):
    """`m.hidden`."""

    base: Expression
    name: Identifier


@dataclass(frozen=True, slots=True)
class Unary(Node):
    operator: UnaryOperator
    operand: Expression


@dataclass(frozen=True, slots=True)
class Binary(Node):
    operator: BinaryOperator
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Comparison(Node):
    operator: ComparisonOperator
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Logical(Node):
    operator: LogicalOperator
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Range(Node):
    """`0..n`. In an index either end may be missing (`1..`, `..k`); after `in` both stand."""

    start: Expression | None
    stop: Expression | None


@dataclass(frozen=True, slots=True)
class At(Node):
    """`n=0`, `4*H=1..` in an index's brackets."""

    axis: Axis
    position: Expression | Range


@dataclass(frozen=True, slots=True)
class Bracket(Node):
    """`x[n=0]`, `causal[n m]`, `load_data[Digit]`, `m.blocks[i+1]`: the checker decides which by what the base is."""

    base: Expression
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Argument(Node):
    """`x`, `lr=3e-4`, `mut m`. A `mut` one is a name or a part of one, and has no name of its own."""

    name: Identifier | None
    value: Expression
    is_mut: bool = False


@dataclass(frozen=True, slots=True)
class Pattern(Node):
    """`b H n Dh, b H m Dh -> b H n m`."""

    inputs: tuple[AxisList, ...]
    output: AxisList


@dataclass(frozen=True, slots=True)
class Call(Node):
    """`f(a, b=1)`, and with a pattern `rearrange(x: b (h w) -> b h w, h=8)`. Arguments stand in the order written."""

    callee: Expression
    arguments: tuple[Argument, ...]
    pattern: Pattern | None = None


@dataclass(frozen=True, slots=True)
class Stage(Node):
    """What follows `|>`: a name (Name, Attribute of names, or Bracket of one), with a call's brackets or without."""

    callee: Expression
    arguments: tuple[Argument, ...] = ()
    pattern: Pattern | None = None
    is_called: bool = False


@dataclass(frozen=True, slots=True)
class Pipe(Node):
    """`x |> f(a)`, which is `f(x, a)`."""

    operand: Expression
    stage: Stage


Axis: TypeAlias = AxisName | AxisInt | AxisArithmetic | AxisGroup | LeadingAxes | Applied
Item: TypeAlias = AxisList | At
Type: TypeAlias = TensorType | Applied | TupleType
Expression: TypeAlias = (
    Name
    | IntLiteral
    | FloatLiteral
    | StringLiteral
    | BoolLiteral
    | Tuple
    | List
    | Dict
    | Attribute
    | Unary
    | Binary
    | Comparison
    | Logical
    | Bracket
    | Call
    | Pipe
)
