"""Loads of a part: what a model or an optimiser's state takes of a file that has fewer parameters, or others, than it has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from shapescript.compiler.records.dataclass import dataclass
from shapescript.runtime.arrays import Array
from shapescript.runtime.errors import CheckpointError, did_you_mean, nearest
from shapescript.runtime.layout import Leaf
from shapescript.runtime.state import fitting_arrays

_MOST_SHOWN = 20
_MOST_COMPARED = 200  # names among which a near one is looked for: the time grows with the square


@dataclass(frozen=True)
class LoadReport:
    """What a load did, as dotted names: those that were loaded, those that the file lacks and that stayed as they were, and those of the
    file that nothing here is called."""

    loaded: tuple[str, ...]
    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        return not self.missing and not self.unexpected

    def __str__(self) -> str:
        parts = [f"{len(self.loaded)} of {len(self.loaded) + len(self.missing)} parameters loaded{_listed(self.loaded)}"]
        if self.missing:
            parts.append(f"{len(self.missing)} missing in the file, and left as they were{_listed(self.missing)}")
        if self.unexpected:
            near = {name: nearest(name, self.missing[:_MOST_COMPARED]) for name in self.unexpected[:_MOST_SHOWN]}
            meant = [f"{name} (did you mean {found!r}?)" if found else name for name, found in near.items()]
            parts.append(f"{len(self.unexpected)} unexpected in the file, and left out{_listed(meant, len(self.unexpected))}")
        return "; ".join(parts)


def _listed(names: Iterable[str], count: int | None = None) -> str:
    known = list(names)
    more = (len(known) if count is None else count) - min(len(known), _MOST_SHOWN)
    text = ", ".join(known[:_MOST_SHOWN]) + (f" and {more} more" if more else "")
    return f": {text}" if text else ""


def partial_arrays(
    where: str, leaves: Iterable[Leaf], found: Mapping[str, object], axes: Mapping[str, tuple[str, ...]] | None = None
) -> tuple[dict[str, Array], LoadReport]:
    """The arrays of the leaves that `found` has, and what that leaves out.

    Raises CheckpointError R1303: of kind "missing" where nothing matches, "shape" or "dtype" for a name that matches but doesn't fit.
    """
    wanted = {leaf.name: leaf for leaf in leaves}
    report = LoadReport(
        tuple(name for name in wanted if name in found),
        tuple(name for name in wanted if name not in found),
        tuple(str(name) for name in found if name not in wanted),
    )
    if not report.loaded:
        raise nothing_matches(where, report)
    matching = [wanted[name] for name in report.loaded]
    return fitting_arrays(where, matching, {name: found[name] for name in report.loaded}, axes), report


def nothing_matches(where: str, report: LoadReport) -> CheckpointError:
    hints = (did_you_mean(name, report.missing[:_MOST_COMPARED]) for name in report.unexpected[:_MOST_SHOWN])
    near = next(filter(None, hints), "")
    message = f"{where}: nothing in the file is called as a parameter here: {len(report.missing)} missing{_listed(report.missing[:5])}"
    message += f"; {len(report.unexpected)} unexpected{_listed(report.unexpected[:5])}{near}"
    name = next(iter(report.missing), None)
    return CheckpointError("R1303", message, kind="missing", name=name, expected=report.missing, found=report.unexpected)
