"""What memory a process holds, and has held at most."""

from __future__ import annotations

import resource
import sys
from dataclasses import dataclass
from pathlib import Path

STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class Memory:
    """Bytes: held now, and at most since the process began."""

    held: int
    peak: int


def memory() -> Memory:
    """Of this process. Where there is no /proc, what is held counts as the peak so far."""
    if STATUS.exists():
        # Not ru_maxrss: on Linux that begins with what the parent had when it forked.
        lines = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
        held, peak = (int(lines[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))
        return Memory(held, peak)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return Memory(peak, peak)
