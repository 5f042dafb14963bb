"""`python -m bench`: the first row of the table, this project beside PyTorch, NumPy and JAX, on one thread each."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .task import BATCH, BATCHES_PER_EPOCH, CLASSES, HIDDEN, INPUTS, ROOT, save_task

PEERS = {"ShapeScript": "shapescript", "NumPy": "numpy", "PyTorch": "torch", "JAX": "jax"}
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
EPOCHS_A_ROUND = 10
STEPS_A_ROUND = EPOCHS_A_ROUND * BATCHES_PER_EPOCH
CHECKED_STEPS = 100
LARGEST_DIFFERENCE = 1e-4  # between the losses of two peers: they round differently


@dataclass
class Peer:
    """A peer's process, and what it has measured: microseconds a step of each round, the losses of the first steps."""

    name: str
    process: subprocess.Popen[str]
    first_epoch: float = 0.0
    rounds: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process of {self.name} has ended with status {self.process.wait()}")
        found: dict[str, Any] = json.loads(line)
        return found

    def round(self, steps: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        found = self.answer()
        self.rounds.append(found["seconds"] / steps * 1e6)
        self.losses += found["losses"]

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)


def start(name: str, task: Path) -> Peer | None:
    """None for a peer that isn't installed."""
    command = [sys.executable, "-m", "bench.worker", name, str(task)]
    environment = {**os.environ, **ONE_THREAD}
    process = subprocess.Popen(command, cwd=ROOT, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    peer = Peer(name, process)
    found = peer.answer()
    if "missing" in found:
        print(f"{name} isn't installed: {found['missing']}", file=sys.stderr)
        process.wait()
        return None
    peer.first_epoch, peer.losses = found["first_epoch"], found["losses"]
    return peer


def measure(rounds: int) -> list[Peer]:
    """All peers in turn, round after round, the first round uncounted. Raises SystemExit where their losses differ."""
    from .ours import common_order, common_start

    with tempfile.TemporaryDirectory() as folder:
        task = Path(folder) / "task.npz"
        save_task(task, common_start(), common_order(EPOCHS_A_ROUND * (rounds + 1) + 1))
        peers = [peer for name in PEERS if (peer := start(name, task))]
    for number in range(rounds + 1):
        for peer in peers:
            time.sleep(0.03)  # the one before falls silent
            peer.round(STEPS_A_ROUND)
            if number == 0:
                peer.rounds.clear()
    for peer in peers:
        assert peer.process.stdin is not None
        peer.process.stdin.close()
        peer.process.wait()
    _check_losses(peers)
    return peers


def _check_losses(peers: list[Peer]) -> None:
    ours = peers[0]
    for peer in peers[1:]:
        pairs = zip(ours.losses[:CHECKED_STEPS], peer.losses[:CHECKED_STEPS], strict=True)
        difference = max(abs(one - other) for one, other in pairs)
        if not difference <= LARGEST_DIFFERENCE:
            raise SystemExit(f"{peer.name}'s losses differ from {ours.name}'s by {difference} within {CHECKED_STEPS} steps")


def table(peers: list[Peer]) -> str:
    ours = peers[0].median
    lines = [f"{'':12}{'µs a step':>12}{'least':>10}{'ours is':>16}{'start and 22 steps, s':>24}"]
    for peer in peers:
        ratio = "" if peer is peers[0] else f"{peer.median / ours:.2f}× faster"
        lines.append(f"{peer.name:12}{peer.median:12.1f}{min(peer.rounds):10.1f}{ratio:>16}{peer.first_epoch:24.2f}")
    return "\n".join(lines)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def main() -> None:
    parser = argparse.ArgumentParser("python -m bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help=f"of {STEPS_A_ROUND} steps (default: 15)")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench.json", help="for the figures (default: build/bench.json)")
    options = parser.parse_args()
    peers = measure(options.rounds)
    title = f"{INPUTS}-{HIDDEN}-{CLASSES}, batch {BATCH}, one thread, median of {options.rounds} rounds of {STEPS_A_ROUND} steps"
    print(f"{title}\n{table(peers)}")
    figures = {
        "row": title,
        "machine": {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count(), "python": platform.python_version()},
        "versions": {name: _version(package) for name, package in PEERS.items()},
        "microseconds": {peer.name: {"median": peer.median, "rounds": peer.rounds, "first_epoch_s": peer.first_epoch} for peer in peers},
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(figures, indent=1) + "\n")
    print(f"written to {options.out}")


if __name__ == "__main__":
    main()
