"""Imports between programs: where modules are looked for, what two spellings of one file are, what is wrong and how one gets there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import shapescript
from shapescript.cli import main
from shapescript.compiler.check.checker import check_file
from shapescript.compiler.check.program import Program
from shapescript.compiler.diagnostics.model import Diagnostic
from shapescript.compiler.diagnostics.render import render_text

EMPTY = "fn nothing() -> int:\n    return 0\n"
MODEL = "model M:\n    w: [3] = ones\n"
WRONG = "fn f() -> int:\n    return missing\n"


def written(folder: Path, **texts: str) -> Path:
    """Writes `a__b="…"` as a/b.ss; gives main.ss."""
    for name, text in texts.items():
        file = folder.joinpath(*name.split("__")).with_suffix(".ss")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder / "main.ss"


def reached(program: Program) -> list[Path]:
    """The files read, but for the first; none of them with a mistake."""
    assert program.diagnostics == (), render_text(program.diagnostics)
    return [Path(source) for source in program.sources[1:]]


def only(path: Path) -> Diagnostic:
    (found,) = check_file(path).diagnostics
    return found


def places(found: Diagnostic) -> list[tuple[str, int, str]]:
    """Where a diagnostic is and what explains it: file, line, the text marked there."""
    spans = [found.span, *(label.span for label in found.labels)]
    return [(Path(span.source.path).name, span.line, span.text) for span in spans if span is not None]


@pytest.fixture
def search_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("SHAPESCRIPT_PATH", raising=False)
    yield


pytestmark = pytest.mark.usefixtures("search_path")


# ---- where a module is looked for


def test_beside_the_importing_file_then_the_search_path_then_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, main="import shapescript.std.nn as nn\n")
    package = shapescript.std.path("nn")
    assert reached(check_file(path)) == [package]
    written(tmp_path / "first", shapescript__std__nn=EMPTY)
    written(tmp_path / "second", shapescript__std__nn=EMPTY)
    folders = [tmp_path / "none", "", tmp_path / "first", tmp_path / "second"]
    monkeypatch.setenv("SHAPESCRIPT_PATH", os.pathsep.join(map(str, folders)))
    assert reached(check_file(path)) == [tmp_path / "first" / "shapescript" / "std" / "nn.ss"]
    written(tmp_path, shapescript__std__nn=EMPTY)
    assert reached(check_file(path)) == [tmp_path / "shapescript" / "std" / "nn.ss"]


def test_search_path_counts_from_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, lib__base=EMPTY)
    monkeypatch.setenv("SHAPESCRIPT_PATH", "lib")
    monkeypatch.chdir(tmp_path)
    assert reached(check_file(written(tmp_path / "programs", main="import base\n"))) == [tmp_path / "lib" / "base.ss"]


def test_beside_means_beside_the_importing_file(tmp_path: Path) -> None:
    path = written(tmp_path, main="import models.mlp as mlp\n", models__mlp="import base\n", models__base=EMPTY, base=WRONG)
    assert reached(check_file(path)) == [tmp_path / "models" / "mlp.ss", tmp_path / "models" / "base.ss"]


def test_copy_of_a_standard_module_beside_a_program(tmp_path: Path) -> None:
    assert main(["std", "copy", "nn", str(tmp_path)]) == 0
    text = (
        "import nn\n\nmodel Net:\n    hidden: nn.Linear[3, 2]\n\nfn f(net: Net, x: [b 3]) -> [b 2]:\n    return nn.linear(x, net.hidden)\n"
    )
    assert reached(check_file(written(tmp_path, main=text))) == [tmp_path / "nn.ss"]


def test_imports_as_deep_as_one_likes(tmp_path: Path) -> None:
    texts = {f"m{number}": f"import m{number + 1}\n" for number in range(500)}
    path = written(tmp_path, main="import m0\n", **texts, m500=EMPTY)
    assert len(reached(check_file(path))) == 501


# ---- two spellings of one file


def test_file_by_two_names_is_one_module(tmp_path: Path) -> None:
    """Beside and through its folder, by its name and by a link: the model is the same one."""
    user = "import mlp\n\nfn take(m: mlp.M, n: mlp.M) -> int:\n    return 1\n"
    text = "import models.mlp\nimport models.user\nimport link\n\nfn f(m: mlp.M, n: link.M) -> int:\n    return user.take(m, n)\n"
    path = written(tmp_path, main=text, models__mlp=MODEL, models__user=user)
    (tmp_path / "link.ss").symlink_to(tmp_path / "models" / "mlp.ss")
    assert reached(check_file(path)) == [tmp_path / "models" / "mlp.ss", tmp_path / "models" / "user.ss"]


def test_copies_of_a_file_are_two_modules(tmp_path: Path) -> None:
    text = "import a\nimport b\n\nfn take(m: a.M) -> int:\n    return 1\n\nfn f(m: b.M) -> int:\n    return take(m)\n"
    assert only(written(tmp_path, main=text, a=MODEL, b=MODEL)).code == "E0301"


def test_cycle_through_a_link_is_one(tmp_path: Path) -> None:
    path = written(tmp_path, main="import link\n")
    (tmp_path / "link.ss").symlink_to(path)
    assert only(path).code == "E0206"


def test_a_name_in_another_case_is_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, main="import Base\n", base=EMPTY)
    found = only(path)
    assert (found.code, found.help) == ("E0204", "did you mean `base`?")
    exists = Path.is_file
    monkeypatch.setattr(Path, "is_file", lambda file: exists(file.with_name(file.name.lower())))  # a file system that ignores case
    assert only(path).code == "E0204"


# ---- what can't be found or read


def test_missing_module_shows_the_imports_that_lead_to_it(tmp_path: Path) -> None:
    found = only(written(tmp_path, main="import a\n", a="\nimport folder.b as b\n", folder__b="import models\n", folder__model=EMPTY))
    assert found.code == "E0204" and found.help == "did you mean `model`?"
    assert places(found) == [("b.ss", 1, "models"), ("a.ss", 2, "folder.b"), ("main.ss", 1, "a")]
    shown = render_text([found])
    assert "b.ss is imported here" in shown and "a.ss is imported here" in shown and " 2 | import folder.b as b" in shown


def test_missing_module_of_the_standard_library(tmp_path: Path) -> None:
    found = only(written(tmp_path, main="import shapescript.std.nnn as nn\n"))
    assert (found.code, found.help) == ("E0204", "did you mean `shapescript.std.nn`?")
    assert places(found) == [("main.ss", 1, "shapescript.std.nnn")]


def test_what_is_no_file_with_a_text(tmp_path: Path) -> None:
    path = written(tmp_path, main="import a\n", a="import b\n")
    (tmp_path / "b.ss").mkdir()
    assert only(path).code == "E0204"
    (tmp_path / "b.ss").rmdir()
    (tmp_path / "b.ss").write_bytes(b"\xff\xfe")
    found = only(path)
    assert found.code == "E0204" and "b.ss: it is not UTF-8" in found.message
    assert places(found) == [("a.ss", 1, "b"), ("main.ss", 1, "a")]


def test_what_a_missing_module_would_have_declared_is_not_reported_again(tmp_path: Path) -> None:
    text = "import nowhere\nfrom nowhere import D, f\n\nfn g(m: nowhere.M, x: [b D]) -> [b D]:\n    return f(nowhere.h(m, x))\n"
    found = check_file(written(tmp_path, main=text)).diagnostics
    assert [(diagnostic.code, diagnostic.place[1]) for diagnostic in found] == [("E0204", 7), ("E0204", 20)]


# ---- modules that import each other


@pytest.mark.parametrize(
    ("texts", "cycle", "steps"),
    [
        ({"main": "import main\n"}, "main.ss -> main.ss", [("main.ss", 1, "main")]),
        ({"main": "import a\n", "a": "import main\n"}, "main.ss -> a.ss -> main.ss", [("a.ss", 1, "main"), ("main.ss", 1, "a")]),
        (
            {"main": "import a\n", "a": "\nimport b\n", "b": "from c import nothing\n", "c": "import b\n"},
            "b.ss -> c.ss -> b.ss",
            [("c.ss", 1, "b"), ("b.ss", 1, "c"), ("a.ss", 2, "b"), ("main.ss", 1, "a")],
        ),
    ],
)
def test_cycle_shows_the_imports_that_lead_to_it(
    tmp_path: Path, texts: dict[str, str], cycle: str, steps: list[tuple[str, int, str]]
) -> None:
    found = next(diagnostic for diagnostic in check_file(written(tmp_path, **texts)).diagnostics if diagnostic.code == "E0206")
    assert found.message == f"modules import each other: {cycle}"
    assert places(found) == steps


def test_module_that_two_import_is_no_cycle(tmp_path: Path) -> None:
    path = written(tmp_path, main="import a\nimport b\n", a="import base\n", b="import base\n", base=EMPTY)
    assert [file.stem for file in reached(check_file(path))] == ["a", "base", "b"]


# ---- names


def test_name_that_two_modules_export(tmp_path: Path) -> None:
    found = only(written(tmp_path, main="from a import M\n\nfrom b import M\n", a=MODEL, b=f"# another\n{MODEL}"))
    assert found.code == "E0202"
    assert places(found) == [("main.ss", 3, "M"), ("main.ss", 1, "M"), ("a.ss", 1, "M"), ("b.ss", 2, "M")]


def test_name_that_is_imported_and_declared(tmp_path: Path) -> None:
    found = only(written(tmp_path, main=f"from a import M\n\n{MODEL}", a=MODEL))
    assert found.code == "E0202" and places(found)[0] == ("main.ss", 3, "M")


def test_two_modules_of_one_name_need_another_name(tmp_path: Path) -> None:
    texts = {"a__mlp": MODEL, "b__mlp": MODEL}
    found = only(written(tmp_path, main="import a.mlp\nimport b.mlp\n", **texts))
    assert found.code == "E0202" and places(found) == [("main.ss", 2, "mlp"), ("main.ss", 1, "mlp")]
    assert not check_file(written(tmp_path, main="import a.mlp\nimport b.mlp as other\n", **texts)).diagnostics


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("from a import M\n", "E0205"),
        ("from a import b\n", "E0205"),
        ("import a\n\nfn g(m: a.M) -> int:\n    return 1\n", "E0205"),
        ("import a\n\nfn g(m: a.b.M) -> int:\n    return 1\n", "E0201"),
        ("import a\n\nfn g(x: [b a.b.D]) -> int:\n    return 1\n", "E0203"),
        ("import a\n\nfn g() -> int:\n    return a.nothing()\n", "E0205"),
        ("import a\n\nfn g() -> int:\n    return a.b.nothing()\n", "E0205"),
        ("import a\n\nconst Half = a.D / 2\n", "E0201"),
    ],
)
def test_what_a_module_imports_it_does_not_hand_on(tmp_path: Path, text: str, code: str) -> None:
    path = written(tmp_path, main=text, a="import b\nfrom b import D, M, nothing\n", b=f"dim D = 3\n\n{MODEL}\n{EMPTY}")
    assert only(path).code == code


def test_host_sees_what_a_file_declares_not_what_it_imports(tmp_path: Path) -> None:
    path = written(tmp_path, main="from a import M, nothing\n\nfn main() -> int:\n    return nothing()\n", a=f"{MODEL}\n{EMPTY}")
    program = check_file(path)
    assert program.diagnostics == () and set(program.functions) == {"main"} and not program.models


# ---- errors inside imported files


def test_mistake_in_an_imported_file_is_shown_there_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "import a\nimport b\n\nfn g() -> int:\n    return a.twice() + b.f()\n"
    path = written(tmp_path, main=text, a="import b\n\nfn twice() -> int:\n    return 2 * b.f()\n", b=WRONG)
    assert main(["check", str(path)]) == 1
    shown = capsys.readouterr().err
    assert shown.count("error[") == 1
    assert "b.ss:2:12: error[E0201]: `missing` is not declared" in shown and " 2 |     return missing" in shown


def test_imported_file_that_does_not_parse(tmp_path: Path) -> None:
    text = "import a\n\nfn g() -> int:\n    return a.f()\n\nfn h() -> int:\n    return other\n"
    found = check_file(written(tmp_path, main=text, a="fn f( -> int:\n    return 1\n")).diagnostics
    assert [(Path(diagnostic.place[0]).name, diagnostic.code) for diagnostic in found] == [("a.ss", "E0107"), ("main.ss", "E0201")]
