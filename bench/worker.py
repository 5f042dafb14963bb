"""One peer in a process of its own: `python -m bench.worker PEER FOLDER THREADS PLACE`.

It says in JSON, a line each: that its packages are imported, what the first round gave, and for each line that it reads a round's time
and numbers; at the end of its input what memory it used.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, TextIO

from .memory import memory
from .peers import Peer, peer_of
from .pinning import pin


def main(key: str, folder: str, threads: str, place: str) -> None:
    pin(int(threads), int(place))
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a peer prints is none of the answers
    peer = peer_of(key)
    try:
        for name in peer.imports:
            importlib.import_module(name)
    except ImportError as error:
        _say(out, missing=str(error))
        return
    idle = memory().held
    try:
        work, numbers = _begun(peer, Path(folder))
    except Exception as error:
        if not peer.may_fail:
            raise
        _say(out, failed=(str(error).strip().splitlines() or [type(error).__name__])[0])
        return
    pin(int(threads))
    _say(out, numbers=numbers)
    for _ in sys.stdin:
        begun, used = time.perf_counter(), time.process_time()
        numbers = work.round()
        seconds = time.perf_counter() - begun
        _say(out, seconds=seconds, cores=(time.process_time() - used) / seconds, numbers=numbers)
    _say(out, idle=idle, peak=memory().peak)


def _begun(peer: Peer, folder: Path) -> tuple[Any, list[float]]:
    """The work, with its first round done."""
    from .task import load_task

    module, function = peer.work.split(":")
    work = getattr(importlib.import_module(module), function)(load_task(folder))
    return work, work.round()


def _say(out: TextIO, **found: Any) -> None:
    out.write(json.dumps(found) + "\n")
    out.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
