"""`python -m bench`: this project beside PyTorch, JAX and NumPy; `python -m bench growth`: a step's time as sizes grow."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from shapescript.compiler.codegen.peak import measured_peak

from .options import count, thread_count
from .page import PAGE
from .peers import PEERS, Peer
from .progress import say, warn
from .results import Results, write
from .rows import ROWS, Row
from .runner import DifferentNumbers, LeftOut, run_row
from .start_up import NAME as START_UP
from .start_up import run_start_up
from .task import ROOT

START_UP_REPEATS = 3
QUICK_ROUNDS = 3


def main() -> int:
    if sys.argv[1:2] == ["growth"]:
        from .growth import main as growth

        return growth(sys.argv[2:])
    options = _options()
    try:
        results = _run(options)
    except DifferentNumbers as error:
        print(f"these peers don't compute the same: {error}", file=sys.stderr)
        return 1
    print(results.text())
    write(results, options.out, PAGE if options.write_results else None)
    print(f"\nwritten to {options.out}" + (f" and {PAGE}" if options.write_results else ""))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench", description=__doc__)
    rows = [row.name for row in ROWS] + [START_UP]
    parser.add_argument("--rows", nargs="+", choices=rows, default=rows, metavar="ROW", help=f"of {', '.join(rows)} (default: all)")
    keys = [peer.key for peer in PEERS[1:]]
    parser.add_argument("--peers", nargs="*", choices=keys, default=keys, metavar="PEER", help=f"of {', '.join(keys)} (default: all)")
    parser.add_argument("--threads", nargs="+", type=thread_count, default=[1, 2], help="numbers of threads (default: 1 2)")
    parser.add_argument("--rounds", type=count, help="counted rounds of each row (default: the row's own)")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds, and one start of each process")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench.json", help="for the figures (default: build/bench.json)")
    parser.add_argument("--write-results", action="store_true", help="write the tables to bench/RESULTS.md too")
    return parser.parse_args()


def _run(options: argparse.Namespace) -> Results:
    peers = [peer for peer in PEERS if peer is PEERS[0] or peer.key in options.peers]
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else None)
    results = Results("each row's own number of rounds" if rounds is None else f"{rounds} rounds", core_flops=measured_peak().flops)
    for threads in options.threads:
        if threads > (os.cpu_count() or 1):
            print(f"{threads} threads are more than this machine has processors", file=sys.stderr)
        for row in (row for row in ROWS if row.name in options.rows):
            _one_row(results, row, peers, threads, rounds or row.rounds)
            write(results, options.out, None)  # a run that is stopped leaves what it has
    if START_UP in options.rows:
        repeats = 1 if options.quick else START_UP_REPEATS
        results.start_up = run_start_up(peers, max(options.threads), repeats, say)
        results.left_out += results.start_up.left_out
    say("")
    return results


def _one_row(results: Results, row: Row, peers: Sequence[Peer], threads: int, rounds: int) -> None:
    figures, left_out = run_row(row, peers, threads, rounds, say)
    results.figures += figures
    results.left_out += left_out
    for figure in figures:
        if figure.cores > threads + 0.2:
            warn(f"{row.title}: {figure.peer} used {figure.cores:.1f} processors, more than {threads}")
    for one in left_out:
        warn(_sentence(row, one))


def _sentence(row: Row, left_out: LeftOut) -> str:
    return f"{row.title}: {left_out.peer} is left out: {left_out.why}"


if __name__ == "__main__":
    sys.exit(main())
