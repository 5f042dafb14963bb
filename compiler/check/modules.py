"""Finding and reading modules: a file beside the importing one, then those of SHAPESCRIPT_PATH, then the package's standard library."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

from shapescript.compiler.check.report import Report, did_you_mean
from shapescript.compiler.check.scope import BrokenEntity, Entity, ModuleEntity, ModuleScope
from shapescript.compiler.diagnostics.model import Diagnostic, Label, Source, Span
from shapescript.compiler.records.dataclass import dataclass
from shapescript.compiler.syntax import tree
from shapescript.compiler.syntax.parse import parse

STANDARD = ("shapescript", "std")


def standard_library() -> Path:
    """The folder of the standard library's sources."""
    above = Path(__file__).resolve().parents[2]  # the package where it is installed, the checkout where it is run from there
    return above / "std" if (above / "std").is_dir() else above / "shapescript" / "std"


@dataclass
class _Reading:
    """A module whose imports are being read: those still to come, and the import that led to it."""

    scope: ModuleScope
    path: Path
    waiting: Iterator[tree.ImportModule | tree.ImportNames]
    reached_by: Span | None


class Modules:
    """Every module reached from a program, each read once, with imports resolved depth first."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.by_path: dict[Path, ModuleScope | None] = {}
        self.in_order: list[ModuleScope] = []
        self.names: list[tuple[ModuleScope, ModuleScope, tree.Identifier]] = []  # `from a import b`, bound when a's declarations are read
        self._open: list[_Reading] = []
        self._standard = standard_library()

    def read(self, path: Path) -> ModuleScope | None:
        """The module at a path, with what it imports; None where its text is unreadable or doesn't parse."""
        try:
            path = path.resolve()
        except (OSError, ValueError) as error:
            self.report.add(Diagnostic("E0204", f"cannot read {str(path)!r}: {error}", None))
            return None
        self._begin(path, None)
        self._read_imports()
        return self.by_path[path]

    def read_source(self, source: Source, path: Path) -> ModuleScope | None:
        """The module of a text that stands for the file at `path`."""
        self._begin_source(source, path, None)
        self._read_imports()
        return self.by_path[path]

    def _begin(self, path: Path, span: Span | None) -> None:
        try:
            if path.exists() and not path.is_file():
                raise OSError(errno.EINVAL, "it is no regular file")
            text = path.read_bytes().decode("utf-8").removeprefix("\ufeff")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            self.report.add(Diagnostic("E0204", f"cannot read {path}: {reason}", span, self._chain()))
            self.by_path[path] = None
            return
        self._begin_source(Source(_shown(path), text), path, span)

    def _begin_source(self, source: Source, path: Path, span: Span | None) -> None:
        module, problems = parse(source)
        for problem in problems:
            self.report.add(problem)
        self.by_path[path] = None
        if module is None:
            return
        scope = self.by_path[path] = ModuleScope(str(path), source, module, is_standard=path.parent == self._standard)
        imports = (found for found in module.declarations if isinstance(found, tree.ImportModule | tree.ImportNames))
        self._open.append(_Reading(scope, path, imports, span))

    def _read_imports(self) -> None:
        while self._open:
            reading = self._open[-1]
            declaration = next(reading.waiting, None)
            if declaration is None:
                self.in_order.append(self._open.pop().scope)
                continue
            path = self._sought(reading, declaration.module)
            if path is not None and path not in self.by_path:
                self._begin(path, declaration.module.span)
            self._declare(reading.scope, declaration, None if path is None else self.by_path[path])

    def _sought(self, reading: _Reading, module: tree.QualifiedName) -> Path | None:
        """The file of a module, None where there is none or it is being read already; both are reported."""
        found = find(reading.path, module)
        if found is None:
            where = "neither beside this file, nor on SHAPESCRIPT_PATH, nor in the package"
            near = did_you_mean(str(module), [name for name in neighbours(reading.path, module) if name != str(module)])
            self.report.error("E0204", f"no module `{module}`: {where}", module.span, self._chain(), near)
            return None
        opened = [one.path for one in self._open]
        if found in opened:
            cycle = " -> ".join(path.name for path in [*opened[opened.index(found) :], found])
            self.report.error("E0206", f"modules import each other: {cycle}", module.span, self._chain())
            return None
        return found

    def _chain(self) -> tuple[Label, ...]:
        """The imports that led to the module being read, the innermost first."""
        reached = [(reading.path, reading.reached_by) for reading in reversed(self._open)]
        return tuple(Label(span, f"{path.name} is imported here") for path, span in reached if span is not None)

    def _declare(self, scope: ModuleScope, declaration: tree.ImportModule | tree.ImportNames, target: ModuleScope | None) -> None:
        if isinstance(declaration, tree.ImportModule):
            name = declaration.alias or declaration.module.parts[-1]
            if declare(scope, name, ModuleEntity(target, name.span) if target else BrokenEntity(name.span), self.report):
                scope.imported[name.text] = name.span
            return
        for name in declaration.names:
            if target is not None:
                self.names.append((scope, target, name))
            elif declare(scope, name, BrokenEntity(name.span), self.report):
                scope.imported[name.text] = name.span


def folders_of(importer: Path, module: tree.QualifiedName) -> list[tuple[Path, list[str]]]:
    """Where a module is looked for: folders in order, each with the module's path below it."""
    parts = [part.text for part in module.parts]
    searched = [Path(part) for part in os.environ.get("SHAPESCRIPT_PATH", "").split(os.pathsep) if part]
    places = [(folder, parts) for folder in (importer.parent, *searched)]
    if tuple(parts[:2]) == STANDARD and len(parts) == 3:
        places.append((standard_library(), parts[2:]))
    return places


def find(importer: Path, module: tree.QualifiedName) -> Path | None:
    """The file that the module's name stands for in the importing file. Letter case counts, whatever the file system thinks of it."""
    for folder, parts in folders_of(importer, module):
        candidate = folder.joinpath(*parts).with_suffix(".ss")
        names = [*parts[:-1], f"{parts[-1]}.ss"]
        above = [folder.joinpath(*parts[:depth]) for depth in range(len(parts))]
        if candidate.is_file() and all(name in _listed(place) for name, place in zip(names, above, strict=True)):
            return candidate.resolve()
    return None


def neighbours(importer: Path, module: tree.QualifiedName) -> list[str]:
    """Modules that could be meant: those in the same folders, under names as the import writes them."""
    start = "".join(f"{part.text}." for part in module.parts[:-1])
    found = [start + Path(name).stem for folder, parts in folders_of(importer, module) for name in _listed(folder.joinpath(*parts[:-1]))
             if name.endswith(".ss")]  # fmt: skip
    return list(dict.fromkeys(found))


def _listed(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


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
        first = scope.imported.get(name.text, known.span)
        labels = [Label(first, "first declared here")]
        labels += [Label(span, "what is meant is declared here") for span in (known.span, entity.span) if span not in (first, name.span)]
        report.error("E0202", f"`{name.text}` is declared twice in this module", name.span, labels)
        return False
    scope.entities[name.text] = entity
    return True
