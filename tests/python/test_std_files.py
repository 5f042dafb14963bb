"""The standard library as files: where they are, how they are listed and copied."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from fixtures import ROOT

import shapescript
from shapescript.cli import main
from shapescript.compiler.check.checker import check_file
from shapescript.compiler.check.modules import standard_library


def test_path_is_the_file_that_an_import_reads(tmp_path: Path) -> None:
    for name in shapescript.std.names():
        path = shapescript.std.path(name)
        assert path == standard_library() / f"{name}.ss" and path.is_absolute()
        program = tmp_path / "program.ss"
        program.write_text(f"import shapescript.std.{name} as module\n")
        assert str(path) in check_file(program).sources


def test_names_are_those_of_the_files() -> None:
    assert list(shapescript.std.names()) == sorted(path.stem for path in (ROOT / "shapescript" / "std").glob("*.ss"))
    assert {"fit", "nn"} <= set(shapescript.std.names())


@pytest.mark.parametrize("name", ["fitt", "fit.ss", "../fit", "", "FIT"])
def test_a_name_that_is_not_there(name: str) -> None:
    with pytest.raises(shapescript.ArgumentError, match=r"R1004: no module .* in the standard library") as raised:
        shapescript.std.path(name)
    assert isinstance(raised.value, ValueError)
    assert ("did you mean 'fit'?" in str(raised.value)) == (name in ("fitt", "fit.ss", "../fit"))


def test_importing_the_package_is_enough() -> None:
    code = "import shapescript; print(shapescript.std.path('nn').name)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "nn.ss\n"


# ---- the command


def test_list_and_path(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["std", "list"]) == 0
    assert capsys.readouterr() == ("".join(f"{name}\n" for name in shapescript.std.names()), "")
    assert main(["std", "path", "nn"]) == 0
    assert capsys.readouterr() == (f"{shapescript.std.path('nn')}\n", "")


def test_copy_is_the_file_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["std", "copy", "fit", str(tmp_path)]) == 0
    assert capsys.readouterr() == (f"{tmp_path / 'fit.ss'}\n", "")
    assert [path.name for path in tmp_path.iterdir()] == ["fit.ss"]
    assert (tmp_path / "fit.ss").read_bytes() == shapescript.std.path("fit").read_bytes()
    assert not check_file(tmp_path / "fit.ss").diagnostics


def test_copy_overwrites_only_where_it_is_told_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "nn.ss"
    mine.write_text("# mine\n")
    assert main(["std", "copy", "nn", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert not out and err == f"shapescript std copy: error: {mine} is there already; --force overwrites it\n"
    assert mine.read_text() == "# mine\n"
    assert main(["std", "copy", "--force", "nn", str(tmp_path)]) == 0
    assert mine.read_bytes() == shapescript.std.path("nn").read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["nn.ss"]


def test_copy_does_not_write_through_a_link_that_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "nn.ss").symlink_to(tmp_path / "elsewhere.ss")
    assert main(["std", "copy", "nn", str(tmp_path)]) == 1
    assert not (tmp_path / "elsewhere.ss").exists()


def test_copy_makes_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["std", "copy", "nn", str(tmp_path / "none")]) == 1
    assert f"{tmp_path / 'none'} is no folder" in capsys.readouterr().err
    (tmp_path / "nn.ss").mkdir()
    assert main(["std", "copy", "--force", "nn", str(tmp_path)]) == 1
    assert "nn.ss" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["nn.ss"] and not list((tmp_path / "nn.ss").iterdir())


def test_copy_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    (tmp_path / "nn.ss").write_text("# mine\n")
    assert main(["std", "copy", "--force", "nn", str(tmp_path)]) == 1
    assert "No space left on device" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["nn.ss"] and (tmp_path / "nn.ss").read_text() == "# mine\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["std"], "usage: shapescript std"),
        (["std", "show"], "invalid choice: 'show'"),
        (["std", "path"], "required: NAME"),
        (["std", "copy", "nn"], "required: DIR"),
        (["std", "path", "nnn"], "no module 'nnn' in the standard library"),
        (["std", "copy", "fitt", "."], "did you mean 'fit'?"),
    ],
)
def test_bad_usage(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert message in capsys.readouterr().err
