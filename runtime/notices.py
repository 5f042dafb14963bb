"""What people should know though nothing failed: a load of a part, a value that was forced, a damaged file passed over.

Whoever shows them (the command line) listens; else they go to Python's logger "shapescript" as warnings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

LOGGER = "shapescript"

Listener = Callable[[str], None]
_listeners: list[Listener] = []


def tell(text: str) -> None:
    """Hand a notice to the innermost listener, or to the logger."""
    if _listeners:
        _listeners[-1](text)
        return
    import logging  # only here: most runs have nothing to tell

    logging.getLogger(LOGGER).warning("%s", text)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Notices go to this listener, from every thread, until the block ends."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
