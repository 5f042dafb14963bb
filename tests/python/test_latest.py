"""`latest("run.*.pt")`: the checkpoint with the largest step in it that is whole; what isn't is told and passed over."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoint_samples import notices

import shapescript
from shapescript.runtime.checkpoint import load_checkpoint, save_checkpoint
from shapescript.runtime.errors import CheckpointError
from shapescript.runtime.latest import latest_checkpoint

PROGRAM = """
model Net:
    w: [2] = ones

fn newest(pattern: str) -> str:
    return latest(pattern)

fn newest_net(pattern: str) -> (Net, int):
    m, epochs = load(latest(pattern), m=Net, epochs=int)
    return m, epochs

fn save_and_find(m: Net, n: int) -> str:
    for i in 0..n:
        save("a.{step}.pt", m=m, epochs=i)
    return latest("a.*.pt")
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def saved(*steps: int, suffix: str = "pt") -> None:
    for step in steps:
        save_checkpoint(f"a.{{step}}.{suffix}", epochs=step, w=np.full(3, step, np.float32))


def test_the_step_is_the_one_in_the_file(program: Any, here: Path) -> None:
    saved(9, 10, 2)
    assert program.newest("a.*.pt") == "a.10.pt" == latest_checkpoint("a.*.pt")
    shutil.move("a.10.pt", "a.0.pt")
    shutil.copy("a.2.pt", "a.99.pt")
    assert program.newest("a.*.pt") == "a.0.pt"


def test_a_program_loads_what_it_finds(program: Any, here: Path) -> None:
    assert program.save_and_find(program.Net(seed=1), 3) == "a.2.pt"
    m, epochs = program.newest_net("a.*.pt")
    assert epochs == 2 and m.w.tolist() == [1, 1]


@pytest.mark.parametrize("suffix", ["pt", "safetensors"])
def test_a_file_cut_anywhere_is_passed_over(here: Path, suffix: str) -> None:
    saved(1, 2, 3, suffix=suffix)
    whole = Path(f"a.3.{suffix}").read_bytes()
    for part in range(16):
        Path(f"a.3.{suffix}").write_bytes(whole[: len(whole) * part // 16])
        with notices() as told:
            assert latest_checkpoint(f"a.*.{suffix}") == f"a.2.{suffix}"
        assert (
            len(told) == 1
            and told[0].startswith(f"a.3.{suffix}: the checkpoint is ")
            and told[0].endswith(("passed over (truncated)", "passed over (corrupt)"))
        )


@pytest.mark.parametrize("suffix", ["pt", "safetensors"])
def test_a_file_with_a_flipped_byte_is_passed_over(here: Path, suffix: str) -> None:
    saved(1, 2, suffix=suffix)
    whole = Path(f"a.2.{suffix}").read_bytes()
    data = whole.index(np.full(3, 2, np.float32).tobytes())
    for place in (data, data + 11):
        Path(f"a.2.{suffix}").write_bytes(whole[:place] + bytes([whole[place] ^ 64]) + whole[place + 1 :])
        with notices() as told:
            assert latest_checkpoint(f"a.*.{suffix}") == f"a.1.{suffix}"
        assert len(told) == 1 and "checksum" in told[0]


def test_other_files_and_folders_are_told_and_passed_over(here: Path) -> None:
    saved(5)
    (here / "a.6.pt").mkdir()
    (here / "a.7.pt").write_text("no checkpoint")
    (here / "a.8.pt").symlink_to(here / "gone")
    torch.save({"w": torch.zeros(3)}, here / "a.9.pt")
    save_checkpoint("a.none.pt", n=3)
    with notices() as told:
        assert latest_checkpoint("a.*.pt") == "a.5.pt"
    assert {text.split(":")[0] for text in told} == {"a.6.pt", "a.7.pt", "a.8.pt"}
    with notices() as told, pytest.raises(shapescript.CheckpointMissing, match=r"R1301: a.n.*1 file was passed over"):
        latest_checkpoint("a.n*.pt")
    assert told == ["a.none.pt: passed over: it says no step"]


@pytest.mark.parametrize("pattern", ["", "none.*.pt", "none/a.pt", "\0", "[", "a.[.pt", "**"])
def test_none_is_r1301(program: Any, here: Path, pattern: str) -> None:
    with pytest.raises(shapescript.CheckpointMissing) as raised:
        program.newest(pattern)
    assert (raised.value.code, raised.value.kind) == ("R1301", "missing") and isinstance(raised.value, FileNotFoundError)
    assert raised.value.span is not None


@pytest.mark.parametrize("find", [latest_checkpoint, load_checkpoint])
def test_the_mark_of_a_save_is_explained(here: Path, find: Callable[[str], object]) -> None:
    save_checkpoint("a.{step}.pt", step=3)
    with pytest.raises(CheckpointError, match=r'R1301: a.\{step\}.pt: .*: latest\("a.\*.pt"\) finds the newest'):
        find("a.{step}.pt")


def test_unfinished_files_are_never_offered(here: Path) -> None:
    saved(1)
    unfinished = here / f".a.1.pt.shapescript-{'0' * 16}.tmp"
    shutil.copy("a.1.pt", unfinished)
    for pattern in (".a*", ".*", ".a.1.pt.shapescript-*"):
        with pytest.raises(shapescript.CheckpointMissing):
            latest_checkpoint(pattern)


def test_of_equal_steps_it_is_the_last_by_name(here: Path) -> None:
    for name in ("b", "c", "a"):
        save_checkpoint(f"{name}.pt", step=4)
    assert latest_checkpoint("*.pt") == "c.pt"


def test_patterns_reach_into_folders(here: Path) -> None:
    for folder, step in (("one", 3), ("two/three", 7)):
        (here / folder).mkdir(parents=True)
        save_checkpoint(here / folder / "run.pt", step=step)
    assert latest_checkpoint("*/run.pt") == "one/run.pt"
    assert latest_checkpoint("**/run.pt") == "two/three/run.pt"
    assert latest_checkpoint(here / "*" / "run.pt") == str(here / "one" / "run.pt")


def test_only_what_may_be_the_newest_is_read_whole(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(*range(20))
    read: list[str] = []
    whole = shapescript.runtime.latest.read_checkpoint  # type: ignore[attr-defined]
    monkeypatch.setattr("shapescript.runtime.latest.read_checkpoint", lambda path: read.append(path) or whole(path))
    assert latest_checkpoint("a.*.pt") == "a.19.pt" and read == ["a.19.pt"]


@pytest.mark.parametrize("step", [-1, "3", 2.0, True, None, [1]])
def test_a_step_that_is_none_is_no_step(here: Path, step: object) -> None:
    torch.save({"n": 1, "shapescript": {"version": 1, "step": step, "entries": {}}}, "a.pt")
    with notices() as told, pytest.raises(shapescript.CheckpointMissing):
        latest_checkpoint("a.pt")
    assert told == ["a.pt: passed over: it says no step"]
