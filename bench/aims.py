"""What is aimed at, beside what was measured: ratios and rates by the medians, by the least times in brackets."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from .arithmetic import product_flops
from .peers import OURS
from .rows import ROWS
from .runner import Figure
from .start_up import StartUps
from .table import Ratio, Table, ratios, seconds, title_of

SMALL, LARGE, ONE_CALL = "64-128-10", "1024-4096-1024", "inference-1"
SHARES: Sequence[tuple[str, str, float]] = ((SMALL, "NumPy", 0.25), (SMALL, "JAX scan", 0.5), (ONE_CALL, "PyTorch", 0.5))
PEAK_SHARE = 0.8
COLD, CACHED, CHECK = 1.0, 0.5, 0.4  # seconds


@dataclass(frozen=True)
class Aim:
    """`threads`: those that it was measured with, None where they don't matter."""

    what: str
    threads: int | None
    wanted: str
    measured: str
    met: bool


def aims_table(figures: Sequence[Figure], start_up: StartUps | None, core_flops: float) -> Table | None:
    """None where nothing was measured that is aimed at. `core_flops`: multiply-adds of one core, counted twice, a second."""
    found = list(aims(figures, start_up, core_flops))
    lines = [(one.what, str(one.threads or ""), one.wanted, one.measured, "yes" if one.met else "no") for one in found]
    return Table("What is aimed at: medians (least times)", ("aim", "threads", "wanted", "measured", "met"), lines) if lines else None


def aims(figures: Sequence[Figure], start_up: StartUps | None, core_flops: float) -> Iterator[Aim]:
    for threads in sorted({figure.threads for figure in figures}):
        here = [figure for figure in figures if figure.threads == threads]
        compared = ratios(here)
        yield from _shares(compared, threads)
        yield from _rate(here, threads, core_flops)
        yield from _first(compared, threads)
        yield from _memory(here, threads)
    if start_up is not None:
        yield from _start_up(start_up)


def _shares(compared: Sequence[Ratio], threads: int) -> Iterator[Aim]:
    """Of a peer's time."""
    by_place = {(ratio.row, ratio.peer): ratio for ratio in compared}
    for row, peer, most in SHARES:
        ratio = by_place.get((row, peer))
        if ratio is not None:
            measured = f"{1 / ratio.median:.2f} ({1 / ratio.least:.2f})"
            yield Aim(f"{title_of(row)}: of {peer}'s time", threads, f"at most {most}", measured, 1 / ratio.median <= most)


def _rate(figures: Sequence[Figure], threads: int, core_flops: float) -> Iterator[Aim]:
    """The products' arithmetic over the time of the whole step, of what the cores' multiply-adds could do in it."""
    row = next(row for row in ROWS if row.name == LARGE)
    for figure in figures:
        if (figure.row, figure.peer) == (LARGE, OURS) and core_flops:
            possible = product_flops(row.dims, row.batch) / (threads * core_flops) * 1e6
            shares = [possible / figure.median, possible / figure.least]
            what, measured = f"{row.title}: products, of the cores' multiply-adds", f"{shares[0]:.0%} ({shares[1]:.0%})"
            yield Aim(what, threads, f"at least {PEAK_SHARE:.0%}", measured, shares[0] >= PEAK_SHARE)


def _first(compared: Sequence[Ratio], threads: int) -> Iterator[Aim]:
    faster: dict[str, list[str]] = {}
    for ratio in compared:
        faster.setdefault(ratio.row, []).extend([ratio.peer] if ratio.median < 1 else [])
    yield from _on_every_row("first on every row", "faster", faster, threads)


def _memory(figures: Sequence[Figure], threads: int) -> Iterator[Aim]:
    ours = {figure.row: figure.peak for figure in figures if figure.peer == OURS}
    smaller: dict[str, list[str]] = {}
    for figure in figures:
        if figure.peer != OURS and figure.row in ours:
            smaller.setdefault(figure.row, []).extend([figure.peer] if figure.peak <= ours[figure.row] else [])
    yield from _on_every_row("peak memory below every peer's", "no larger", smaller, threads)


def _on_every_row(what: str, how: str, ahead: Mapping[str, Sequence[str]], threads: int) -> Iterator[Aim]:
    """`ahead`: of each row the peers that do better."""
    if ahead:
        counts: dict[str, int] = {}
        for peer in (peer for peers in ahead.values() for peer in peers):
            counts[peer] = counts.get(peer, 0) + 1
        met = sum(not peers for peers in ahead.values())
        others = "".join(f"; {peer} {how} on {count}" for peer, count in counts.items())
        yield Aim(what, threads, f"{len(ahead)} of {len(ahead)}", f"{met} of {len(ahead)}{others}", not counts)


def _start_up(found: StartUps) -> Iterator[Aim]:
    ours = next((one for one in found.first_step if one.peer == OURS), None)
    cases = [("`shapescript check`", found.check, CHECK)]
    if ours is not None:
        cases = [("first step, cold", ours.cold, COLD), ("first step, cached", ours.cached, CACHED), *cases]
    for what, taken, most in cases:
        if taken:
            yield Aim(what, None, f"within {most} s", f"{seconds(taken)} s", statistics.median(taken) <= most)
