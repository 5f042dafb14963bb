"""The standard library, shipped as ShapeScript source: where its modules are.

shapescript.std.names()      # ("fit", "nn", …)
shapescript.std.path("fit")  # the file that `import shapescript.std.fit` reads
"""

from __future__ import annotations

from pathlib import Path

from shapescript.runtime.errors import ArgumentValueError, did_you_mean

__all__ = ["names", "path"]


def names() -> tuple[str, ...]:
    """The names of the modules, sorted: what may follow `shapescript.std.` in an import."""
    return tuple(sorted(file.stem for file in _folder().glob("*.ss")))


def path(name: str) -> Path:
    """The file of a module, absolute; a copy of it beside a program is imported as `import name`.

    Raises ArgumentError R1004 (a ValueError) for a name that the library doesn't have.
    """
    known = names()
    if name not in known:
        raise ArgumentValueError(
            "R1004", f"no module {name!r} in the standard library ({', '.join(known)}){did_you_mean(str(name), known)}"
        )
    return _folder() / f"{name}.ss"


def _folder() -> Path:
    from shapescript.compiler.check.modules import standard_library  # where imports look too; loads the parser

    return standard_library()
