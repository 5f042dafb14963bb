"""From the grammar's rules of declarations and statements to the tree's nodes."""

from __future__ import annotations

from typing import Any

from shapescript.compiler.diagnostics.model import Span
from shapescript.compiler.records.dataclass import dataclass
from shapescript.compiler.syntax.rules import Parts, Rule, string_value
from shapescript.compiler.syntax.tree import (
    Argument,
    Assign,
    Attribute,
    Bracket,
    Branch,
    Buffer,
    ConstDeclaration,
    DimDeclaration,
    Evaluate,
    Field,
    For,
    FunctionDeclaration,
    Generic,
    Identifier,
    If,
    ImportModule,
    ImportNames,
    Member,
    ModelDeclaration,
    Name,
    Parameter,
    RecordDeclaration,
    Requirement,
    Return,
    StringLiteral,
    Target,
    TargetPart,
    TargetPlaces,
    Treatment,
    Type,
    While,
)

STATEMENTS_OF_PYTHON = {
    "pass": "a block needs a statement: a function that does nothing has `return`",
    "break": "a loop ends with its condition, or the function with `return`",
    "continue": "put the rest of the loop's block under an `if`",
}


@dataclass(frozen=True, slots=True)
class Header:
    """A function's declaration without requirements and body."""

    span: Span
    name: Identifier
    generics: tuple[Generic, ...]
    parameters: tuple[Parameter, ...]
    result: Type | None


def declarations(parts: Parts) -> tuple[Any, ...]:
    return tuple(parts.children)


def import_module(parts: Parts) -> ImportModule:
    name, alias = parts.children
    return ImportModule(parts.span, name, parts.optional_identifier(alias))


def import_names(parts: Parts) -> ImportNames:
    name, *names = parts.children
    return ImportNames(parts.span, name, tuple(parts.identifier(token) for token in names))


def dim(parts: Parts) -> DimDeclaration:
    name, value = parts.children
    return DimDeclaration(parts.span, parts.identifier(name), value)


def const(parts: Parts) -> ConstDeclaration:
    name, value = parts.children
    return ConstDeclaration(parts.span, parts.identifier(name), value)


def record(parts: Parts) -> RecordDeclaration:
    name, *fields = parts.children
    return RecordDeclaration(parts.span, parts.identifier(name), tuple(fields))


def field(parts: Parts) -> Field:
    name, declared = parts.children
    return Field(parts.span, parts.identifier(name), declared)


def model(parts: Parts) -> ModelDeclaration:
    name, generics, *body = parts.children
    members = tuple(part for part in body if not isinstance(part, Treatment))
    treatments = tuple(part for part in body if isinstance(part, Treatment))
    return ModelDeclaration(parts.span, parts.identifier(name), generics or (), members, treatments)


def member(parts: Parts) -> Member:
    name, declared, count, initialiser = parts.children
    return Member(parts.span, parts.identifier(name), declared, count, initialiser)


def buffer(parts: Parts) -> Buffer:
    name, declared, initialiser = parts.children
    return Buffer(parts.span, parts.identifier(name), declared, initialiser)


def treatment(parts: Parts) -> Treatment:
    patterns: list[StringLiteral] = []
    options: list[Argument] = []
    for child, place in zip(parts.children, parts.places, strict=True):
        if isinstance(child, Argument):
            options.append(child)
        else:
            assert place is not None
            patterns.append(StringLiteral(Span(parts.source, *place), string_value(parts, child)))
    return Treatment(parts.span, tuple(patterns), tuple(options))


def generics(parts: Parts) -> tuple[Any, ...]:
    return tuple(parts.children)


def generic(parts: Parts) -> Generic:
    name, kind, default = parts.children
    return Generic(parts.span, parts.identifier(name), parts.optional_identifier(kind), default)


def header(parts: Parts) -> Header:
    name, generic_names, declared, result = parts.children
    return Header(parts.span, parts.identifier(name), generic_names or (), declared, result)


def parameters(parts: Parts) -> tuple[Any, ...]:
    return tuple(parts.present)


def parameter(parts: Parts) -> Parameter:
    mut, name, declared, default = parts.children
    return Parameter(parts.span, parts.identifier(name), declared, mut is not None, default)


def function(parts: Parts) -> FunctionDeclaration:
    head, *body = parts.children
    return assembled(parts, head, (), tuple(body))


def function_requiring(parts: Parts) -> FunctionDeclaration:
    head, required, *body = parts.children
    return assembled(parts, head, required, tuple(body))


def assembled(parts: Parts, head: Header, required: tuple[Requirement, ...], body: tuple[Any, ...]) -> FunctionDeclaration:
    return FunctionDeclaration(parts.span, head.name, head.generics, head.parameters, head.result, required, body, head.span)


def requirements(parts: Parts) -> tuple[Any, ...]:
    return tuple(parts.children)


def requirement(parts: Parts) -> Requirement:
    name, declared, result = parts.children
    return Requirement(parts.span, parts.identifier(name), declared, result)


def block(parts: Parts) -> tuple[Any, ...]:
    return tuple(parts.children)


def assign(parts: Parts) -> Assign:
    *targets, value = parts.children
    return Assign(parts.span, tuple(targets), value)


def target(parts: Parts) -> Target:
    mut, name = parts.children
    return Target(parts.span, parts.identifier(name), mut is not None)


def target_part(parts: Parts) -> TargetPart:
    base, name = parts.children
    return TargetPart(parts.span, Attribute(parts.span, base, parts.identifier(name)))


def target_places(parts: Parts) -> TargetPlaces:
    base, items = parts.children
    return TargetPlaces(parts.span, Bracket(parts.span, base, items))


def evaluate(parts: Parts) -> Evaluate:
    value = parts.children[0]
    if isinstance(value, Name) and value.name in STATEMENTS_OF_PYTHON:
        parts.report("E0121", f"there is no `{value.name}`", value.span, STATEMENTS_OF_PYTHON[value.name])
    return Evaluate(parts.span, value)


def return_value(parts: Parts) -> Return:
    return Return(parts.span, parts.children[0])


def branch(parts: Parts) -> Branch:
    condition, body = parts.children
    return Branch(parts.span, condition, body)


def if_else(parts: Parts) -> If:
    *branches, otherwise = parts.children
    return If(parts.span, tuple(branches), otherwise)


def else_block(parts: Parts) -> Any:
    return parts.children[0]


def while_loop(parts: Parts) -> While:
    return While(parts.span, *parts.children)


def for_loop(parts: Parts) -> For:
    variable, iterable, body = parts.children
    return For(parts.span, parts.identifier(variable), iterable, body)


DECLARATION_RULES: dict[str, Rule] = {
    "start": declarations,
    "import_module": import_module,
    "import_names": import_names,
    "dim": dim,
    "const": const,
    "record": record,
    "field": field,
    "model": model,
    "member": member,
    "buffer": buffer,
    "treatment": treatment,
    "generics": generics,
    "generic": generic,
    "header": header,
    "parameters": parameters,
    "parameter": parameter,
    "function": function,
    "function_requiring": function_requiring,
    "requirements": requirements,
    "requirement": requirement,
    "block": block,
    "assign": assign,
    "target": target,
    "target_part": target_part,
    "target_places": target_places,
    "evaluate": evaluate,
    "return": return_value,
    "branch": branch,
    "elif": branch,
    "if": if_else,
    "else": else_block,
    "while": while_loop,
    "for": for_loop,
}
