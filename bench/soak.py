"""`python -m bench.soak --chains 2000 --seed 1`: the suite's chains of stops and resumes, at length.

Each chain is a run that is stopped again and again, and must leave the bytes of one run. A chain that doesn't is printed with its seed:
`--chains 1 --seed SEED`, with the same other options, makes it again.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

from .task import ROOT

sys.path.insert(0, str(ROOT / "tests" / "python"))

from chain_programs import VARIANTS
from chains import Chain, Runner, chain_of, run_fresh
from forked import Forks

SHOWN_EVERY = 10.0  # seconds


def main() -> int:
    """0 where every chain leaves what it must."""
    options = _options()
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
    try:
        return _soak(options, folder)
    finally:
        shutil.rmtree(folder)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench.soak", description="Stop runs and go on, and compare bytes with runs in one piece.")
    parser.add_argument("--chains", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1, help="of the first chain; the others have the numbers after it")
    parser.add_argument("--engine", choices=("native", "numpy", "both"), default="native")
    parser.add_argument("--program", choices=tuple(VARIANTS), action="append", help="may be given several times; all where it isn't")
    parser.add_argument("--links", type=int, default=8, help="stops of a chain at most")
    parser.add_argument("--processes", action="store_true", help="a process for each link, ended by signals and kills")
    return parser.parse_args()


def _soak(options: argparse.Namespace, folder: Path) -> int:
    runner, forks = Runner(folder / "chains"), Forks() if options.processes else None
    engines = ["native", "numpy"] if options.engine == "both" else [options.engine]
    failed: list[int] = []
    links, began, shown = 0, time.monotonic(), time.monotonic()
    for done, seed in enumerate(range(options.seed, options.seed + options.chains), 1):
        chain = chain_of(seed, options.program or list(VARIANTS), engines, options.links)
        links += len(chain.links)
        try:
            _check(runner, forks, chain, folder / str(seed))
        except Exception:
            failed.append(seed)
            print(f"seed {seed}: {chain}\n{traceback.format_exc()}", flush=True)
        if time.monotonic() - shown > SHOWN_EVERY:
            shown = time.monotonic()
            print(f"{done} chains, {links} links, {len(failed)} failed, {shown - began:.0f} s", flush=True)
    if forks is not None:
        forks.close()
    print(f"{options.chains} chains of {links} links in {time.monotonic() - began:.0f} s: {len(failed)} failed {failed or ''}")
    return 1 if failed else 0


def _check(runner: Runner, forks: Forks | None, chain: Chain, folder: Path) -> None:
    if forks is None:
        runner.check(chain, folder.name)
        return
    folder.mkdir()
    found, wanted = run_fresh(chain, folder, forks), runner.whole(chain.variant, chain.train)
    if found != wanted:
        raise AssertionError(f"these differ: {[file for file in {**found, **wanted} if found.get(file) != wanted.get(file)]}")
    shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
