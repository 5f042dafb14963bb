"""The examples: each is checked and told of in the docs; those without a test file of their own run, shortened, and learn."""

from __future__ import annotations

import json
import re
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
from fixtures import EXAMPLES, ROOT

import shapescript
from shapescript.cli import main as command_line
from shapescript.compiler.check.checker import check_file

PROGRAMS = sorted(EXAMPLES.glob("*.ss"))
PAGE = (ROOT / "docs" / "examples.md").read_text("utf-8")
README = (ROOT / "README.md").read_text("utf-8")

# Small enough for the reference evaluator.
TINY = {
    "autoencoder": ["--dim", "Hidden=8", "--", "--epochs", "1"],
    "ctc_digits": ["--dim", "Few=2", "--dim", "Many=3", "--dim", "Hidden=4", "--dim", "Batch=3", "--dim", "Tested=4", "--", "--steps", "2"],
    "linear_regression": ["--", "--steps", "20"],
    "names_lstm": ["--dim", "Hidden=5", "--dim", "Width=3", "--dim", "Samples=2", "--", "--epochs", "1"],
}


def shown(name: str, options: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What a run prints; `--` stands where the options of `run` end and those of the program begin."""
    place = options.index("--")
    assert command_line(["run", *options[:place], str(EXAMPLES / f"{name}.ss"), *options[place + 1 :]]) == 0
    return capsys.readouterr().out


def number(name: str, text: str) -> float:
    found = re.search(rf"{name} (\S+)", text)
    assert found, text
    return float(found[1])


def losses(path: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in path.read_text().splitlines()]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_an_example_is_checked_and_told_of(path: Path) -> None:
    diagnostics = check_file(path).diagnostics
    assert not diagnostics
    assert f"\n## {path.stem}\n" in PAGE and f"examples/{path.name}" in README


def test_the_page_tells_of_examples_that_there_are() -> None:
    assert re.findall(r"^## (\w+)$", PAGE, re.MULTILINE) == re.findall(
        r"examples/(\w+)\.ss`", README[README.index("## Examples") : README.index("## From the command line")]
    )
    assert {f"{name}.ss" for name in re.findall(r"^## (\w+)$", PAGE, re.MULTILINE)} == {path.name for path in PROGRAMS}


@pytest.mark.parametrize("name", sorted(TINY))
def test_both_engines_show_the_same(here: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    native, reference = (shown(name, ["--engine", engine, *TINY[name]], capsys) for engine in ("native", "numpy"))
    assert native == reference and native


def test_the_line_is_found(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown("linear_regression", ["--"], capsys)
    assert number("slope", text) == pytest.approx(3.0, abs=0.1) and number("offset", text) == pytest.approx(-2.0, abs=0.05)


def test_the_autoencoder_is_better_than_principal_components(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As many numbers for a digit, chosen by the best linear map."""
    train, test = (np.load(EXAMPLES / f"digits_{part}.npz")["pixels"].astype(float) for part in ("train", "test"))
    centre = train.mean(axis=0)
    directions = np.linalg.svd(train - centre, full_matrices=False)[2][:8]
    linear = float((((test - centre) - (test - centre) @ directions.T @ directions) ** 2).mean())
    text = shown("autoencoder", ["--", "--epochs", "20"], capsys)
    assert number("reconstruction error", text) < 0.85 * linear
    drawn = np.array(re.findall(r"\d", text.split("\n", 1)[1]), dtype=int)
    assert drawn.shape == (64,) and 5 < drawn.max() <= 9
    found = losses(here / "autoencoder.jsonl")
    assert np.mean(found[-23:]) < 0.4 * found[0]


def test_names_are_likelier_than_by_the_character_before(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown("names_lstm", ["--", "--epochs", "40"], capsys)
    assert number("held-out loss", text) < 2.45
    names = (EXAMPLES / "plant_names.txt").read_text().splitlines()
    assert len(names) == len(set(names)) == 449
    spelt = text.splitlines()[1:]
    assert len(spelt) == 10 and set("".join(spelt)) <= set("".join(names))
    assert np.mean([len(name) >= 4 for name in spelt]) > 0.5


def test_lines_of_digits_are_read(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown("ctc_digits", ["--dim", "Tested=200", "--", "--steps", "350"], capsys)
    assert number("lines read right", text) > 0.7
    found = losses(here / "ctc_digits.jsonl")
    assert np.mean(found[-20:]) < 0.3 * np.mean(found[20:40])


def test_a_reading_leaves_out_repetitions_and_blanks() -> None:
    program = shapescript.load(EXAMPLES / "ctc_digits.ss")
    m = program.Reader(seed=3)
    pictures = np.random.default_rng(0).normal(scale=30, size=(20, 8, 50)).astype(np.float32)
    likeliest = np.asarray(program.forward(m, pictures, mode=shapescript.Eval)).argmax(axis=2)
    read = np.asarray(program.read(m, pictures))
    for row, symbols in zip(read, likeliest, strict=True):
        expected = [int(symbol) for symbol, _ in groupby(symbols) if symbol != 10]
        assert row.tolist() == expected + [10] * (25 - len(expected))
    assert len(set(likeliest.ravel())) > 5
