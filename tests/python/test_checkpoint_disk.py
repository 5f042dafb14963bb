"""A disk that refuses a checkpoint: a coded error that names path and cause, exit status 1, and the file before is as it was."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shapescript.runtime import files
from shapescript.runtime.checkpoint import load_checkpoint, save_checkpoint
from shapescript.runtime.errors import CheckpointUnwritable

PROGRAM = """
dim D = 2

model Net:
    w: [D D] = ones

fn main(path: str, epochs: int):
    m = Net(seed=1)
    save(path, m=m, epochs=epochs)
    m = load(path, m=Net, epochs=epochs)
    print("saved")
"""
LARGE = ["--dim", "D=500"]  # 1 MB
RUN = """
import errno, os, sys
from shapescript.cli import main
{before}
sys.exit(main(sys.argv[1:]))
"""
LIMIT = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))"
# Where the tests may not mount a file system of their own, the operating system's answer is put into its mouth.
FULL = """
import shapescript.runtime.files as files
def fsync(descriptor):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
files.os.fsync = fsync
"""
READ_ONLY = """
import pathlib
def opened(path, mode="r", *others, real=pathlib.Path.open):
    if "x" in mode:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))
    return real(path, mode, *others)
pathlib.Path.open = opened
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[tuple[Path, bool]]:
    """A folder that is a disk of 400 kB, and whether it is: making one needs rights that a test may not have."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "none", str(folder)], capture_output=True, check=False)
    yield folder, mounted.returncode == 0
    if mounted.returncode == 0:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def run(folder: Path, path: str, *options: str, before: str = "", epochs: int = 2) -> subprocess.CompletedProcess[str]:
    (folder.parent / "program.ss").write_text(PROGRAM)
    words = ["run", "--engine", "numpy", *options, str(folder.parent / "program.ss"), "--path", path, "--epochs", str(epochs)]
    command = [sys.executable, "-c", RUN.format(before=before), *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def refused(done: subprocess.CompletedProcess[str], path: str, cause: str) -> None:
    assert done.returncode == 1 and done.stdout == ""
    assert "R1304" in done.stderr and f"{path}: the checkpoint can't be written: {cause}" in done.stderr, done.stderr
    assert "save(path" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["a.pt", "a.safetensors"])
def test_a_full_disk_and_then_a_read_only_one_leave_the_old_checkpoint(disk: tuple[Path, bool], name: str) -> None:
    folder, real = disk
    save_checkpoint(folder / name, epochs=1)
    before = (folder / name).read_bytes()
    refused(run(folder, name, *LARGE, before="" if real else FULL), name, "No space left on device")
    assert (folder / name).read_bytes() == before and list(folder.iterdir()) == [folder / name]
    if real:
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        with pytest.raises(CheckpointUnwritable, match=f"R1304: .*{name}: the checkpoint can't be written: Read-only file system"):
            save_checkpoint(folder / name, epochs=2)
    else:
        refused(run(folder, name, before=READ_ONLY), name, "Read-only file system")
    assert (folder / name).read_bytes() == before and load_checkpoint(folder / name) == {"epochs": 1}
    if real:
        subprocess.run(["mount", "-o", "remount,rw", str(folder)], check=True)
    save_checkpoint(folder / name, epochs=2)
    assert load_checkpoint(folder / name)["epochs"] == 2


def test_a_limit_of_the_size_of_files_leaves_the_old_checkpoint(tmp_path: Path) -> None:
    name = "a.safetensors"
    folder = tmp_path / "here"
    folder.mkdir()
    save_checkpoint(folder / name, epochs=1)
    before = (folder / name).read_bytes()
    refused(run(folder, name, *LARGE, before=LIMIT), name, "File too large")
    assert (folder / name).read_bytes() == before and list(folder.iterdir()) == [folder / name]


def test_a_folder_that_is_missing_or_none_and_a_path_that_is_a_folder_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder.pt").mkdir()
    (tmp_path / "loop.pt").symlink_to("loop.pt")
    causes = {
        "none/a.pt": "No such file or directory",
        "file/a.pt": "Not a directory",
        "folder.pt": "a directory, not a regular file",
        "n" * 300 + ".pt": "File name too long",
    }
    before = sorted(tmp_path.iterdir())
    for path, cause in causes.items():
        for shown in (path, path.replace(".pt", ".safetensors") if path != "folder.pt" else path):
            with pytest.raises(CheckpointUnwritable) as raised:
                save_checkpoint(tmp_path / shown, epochs=1)
            error = raised.value
            assert (error.code, error.kind) == ("R1304", "write") and isinstance(error, OSError)
            assert error.message.startswith(f"{tmp_path / shown}: the checkpoint can't be written: {cause}")
    assert sorted(tmp_path.iterdir()) == before
    folder = tmp_path / "folder.pt"
    refused(run(folder, "none/a.pt"), "none/a.pt", "No such file or directory")
    assert not list(folder.iterdir())


def test_a_full_disk_is_freed_of_what_killed_processes_left(disk: tuple[Path, bool]) -> None:
    folder, _ = disk
    (folder / f".a.pt.shapescript-{'0' * 16}.tmp").write_bytes(bytes(390_000))
    save_checkpoint(folder / "a.pt", epochs=1, text="x" * 200_000)
    assert load_checkpoint(folder / "a.pt")["epochs"] == 1 and len(list(folder.iterdir())) == 1


def test_a_checkpoint_on_another_disk_behind_a_link_is_replaced_there(disk: tuple[Path, bool], tmp_path: Path) -> None:
    """A rename can't go from one disk to another, so the new file is made beside the one that the link leads to."""
    folder, _ = disk
    (tmp_path / "link.pt").symlink_to(folder / "real.pt")
    for epochs in (1, 2):
        save_checkpoint(tmp_path / "link.pt", epochs=epochs)
    assert (tmp_path / "link.pt").is_symlink() and load_checkpoint(folder / "real.pt") == {"epochs": 2}


def test_a_device_is_no_place_for_a_checkpoint() -> None:
    with pytest.raises(CheckpointUnwritable, match=r"R1304: /dev/full: the checkpoint can't be written: not a regular file"):
        save_checkpoint("/dev/full", epochs=1)


def test_a_folder_that_cannot_be_made_durable_is_told_with_the_new_file_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in (1, 2):
        save_checkpoint(tmp_path / f"a.{step}.pt", step=step)

    def refuse(folder: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(files, "sync_folder", refuse)
    with pytest.raises(
        CheckpointUnwritable, match=r"a\.3\.pt: the checkpoint is written, but a power cut .*: Input/output error"
    ) as refused:
        save_checkpoint(str(tmp_path / "a.{step}.pt"), keep=1, step=3)
    assert (refused.value.code, refused.value.kind, refused.value.errno) == ("R1304", "write", errno.EIO)
    assert load_checkpoint(tmp_path / "a.3.pt") == {"step": 3}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.1.pt", "a.2.pt", "a.3.pt"]
