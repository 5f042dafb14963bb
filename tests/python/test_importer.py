"""`import name` for a file name.ss: where it is found, what the module offers, when it is read again."""

from __future__ import annotations

import importlib
import os
import pydoc
import subprocess
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import shapescript
from shapescript import importer

LINE = """# A line through the origin.

dim D = 3
const Rate = 0.5

data Point:
    x: [D]

model Line:
    slope: [D] = ones

fn predict(m: Line, batch: Point[b]) -> [b]:
    return batch.x @ m.slope

fn scaled(n: int) -> float:
    return n * Rate
"""
BASE = "fn number() -> int:\n    return 1\n"
TOP = "import base\n\nfn twice() -> int:\n    return 2 * base.number()\n"
WRONG = "fn f() -> int:\n    return nothing\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on `sys.path`; what was imported from it is forgotten."""
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    names = {path.stem for path in tmp_path.iterdir()}
    for name in [name for name in sys.modules if name.partition(".")[0] in names]:
        del sys.modules[name]


def imported(folder: Path, name: str, text: str) -> Any:
    """The module `name`, whose file has this text."""
    path = folder.joinpath(*name.split(".")).with_suffix(".ss")
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    importlib.invalidate_caches()
    return importlib.import_module(name)


# ---- what the module offers


def test_module_has_what_the_program_declares(folder: Path) -> None:
    line = imported(folder, "line", LINE)
    assert isinstance(line, ModuleType) and line.__file__ == str(folder / "line.ss")
    assert repr(line) == f"<module 'line' from {str(folder / 'line.ss')!r}>"
    assert (line.D, line.Rate, line.scaled(3)) == (3, 0.5, 1.5)
    batch = line.Point.batch(x=np.arange(6, dtype=np.float32).reshape(2, 3))
    assert line.predict(line.Line(seed=1), batch).tolist() == [3.0, 12.0]
    declared = {"D", "Rate", "Point", "Line", "predict", "scaled"}
    assert declared == set(line.__all__) <= set(dir(line))
    namespace: dict[str, Any] = {}
    exec("from line import *", namespace)
    assert set(namespace) - {"__builtins__"} == declared


def test_module_is_the_loaded_program(folder: Path) -> None:
    line = imported(folder, "line", LINE)
    program = line.__program__
    assert isinstance(program, shapescript.Program)
    assert program.predict is line.predict and program.Line is line.Line and line.diagnostics == ()


def test_help_shows_the_program(folder: Path) -> None:
    shown = pydoc.plain(pydoc.render_doc(imported(folder, "line", LINE)))
    assert "A line through the origin." in shown
    assert "fn predict(m: Line, batch: Point[b]) -> [b]" in shown
    assert "Line = <model Line>" in shown and "D = 3" in shown


def test_names_that_are_not_declared_or_cannot_be_set(folder: Path) -> None:
    line = imported(folder, "line", LINE)
    with pytest.raises(AttributeError, match=r"line\.ss declares no 'predic'; did you mean 'predict'\?"):
        line.predic  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'predic' from 'line'"):
        exec("from line import predic")
    with pytest.raises(AttributeError, match="can't be set"):
        line.D = 4
    line.note = "a module's own attributes can"
    assert line.note and line.D == 3


def test_names_that_are_pythons_stay_pythons(folder: Path) -> None:
    odd = imported(folder, "odd", "fn __spec__() -> int:\n    return 1\n")
    assert odd.__spec__.name == "odd" and odd.__program__.__spec__() == 1


def test_models_and_records_of_a_module_fit_programs_that_import_it(folder: Path) -> None:
    line = imported(folder, "line", LINE)
    total = "import line\n\nfn total(m: line.Line, points: line.Point[b]) -> []:\n    return sum(line.predict(m, points), over=b)\n"
    points = line.Point.batch(x=np.ones((4, 3), np.float32))
    assert imported(folder, "total", total).total(line.Line(seed=1), points) == 12.0


# ---- where it is found


def test_python_modules_come_first(folder: Path) -> None:
    (folder / "both.py").write_text("language = 'Python'\n")
    assert imported(folder, "both", LINE).language == "Python"


@pytest.mark.parametrize("regular", [True, False])
def test_modules_in_a_package_or_a_plain_folder(folder: Path, regular: bool) -> None:
    (folder / "models").mkdir()
    if regular:
        (folder / "models" / "__init__.py").write_text("from . import base\n")
        (folder / "models" / "base.ss").write_text(BASE)
        importlib.invalidate_caches()
        assert importlib.import_module("models").base.number() == 1
    line = imported(folder, "models.line", LINE)
    assert line.__name__ == line.scaled.__module__ == "models.line" and line.__package__ == "models"
    assert importlib.import_module("models").line is line


def test_folders_of_sys_path_in_order(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "first").mkdir()
    (folder / "first" / "base.ss").write_text(BASE.replace("1", "7"))
    monkeypatch.setattr(sys, "path", [str(folder / "none"), folder, str(folder / "first"), *sys.path])
    assert imported(folder, "base", BASE).number() == 7


def test_working_directory_where_sys_path_names_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "here").mkdir()
    (folder / "here" / "base.ss").write_text(BASE)
    monkeypatch.chdir(folder / "here")
    spec = importer.FINDER.find_spec("base", [""])
    assert spec is not None and spec.origin == str(folder / "here" / "base.ss")


def test_what_is_no_file_of_that_name_is_not_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "folder.ss").mkdir()
    (folder / "mlp.ss").write_text(BASE)
    for name in ("folder", "nowhere", "mlp.inner"):
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(name)
    monkeypatch.setattr(os.path, "isfile", lambda path: True)  # as where a file system ignores case
    assert importer.FINDER.find_spec("Mlp", [str(folder)]) is None
    assert importer.FINDER.find_spec("mlp", [str(folder)]) is not None


def test_standard_library_from_python() -> None:
    nn = importlib.import_module("shapescript.std.nn")
    assert nn.__file__ == str(shapescript.std.path("nn"))
    assert nn.Linear[3, 2](seed=1).weight.shape == (2, 3)


def test_finder_is_installed_once_behind_pythons() -> None:
    importer.install()
    assert sys.meta_path.count(importer.FINDER) == 1
    assert sys.meta_path.index(importer.FINDER) > sys.meta_path.index(PathFinder)  # type: ignore[arg-type]


def test_looking_for_a_program_that_is_not_there_stays_light() -> None:
    code = """
import importlib.util, sys
import shapescript
assert importlib.util.find_spec("nowhere") is None
assert not {"lark", "numpy", "llvmlite"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


# ---- errors


def test_a_wrong_program_raises_its_diagnostics(folder: Path) -> None:
    with pytest.raises(shapescript.CompileError) as raised:
        imported(folder, "wrong", WRONG)
    assert [found.code for found in raised.value.diagnostics] == ["E0201"]
    assert "wrong.ss:2:12: error[E0201]" in str(raised.value) and " 2 |     return nothing" in str(raised.value)
    assert "wrong" not in sys.modules
    assert imported(folder, "wrong", BASE).number() == 1


def test_an_error_in_what_a_program_imports(folder: Path) -> None:
    (folder / "base.ss").write_text(WRONG)
    with pytest.raises(shapescript.CompileError, match=r"base\.ss:2:12: error\[E0201\]"):
        imported(folder, "top", TOP)


# ---- when it is read again


def rewritten(path: Path, text: str) -> None:
    """Same size, same time: only the text tells."""
    before = path.stat()
    path.write_text(text)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def test_reload_reads_the_file_and_what_it_imports(folder: Path) -> None:
    (folder / "base.ss").write_text(BASE)
    top = imported(folder, "top", TOP)
    assert top.twice() == 2
    rewritten(folder / "base.ss", BASE.replace("1", "4"))
    assert importlib.import_module("top") is top and top.twice() == 2
    assert importlib.reload(top) is top and top.twice() == 8
    rewritten(folder / "top.ss", TOP.replace("2 *", "3 *"))
    assert importlib.reload(top).twice() == 12


def test_reload_forgets_what_is_not_declared_any_more(folder: Path) -> None:
    line = imported(folder, "line", LINE)
    (folder / "line.ss").write_text(LINE.replace("fn scaled", "fn rescaled"))
    importlib.reload(line)
    assert line.rescaled(3) == 1.5 and "scaled" not in dir(line)


def test_reload_of_a_wrong_program_leaves_the_module(folder: Path) -> None:
    base = imported(folder, "base", BASE)
    (folder / "base.ss").write_text(WRONG)
    with pytest.raises(shapescript.CompileError):
        importlib.reload(base)
    assert base.number() == 1 and importlib.import_module("base") is base


def test_a_fresh_process_sees_the_newest_text(tmp_path: Path) -> None:
    (tmp_path / "top.ss").write_text(TOP)
    (tmp_path / "base.ss").write_text(BASE)
    code = "import shapescript, top; print(top.twice())"

    def printed() -> str:
        return subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    assert printed() == "2\n"
    rewritten(tmp_path / "base.ss", BASE.replace("1", "4"))
    assert printed() == "8\n"
