"""Threads of feeds: closed at any time, in any process, never left behind, and several at once."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from source_samples import computed, labels, readers, same_rows_in_memory

from shapescript.runtime.feed import Feed


def test_a_feed_can_be_closed_at_any_time_and_twice() -> None:
    for takes in range(4):
        feed = Feed(computed(100)[0], 5, 0, 100, 3)
        start = 0
        for _ in range(takes):
            start += feed.take(start)[0]
        feed.close()
        feed.close()
        assert not readers()
    Feed(computed(100)[0], 5, 0, 100, 0).close()


def test_closing_waits_for_a_read_that_has_begun_as_long_as_it_is_told() -> None:
    data, source = computed(100, held=[20])
    feed = Feed(data, 10, 0, 100, 2)
    feed.take(0)
    assert source.waiting.wait(30)
    feed.close(patience=0)
    (thread,) = readers()
    source.release.set()
    feed.close(patience=None)
    assert not thread.is_alive() and not readers()
    assert 30 not in source.touched


def test_closing_from_another_thread_ends_a_wait() -> None:
    data, source = computed(100, held=[0])
    feed = Feed(data, 10, 0, 100, 2)
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            feed.take(0)
        except ValueError as error:
            raised.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert source.waiting.wait(30)
    feed.close(patience=0)
    waiting.join(30)
    assert "closed" in str(raised[0])
    source.release.set()
    feed.close(patience=None)


@pytest.mark.parametrize("depth", [1, 8])
def test_no_thread_is_left_of_a_loop_that_is_left(depth: int) -> None:
    data, _ = computed(1000)
    for batch in data.batches(4, prefetch=depth):
        if 40 in batch.label:
            break
    del batch
    gc.collect()
    assert not readers()
    iterator = iter(data.batches(4, prefetch=depth))
    next(iterator)
    assert len(readers()) == 1
    del iterator
    assert not readers()
    with pytest.raises(KeyError):
        for _ in data.batches(4, prefetch=depth):
            raise KeyError
    gc.collect()
    assert not readers()


def test_a_feed_that_is_dropped_ends_its_thread() -> None:
    feed: Feed | None = Feed(computed(1000)[0], 4, 0, 1000, 4)
    assert feed is not None and len(readers()) == 1
    feed = None
    gc.collect()
    assert not readers()


def test_a_ctrl_c_while_the_thread_starts_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: threading.Thread) -> None:
        started(self)
        raise KeyboardInterrupt

    started = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt) as raised:
        Feed(computed(1000)[0], 4, 0, 1000, 4)
    assert not readers() and raised.traceback  # which may hold what the feed had


def test_where_no_thread_can_be_started_nothing_is_read_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    data, source = computed(20)
    assert labels(data.batches(8)) == labels(same_rows_in_memory(20).batches(8)) and source.threads == {"MainThread"}


def test_two_loops_over_one_dataset_at_once() -> None:
    data, _ = computed(60)
    first, second = data.shuffle(0).batches(7, prefetch=3), data.shuffle(1).batches(7, prefetch=1)
    pairs = [(one.label.tolist(), other.label.tolist()) for one, other in zip(first, second, strict=True)]
    memory = same_rows_in_memory(60)
    assert [one for one, _ in pairs] == labels(memory.shuffle(0).batches(7))
    assert [other for _, other in pairs] == labels(memory.shuffle(1).batches(7))


def test_loops_in_several_threads_at_once() -> None:
    data, found = computed(200)[0], dict[int, list[list[int]]]()

    def loop(k: int) -> None:
        found[k] = labels(data.shuffle(k).batches(9, prefetch=k))

    threads = [threading.Thread(target=loop, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    memory = same_rows_in_memory(200)
    assert found == {k: labels(memory.shuffle(k).batches(9)) for k in range(6)} and not readers()


# ---- processes


def run(script: str) -> subprocess.CompletedProcess[str]:
    """What a process of its own says; it must end by itself."""
    here = Path(__file__).parent
    return subprocess.run([sys.executable, "-c", script], cwd=here, capture_output=True, text=True, timeout=60, check=False)


OPEN_FEED = """
from source_samples import computed
data, source = computed(1000, held={held})
iterator = iter(data.batches(10, prefetch=4))
print(next(iterator).label.tolist()[:3], flush=True)
"""


@pytest.mark.parametrize("held", [[], [25]])
def test_the_interpreter_ends_while_a_feed_is_open(held: list[int]) -> None:
    """Even where a read never ends."""
    done = run(OPEN_FEED.format(held=held))
    assert (done.returncode, done.stdout, done.stderr) == (0, "[0, 1, 2]\n", "")


CTRL_C = """
import os, signal, threading
from source_samples import computed, readers
data, source = computed(1000, held=[25])
def interrupt():
    source.waiting.wait(30)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
seen = []
try:
    for batch in data.batches(10, prefetch=1):
        seen += batch.label.tolist()
except KeyboardInterrupt:
    print("interrupted", seen == list(range(len(seen))), flush=True)
source.release.set()
for thread in readers():
    thread.join(30)
print(len(readers()), len(list(data.take(20).batches(10))), flush=True)
"""


def test_a_ctrl_c_gets_through_while_a_loop_waits() -> None:
    done = run(CTRL_C)
    assert (done.returncode, done.stdout) == (0, "interrupted True\n0 2\n"), done.stderr
