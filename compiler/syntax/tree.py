"""The untyped tree: what a program looks like, with the place of every part, and nothing about what it means.

Nodes compare by structure without their spans, so two equal names at different places are equal: key a table by `id(node)`.
Every sequence is a tuple. Brackets that only group are not kept: a node's span never includes brackets around it.
"""

from __future__ import annotations

from dataclasses import field
from typing import TypeAlias

from shapescript.compiler.diagnostics.model import Span
from shapescript.compiler.records.dataclass import dataclass
from shapescript.compiler.syntax.tree_parts import (
    Applied,
    Argument,
    At,
    Attribute,
    Axis,
    AxisArithmetic,
    AxisGroup,
    AxisInt,
    AxisList,
    AxisName,
    AxisOperator,
    Binary,
    BinaryOperator,
    BoolLiteral,
    Bracket,
    Call,
    Comparison,
    ComparisonOperator,
    Dict,
    Expression,
    FloatLiteral,
    Identifier,
    IntLiteral,
    Item,
    LeadingAxes,
    List,
    Logical,
    LogicalOperator,
    Name,
    Node,
    Pair,
    Pattern,
    Pipe,
    QualifiedName,
    Range,
    Stage,
    StringLiteral,
    TensorType,
    Tuple,
    TupleType,
    Type,
    Unary,
    UnaryOperator,
)

__all__ = [
    "Applied",
    "Argument",
    "Assign",
    "At",
    "Attribute",
    "Axis",
    "AxisArithmetic",
    "AxisGroup",
    "AxisInt",
    "AxisList",
    "AxisName",
    "AxisOperator",
    "Binary",
    "BinaryOperator",
    "BoolLiteral",
    "Bracket",
    "Branch",
    "Buffer",
    "Call",
    "Comparison",
    "ComparisonOperator",
    "ConstDeclaration",
    "Declaration",
    "Dict",
    "DimDeclaration",
    "Evaluate",
    "Expression",
    "Field",
    "FloatLiteral",
    "For",
    "FunctionDeclaration",
    "Generic",
    "Identifier",
    "If",
    "ImportModule",
    "ImportNames",
    "IntLiteral",
    "Item",
    "LeadingAxes",
    "List",
    "Logical",
    "LogicalOperator",
    "Member",
    "ModelDeclaration",
    "Module",
    "Name",
    "Node",
    "Pair",
    "Parameter",
    "Pattern",
    "Pipe",
    "QualifiedName",
    "Range",
    "RecordDeclaration",
    "Requirement",
    "Return",
    "Stage",
    "Statement",
    "StringLiteral",
    "Target",
    "TargetPart",
    "TargetPlaces",
    "TensorType",
    "Treatment",
    "Tuple",
    "TupleType",
    "Type",
    "Unary",
    "UnaryOperator",
    "While",
]

# ---- statements -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Target(Node):
    """A name before `=`, with its `mut`."""

    name: Identifier
    is_mut: bool


@dataclass(frozen=True, slots=True)
class TargetPart(Node):
    """`norm.mean` before `=`: a part of what a `mut` variable holds."""

    place: Attribute


@dataclass(frozen=True, slots=True)
class TargetPlaces(Node):
    """`x[n=0]` before `=`: places of a tensor that a `mut` variable holds."""

    place: Bracket


AnyTarget: TypeAlias = Target | TargetPart | TargetPlaces


def target_root(target: AnyTarget) -> Expression | Identifier:
    """The innermost part of what stands before `=`: a name, unless the program is wrong."""
    if isinstance(target, Target):
        return target.name
    root: Expression = target.place
    while isinstance(root, Attribute | Bracket):
        root = root.base
    return root


@dataclass(frozen=True, slots=True)
class Assign(Node):
    targets: tuple[AnyTarget, ...]
    value: Expression


@dataclass(frozen=True, slots=True)
class Evaluate(Node):
    """An expression on a line of its own."""

    value: Expression


@dataclass(frozen=True, slots=True)
class Return(Node):
    value: Expression | None


@dataclass(frozen=True, slots=True)
class Branch(Node):
    """`if` or `elif`, its condition and its block."""

    condition: Expression
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class If(Node):
    branches: tuple[Branch, ...]
    otherwise: tuple[Statement, ...] | None


@dataclass(frozen=True, slots=True)
class While(Node):
    condition: Expression
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class For(Node):
    variable: Identifier
    iterable: Expression | Range
    body: tuple[Statement, ...]


# ---- declarations -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ImportModule(Node):
    """`import a.b as c`."""

    module: QualifiedName
    alias: Identifier | None


@dataclass(frozen=True, slots=True)
class ImportNames(Node):
    """`from a.b import c, d`."""

    module: QualifiedName
    names: tuple[Identifier, ...]


@dataclass(frozen=True, slots=True)
class DimDeclaration(Node):
    name: Identifier
    value: Expression


@dataclass(frozen=True, slots=True)
class ConstDeclaration(Node):
    name: Identifier
    value: Expression


@dataclass(frozen=True, slots=True)
class Field(Node):
    name: Identifier
    type: Type


@dataclass(frozen=True, slots=True)
class RecordDeclaration(Node):
    """`data Digit:`."""

    name: Identifier
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Generic(Node):
    """`D` (a dim), `M: model`, `E: data`, `Stride = 1`: `kind` is None or the word as written; a model's dim may have a default."""

    name: Identifier
    kind: Identifier | None
    default: Axis | None = None


@dataclass(frozen=True, slots=True)
class Member(Node):
    """A parameter, hyperparameter or sub-model; `count` is L in `blocks: Block[D] * L`."""

    name: Identifier
    type: Type
    count: Axis | None
    initialiser: Expression | None


@dataclass(frozen=True, slots=True)
class Buffer(Node):
    """`buffer mean: [D] = zeros`."""

    name: Identifier
    type: Type
    initialiser: Expression


@dataclass(frozen=True, slots=True)
class Treatment(Node):
    """`group "*.bias", "norm.*": decay=false`: how optimisers treat the parameters whose dotted names fit one of the patterns."""

    patterns: tuple[StringLiteral, ...]
    options: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class ModelDeclaration(Node):
    name: Identifier
    generics: tuple[Generic, ...]
    members: tuple[Member | Buffer, ...]
    treatments: tuple[Treatment, ...] = ()


@dataclass(frozen=True, slots=True)
class Parameter(Node):
    """`mut m: Mlp`, `epochs: int = 100`."""

    name: Identifier
    type: Type
    is_mut: bool
    default: Expression | None


@dataclass(frozen=True, slots=True)
class Requirement(Node):
    """`requires loss(m: M, batch: E[b]) -> []`."""

    name: Identifier
    parameters: tuple[Parameter, ...]
    result: Type | None


@dataclass(frozen=True, slots=True)
class FunctionDeclaration(Node):
    """`header` runs from `fn` to the end of the result type (requirements, colon and body left out)."""

    name: Identifier
    generics: tuple[Generic, ...]
    parameters: tuple[Parameter, ...]
    result: Type | None
    requirements: tuple[Requirement, ...]
    body: tuple[Statement, ...]
    header: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Module(Node):
    """A file. `unparsed` names what declarations with syntax errors would have declared: empty unless read for an editor."""

    declarations: tuple[Declaration, ...]
    unparsed: tuple[str, ...] = ()


Statement: TypeAlias = Assign | Evaluate | Return | If | While | For
Declaration: TypeAlias = (
    ImportModule | ImportNames | DimDeclaration | ConstDeclaration | RecordDeclaration | ModelDeclaration | FunctionDeclaration
)
