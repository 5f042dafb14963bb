"""`load(…, rename={"old": "new"})`: names of parameters in a file as the program calls them, for models and optimisers alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoint_samples import notices, state_hash
from runtime_samples import filled, leaf, mlp_layout, same_bytes

import shapescript
from shapescript.runtime.layout import Layout
from shapescript.runtime.optimiser import AdamW
from shapescript.runtime.renaming import Renaming
from shapescript.runtime.restore import ModelType, OptimiserType, Start, restore

PROGRAM = """
const Old = "encoder"

model Part:
    weight: [4] = uniform(-1, 1)
    bias: [4] = zeros

model Before:
    encoder: Part
    gain: [4] = ones

model After:
    backbone: Part
    scale: [4] = ones

fn train(mut m: Before, mut opt: AdamW[Before], x: [4]):
    l, g = value_and_grad(sum((x * m.encoder.weight + m.encoder.bias) * m.gain, over=4), wrt=m)
    update(mut m, mut opt, g, lr=0.1)

fn save_it(m: Before, opt: AdamW[Before]):
    save("a.pt", m=m, opt=opt)

fn load_it() -> (After, AdamW[After]):
    return load("a.pt", m=After, opt=AdamW[After], rename={
        Old: "backbone",
        "gain": "scale",
    })

fn load_part(m: After) -> After:
    return load("a.pt", m=m, partial=true, rename={"encoder.weight": "backbone.weight"})

fn compare(m: After):
    load("a.pt", m=m, rename={"encoder": "backbone", "gain": "scale"})

fn misspelt() -> After:
    return load("a.pt", m=After, rename={"encodr": "backbone", "gain": "scale"})
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def saved(program: Any) -> tuple[Any, Any]:
    m = program.Before(seed=1)
    opt = AdamW(m)
    program.train(m, opt, np.arange(4, dtype=np.float32))
    program.save_it(m, opt)
    return m, opt


def test_parameters_and_moments_move_to_their_new_names(program: Any, here: Path) -> None:
    m, opt = saved(program)
    new, new_opt = program.load_it()
    pairs = {"backbone.weight": "encoder.weight", "backbone.bias": "encoder.bias", "scale": "gain"}
    for after, before in pairs.items():
        assert new[after].tobytes() == m[before].tobytes()
        for slot in ("first", "second"):
            assert new_opt.moment(slot, after).tobytes() == opt.moment(slot, before).tobytes()
    assert new_opt.step == 1
    program.compare(new)
    with notices() as told:
        part = program.load_part(program.After(seed=5))
    assert part["backbone.weight"].tobytes() == m["encoder.weight"].tobytes()
    assert told == [
        "a.pt: m: 1 of 3 parameters loaded: backbone.weight; 2 missing in the file, and left as they were: backbone.bias, scale; "
        "2 unexpected in the file, and left out: encoder.bias (did you mean 'backbone.bias'?), gain"
    ]


def test_an_entry_that_matches_nothing_is_refused_with_near_names(program: Any, here: Path) -> None:
    saved(program)
    with pytest.raises(shapescript.CheckpointError) as raised:
        program.misspelt()
    assert (raised.value.code, raised.value.kind, raised.value.name) == ("R1303", "missing", "encodr")
    assert "did you mean 'encoder'?" in raised.value.message and raised.value.span is not None


BEFORE = Layout("M", [leaf("a.w", "D", 4), leaf("a.b", "D", 4), leaf("c", "D", 4)])


@pytest.mark.parametrize(
    ("entries", "names"),
    [
        ({"c": "d"}, ["a.b", "a.w", "d"]),
        ({"a": "x"}, ["x.b", "x.w", "c"]),
        ({"a": "x.y", "c": "x.c"}, ["x.y.b", "x.y.w", "x.c"]),
        ({"a": ""}, ["b", "w", "c"]),
        ({"": "net"}, ["net.a.b", "net.a.w", "net.c"]),
        ({"": "net", "a": "net.z"}, ["net.z.b", "net.z.w", "net.c"]),
        ({"a": "x", "a.w": "y"}, ["x.b", "y", "c"]),
        ({"a.w": "a.b", "a.b": "a.w"}, ["a.w", "a.b", "c"]),
        ({"a": "a"}, ["a.b", "a.w", "c"]),
    ],
)
def test_exact_names_and_prefixes_up_to_a_point(tmp_path: Path, entries: dict[str, str], names: list[str]) -> None:
    model, state = filled(BEFORE), AdamW(filled(BEFORE))
    for number, each in enumerate(BEFORE):
        BEFORE.view(state.slot("first"), each.name)[...] = number
    shapescript.save_checkpoint(tmp_path / "a.pt", m=model, opt=state)
    after = Layout("M", [leaf(name, "D", 4) for name in names])
    requests: dict[str, object] = {"m": ModelType(after), "opt": OptimiserType(AdamW, after)}
    m, opt = restore(tmp_path / "a.pt", requests, rename=entries)
    for old, new in zip(["a.b", "a.w", "c"], names, strict=True):
        assert m[new].tobytes() == model[old].tobytes() and opt.moment("first", new).tobytes() == state.moment("first", old).tobytes()
    other = filled(after, seed=4)
    report = other.load_state_dict(model.state_dict(), rename=entries)
    assert report.is_whole and same_bytes(other, m)


@pytest.mark.parametrize(
    ("entries", "kind", "name", "words"),
    [
        ({"d": "e"}, "missing", "d", ["'d' renames nothing"]),
        ({"a.": "x"}, "missing", "a.", ["did you mean 'a.w'?"]),
        ({"A": "x"}, "missing", "A", ["renames nothing"]),
        ({"a.ww": "x"}, "missing", "a.ww", ["did you mean 'a.w'?"]),
        ({"w": "x"}, "missing", "w", ["renames nothing"]),
        ({"a": "x", "a.w": "y", "a.b": "z"}, "missing", "a", ["longer entries"]),
        ({"c": "a.w"}, "unexpected", "a.w", ["'a.w'", "'c'"]),
        ({"a.w": "x", "c": "x"}, "unexpected", "x", ["'x'"]),
        ({"c": ""}, "unexpected", "", ["'c' has no name then"]),
    ],
)
@pytest.mark.parametrize("ask", ["model", "optimiser", "start", "python"])
def test_what_matches_nothing_and_two_that_end_up_the_same_are_refused(
    tmp_path: Path, entries: dict[str, str], kind: str, name: str, words: list[str], ask: str
) -> None:
    model = filled(BEFORE)
    shapescript.save_checkpoint(tmp_path / "a.pt", m=model, opt=AdamW(model))
    requests: dict[str, object] = {"m": ModelType(BEFORE)}
    requests = {"opt": OptimiserType(AdamW, BEFORE)} if ask == "optimiser" else {"m": Start(model)} if ask == "start" else requests
    before = state_hash(model)
    with pytest.raises(shapescript.CheckpointError) as raised:
        if ask == "python":
            model.load_state_dict(filled(BEFORE, 3).state_dict(), rename=entries, partial=True)
        else:
            restore(tmp_path / "a.pt", requests, rename={**entries})
    assert (raised.value.code, state_hash(model)) == ("R1303", before)
    assert (raised.value.kind, raised.value.name) == (kind, name)
    assert all(word in raised.value.message for word in words), raised.value.message


def test_files_of_pytorch_are_renamed_too(tmp_path: Path) -> None:
    net = torch.nn.ModuleDict({"first": torch.nn.Linear(4, 6), "output": torch.nn.Linear(6, 3)})
    theirs = torch.optim.AdamW(net.named_parameters())
    net["output"](net["first"](torch.ones(2, 4))).sum().backward()
    theirs.step()
    torch.save({"module." + name: value for name, value in net.state_dict().items()}, tmp_path / "m.pt")
    torch.save({"opt": theirs.state_dict()}, tmp_path / "o.pt")
    (m,) = restore(tmp_path / "m.pt", {"m": ModelType(mlp_layout())}, rename={"module": "", "module.first": "hidden"})
    (opt,) = restore(tmp_path / "o.pt", {"opt": OptimiserType(AdamW, mlp_layout())}, rename={"first": "hidden"})
    assert m.hidden.weight.tobytes() == net["first"].weight.detach().numpy().tobytes()
    assert opt.moment("first", "hidden.bias").tobytes() == theirs.state[net["first"].bias]["exp_avg"].numpy().tobytes()
    with pytest.raises(shapescript.CheckpointError) as raised:
        restore(tmp_path / "o.pt", {"opt": OptimiserType(AdamW, mlp_layout())}, rename={"first": "output"})
    assert raised.value.kind == "unexpected"


def test_axes_that_the_file_records_follow_their_names(tmp_path: Path) -> None:
    shapescript.save_checkpoint(tmp_path / "a.pt", m=filled(Layout("M", [leaf("w", "V D", 4, 4)])))
    with pytest.raises(shapescript.CheckpointError) as raised:
        restore(tmp_path / "a.pt", {"m": ModelType(Layout("M", [leaf("u", "D V", 4, 4)]))}, rename={"w": "u"})
    assert (raised.value.kind, raised.value.name) == ("shape", "u")


@pytest.mark.parametrize("entries", [{"a": 1}, {1: "a"}, ["a"], "a"])
def test_what_is_no_mapping_of_names_is_refused(entries: Any) -> None:
    with pytest.raises(shapescript.ArgumentError, match="R1004: rename"):
        filled(BEFORE).load_state_dict({}, rename=entries)


def test_many_names_and_a_long_one_are_renamed_at_once() -> None:
    renaming = Renaming({f"a{number}": f"b{number}" for number in range(200)} | {".".join("x" * 500): "y"})
    keys = {f"a{number}.w": number for number in range(200)} | {".".join("x" * 501): -1}
    assert renaming.keys("m", keys) == {f"b{number}.w": number for number in range(200)} | {"y.x": -1}
    renaming.check_used("m")


@pytest.mark.parametrize(
    ("named", "rename"),
    [("module.{}", '{"module": ""}'), ("_orig_mod.{}", '{"_orig_mod": ""}'), ("{}", None), ("a.b.{}", None), ("x.{}y", None)],
)
def test_names_that_differ_by_a_prefix_are_told_how_to_load(tmp_path: Path, named: str, rename: str | None) -> None:
    model = filled(mlp_layout())
    torch.save({named.format(name): torch.from_numpy(array) for name, array in model.state_dict().items()}, tmp_path / "a.pt")
    if named == "{}":
        assert same_bytes(restore(tmp_path / "a.pt", {"m": ModelType(mlp_layout())})[0], model)
        return
    with pytest.raises(shapescript.CheckpointError) as refused:
        restore(tmp_path / "a.pt", {"m": ModelType(mlp_layout())})
    assert ("rename=" in str(refused.value)) == (rename is not None)
    if rename is not None:
        assert rename in str(refused.value)
        assert same_bytes(restore(tmp_path / "a.pt", {"m": ModelType(mlp_layout())}, rename={named[:-3]: ""})[0], model)


def test_a_prefix_that_the_file_lacks_is_told(tmp_path: Path) -> None:
    shapescript.save_checkpoint(tmp_path / "a.pt", m=filled(BEFORE))
    wanted = {"m": ModelType(Layout("M", [leaf(f"net.{old.name}", "D", 4) for old in BEFORE]))}
    with pytest.raises(shapescript.CheckpointError, match=r'rename=\{"": "net"\}'):
        restore(tmp_path / "a.pt", wanted)
    assert restore(tmp_path / "a.pt", wanted, rename={"": "net"})[0].buffer.tobytes() == filled(BEFORE).buffer.tobytes()
