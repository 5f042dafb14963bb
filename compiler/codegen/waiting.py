"""Long calls of native code that Ctrl-C needn't wait for: they are made in a thread, and the main thread, the only one that Python raises
KeyboardInterrupt in, waits for them."""

from __future__ import annotations

import atexit
import contextlib
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Result = TypeVar("Result")

LOOK_SECONDS = 0.1  # between two looks for a signal that the system handed to another thread
STACK_BYTES = 1 << 24  # twice what a main thread has by default: LLVM recurses


def interruptible(work: Callable[[], Result]) -> Result:
    """What `work` returns or raises. In the main thread a KeyboardInterrupt is raised at once: the work goes on to its end in its thread,
    and what it gives is dropped there. The interpreter isn't left before that end: LLVM must not run while its globals are destroyed."""
    if threading.current_thread() is not threading.main_thread():
        return work()
    job = _Job(work)
    try:
        if not job.start():
            return work()
        while not job.done.wait(LOOK_SECONDS):
            pass
    except BaseException:
        job.abandon()
        raise
    return job.outcome()


class _Job(Generic[Result]):
    """Work with a thread of its own."""

    def __init__(self, work: Callable[[], Result]) -> None:
        self.done = threading.Event()
        self._work = work
        self._results: list[Result] = []
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._wanted = True

    def start(self) -> bool:
        """False where the system gives no thread."""
        before = threading.stack_size(STACK_BYTES)
        try:
            threading.Thread(target=self._run, name="shapescript compiles").start()
        except RuntimeError:
            return False
        finally:
            threading.stack_size(before)
        return True

    def abandon(self) -> None:
        """Nobody waits any more; also called where the work hasn't begun, or has ended."""
        with self._lock:
            self._wanted = False
            self._results.clear()
        atexit.register(self._outlast)

    def outcome(self) -> Result:
        if self._error is not None:
            raise self._error
        return self._results[0]

    def _run(self) -> None:
        try:
            result = self._work()
            with self._lock:
                if self._wanted:
                    self._results.append(result)
            del result
        except BaseException as error:  # raised where it is waited for
            self._error = error
        finally:
            self.done.set()
            atexit.unregister(self._outlast)

    def _outlast(self) -> None:
        """Only reached with work to wait for where a Ctrl-C broke off Python's own waiting for its threads."""
        while not self.done.is_set():
            with contextlib.suppress(KeyboardInterrupt):
                self.done.wait()
