"""The time from the start of a process to the end of its first training step, and that of `shapescript check`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .peers import Peer, environment
from .rows import START_UP_ROW
from .runner import LeftOut, Process, check_numbers
from .task import ROOT

NAME = "start-up"
CHECKED = ROOT / "examples" / "train_mlp.ss"


@dataclass
class StartUp:
    """Seconds of each repeat: `cold` with empty caches, `cached` after that; of a peer without a cache only `cold`."""

    peer: str
    cold: list[float] = field(default_factory=list)
    cached: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class StartUps:
    first_step: list[StartUp]
    check: list[float]
    left_out: list[LeftOut]


def run_start_up(peers: Sequence[Peer], threads: int, repeats: int, say: Callable[[str], None]) -> StartUps:
    from .ours import prepare_task

    taking_part = [peer for peer in peers if peer.has(START_UP_ROW) and peer.key != "scan"]
    found = {peer.name: StartUp(peer.name) for peer in taking_part}
    left_out: dict[str, str] = {}
    check: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare_task(folder, START_UP_ROW, 1, 1)
        numbers: dict[str, list[float]] = {}
        for repeat in range(repeats):
            say(f"{NAME}: {repeat + 1} of {repeats}")
            for peer in taking_part:
                caches = folder / f"{peer.key}-{repeat}"
                for seconds in (found[peer.name].cold, found[peer.name].cached)[: 1 + peer.has_cache]:
                    process, taken = _first_step(peer, folder, caches, threads)
                    if process.left_out is None:
                        seconds.append(taken)
                        numbers[peer.name] = process.numbers
                    else:
                        left_out[peer.name] = process.left_out
            check.append(_check(folder / f"check-{repeat}", threads))
        check_numbers(START_UP_ROW, numbers)
    first_step = [one for one in found.values() if one.cold]
    return StartUps(first_step, check, [LeftOut(NAME, name, threads, why) for name, why in left_out.items()])


def _first_step(peer: Peer, folder: Path, caches: Path, threads: int) -> tuple[Process, float]:
    begun = time.perf_counter()
    process = Process(peer, START_UP_ROW, folder, threads, caches=caches)
    process.wait_begun()
    taken = time.perf_counter() - begun
    process.kill()
    return process, taken


def _check(caches: Path, threads: int) -> float:
    begun = time.perf_counter()
    command = [sys.executable, "-m", "shapescript", "check", str(CHECKED)]
    subprocess.run(command, cwd=ROOT, env=environment(threads, caches), check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun
