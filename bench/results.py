"""A run's figures with the machine, the versions and the date: as JSON, and as a part of the page RESULTS.md."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from shapescript.compiler.codegen.peak import measured_peak

from .aims import aims_table
from .fork_join import measure as measure_latency
from .page import Part, put
from .peers import threads_shown
from .runner import Figure, LeftOut
from .start_up import StartUps
from .table import Table, as_markdown, as_text, memory_tables, ratios, slower_tables, start_up_tables, time_tables, title_of
from .task import ROOT

PACKAGES = ("numpy", "llvmlite", "torch", "jax", "optax")


@dataclass
class Results:
    rounds: str
    figures: list[Figure] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    start_up: StartUps | None = None
    core_flops: float = 0.0  # what one core's multiply-adds do in a second

    def tables(self) -> Iterator[Table]:
        aims = aims_table(self.figures, self.start_up, self.core_flops)
        if aims is not None:
            yield aims
        if self.figures:
            yield from time_tables(self.figures)
            yield from memory_tables(self.figures)
        if self.start_up is not None:
            yield from start_up_tables(self.start_up)
        yield from slower_tables(self.figures)

    def text(self) -> str:
        return _joined(self, as_text, "{}: {} ({}) is left out: {}")

    def page(self, facts: Mapping[str, str]) -> str:
        """What stands in RESULTS.md."""
        head = f"The last run of `python -m bench --write-results`, {self.rounds}."
        return f"{head}\n\n{listed(facts)}\n\n{_joined(self, as_markdown, '- {}: {} ({}) is left out: {}')}"

    def as_json(self, facts: Mapping[str, str]) -> dict[str, Any]:
        times = [{**asdict(one), "median": one.median, "least": one.least} for one in self.figures]
        return {
            "facts": dict(facts),
            "rounds": self.rounds,
            "figures": times,
            "ratios": [asdict(one) for one in ratios(self.figures)],
            "core_flops": self.core_flops,
            "start_up": None if self.start_up is None else asdict(self.start_up),
            "left_out": [asdict(one) for one in self.left_out],
        }


def _joined(results: Results, render: Callable[[Table], str], left_out: str) -> str:
    missing = [left_out.format(title_of(one.row), one.peer, threads_shown(one.threads), one.why) for one in results.left_out]
    return "\n\n".join([*map(render, results.tables()), *(["\n".join(missing)] if missing else [])])


def write(results: Results, out: Path, page: Path | None) -> None:
    facts = facts_of_run()
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(results.as_json(facts), indent=1) + "\n")
    if page is not None:
        put(page, Part.PEERS, results.page(facts))


def listed(facts: Mapping[str, str]) -> str:
    return "\n".join(f"- {name}: {value}" for name, value in facts.items())


def facts_of_run() -> dict[str, str]:
    """The machine, the versions, when, and of which commit."""
    latency, peak = measure_latency(), measured_peak()
    versions = [f"{name} {found}" for name in PACKAGES if (found := _version(name))]
    return {
        "processor": f"{_processor()}, {len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()} cores",
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "packages": ", ".join(versions),
        "fork and join of two threads": f"{latency.awake:.2f} µs; from sleep {latency.asleep:.0f} µs",
        "one core": f"{peak.flops / 1e9:.1f} GFLOP/s ({peak.flops_f64 / 1e9:.1f} in f64), {peak.bytes / 1e9:.1f} GB/s",
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": _commit(),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    file = Path("/proc/cpuinfo")
    lines: Sequence[str] = file.read_text().splitlines() if file.exists() else []
    facts = dict(reversed([(name.strip(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]))
    names = [platform.processor() or platform.machine()]
    if "model name" in facts:
        names = [facts["model name"], *(f"{name} {facts[name]}" for name in ("cpu family", "model") if name in facts)]
    return ", ".join(names)


def _commit() -> str:
    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("rev-parse", "--short", "HEAD") + (" with changes" if git("status", "--porcelain", "-uno") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
