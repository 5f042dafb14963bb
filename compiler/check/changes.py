"""What a block changes and whether it returns, read off its tree before it is checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from shapescript.compiler.syntax import tree


def changed_names(statements: Iterable[tree.Statement]) -> Iterator[tree.Identifier]:
    """Names that statements assign or pass as `mut`."""
    for statement in statements:
        match statement:
            case tree.Assign(_, targets, value):
                for target in targets:
                    root = tree.target_root(target)
                    if isinstance(root, tree.Identifier):
                        yield root
                    elif isinstance(root, tree.Name):
                        yield tree.Identifier(root.span, root.name)
                yield from mut_names(value)
            case tree.Evaluate(_, value):
                yield from mut_names(value)
            case tree.Return(_, value) if value is not None:
                yield from mut_names(value)
            case tree.If(_, branches, otherwise):
                for branch in branches:
                    yield from mut_names(branch.condition)
                    yield from changed_names(branch.body)
                yield from changed_names(otherwise or ())
            case tree.While(_, decided, inner):
                yield from mut_names(decided)
                yield from changed_names(inner)
            case tree.For(_, _, iterable, inner):
                yield from mut_names(iterable)
                yield from changed_names(inner)


def mut_names(node: object) -> Iterator[tree.Identifier]:
    """Roots of `mut` arguments anywhere in an expression."""
    waiting = [node]
    while waiting:
        here = waiting.pop()
        if isinstance(here, tree.Argument) and here.is_mut:
            root: object = here.value
            while isinstance(root, tree.Attribute | tree.Bracket):
                root = root.base
            if isinstance(root, tree.Name):
                yield tree.Identifier(root.span, root.name)
        if isinstance(here, tuple):
            waiting.extend(here)
        elif isinstance(here, tree.Node):
            waiting.extend(getattr(here, name) for name in here.__dataclass_fields__ if name not in ("span", "header"))


def returning(statements: Iterable[tree.Statement]) -> Iterator[tree.Return]:
    for statement in statements:
        match statement:
            case tree.Return():
                yield statement
            case tree.If(_, branches, otherwise):
                for branch in branches:
                    yield from returning(branch.body)
                yield from returning(otherwise or ())
            case tree.For(_, _, _, inner) | tree.While(_, _, inner):
                yield from returning(inner)


def ends(statements: Iterable[tree.Statement]) -> bool:
    """Whether every way through the statements returns."""
    for statement in statements:
        match statement:
            case tree.Return():
                return True
            case tree.If(_, branches, otherwise) if otherwise and ends(otherwise) and all(ends(branch.body) for branch in branches):
                return True
    return False


def returns(statements: Iterable[tree.Statement]) -> bool:
    return any(True for _ in returning(statements))
