"""Where compiled code is kept, and what of compiling is told: the environment's variables."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from shapescript.object_cache import ObjectCache
from shapescript.runtime.errors import ArgumentError

FOLDER_VARIABLE, SWITCH_VARIABLE, LOG_VARIABLE = "SHAPESCRIPT_CACHE_DIR", "SHAPESCRIPT_CACHE", "SHAPESCRIPT_LOG"
LOGS = ("compile",)


def user_cache() -> ObjectCache | None:
    """The cache in its folder. None where it is turned off, or the user has no folder. Raises ArgumentError as `is_off` does."""
    if is_off():
        return None
    folder = cache_folder()
    return None if folder is None else ObjectCache(folder)


def is_off() -> bool:
    """Raises ArgumentError R1004 for a word that the variable doesn't have."""
    word = os.environ.get(SWITCH_VARIABLE, "")
    if word not in ("", "on", "off"):
        raise ArgumentError("R1004", f"{SWITCH_VARIABLE}: expected on or off, got {word!r}")
    return word == "off"


def cache_folder() -> Path | None:
    """The folder that the user names, else that of the system for caches. None where the user has no home."""
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return Path(named).absolute()
    above = os.environ.get("XDG_CACHE_HOME", "")
    try:
        caches = Path(above) if Path(above).is_absolute() else Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    except RuntimeError:
        return None
    return caches / "shapescript"


def is_logged(log: str) -> bool:
    """Whether the user wants to be told. Raises ArgumentError R1004 for a word that the variable doesn't have."""
    words = [word.strip() for word in os.environ.get(LOG_VARIABLE, "").split(",")]
    for word in words:
        if word not in ("", *LOGS):
            raise ArgumentError("R1004", f"{LOG_VARIABLE}: expected {' or '.join(LOGS)}, got {word!r}")
    return log in words
