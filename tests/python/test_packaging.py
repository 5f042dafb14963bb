"""How the project hangs together: rooms import one way, light commands stay light, the package holds what it needs."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures import EXAMPLES, ROOT

import shapescript

# The rooms, and what each may import beside itself, `records` (a tool that imports nothing), `diagnostics` and `numerics` (facts).
TOOL = "records"
FACTS = {"diagnostics", "numerics"}
ROOMS: dict[str, set[str]] = {
    "records": set(),
    "diagnostics": set(),
    "numerics": set(),
    "syntax": set(),
    "ir": set(),
    "ops": {"ir"},
    "check": {"syntax", "ir", "ops"},
    "passes": {"ir", "ops"},
    "reference": {"ir", "ops"},
    "codegen": {"ir", "ops", "passes"},  # the memory plan
    "runtime": set(),
}
LLVM_ROOM = "codegen"
PACKAGES = {"compiler": "shapescript.compiler", "runtime": "shapescript.runtime", "shapescript": "shapescript"}


def room_of(module: str) -> str | None:
    """The room of a module: shapescript.compiler.ir.nodes is in `ir`; None for what is outside the project."""
    parts = module.split(".")
    if parts[0] != "shapescript":
        return None
    if parts[1:2] == ["runtime"]:
        return "runtime"
    if parts[1:2] == ["compiler"] and len(parts) > 2:
        return parts[2]
    return "shapescript"


def files() -> Iterator[tuple[str, Path]]:
    for folder, package in PACKAGES.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            yield ".".join([package, *parts]).removesuffix(".__init__"), path


def imported(module: str, path: Path) -> Iterator[str]:
    """Every module that a file imports, at any place in it; relative ones resolved."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([base] if base else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names if base in ("shapescript", "shapescript.compiler"))


def test_rooms_import_one_way() -> None:
    wrong = []
    for module, path in files():
        room = room_of(module)
        for name in imported(module, path):
            target = room_of(name)
            if room in ROOMS and target not in (None, room) and target not in ROOMS[room] | FACTS | {TOOL}:
                wrong.append(f"{module} imports {name}")
            if room in FACTS and target not in (None, room, TOOL):
                wrong.append(f"{module} imports {name}")
            if room == TOOL and target not in (None, room):
                wrong.append(f"{module} imports {name}")
    assert not wrong


def test_every_room_is_in_the_table() -> None:
    rooms = {path.name for path in (ROOT / "compiler").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert rooms | {"runtime"} == set(ROOMS)


def test_data_classes_of_the_compiler_are_cheap_to_declare() -> None:
    """Those of one kind can't inherit from the other's either."""
    written = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in sorted((ROOT / "compiler").rglob("*.py"))}
    users = [name for name, text in written.items() if re.search(r"^from dataclasses import .*\bdataclass\b", text, re.MULTILINE)]
    assert users == [], "import it from shapescript.compiler.records.dataclass"


def test_llvmlite_is_known_in_one_room() -> None:
    users = {room_of(module) for module, path in files() for name in imported(module, path) if name.split(".")[0] == "llvmlite"}
    assert users <= {LLVM_ROOM}


@pytest.mark.parametrize("code", ["import shapescript", "import shapescript; shapescript.MemorySink, shapescript.load"])
def test_importing_the_package_loads_no_compiler_backend(code: str) -> None:
    assert not {"llvmlite", "torch", "jax"} & loaded(code)


def test_importing_alone_loads_nothing_heavy() -> None:
    assert not {"numpy", "lark", "llvmlite"} & loaded("import shapescript")


LIGHT = [
    ["check", "EXAMPLE"],
    ["--help"],
    ["run", "--help"],
    ["run", "EXAMPLE", "--help"],
    ["--version"],
    ["std", "list"],
    ["cache", "info"],
]


@pytest.mark.parametrize("words", LIGHT)
def test_light_commands_load_neither_llvmlite_nor_numpy(words: list[str]) -> None:
    arguments = [str(EXAMPLES / "train_mlp.ss") if word == "EXAMPLE" else word for word in words]
    code = f"from shapescript.cli import main; assert main({arguments!r}) == 0"
    assert not {"llvmlite", "numpy", "torch", "lark"} & loaded(code)


def loaded(code: str) -> set[str]:
    """The top-level modules that a fresh process has after running the code."""
    script = f"import sys\n{code}\nimport json\nprint('\\n' + json.dumps(sorted({{name.split('.')[0] for name in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_versions_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["version"] == shapescript.__version__


def test_every_package_is_listed() -> None:
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    found = {module for module, path in files() if path.name == "__init__.py"}
    assert found == set(setup["packages"])
    assert all((ROOT / folder).is_dir() for folder in setup["package-dir"].values())


def test_torch_is_pinned() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert "torch==2.13.0" in extras["test"]
