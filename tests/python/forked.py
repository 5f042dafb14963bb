"""Processes that start at once: forked from one that has loaded the compiler and both engines, and has run nothing.

`python forked.py` is that one: it reads requests, one JSON object a line, and answers each with the number of a new process, then with its
exit status. One process runs at a time.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import IO

PATIENCE = 300.0  # seconds until a process is taken to hang


class Forks:
    """The process that others are forked from."""

    def __init__(self) -> None:
        self._server = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def start(self, folder: Path, beside: Path, module: str, words: Sequence[str]) -> Child:
        """A process in `folder` that calls `run(words)` of the module. `beside` is for the files of its streams."""
        out, err = beside / "out", beside / "err"
        os.mkfifo(out)
        assert self._server.stdin is not None
        asked = {"folder": str(folder), "out": str(out), "err": str(err), "module": module, "words": list(words)}
        self._server.stdin.write(f"{json.dumps(asked)}\n")
        self._server.stdin.flush()
        return Child(self, self.answer(), out, err)

    def answer(self) -> int:
        assert self._server.stdout is not None
        return int(self._server.stdout.readline())

    def close(self) -> None:
        with self._server:
            assert self._server.stdin is not None
            self._server.stdin.close()


class Child:
    """A process, as long as nobody has called `end`. `stdout` can be read while it runs."""

    def __init__(self, forks: Forks, number: int, out: Path, err: Path) -> None:
        self.number, self._forks, self._out, self._err = number, forks, out, err
        self.stdout: IO[str] = out.open()

    def send_signal(self, number: int) -> None:
        os.kill(self.number, number)

    def end(self) -> tuple[int, str]:
        """Waits for the end; gives the exit status, that of a signal below 0, and what it wrote to its error stream. A process that hangs
        is ended by SIGKILL."""
        overdue = threading.Timer(PATIENCE, self.send_signal, [signal.SIGKILL])
        overdue.start()
        try:
            with self.stdout as stream:
                stream.read()
            self._out.unlink()
            return self._forks.answer(), self._err.read_text()
        finally:
            overdue.cancel()


def _serve() -> None:
    import shapescript

    for module in ("cli", "program", "progress", "compiler.reference.engine", "compiler.codegen.program", "compiler.passes.pipeline"):
        importlib.import_module(f"shapescript.{module}")
    shapescript.check(Path(__file__).parents[2] / "examples" / "linear_regression.ss")  # makes the parser
    answers = os.fdopen(os.dup(1), "w", 1)
    os.dup2(2, 1)
    for line in sys.stdin:
        number = os.fork()
        if not number:
            _become(**json.loads(line))
        answers.write(f"{number}\n")
        answers.write(f"{os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])}\n")


def _become(folder: str, out: str, err: str, module: str, words: Sequence[str]) -> None:
    """Doesn't come back."""
    os.chdir(folder)
    for path, descriptor in ((out, 1), (err, 2)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT)
        os.dup2(file, descriptor)
        os.close(file)
    status = 1
    try:
        importlib.import_module(module).run(words)
        status = 0
    except SystemExit as end:
        status = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    _serve()
