"""Runs a row: each peer in a process of its own, in turn, round after round, and looks whether they compute the same."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .peers import Peer, environment, threads_shown
from .rows import Row
from .task import ROOT

CHECKED_NUMBERS = 20  # of the first round; later losses are further apart by what each step adds
SILENCE = 0.15  # seconds before each round, in which the threads of the peer before fall asleep: some look for work for 0.1 s


class DifferentNumbers(Exception):
    """Two peers don't compute the same."""


@dataclass
class Figure:
    """What one peer has measured in one row: microseconds of a step in each round, the processors it used, bytes of memory."""

    row: str
    peer: str
    threads: int
    rounds: list[float] = field(default_factory=list)
    cores: float = 0.0
    idle: int = 0
    peak: int = 0

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    @property
    def least(self) -> float:
        return min(self.rounds)


@dataclass(frozen=True)
class LeftOut:
    row: str
    peer: str
    threads: int
    why: str


class Process:
    """A worker; `left_out` says why it doesn't take part, where it doesn't."""

    def __init__(self, peer: Peer, row: Row, folder: Path, threads: int, place: int = 0, caches: Path | None = None) -> None:
        command = [sys.executable, "-m", "bench.worker", peer.key, str(folder), str(threads), str(place)]
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment(threads, caches or folder / f"caches-{peer.key}"),
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if peer.may_fail else None,
        )
        self.figure = Figure(row.name, peer.name, threads)
        self.numbers: list[float] = []
        self.left_out: str | None = None
        self.cores: list[float] = []

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process of {self.figure.peer} has ended with status {self.process.wait()}")
        found: dict[str, Any] = json.loads(line)
        return found

    def wait_begun(self) -> None:
        found = self.answer()
        if "missing" in found:
            self.left_out = f"not installed: {found['missing']}"
        elif "failed" in found:
            self.left_out = found["failed"]
        else:
            self.numbers = found["numbers"]

    def round(self, steps: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        found = self.answer()
        self.figure.rounds.append(found["seconds"] / steps * 1e6)
        self.cores.append(found["cores"])

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        if self.left_out is None:
            found = self.answer()
            self.figure.idle, self.figure.peak = found["idle"], found["peak"]
            self.figure.cores = statistics.median(self.cores)
        self._wait()

    def kill(self) -> None:
        self.process.kill()
        self._wait()

    def _wait(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def run_row(row: Row, peers: Sequence[Peer], threads: int, rounds: int, say: Callable[[str], None]) -> tuple[list[Figure], list[LeftOut]]:
    """The first of the peers is what the others are compared with. Raises DifferentNumbers."""
    from .ours import prepare_task

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare_task(folder, row, rounds + 1, row.steps)
        processes = [Process(peer, row, folder, threads, place) for place, peer in enumerate(peers) if peer.has(row)]
        try:
            for process in processes:
                process.wait_begun()
            running = [process for process in processes if process.left_out is None]
            check_numbers(row, {process.figure.peer: process.numbers for process in running})
            for number in range(rounds):
                say(f"{row.title}, {threads_shown(threads)}: round {number + 1} of {rounds}")
                for process in running:
                    time.sleep(SILENCE)
                    process.round(row.steps)
            for process in processes:
                process.end()
        except BaseException:
            for process in processes:
                process.kill()
            raise
    left_out = [LeftOut(row.name, one.figure.peer, threads, one.left_out) for one in processes if one.left_out is not None]
    return [process.figure for process in running], left_out


def check_numbers(row: Row, numbers: dict[str, list[float]]) -> None:
    """Compares the losses of the first round, or the results of calls, with those of the first peer."""
    (first, wanted), *others = numbers.items()
    for peer, found in others:
        if len(found) != len(wanted):
            raise DifferentNumbers(f"{row.title}: {peer} gives {len(found)} numbers, {first} {len(wanted)}")
        pairs = list(zip(wanted, found, strict=True))[:CHECKED_NUMBERS]
        for place, (one, other) in enumerate(pairs):
            difference = abs(one - other) / max(1.0, abs(one))
            if not difference <= row.tolerance:
                message = f"{row.title}: number {place} of {peer} is {other}, of {first} {one}; at most {row.tolerance:g} apart"
                raise DifferentNumbers(message)
