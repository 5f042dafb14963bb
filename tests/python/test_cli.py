"""The command line: what it prints, what it returns, how it is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fixtures import EXAMPLES

import shapescript.checking
from shapescript.cli import STAGES, main
from shapescript.compiler.diagnostics.model import InternalError

EXAMPLE = str(EXAMPLES / "train_mlp.ss")

WORDS = """
fn main(count: int, rate: float = 0.5, carry_on: bool = false, name: str = "run"):
    print(count, rate, carry_on, name)
"""

FOREGROUND = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.executable, [sys.executable, "-m", "shapescript", *sys.argv[1:]])
"""

ENDLESS = """
data Row:
    step: int

fn main():
    sink = jsonl("rows.jsonl")
    mut n = 0
    while n >= 0:
        n = n + 1
        if n % 1000 == 0:
            write(sink, Row(step=n))
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(folder: Path, text: str, name: str = "program.ss") -> str:
    (folder / name).write_text(text)
    return name


def run(folder: Path, text: str, *words: str) -> int:
    return main(["run", "--engine", "numpy", written(folder, text), *words])


# ---- main's arguments


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["--count", "3"], "3 0.5 false run"),
        (["--count=-3", "--rate", "1e-3", "--carry-on", "--name", "a b"], "-3 0.001 true a b"),
        (["--carry_on", "--count", "3"], "3 0.5 true run"),
        (["--carry-on", "true", "--count", "3"], "3 0.5 true run"),
        (["--carry-on", "false", "--count", "3"], "3 0.5 false run"),
        (["--carry-on=false", "--count", "3"], "3 0.5 false run"),
        (["--no-carry-on", "--count", "3", "--name="], "3 0.5 false "),
        (["--count", "-3", "--name", "--odd"], "-3 0.5 false --odd"),
    ],
)
def test_arguments_of_main(here: Path, capsys: pytest.CaptureFixture[str], words: list[str], printed: str) -> None:
    assert run(here, WORDS, *words) == 0
    assert capsys.readouterr().out == f"{printed}\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "main needs --count (int)"),
        (["--count"], "--count needs a value (int)"),
        (["--count", "three"], "--count: expected an int that fits in 64 bits, got 'three'"),
        (["--count", "9223372036854775808"], "expected an int that fits in 64 bits"),
        (["--count", "1", "--rate", "fast"], "--rate: expected a float, got 'fast'"),
        (["--count", "1", "--carry-on=yes"], "--carry-on: expected true or false, got 'yes'"),
        (["--count", "1", "--no-carry-on=true"], "--no-carry-on takes no value"),
        (["--count", "1", "--count", "2"], "--count is given twice"),
        (["--cuont", "1"], "main has no parameter 'cuont'; did you mean 'count'?"),
        (["1"], "unexpected '1': main's parameters are given by name"),
        (["--engine", "numpy"], "--engine is an option of `run` and stands before the file"),
    ],
)
def test_bad_arguments_of_main(here: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    assert run(here, WORDS, *words) == 2
    captured = capsys.readouterr()
    assert message in captured.err and len(captured.err.splitlines()) == 1 and not captured.out


def test_help_lists_the_arguments_of_main(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(here, WORDS, "--help") == 0
    lines = [
        "  --count     int    required",
        "  --rate      float  default 0.5",
        "  --carry-on  bool   default false",
        '  --name      str    default "run"',
    ]
    assert capsys.readouterr().out.splitlines()[-4:] == lines


def test_a_main_that_the_command_line_cannot_call(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(here, "fn main(x: [b]):\n    print(1)\n") == 2
    assert "main's parameter x: [b] can't be given on the command line" in capsys.readouterr().err
    assert run(here, "fn other():\n    print(1)\n") == 1
    assert "error[E0201]" in capsys.readouterr().err


# ---- bad usage, help, version


BAD_USAGE = [[], ["rum"], ["run"], ["check"], ["build", "x.ss"], ["build", "--emit=all", "x.ss"], ["run", "--dim", "D", "x.ss"]]


@pytest.mark.parametrize("words", BAD_USAGE)
def test_bad_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert "usage: shapescript" in capsys.readouterr().err


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"shapescript {shapescript.__version__}\n"
    assert main(["--help"]) == 0
    assert {"run", "check", "build", "130"} <= set(capsys.readouterr().out.replace(";", " ").split())


# ---- check


def test_check_tells_everything_with_its_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three independent mistakes in one file: three diagnostics."""
    text = "dim D = 3\n\n" + "".join(f"fn f{i}(x: [b D]) -> [b D]:\n    return x + missing{i}\n\n" for i in range(3))
    assert main(["check", written(here, text)]) == 1
    shown = capsys.readouterr().err
    assert shown.count("error[E0201]") == 3
    assert "program.ss:4:16: error[E0201]" in shown and " 4 |     return x + missing0" in shown
    assert main(["check", EXAMPLE]) == 0
    assert capsys.readouterr() == ("", "")


def test_check_of_several_files(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = written(here, "fn f(x: [b D]):\n    return\n", "wrong.ss")
    assert main(["check", EXAMPLE, wrong, "none.ss"]) == 1
    shown = capsys.readouterr().err
    assert "wrong.ss:1:12: error" in shown and "none.ss" in shown


def test_dims_from_the_command_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "dim D = 3\ndim E = 2*D\n\nfn main():\n    print(D, E)\n"
    assert main(["run", "--engine=numpy", "--dim", "D=5", written(here, text)]) == 0
    assert capsys.readouterr().out == "5 10\n"
    assert main(["run", "--dim", "F=5", "program.ss"]) == 1
    assert "error[E0504]" in capsys.readouterr().err


# ---- build


@pytest.mark.parametrize(
    ("stage", "shows"),
    [
        ("tree", "FunctionDeclaration(name=train_step"),
        ("ir", "value_and_grad"),
        ("grad", "cross_entropy"),
        ("fused", "update("),
        ("final", "update("),
        ("llvm", "define internal"),
        ("asm", ".text"),
    ],
)
def test_build_shows_each_stage(stage: str, shows: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build", f"--emit={stage}", "--entry", "train_step", EXAMPLE]) == 0
    shown = capsys.readouterr().out
    assert shows in shown and shown.endswith("\n")


def test_every_stage_is_tested() -> None:
    (mark,) = [mark for mark in test_build_shows_each_stage.pytestmark if mark.name == "parametrize"]  # type: ignore[attr-defined]
    assert tuple(case[0] for case in mark.args[1]) == STAGES


@pytest.mark.parametrize("words", [["check"], ["run"], ["build", "--emit=tree"], ["build", "--emit=ir"]])
def test_files_that_are_no_programs(here: Path, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    (here / "latin.ss").write_bytes(b"# caf\xe9\n")
    for name in ("latin.ss", "none.ss", "."):
        assert main([*words, name]) == 1
        err = capsys.readouterr().err
        assert "error[E0204]: cannot read" in err and "internal" not in err
    (here / "marked.ss").write_bytes(b"\xef\xbb\xbffn main():\n    return\n")
    assert main([*words, "marked.ss"]) == 0


def test_build_needs_one_entry(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "fn f(x: [b]):\n    return\n\nfn f(x: int):\n    return\n\nfn g[D](x: [b D]):\n    return\n"
    file = written(here, text + "\nfn h[M: model, E: data](m: M, batch: E[b]):\n    return\n")
    for entry, code in (("main", "E0201"), ("f", "E0305"), ("g", "E0203"), ("h", "E0203")):
        assert main(["build", "--emit=ir", "--entry", entry, file]) == 1
        assert f"error[{code}]" in capsys.readouterr().err


# ---- errors while a program runs


def test_a_run_time_error_names_the_place(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = 'fn main(n: int):\n    print("before")\n    print(1 // n)\n'
    assert run(here, text, "--n", "0") == 1
    out, err = capsys.readouterr()
    assert out == "before\n"
    assert "program.ss:3:11: error[R1106]: 1 // 0 divides by zero" in err and " 3 |     print(1 // n)" in err


LOADS_DATA = """
data Row:
    label: int

fn main():
    rows = load_data[Row]("rows.npz")
    for batch in rows |> batches(2):
        print(1)
"""


@pytest.mark.parametrize(("content", "code"), [(None, "R1201"), (b"", "R1202"), (b"PK\3\4 no archive", "R1202")])
def test_a_bad_data_file(here: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, code: str) -> None:
    if content is not None:
        (here / "rows.npz").write_bytes(content)
    assert run(here, LOADS_DATA) == 1
    out, err = capsys.readouterr()
    assert not out and f"error[{code}]" in err and "rows.npz" in err and "Traceback" not in err


def test_a_checkpoint_that_is_not_there_and_a_folder_that_cannot_be_written(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load = 'dim D = 3\n\nmodel M:\n    w: [D] = ones\n\nfn main():\n    m = load("none.pt", m=M)\n    print(sum(m.w, over=D))\n'
    assert run(here, load) == 1
    assert "error[R1301]: none.pt" in capsys.readouterr().err
    save = 'model M:\n    w: [3] = ones\n\nfn main():\n    save("none/m.pt", m=M(seed=1))\n'
    assert run(here, save) == 1
    assert "error[R1304]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ('save("{}", n=1)', "R1304"),
        ('n = load("{}", n=int)', "R1301"),
        ('write(jsonl("{}"), Row(x=1.0))', "R1401"),
        ('rows = load_data[Row]("{}")', "R1201"),
    ],
)
@pytest.mark.parametrize("name", [r"a\0b", "", ".", "/dev/zero", "a" * 300, "pipe"])
def test_names_that_no_file_can_have(here: Path, capsys: pytest.CaptureFixture[str], call: str, code: str, name: str) -> None:
    os.mkfifo(here / "pipe")
    assert run(here, f"data Row:\n    x: float\n\nfn main():\n    {call.format(name)}\n") == 1
    err = capsys.readouterr().err
    assert f"error[{code[:-1]}" in err and "internal error" not in err
    assert {path.name for path in here.iterdir()} == {"pipe", "program.ss"}


def test_a_mistake_of_the_compiler_is_called_one(here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise KeyError("lost")

    monkeypatch.setattr(shapescript.checking, "check_file", broken)
    assert main(["check", EXAMPLE]) == 70
    shown = capsys.readouterr().err
    assert "internal error of the compiler in check: KeyError: 'lost'" in shown and "Traceback" not in shown
    monkeypatch.setenv("SHAPESCRIPT_DEBUG", "1")
    assert main(["check", EXAMPLE]) == 70
    assert "Traceback" in capsys.readouterr().err
    with pytest.raises(InternalError):
        shapescript.check(EXAMPLE)


# ---- the example


def test_the_example_runs_and_goes_on(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", EXAMPLE, "--epochs", "2"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("test accuracy 0.") and "epoch 2" in err and "step 46" in err
    assert main(["run", EXAMPLE, "--epochs", "3", "--carry-on"]) == 0
    assert "epoch 3" in capsys.readouterr().err
    steps = [json.loads(line)["step"] for line in (here / "train_mlp.jsonl").read_text().splitlines()]
    assert steps == list(range(1, 70))
    before = (here / "ckpt.pt").read_bytes()
    assert main(["run", EXAMPLE, "--epochs", "3", "--carry-on"]) == 0
    assert "finished already; nothing was done" in capsys.readouterr().err
    assert (here / "ckpt.pt").read_bytes() == before


# ---- signals and pipes


def started(folder: Path, *words: str, **options: Any) -> subprocess.Popen[str]:
    """As in the foreground: a shell starts what goes on in the background with Ctrl-C ignored, and children inherit that."""
    command = [sys.executable, "-c", FOREGROUND, *words]
    return subprocess.Popen(command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def wait_until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.02)


@pytest.mark.parametrize("engine", ["native", "numpy"])
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_run_and_leaves_whole_logs(tmp_path: Path, engine: str, number: int, status: int) -> None:
    process = started(tmp_path, "run", "--engine", engine, written(tmp_path, ENDLESS))
    log = tmp_path / "rows.jsonl"
    wait_until(lambda: process.poll() is not None or (log.exists() and log.stat().st_size > 0))
    process.send_signal(number)
    _, err = process.communicate()
    assert process.returncode == status, err
    assert "Traceback" not in err
    rows = [json.loads(line)["step"] for line in log.read_text().splitlines()]
    assert rows == [1000 * (i + 1) for i in range(len(rows))]


def test_a_reader_that_goes_away(tmp_path: Path) -> None:
    process = started(tmp_path, "build", "--emit=tree", EXAMPLE)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    with process.stderr as stream:
        err = stream.read()
    assert process.wait() == 141 and not err


def test_output_that_cannot_be_encoded_is_escaped(tmp_path: Path) -> None:
    program = written(tmp_path, 'fn main(name: str = "é…"):\n    print(name)\n')
    for words, shown in ([], r"\xe9\u2026"), (["--help"], r"[--name value \u2026]"):
        process = started(tmp_path, "run", "--engine", "numpy", program, *words, env={**os.environ, "PYTHONIOENCODING": "ascii"})
        out, err = process.communicate()
        assert (process.returncode, err) == (0, "") and shown in out


@pytest.mark.parametrize("closed", [1, 2])
@pytest.mark.parametrize(("text", "status"), [("fn main():\n    print(1)\n", 0), ("fn main():\n    print(y)\n", 1)])
def test_a_stream_that_is_closed_takes_nothing(tmp_path: Path, closed: int, text: str, status: int) -> None:
    command = f'exec {closed}>&-; exec "{sys.executable}" -m shapescript run --engine numpy {written(tmp_path, text)}'
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, text=True, capture_output=True, check=False)
    assert done.returncode == status
    assert done.stdout == ("1\n" if (closed, status) == (2, 0) else "")
    assert ("E0201" in done.stderr) == ((closed, status) == (1, 1)) and "internal error" not in done.stderr


def test_plain_lines_where_there_is_no_terminal(tmp_path: Path) -> None:
    process = started(tmp_path, "run", EXAMPLE, "--epochs", "1", env={**os.environ, "TERM": "xterm"})
    _, err = process.communicate()
    assert process.returncode == 0
    assert "\r" not in err and "epoch 1  step 23  loss " in err


def test_the_last_epoch_is_told_before_what_is_printed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "shapescript", "run", EXAMPLE, "--epochs", "2"]
    done = subprocess.run(command, cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True)
    last, printed = done.stdout.splitlines()[-2:]
    assert last.startswith("epoch 2  step 46  loss ") and printed.startswith("test accuracy ")


def test_the_module_is_the_command(tmp_path: Path) -> None:
    process = started(tmp_path, "--version")
    assert process.communicate() == (f"shapescript {shapescript.__version__}\n", "") and process.returncode == 0
    process = started(tmp_path, "rum")
    assert "usage: shapescript" in process.communicate()[1] and process.returncode == 2
