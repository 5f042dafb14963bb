"""What the README says is so: its programs are the examples, its commands are what CI runs, its Python runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fixtures import EXAMPLES, ROOT

README = (ROOT / "README.md").read_text("utf-8")


def block(marker: str) -> str:
    """The code block behind a marker."""
    found = re.search(rf"^<!-- {re.escape(marker)} -->\n```\w*\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    assert found is not None, marker
    return found[1]


@pytest.mark.parametrize("name", ["linear_regression.ss", "train_mlp.ss"])
def test_a_program_is_the_example_byte_for_byte(name: str) -> None:
    assert block(f"examples/{name}").encode() == (EXAMPLES / name).read_bytes()


def test_the_readme_opens_with_the_two_commands() -> None:
    first_code = [line for line in README.splitlines() if line.startswith("python3 -m venv")]
    assert [block("run").strip(), block("test").strip()] == first_code
    assert README.index("## What it is") > README.index(first_code[1])


def test_ci_runs_the_commands_of_the_readme() -> None:
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    text = script.read_text("utf-8")
    assert "for name in run test" in text and "README.md" in text
    assert "-e '.[test]'" in block("test") and ".ci/check" in block("test")
    assert (ROOT / ".ci" / "check").read_text("utf-8").rstrip().splitlines()[-1].startswith('"$PYTHON" -m pytest')


def test_the_python_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "examples").symlink_to(EXAMPLES)
    monkeypatch.chdir(tmp_path)
    exec(compile(block("python"), "README.md", "exec"), {})
    losses, accuracy = capsys.readouterr().out.splitlines()
    first, last = map(float, losses.split())
    assert last < first / 2
    assert float(accuracy) > 0.8
    assert (tmp_path / "a.pt").exists()


def test_pages_that_are_linked_exist() -> None:
    prose = re.sub(r"^```.*?^```$", "", README, flags=re.DOTALL | re.MULTILINE)
    for page in re.findall(r"\]\((?!https?:|\")([^)#]+)[^)]*\)", prose):
        assert (ROOT / page).is_file(), page


def test_the_data_is_credited() -> None:
    assert "CC BY 4.0" in README and "E. Alpaydin and C. Kaynak" in README
    assert "Apache License" in (ROOT / "LICENSE").read_text("utf-8")
