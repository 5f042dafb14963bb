"""A profile as text: by line, by kernel beside what the machine can do, and what was outside of native code."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from shapescript.compiler.codegen.peak import Peak
from shapescript.compiler.ir.types import Element
from shapescript.profile_rows import Kernel, ProfileRow
from shapescript.profiling import Profile

MOST_LINES = 20
WIDEST_TEXT = 88
MILLISECONDS = 11  # columns
SPENT = f"{'ms':>{MILLISECONDS}} {'%':>6} {'calls':>10}"
GIGA = 1e9


@dataclass(frozen=True)
class Sum:
    """Rows that are one line of a table."""

    rows: tuple[ProfileRow, ...]

    @property
    def seconds(self) -> float:
        return sum(row.seconds for row in self.rows)

    @property
    def calls(self) -> int:
        return sum(row.calls for row in self.rows)

    @property
    def threads(self) -> int:
        return max(row.threads for row in self.rows)

    @property
    def flops(self) -> int:
        return sum(row.flops for row in self.rows)

    @property
    def bytes(self) -> int:
        return sum(row.bytes for row in self.rows)


def sums(rows: Sequence[ProfileRow], key: Callable[[ProfileRow], Hashable]) -> list[Sum]:
    """The rows with equal keys together, the costliest first."""
    found: dict[Hashable, list[ProfileRow]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return sorted((Sum(tuple(some)) for some in found.values()), key=lambda one: -one.seconds)


def report(profile: Profile) -> str:
    rows, peak = profile.rows, profile.machine
    lines = [
        f"profile: {profile.seconds:.3f} s, {profile.native_seconds:.3f} s of them in {_counted(profile.calls, 'call')} of native code",
        f"this machine, one core: {peak.flops / GIGA:.1f} GFLOP/s ({peak.flops_f64 / GIGA:.1f} in f64), {peak.bytes / GIGA:.1f} GB/s",
        *_by_line(rows, profile.native_seconds),
        *_by_kernel(rows, profile.native_seconds, peak),
        "",
        "outside of native code",
    ]
    lines += [f"{_milliseconds(seconds)}  {name}" for name, seconds in profile.outside.items()]
    return "\n".join(lines)


def _by_line(rows: Sequence[ProfileRow], total: float) -> list[str]:
    found = sums(rows, lambda row: (row.origin.path, row.origin.line))
    lines = ["", f"{SPENT}  by line"]
    for one in found[:MOST_LINES]:
        origin = max((row.origin for row in one.rows), key=lambda origin: origin.others)
        lines.append(f"{_spent(one, total)}  {_shortened(f'{origin}: {origin.text}')}")
    return [*lines, *_others(found[MOST_LINES:], total, "line")]


def _by_kernel(rows: Sequence[ProfileRow], total: float, peak: Peak) -> list[str]:
    found = sums(rows, lambda row: row.kernel)
    lines = ["", f"{SPENT} {'threads':>7} {'GFLOP/s':>8} {'peak':>5} {'GB/s':>7} {'peak':>5}  by kernel"]
    for one in found[:MOST_LINES]:
        kernel = one.rows[0].kernel
        lines.append(f"{_spent(one, total)} {_rates(one, kernel, peak)}  {_shortened(str(kernel))}")
    return [*lines, *_others(found[MOST_LINES:], total, "kernel")]


def _spent(one: Sum, total: float) -> str:
    return f"{_milliseconds(one.seconds)} {_share(one.seconds, total):>6} {one.calls:>10}"


def _milliseconds(seconds: float) -> str:
    """A column of milliseconds, to the microsecond; from 1000 s on with fewer decimals, so that the columns stay where they are."""
    texts = (f"{seconds * 1e3:.{decimals}f}" for decimals in (3, 2, 1))
    return f"{next((text for text in texts if len(text) < MILLISECONDS), f'{seconds * 1e3:.0f}'):>{MILLISECONDS}}"


def _share(seconds: float, total: float) -> str:
    return f"{100 * seconds / total:.1f}" if total else "-"


def _rates(one: Sum, kernel: Kernel, peak: Peak) -> str:
    """Threads, and what was done in a second, each beside its share of the peak of so many cores, and of memory."""
    if not one.seconds or not (one.flops or one.bytes):
        return f"{'-':>7} {'-':>8} {'-':>5} {'-':>7} {'-':>5}"
    flops = one.threads * (peak.flops_f64 if kernel.element is Element.F64 else peak.flops)
    return f"{one.threads:>7} {_rate(one.flops / one.seconds, flops, 8)} {_rate(one.bytes / one.seconds, peak.bytes, 7)}"


def _rate(amount: float, peak: float, width: int) -> str:
    return f"{amount / GIGA:>{width}.2f} {f'{100 * amount / peak:.0f}%':>5}" if amount else f"{'-':>{width}} {'-':>5}"


def _others(left_out: Sequence[Sum], total: float, what: str) -> list[str]:
    if not left_out:
        return []
    rest = Sum(tuple(row for one in left_out for row in one.rows))
    return [f"{_spent(rest, total)}  {f'{_counted(len(left_out), what)} more'}"]


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _shortened(text: str) -> str:
    return text if len(text) <= WIDEST_TEXT else f"{text[: WIDEST_TEXT - 1]}…"
