"""Which profile calls are measured for. No LLVM is loaded for asking."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shapescript.profiling import Profile

_profiles: list[Profile] = []


def current() -> Profile | None:
    """The profile begun last of those that haven't ended."""
    return next(reversed(_profiles), None)  # in one piece: another thread may end one meanwhile


def begin(profile: Profile) -> None:
    _profiles.append(profile)


def end(profile: Profile) -> None:
    _profiles.remove(profile)


def part(name: str) -> AbstractContextManager[None]:
    """What is done inside is time outside of native code under this name, where a profile is taken."""
    profile = current()
    return nullcontext() if profile is None else profile.part(name)
