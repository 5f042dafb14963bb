"""Everything built in, used and misused: what is wrong is a coded diagnostic at the call's own words, never an error of the compiler."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from misuse import MISUSES
from uses import PROGRAM, USES

from shapescript.compiler.check.builtins import BUILTINS
from shapescript.compiler.check.checker import check_source
from shapescript.compiler.diagnostics.model import Diagnostic

# Calls in which nothing is missing, or every name and value has its place.
TAKES_NOTHING = {"byte_vocabulary", "print", "memory"}
TAKES_ANY_NAME = {"save", "load"}
TAKES_A_LOG = {"write", "flush", "tee"}
CODES_OF_MISSING = {"E0302", "E0407", "E0301"}
CODES_OF_NAMES = {"E0311", "E0402"}
CODES_OF_TYPES = {"E0301", "E0310", "E0601", "E0802"}


@dataclass(frozen=True)
class Misuse:
    name: str
    call: str
    codes: frozenset[str]
    message: str = ""


def special_misuses() -> Iterator[Misuse]:
    for names, call, code, message in MISUSES:
        for name in names.split():
            yield Misuse(name, call.replace("{}", name), frozenset({code}), message.replace("{}", name))


def general_misuses(name: str) -> Iterator[Misuse]:
    """Nothing given, an unknown name, and a log (or what else it doesn't take) as the first value."""
    use = USES[name]
    before, brackets, inside, behind = _parts(name, use)
    if name not in TAKES_NOTHING:
        yield Misuse(name, f"{name}{brackets}()", frozenset(CODES_OF_MISSING), f"`{name}`")
    if name not in TAKES_ANY_NAME:
        given = f"{inside}, nonsense=1" if inside else "nonsense=1"
        yield Misuse(
            name, f"{before}{name}{brackets}({given}){behind}", frozenset(CODES_OF_NAMES) | ({"E0302"} if name == "print" else set())
        )
    wrong = "t" if name in TAKES_A_LOG else "sink"
    if before:
        yield Misuse(name, f"{before.replace('rows', wrong)}{name}({inside}){behind}", frozenset(CODES_OF_TYPES))
    elif inside:
        yield Misuse(name, f"{name}{brackets}({wrong}{_rest(inside)})", frozenset(CODES_OF_TYPES))


def _parts(name: str, use: str) -> tuple[str, str, str, str]:
    """What stands before the name, its square brackets, what stands in its round ones, and what comes behind."""
    match = re.fullmatch(rf"(.*?)\b{name}(\[[^\]]*\])?\((.*?)\)( \|> batches\(4\):|:)?", use)
    assert match, use
    return match[1], match[2] or "", match[3], match[4] or ""


def _rest(inside: str) -> str:
    """The arguments without the first one."""
    depth = 0
    for place, letter in enumerate(inside):
        depth += (letter in "([") - (letter in ")]")
        if letter in ",:" and depth == 0:
            return inside[place:]
    return ""


def found(call: str) -> tuple[str, list[Diagnostic]]:
    text = f"{PROGRAM}    {call}\n" + ("        q = 1\n" if call.startswith("for ") else "")
    return text, [d for d in check_source(text).diagnostics if d.is_error]


def test_the_tables_have_everything_that_is_built_in() -> None:
    assert USES.keys() == BUILTINS.keys()
    assert {misuse.name for misuse in special_misuses()} == BUILTINS.keys()


@pytest.mark.parametrize("name", sorted(USES))
def test_uses(name: str) -> None:
    assert found(USES[name])[1] == []


@pytest.mark.parametrize("name", sorted(USES))
def test_misuses(name: str) -> None:
    misuses = [*general_misuses(name), *(misuse for misuse in special_misuses() if misuse.name == name)]
    assert len(misuses) >= 2
    for misuse in misuses:
        text, errors = found(misuse.call)
        assert errors, f"nothing is said of {misuse.call}"
        first = errors[0]
        assert first.code in misuse.codes, (misuse.call, first.code, first.message)
        assert first.message.startswith(misuse.message), (misuse.call, first.message)
        call = range(len(PROGRAM), len(text))
        assert first.span is not None and first.span.start in call and first.span.end - 1 in call, f"{misuse.call}: not at the call"
