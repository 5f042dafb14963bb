"""The figures as tables, in plain text and in Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from .peers import OURS, PEERS, threads_shown
from .rows import ROWS
from .runner import Figure
from .start_up import StartUps

NOTHING = "–"


@dataclass(frozen=True)
class Table:
    """A title, a line for the columns, the lines below, and what is to be said of them."""

    title: str
    head: Sequence[str]
    lines: Sequence[Sequence[str]]
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Ratio:
    """How many times as long a peer takes as this project: the median over the rounds, and by the least times."""

    row: str
    peer: str
    threads: int
    median: float
    least: float


def ratios(figures: Sequence[Figure]) -> list[Ratio]:
    """Times of one round are compared with one another: what else the machine did was much the same."""
    ours = {(figure.row, figure.threads): figure for figure in figures if figure.peer == OURS}
    found = []
    for theirs in figures:
        own = ours.get((theirs.row, theirs.threads))
        if own is not None and theirs is not own:
            pairs = [their / our for our, their in zip(own.rounds, theirs.rounds, strict=True)]
            found.append(Ratio(theirs.row, theirs.peer, theirs.threads, statistics.median(pairs), theirs.least / own.least))
    return found


def time_tables(figures: Sequence[Figure]) -> Iterator[Table]:
    """For each number of threads the medians and the least times, each with the ratio to this project's."""
    by_place = {(ratio.row, ratio.peer, ratio.threads): ratio for ratio in ratios(figures)}

    def median(figure: Figure) -> str:
        ratio = by_place.get((figure.row, figure.peer, figure.threads))
        return duration(figure.median) + (f" ({ratio.median:.2f}×)" if ratio else "")

    def least(figure: Figure) -> str:
        ratio = by_place.get((figure.row, figure.peer, figure.threads))
        return duration(figure.least) + (f" ({ratio.least:.2f}×)" if ratio else "")

    for threads in sorted({figure.threads for figure in figures}):
        with_threads = [figure for figure in figures if figure.threads == threads]
        yield _by_row(f"Median time of a step or call, {threads_shown(threads)} (times as long as {OURS})", with_threads, median)
        yield _by_row(f"Least time, {threads_shown(threads)}", with_threads, least)


def memory_tables(figures: Sequence[Figure]) -> Iterator[Table]:
    def memory(figure: Figure) -> str:
        return f"{figure.peak / 2**20:.0f} (+{(figure.peak - figure.idle) / 2**20:.0f})"

    for threads in sorted({figure.threads for figure in figures}):
        title = f"Peak memory in MiB, {threads_shown(threads)} (growth over the process with its packages imported)"
        yield _by_row(title, [figure for figure in figures if figure.threads == threads], memory)


def start_up_tables(found: StartUps) -> Iterator[Table]:
    head = ("", "cold", "cached")
    lines = [(one.peer, seconds(one.cold), seconds(one.cached)) for one in found.first_step]
    yield Table("From the start of the process to the end of its first step, 64-128-10, in seconds: median (least)", head, lines)
    yield Table("`shapescript check examples/train_mlp.ss`, in seconds", ("median (least)",), [(seconds(found.check),)])


def slower_tables(figures: Sequence[Figure]) -> Iterator[Table]:
    """Where a peer takes less time, by the median or by the least times."""
    slower = sorted((ratio for ratio in ratios(figures) if min(ratio.median, ratio.least) < 1), key=lambda ratio: ratio.median)
    lines = [(title_of(one.row), str(one.threads), one.peer, f"{one.median:.2f}×", f"{one.least:.2f}×") for one in slower]
    if lines:
        yield Table(f"Peers that take less time than {OURS}", ("row", "threads", "peer", "by medians", "by least times"), lines)


def _by_row(title: str, figures: Sequence[Figure], cell: Callable[[Figure], str]) -> Table:
    names = [peer.name for peer in PEERS if any(figure.peer == peer.name for figure in figures)]
    by_place = {(figure.row, figure.peer): figure for figure in figures}
    lines = []
    for row in (row for row in ROWS if any(figure.row == row.name for figure in figures)):
        in_row = [by_place.get((row.name, name)) for name in names]
        lines.append([row.title, *(NOTHING if figure is None else cell(figure) for figure in in_row)])
    return Table(title, ["", *names], lines)


def title_of(row: str) -> str:
    return next((one.title for one in ROWS if one.name == row), row)


def duration(microseconds: float) -> str:
    if microseconds >= 1e4:
        return f"{microseconds / 1e3:.1f} ms"
    return f"{microseconds:.0f} µs" if microseconds >= 1e3 else f"{microseconds:.1f} µs"


def seconds(found: Sequence[float]) -> str:
    return f"{statistics.median(found):.2f} ({min(found):.2f})" if found else NOTHING


def as_text(table: Table) -> str:
    lines = [list(table.head), *map(list, table.lines)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(table.head))]
    return "\n".join([table.title, *("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines), *table.notes])


def as_markdown(table: Table) -> str:
    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cells)} |"

    notes = ["", *(f"- {note}" for note in table.notes)] if table.notes else []
    return "\n".join([f"**{table.title}**", "", line(table.head), line(["---"] * len(table.head)), *map(line, table.lines), *notes])
