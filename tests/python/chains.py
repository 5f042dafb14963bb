"""Chains: a run that is stopped again and again, and goes on each time, beside the same run in one piece. Both must leave the same bytes.

A link of a chain ends by itself after some step, or is broken off at a request to the host: at a log record, a save, a flush, before or
after it is done. Links run in this process, or in one of their own, which a real signal ends.
"""

from __future__ import annotations

import dataclasses
import json
import os
import random
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from chain_programs import EPOCHS, STEPS, VARIANTS, Variant, write_data
from forked import Forks

import shapescript
from shapescript.engines import EngineName
from shapescript.host import ProgramHost

REQUESTS = ("load_data", "sink_open", "write", "save", "flush", "load")  # where a link is broken off
PREFETCHES = (0, 1, 8)
FINISHED = 10**6
STATUS = {"int": 130, "term": 143, "kill": -signal.SIGKILL}


@dataclasses.dataclass(frozen=True)
class Link:
    """One stretch of a run. `stop`: it ends by itself after this step. `every`: it saves after each so many steps. `broken`: the number of
    the request at which a signal comes, -1 for none; `how`: which signal, where the link has a process of its own."""

    stop: int = FINISHED
    every: int = FINISHED
    prefetch: int = 0
    broken: int = -1
    is_done: bool = False  # whether the request is done before the signal comes
    how: str = "int"


@dataclasses.dataclass(frozen=True)
class Chain:
    variant: str
    engine: EngineName
    train: bool
    links: tuple[Link, ...]


def chain_of(seed: int, variants: Sequence[str], engines: Sequence[EngineName], most_links: int = 6) -> Chain:
    """The chain with this number: the same whenever it is asked for."""
    draw = random.Random(seed)
    edges = [0, 1, STEPS // EPOCHS, 2 * (STEPS // EPOCHS), STEPS - 1, STEPS]
    links: list[Link] = []
    for _ in range(draw.randint(1, most_links)):
        every = draw.choice([1, 2, 3, 5, STEPS // EPOCHS, FINISHED])
        prefetch = draw.choice(PREFETCHES)
        if draw.random() < 0.5:
            stop = draw.choice(edges) if draw.random() < 0.5 else draw.randint(0, STEPS)
            links.append(Link(stop, every, prefetch))
        else:
            how = draw.choice(["int", "term", "kill"])
            links.append(Link(FINISHED, every, prefetch, draw.randint(0, 2 * STEPS), draw.random() < 0.5, how))
        if draw.random() < 0.2:
            links.append(links[-1])  # two stops with nothing between them, where it ends by itself
    links.append(Link(FINISHED, draw.choice([1, 4, FINISHED]), draw.choice(PREFETCHES)))
    return Chain(draw.choice(variants), draw.choice(engines), draw.random() < 0.75, tuple(links))


# ---- running links


class Runner:
    """Programs that are compiled once, and the outcomes of runs in one piece, for chains in this process.

    `variants` are programs by name.
    """

    def __init__(self, folder: Path, variants: Mapping[str, Variant] = VARIANTS) -> None:
        self.folder, self._variants = folder, variants
        self._programs: dict[tuple[str, str], Any] = {}
        self._whole: dict[tuple[str, bool], dict[str, bytes]] = {}

    def program(self, variant: str, engine: EngineName) -> Any:
        if (variant, engine) not in self._programs:
            here = self.folder / "programs" / f"{variant}-{engine}"
            place(here, self._variants[variant].text)
            self._programs[variant, engine] = shapescript.load(here / "chain.ss", engine=engine)
        return self._programs[variant, engine]

    def whole(self, variant: str, train: bool = True) -> dict[str, bytes]:
        """What the run in one piece leaves: natively, for both engines."""
        if (variant, train) not in self._whole:
            self._whole[variant, train] = self.outcome(Chain(variant, "native", train, (Link(),)), f"whole-{train}")
        return self._whole[variant, train]

    def outcome(self, chain: Chain, name: str) -> dict[str, bytes]:
        """What the chain's last link leaves."""
        here = self.folder / chain.variant / name
        here.mkdir(parents=True)
        for link in chain.links:
            with inside(here):
                self._run(chain, link)
            check_left(here)
        found = left(here)
        shutil.rmtree(here)
        return found

    def _run(self, chain: Chain, link: Link) -> None:
        program = self.program(chain.variant, chain.engine)
        mode = shapescript.Train(seed=5) if chain.train else shapescript.Eval
        try:
            with broken_off(vars(program)["_host"], link, lambda: signal.raise_signal(signal.SIGINT)):
                program.go(mode, EPOCHS, link.stop, link.every, link.prefetch, os.path.exists("chain.pt"))
        except KeyboardInterrupt:
            assert link.broken >= 0

    def check(self, chain: Chain, name: str) -> None:
        """Raises AssertionError where the chain leaves other bytes than the run in one piece."""
        found, wanted = self.outcome(chain, name), self.whole(chain.variant, chain.train)
        assert sorted(found) == sorted(wanted)
        for file in found:
            assert found[file] == wanted[file], f"{file} differs"


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextmanager
def broken_off(host: ProgramHost, link: Link, send: Callable[[], None]) -> Iterator[None]:
    """While in here, a signal is sent at the request of this number: among those that a link is broken off at."""
    perform, count = host.perform, 0

    def watched(op: Any, operands: Any) -> Any:
        nonlocal count
        is_it = op.name in REQUESTS and count == link.broken
        count += op.name in REQUESTS
        if is_it and not link.is_done:
            send()
        results = perform(op, operands)
        if is_it and link.is_done:
            send()
        return results

    host.perform = watched  # type: ignore[method-assign]
    try:
        yield
    finally:
        del host.perform


def place(folder: Path, text: str) -> None:
    """The program and its data in a folder."""
    folder.mkdir(parents=True)
    (folder / "chain.ss").write_text(text)
    write_data(folder)


def logs(folder: Path) -> list[Path]:
    return [folder / name for name in ("chain.jsonl", "chain.csv") if (folder / name).exists()]


def left(folder: Path) -> dict[str, bytes]:
    """What a run leaves: its logs and its checkpoint."""
    return {path.name: path.read_bytes() for path in (*logs(folder), folder / "chain.pt")}


def check_left(folder: Path, is_killed: bool = False) -> None:
    """However a link ends, its logs are whole lines, and nothing half-written lies about; what a killed one leaves, the next save removes.
    The next link loads the checkpoint."""
    for log in logs(folder):
        text = log.read_text()
        assert text.endswith("\n") or not text
        if log.suffix == ".jsonl":
            steps = [json.loads(line)["step"] for line in text.splitlines()]
            assert steps == list(range(1, len(steps) + 1))
    assert is_killed or not list(folder.glob(".*.tmp"))


# ---- links with processes of their own


def run_fresh(chain: Chain, folder: Path, forks: Forks) -> dict[str, bytes]:
    """What the chain leaves when each of its links has a new process, which the link's own signal ends."""
    here = folder / "run"
    place(here, VARIANTS[chain.variant].text)
    for link in chain.links:
        words = [json.dumps(dataclasses.asdict(link)), chain.engine, str(chain.train).lower()]
        status, err = forks.start(here, folder, "chains", words).end()
        assert status in ({0} if link.broken < 0 else {0, STATUS[link.how]}), err
        assert "Traceback" not in err
        check_left(here, status == STATUS["kill"])
    return left(here)


def run(words: Sequence[str]) -> None:
    """A link in this process."""
    from shapescript.__main__ import command

    asked, engine, train = words
    link = Link(**json.loads(asked))
    number = {"int": signal.SIGINT, "term": signal.SIGTERM, "kill": signal.SIGKILL}[link.how]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background ignores it
    if link.broken >= 0:
        made = ProgramHost.__init__

        def watched(host: ProgramHost, *arguments: Any) -> None:
            made(host, *arguments)
            broken_off(host, link, lambda: os.kill(os.getpid(), number)).__enter__()

        ProgramHost.__init__ = watched  # type: ignore[method-assign]
    options = ["--train", train, "--epochs", EPOCHS, "--stop", link.stop, "--every", link.every, "--prefetch", link.prefetch]
    carry_on = ["--carry-on"] if os.path.exists("chain.pt") else []
    sys.argv[1:] = ["run", "--engine", engine, "chain.ss", *map(str, options), *carry_on]
    command()
