"""The slots of optimisers' states in programs: those that are needed, given and left out."""

from __future__ import annotations

from pathlib import Path

import pytest
from optimiser_samples import ENGINES, MIXED, Case, contents, each_case, each_engine, program

import shapescript
from shapescript.compiler.codegen.callbacks import Frame
from shapescript.engines import EngineName


@each_engine
@each_case
def test_a_state_made_in_a_program_is_the_one_made_in_python(tmp_path: Path, case: Case, engine: EngineName) -> None:
    both = program(tmp_path, MIXED, case, engine)
    m = both.M(seed=3)
    assert contents(m, both.made(m)) == contents(m, case.ours(m))


@pytest.mark.parametrize(
    ("case", "names"),
    [
        (Case("Sgd"), ()),
        (Case("Sgd", {"momentum": 0.5}), ("velocity",)),
        (Case("Adam"), ("first", "second")),
        (Case("AdamW", {"amsgrad": True}), ("first", "second", "largest")),
    ],
    ids=str,
)
def test_a_state_has_the_slots_that_it_needs(tmp_path: Path, case: Case, names: tuple[str, ...]) -> None:
    both = program(tmp_path, MIXED, case, "native")
    for state in (case.ours(both.M(seed=1)), both.made(both.M(seed=1))):
        assert state.slot_names == names
        there = [name.name for name, slot in zip(state.kind.slots, state.slots, strict=True) if slot is not None]
        assert tuple(there) == names and (state.block[1 : 1 + len(state.slots)] != 0).sum() == len(names)
        with pytest.raises(KeyError, match="has no 'third'"):
            state.slot("third")


CHANGES = [
    (before, after)
    for choices in (
        (Case("Sgd"), Case("Sgd", {"momentum": 0.5}), Case("Sgd", {"momentum": 0.25, "nesterov": True})),
        (Case("AdamW"), Case("AdamW", {"amsgrad": True})),
    )
    for before in choices
    for after in choices
]


@each_engine
@pytest.mark.parametrize(("before", "after"), CHANGES, ids=str)
def test_a_program_gives_the_callers_state_other_options(tmp_path: Path, before: Case, after: Case, engine: EngineName) -> None:
    """It may need a slot that the state hasn't had, or leave one out."""
    both = program(tmp_path, MIXED, after, engine)
    m, g = both.M(seed=3), both.M(seed=4)
    state, twin = before.ours(m), m.copy()
    both.step(m, state, g, 0.1)
    m.take(twin.state_dict())
    both.renewed(m, state)
    assert contents(m, state) == contents(m, after.ours(m))
    fresh = after.ours(twin)
    for _ in range(2):
        both.step(m, state, g, 0.1)
        both.step(twin, fresh, g, 0.1)
    assert contents(m, state) == contents(twin, fresh)
    assert contents(m, state.copy()) == contents(m, state)


@pytest.mark.parametrize(
    ("before", "after"), [(before, after) for before, after in CHANGES if not before.options and after.options], ids=str
)
def test_a_state_asks_for_no_slot_that_it_could_not_be_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: Case, after: Case
) -> None:
    """The call ends where there is no memory for the slot, and updates go on with the slots that the state has."""
    both = program(tmp_path, MIXED, after, "native")
    m, g = both.M(seed=3), both.M(seed=4)
    state, twin = before.ours(m), before.ours(m)
    both.step(m, state, g, 0.1)
    both.step(m, state, g, 0.1)  # what later calls need is there

    def refuse(*_: object) -> None:
        raise MemoryError("no more")

    monkeypatch.setattr(Frame, "_make_slot", refuse)
    with pytest.raises(shapescript.OutOfMemoryError, match=r"^R1111: `renewed` needs more memory than there is: no more"):
        both.renewed(m, state)
    assert state.options == before.ours(m).options and state.slot_names == twin.slot_names
    other = m.copy()
    twin.load_state_dict(state.state_dict())
    both.step(m, state, g, 0.1)
    both.step(other, twin, g, 0.1)
    assert contents(m, state) == contents(other, twin)


LOOPS = """
fn train(mut m: M, g: M, turns: int, wanted: bool) -> KIND[M]:
    mut opt = MADE
    mut best = opt
    for i in 0..turns:
        if i == 3 and wanted:
            opt = OTHER
        update(mut m, mut opt, g, lr=0.1)
        if i == 1:
            best = opt
    if wanted:
        return opt
    return best
"""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Case("Sgd"), Case("Sgd", {"momentum": 0.5})),
        (Case("AdamW", {"amsgrad": True}), Case("AdamW")),
        (Case("Adam"), Case("Adam", {"amsgrad": True})),
    ],
    ids=str,
)
def test_states_with_and_without_a_slot_go_through_loops_and_branches(tmp_path: Path, one: Case, other: Case) -> None:
    text = LOOPS.replace("KIND", one.kind).replace("MADE", one.written()).replace("OTHER", other.written())
    for turns, wanted in ((0, True), (2, False), (6, True), (6, False)):
        found = []
        for engine in ENGINES:
            both = program(tmp_path, MIXED, one, engine, text)
            m, g = both.M(seed=3), both.M(seed=4)
            found.append((contents(m, both.train(m, g, turns, wanted)), m.buffer.tobytes()))
        assert found[0] == found[1], (turns, wanted)
