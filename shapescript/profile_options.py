"""`run --profile` and `run --trace`: a profile around a program's run, shown however that ends. No LLVM is loaded without them."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from shapescript.failures import say

_STAT_START = 19  # of /proc/self/stat, behind the name: when the process began, in ticks since the machine did


def add_profile_options(run: argparse.ArgumentParser) -> None:
    run.add_argument("--profile", action="store_true", help="show where the time went, by line and by kernel")
    run.add_argument("--trace", metavar="JSON", help="write what ran when to this file, for ui.perfetto.dev")


@contextmanager
def profiled(options: argparse.Namespace) -> Iterator[None]:
    """Raises UsageError where the reference evaluator is to run, OSError where the trace's file can't be written."""
    if not options.profile and options.trace is None:
        yield
        return
    if options.engine != "native":
        from shapescript.main_arguments import UsageError

        raise UsageError("--profile and --trace measure native code; they can't be given with --engine numpy")
    from shapescript.profiling import EVENTS, profile

    with ExitStack() as stack:
        trace = stack.enter_context(open(options.trace, "w", encoding="utf-8")) if options.trace is not None else None
        measured = profile(EVENTS if trace else 0)
        measured.start = _process_seconds()
        try:
            with measured:
                yield
        finally:
            if trace:
                measured.write_trace(trace)
            if options.profile and measured.calls:
                say(str(measured))


def _process_seconds() -> float:
    """How long the process has been there, to a hundredth; 0 where the system doesn't tell."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        began = int(fields[_STAT_START]) / os.sysconf("SC_CLK_TCK")
        return max(time.clock_gettime(time.CLOCK_BOOTTIME) - began, 0.0)
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0
