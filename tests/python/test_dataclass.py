"""Our `dataclass` against the standard library's: the same objects, whatever is asked of them."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
from collections.abc import Callable
from dataclasses import field
from typing import Any

import pytest

from shapescript.compiler.records import dataclass as ours

Maker = Callable[..., Any]


def classes(made: Maker) -> dict[str, Any]:
    """One of each kind that the compiler has."""

    @made(frozen=True, slots=True)
    class Base:
        place: int = field(compare=False, repr=False)

    @made(frozen=True, slots=True)
    class Node(Base):
        name: str
        parts: tuple[Any, ...] = ()

        @property
        def shown(self) -> str:
            return self.name

    @made(frozen=True)
    class Frozen:
        name: str
        known: dict[str, int] = field(default_factory=dict)

    @made(frozen=True, eq=False, slots=True)
    class Identity:
        name: str = "x"

    @made()
    class Open:
        count: int
        names: list[str] = field(default_factory=list)

    @made(frozen=True, slots=True)
    class Derived:
        text: str
        length: int = field(init=False, compare=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "length", len(self.text))

    @made(frozen=True, slots=True)
    class OwnHash:
        name: str
        rest: list[int]

        def __hash__(self) -> int:
            return hash(self.name)

    @made(frozen=True)
    class Single:
        """Has a text of its own."""

        value: float

    @made(frozen=True)
    class Empty:
        pass

    return {one.__name__: one for one in (Node, Frozen, Identity, Open, Derived, OwnHash, Single, Empty)}


THEIRS, OURS = classes(dataclasses.dataclass), classes(ours.dataclass)
ARGUMENTS: dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "Node": [((1, "a"), {}), ((2, "a"), {}), ((1, "b", (1, 2)), {}), ((1,), {"name": "a", "parts": (3,)})],
    "Frozen": [(("a",), {}), (("a", {}), {}), (("a",), {"known": {"b": 1}})],
    "Identity": [((), {}), (("x",), {})],
    "Open": [((1,), {}), ((1, ["a"]), {}), ((2,), {})],
    "Derived": [(("abc",), {}), (("abc",), {}), (("d",), {})],
    "OwnHash": [(("a", [1]), {}), (("a", [2]), {}), (("a", [1]), {})],
    "Single": [((0.0,), {}), ((-0.0,), {}), ((math.nan,), {})],
    "Empty": [((), {}), ((), {})],
}


def outcome(ask: Callable[[], Any]) -> Any:
    """What comes of it; for an error its kind."""
    try:
        return ask()
    except (TypeError, AttributeError) as error:
        return type(error)


@pytest.mark.parametrize("name", OURS)
def test_objects_are_as_the_standard_ones(name: str) -> None:
    mine = [OURS[name](*positional, **named) for positional, named in ARGUMENTS[name]]
    standard = [THEIRS[name](*positional, **named) for positional, named in ARGUMENTS[name]]
    values = [[getattr(one, part.name) for part in dataclasses.fields(one)] for one in mine]
    assert values == [[getattr(one, part.name) for part in dataclasses.fields(one)] for one in standard] or name == "Single"
    assert [[one == other for other in mine] for one in mine] == [[one == other for other in standard] for one in standard]
    assert [one == 1 for one in mine] == [False] * len(mine)
    if name == "Open":
        assert OURS[name].__hash__ is THEIRS[name].__hash__ is None  # what can change has no hash
    elif name != "Identity":
        assert [outcome(lambda one=one: hash(one)) for one in mine] == [outcome(lambda one=one: hash(one)) for one in standard]
    if name != "Derived":
        assert list(map(repr, mine)) == [repr(one) for one in standard]
    assert (OURS[name].__doc__ == THEIRS[name].__doc__) is (name == "Single")
    assert OURS[name].__match_args__ == THEIRS[name].__match_args__


@pytest.mark.parametrize("name", OURS)
def test_what_is_frozen_stays_as_it_is(name: str) -> None:
    for made in (OURS, THEIRS):
        positional, named = ARGUMENTS[name][0]
        one = made[name](*positional, **named)
        for part in dataclasses.fields(one):
            if name == "Open":
                setattr(one, part.name, 5)
                assert getattr(one, part.name) == 5
                continue
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(one, part.name, 5)
            with pytest.raises(dataclasses.FrozenInstanceError):
                delattr(one, part.name)


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("wrong", [(1, 2, 3, 4, 5), ()], ids=["too many", "none"])
def test_wrong_arguments_are_refused_alike(name: str, wrong: tuple[Any, ...]) -> None:
    assert (outcome(lambda: OURS[name](*wrong)) is TypeError) == (outcome(lambda: THEIRS[name](*wrong)) is TypeError)
    assert outcome(lambda: OURS[name](unknown=1)) is TypeError


@pytest.mark.parametrize("name", OURS)
def test_copies_and_replacements(name: str) -> None:
    positional, named = ARGUMENTS[name][0]
    one = OURS[name](*positional, **named)
    for other in (copy.copy(one), copy.deepcopy(one), dataclasses.replace(one)):
        assert type(other) is type(one) and (other == one or name == "Identity")


def test_slots_hold_all_that_there_is() -> None:
    assert not hasattr(OURS["Node"](1, "a"), "__dict__") and not hasattr(OURS["Identity"](), "__dict__")
    assert hasattr(OURS["Frozen"]("a"), "__dict__")


@ours.dataclass(frozen=True, slots=True)
class Packed:
    name: str
    count: int = 0


def test_pickles() -> None:
    assert pickle.loads(pickle.dumps(Packed("a", 3))) == Packed("a", 3)


def test_initialisers_are_compiled_at_the_first_use() -> None:
    made = classes(ours.dataclass)["Frozen"]
    before = made.__init__
    made("a")
    after = made.__init__
    made("b")
    assert before is not after and made.__init__ is after
