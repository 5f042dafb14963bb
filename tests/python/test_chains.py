"""Chains of stops and resumes leave the bytes of one run. `python -m bench.soak` makes them at length."""

from __future__ import annotations

import json
import shutil
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from chain_programs import BATCH, EPOCHS, ROWS, STEPS, VARIANTS, Variant, examples
from chains import FINISHED, PREFETCHES, STATUS, Chain, Link, Runner, broken_off, chain_of, inside, run_fresh
from forked import Forks

import shapescript

NATIVE, NUMPY, FRESH = 36, 2, 4  # chains of each of the five programs


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    """In memory where there is such a folder: a save waits for its file to be safe, many times here."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=memory)) if memory.is_dir() else tmp_path_factory.mktemp("chains")
    yield Runner(folder)
    shutil.rmtree(folder)


@pytest.mark.parametrize("variant", VARIANTS)
def test_chains_leave_the_bytes_of_one_run(runner: Runner, variant: str) -> None:
    for seed in range(NATIVE):
        runner.check(chain_of(seed, [variant], ["native"]), f"native-{seed}")


@pytest.mark.parametrize("variant", VARIANTS)
def test_chains_of_the_reference_evaluator_leave_the_bytes_of_a_native_run(runner: Runner, variant: str) -> None:
    for seed in range(100, 100 + NUMPY):
        runner.check(chain_of(seed, [variant], ["numpy"], most_links=3), f"numpy-{seed}")


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("seed", range(200, 200 + FRESH))
def test_chains_of_processes_leave_the_bytes_of_one_run(runner: Runner, forks: Forks, tmp_path: Path, variant: str, seed: int) -> None:
    """Each link is a process; of the reference evaluator's, which needs no compile."""
    check_fresh(runner, chain_of(seed, [variant], ["numpy"], most_links=3), forks, tmp_path)


@pytest.mark.parametrize("how", STATUS)
def test_native_processes_that_are_broken_off_go_on_exactly(runner: Runner, forks: Forks, tmp_path: Path, how: str) -> None:
    links = (Link(every=2, prefetch=8, broken=17, is_done=True, how=how), Link(every=3, prefetch=1))
    check_fresh(runner, Chain("npy", "native", True, links), forks, tmp_path)


def check_fresh(runner: Runner, chain: Chain, forks: Forks, folder: Path) -> None:
    found, wanted = run_fresh(chain, folder, forks), runner.whole(chain.variant, chain.train)
    assert sorted(found) == sorted(wanted)
    for file in found:
        assert found[file] == wanted[file], (file, chain)


# ---- what one run does


def test_the_log_holds_each_example_once_an_epoch_in_the_order_that_python_gives(runner: Runner) -> None:
    lines = [json.loads(line) for line in runner.whole("memory")["chain.jsonl"].splitlines()]
    assert [line["step"] for line in lines] == list(range(1, STEPS + 1))
    record = runner.program("memory", "native").Row
    data = record.dataset(**examples())
    for epoch in range(EPOCHS):
        rows = [int(row) for row in data.shuffle(epoch).rows(0, ROWS)]
        batches = [rows[start : start + BATCH] for start in range(0, ROWS, BATCH)]
        assert [line["rows"] for line in lines if line["epoch"] == epoch] == [_code(batch) for batch in batches]
        assert [line["seen"] for line in lines if line["epoch"] == epoch] == list(np.cumsum([len(batch) for batch in batches]))


def _code(rows: list[int]) -> int:
    code = 0
    for row in rows:
        code = 100 * code + row
    return code


def test_dropout_and_noise_are_drawn(runner: Runner) -> None:
    """So that chains would see a stream that isn't restored."""
    assert runner.whole("memory", True)["chain.jsonl"] != runner.whole("memory", False)["chain.jsonl"]


@pytest.mark.parametrize("variant", ["memory", "npy", "csv", "composed"])
def test_reading_ahead_changes_no_byte(runner: Runner, variant: str) -> None:
    for prefetch in PREFETCHES[1:]:
        chain = Chain(variant, "native", True, (Link(prefetch=prefetch),))
        runner.check(chain, f"ahead-{prefetch}")


def test_data_from_every_kind_of_file_gives_the_same_run(runner: Runner) -> None:
    logs = [runner.whole(variant)["chain.jsonl"] for variant in ("memory", "npy", "csv")]
    assert logs[0] == logs[1] == logs[2]
    assert runner.whole("npy")["chain.csv"] == runner.whole("part")["chain.csv"]


# ---- chains see what a program forgets


@dataclass(frozen=True)
class Forgetful(Variant):
    """A program that saves and loads all but one thing."""

    forgotten: str = ""
    instead: str = ""

    @property
    def text(self) -> str:
        text = super().text
        assert self.forgotten in text
        return text.replace(self.forgotten, self.instead)


FORGETFUL = {
    "mode": Forgetful(forgotten=", mode=mode", instead=""),
    "place": Forgetful(forgotten="start=seen", instead="start=0"),
    "order": Forgetful(forgotten="shuffle(epoch)", instead="shuffle(epoch + seen)"),
}


@pytest.mark.parametrize("what", FORGETFUL)
def test_a_chain_shows_what_is_not_saved(tmp_path: Path, what: str) -> None:
    runner = Runner(tmp_path, FORGETFUL)
    with pytest.raises(AssertionError, match="differs"):
        runner.check(Chain(what, "numpy", True, (Link(stop=9), Link())), "chain")


def test_a_stop_without_a_step_changes_nothing(runner: Runner) -> None:
    """At the start, within an epoch, at its end and behind the last step: load and save give the same bytes."""
    for stop in (0, 8, 12, STEPS):
        once = runner.outcome(Chain("memory", "native", True, (Link(stop=stop),)), f"once-{stop}")
        again = runner.outcome(Chain("memory", "native", True, (Link(stop=stop),) * 3), f"again-{stop}")
        assert once == again


def test_the_harness_breaks_off_where_it_says(tmp_path: Path) -> None:
    """Request 4 is the third record: the loading of data, the opening of the log and two records are before it."""
    runner = Runner(tmp_path)
    program = runner.program("memory", "numpy")
    for is_done, kept in ((False, 2), (True, 3)):
        link = Link(broken=4, is_done=is_done)
        host = vars(program)["_host"]
        with inside(tmp_path), broken_off(host, link, lambda: signal.raise_signal(signal.SIGINT)), pytest.raises(KeyboardInterrupt):
            program.go(shapescript.Train(seed=5), EPOCHS, STEPS, FINISHED, 0, False)
        assert len((tmp_path / "chain.jsonl").read_bytes().splitlines()) == kept
