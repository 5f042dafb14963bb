"""Finding and reading modules: a file beside the importing one, then those of SHAPESCRIPT_PATH, then the package's standard library."""

from __future__ import annotations

import os
from pathlib import Path

from shapescript.compiler.check.report import Report
from shapescript.compiler.check.scope import BrokenEntity, Entity, ModuleEntity, ModuleScope
from shapescript.compiler.diagnostics.model import Diagnostic, Label, Source, Span
from shapescript.compiler.syntax import tree
from shapescript.compiler.syntax.parse import parse

STANDARD = ("shapescript", "std")


def standard_library() -> Path:
    """The folder of the standard library's sources."""
    above = Path(__file__).resolve().parents[2]  # the package where it is installed, the checkout where it is run from there
    return above / "std" if (above / "std").is_dir() else above / "shapescript" / "std"


class Modules:
    """Every module reached from a program, each read once, with `imports` resolved depth first."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.by_path: dict[Path, ModuleScope | None] = {}
        self.in_order: list[ModuleScope] = []
        self.names: list[tuple[ModuleScope, ModuleScope, tree.Identifier]] = []  # `from a import b`, bound when a's declarations are read
        self._open: list[Path] = []

    def read(self, path: Path, span: Span | None = None) -> ModuleScope | None:
        """The module at a path, with what it imports; None where its text is unreadable or doesn't parse."""
        path = path.resolve()
        if path in self.by_path:
            return self.by_path[path]
        try:
            text = path.read_bytes().decode("utf-8").removeprefix("\ufeff")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            self.report.add(Diagnostic("E0204", f"cannot read {path}: {reason}", span))
            self.by_path[path] = None
            return None
        return self.read_source(Source(_shown(path), text), path)

    def read_source(self, source: Source, path: Path) -> ModuleScope | None:
        module, problems = parse(source)
        for problem in problems:
            self.report.add(problem)
        if module is None:
            self.by_path[path] = None
            return None
        scope = ModuleScope(str(path), source, module)
        self.by_path[path] = scope
        self._open.append(path)
        for declaration in module.declarations:
            if isinstance(declaration, tree.ImportModule | tree.ImportNames):
                self._import(scope, path, declaration)
        self._open.pop()
        self.in_order.append(scope)
        return scope

    def _import(self, scope: ModuleScope, path: Path, declaration: tree.ImportModule | tree.ImportNames) -> None:
        found = self._find(path, declaration.module)
        target = None
        if found is None:
            self.report.error(
                "E0204",
                f"no module `{declaration.module}`: neither beside this file, nor on SHAPESCRIPT_PATH, nor in the package",
                declaration.module.span,
            )
        elif found in self._open:
            chain = [opened.name for opened in self._open]
            self.report.error(
                "E0206",
                f"modules import each other: {' -> '.join([*chain[chain.index(found.name) :], found.name])}",
                declaration.module.span,
            )
        else:
            target = self.read(found, declaration.module.span)
        if isinstance(declaration, tree.ImportModule):
            name = declaration.alias or declaration.module.parts[-1]
            scope.imported.add(name.text)
            declare(scope, name, ModuleEntity(target, name.span) if target else BrokenEntity(name.span), self.report)
            return
        for name in declaration.names:
            scope.imported.add(name.text)
            if target is None:
                declare(scope, name, BrokenEntity(name.span), self.report)
            else:
                self.names.append((scope, target, name))

    def _find(self, importer: Path, module: tree.QualifiedName) -> Path | None:
        parts = [part.text for part in module.parts]
        folders = [importer.parent, *(Path(p) for p in os.environ.get("SHAPESCRIPT_PATH", "").split(os.pathsep) if p)]
        candidates = [folder.joinpath(*parts).with_suffix(".ss") for folder in folders]
        if tuple(parts[:2]) == STANDARD and len(parts) == 3:
            candidates.append(standard_library() / f"{parts[2]}.ss")
        return next((candidate.resolve() for candidate in candidates if candidate.is_file()), None)


def _shown(path: Path) -> str:
    """The path as messages give it: relative where it lies below the working directory."""
    try:
        return str(path.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)


def declare(scope: ModuleScope, name: tree.Identifier, entity: Entity, report: Report) -> bool:
    """Enter a name; a second declaration of it is an error that shows the first."""
    known = scope.entities.get(name.text)
    if known is not None:
        report.error("E0202", f"`{name.text}` is declared twice in this module", name.span, [Label(known.span, "first declared here")])
        return False
    scope.entities[name.text] = entity
    return True
