"""`import train_mlp` for a file train_mlp.ss on `sys.path`: a module whose attributes are what the program declares.

Importing the package installs the finder, behind Python's own, so that Python's modules and packages come first.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.abc import Loader, MetaPathFinder

    from shapescript.program import Program
else:  # Python asks for their methods, not for their names, and importlib.abc takes 10 ms to load
    Loader = MetaPathFinder = object

SUFFIX = ".ss"


class ProgramModule(ModuleType):
    """A program as a module of Python's; `__program__` is what `shapescript.load` gives for the same file."""

    __program__: Program

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name, obj=self)
        return getattr(self.__program__, name)  # the warnings, or the error for a name that isn't declared

    def __setattr__(self, name: str, value: object) -> None:
        if name in vars(self).get("__all__", ()):
            setattr(self.__program__, name, value)  # refused there
        super().__setattr__(name, value)


class ProgramLoader(Loader):
    """Checks a program, with everything that it imports, at its import and again at `importlib.reload`; nothing is kept between."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return ProgramModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Raises CompileError for a program with errors; a module that was to be loaded anew then stays as it was."""
        from shapescript.program import declared, load  # importing the package loads neither NumPy nor the compiler

        assert module.__spec__ is not None and module.__spec__.origin is not None
        program = load(module.__spec__.origin)
        found = {name: value for name, value in declared(program).items() if not name.startswith("__")}  # those are Python's
        for value in found.values():
            if isinstance(value, FunctionType):
                value.__module__ = module.__name__
        names = vars(module)
        for name in names.get("__all__", ()):
            names.pop(name, None)
        names.update(found, __program__=program, __all__=list(found))


class ProgramFinder(MetaPathFinder):
    """Finds `name.ss` in the folders of `sys.path`, and for a module inside of a package in the package's own folders."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        name = fullname.rpartition(".")[2] + SUFFIX
        for folder in sys.path if path is None else path:
            if isinstance(folder, str) and _holds(folder, name):
                return spec_from_file_location(fullname, os.path.abspath(os.path.join(folder, name)), loader=ProgramLoader())
        return None


def install() -> None:
    """Adds the finder behind those that are there; once, however often it is called."""
    if FINDER not in sys.meta_path:
        sys.meta_path.append(FINDER)


def _holds(folder: str, name: str) -> bool:
    """Whether the folder has a file of this very name: where a file system ignores case, `import Mlp` must not find mlp.ss."""
    if not os.path.isfile(os.path.join(folder, name)):
        return False
    try:
        return name in os.listdir(folder or os.curdir)
    except OSError:  # a folder that can't be listed holds nothing for Python's own finder either
        return False


FINDER = ProgramFinder()
