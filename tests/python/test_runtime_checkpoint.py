"""Checkpoint files: PyTorch opens ours, we open PyTorch's, and a file is replaced whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import signal
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from runtime_samples import digits, encoder_layout, filled, mlp_layout

from shapescript.runtime.checkpoint import load_checkpoint, read_checkpoint, save_checkpoint
from shapescript.runtime.entries import Tensor
from shapescript.runtime.errors import ArgumentError, CheckpointError, CheckpointMissing, CheckpointUnwritable
from shapescript.runtime.mode import Eval, Train
from shapescript.runtime.optimiser import AdamW
from shapescript.runtime.sinks import MemorySink


def sample(seed: int = 1) -> dict[str, Any]:
    """One value of each kind."""
    model = filled(mlp_layout(), seed)
    opt = AdamW(model, betas=(0.8, 0.99))
    opt.step = 17
    opt.layout.view(opt.slot("first"), "hidden.bias")[:] = 0.25
    mode = Train(seed=5)
    mode.draws = 9
    sink = MemorySink()
    sink.write("Log", {"step": 1})
    values = {"epochs": 3, "rate": 1e-3, "done": True, "note": "größer", "large": 2**63 - 1, "small": -(2**63), "medium": -70000}
    return {"m": model, "opt": opt, "mode": mode, "eval": Eval, "sink": sink, "data": digits(), "w": np.arange(6.0).reshape(2, 3), **values}


def test_pytorch_opens_ours_with_weights_only(tmp_path: Path) -> None:
    values = sample()
    save_checkpoint(tmp_path / "a.pt", **values)
    found = torch.load(tmp_path / "a.pt", weights_only=True)
    assert tuple(found["m"]) == values["m"].layout.names
    for name, tensor in found["m"].items():
        assert tensor.dtype == torch.float32 and tensor.numpy().tobytes() == values["m"][name].tobytes()
    assert {name: found[name] for name in ("epochs", "rate", "done", "note", "large", "small", "medium")} == {
        name: values[name] for name in ("epochs", "rate", "done", "note", "large", "small", "medium")
    }
    assert (found["opt"]["step"], found["opt"]["betas"], found["mode"]) == (17, (0.8, 0.99), {"kind": "Train", "seed": 5, "draws": 9})
    net = torch.nn.ModuleDict({"hidden": torch.nn.Linear(4, 6), "output": torch.nn.Linear(6, 3)})
    net.load_state_dict(found["m"])
    assert net["output"].weight.detach().numpy().tobytes() == values["m"].output.weight.tobytes()


def test_pytorch_opens_other_element_types_scalars_and_empty_tensors(tmp_path: Path) -> None:
    model = filled(encoder_layout())
    save_checkpoint(tmp_path / "a.pt", m=model)
    for mapped in (False, True):
        for name, tensor in torch.load(tmp_path / "a.pt", weights_only=True, mmap=mapped)["m"].items():
            assert tuple(tensor.shape) == model[name].shape and tensor.numpy().tobytes() == model[name].tobytes()


def test_what_is_saved_is_found_again(tmp_path: Path) -> None:
    values = sample()
    save_checkpoint(tmp_path / "a.pt", **values)
    found = load_checkpoint(tmp_path / "a.pt")
    assert tuple(found) == tuple(values)
    assert {name: array.tobytes() for name, array in found["m"].items()} == {n: a.tobytes() for n, a in values["m"].state_dict().items()}
    assert found["opt"]["first"]["hidden.bias"].tolist() == [0.25] * 6 and found["opt"]["decay"] == 0.01
    assert found["eval"] == {"kind": "Eval"} and found["sink"] == values["sink"].position()
    assert found["data"] == {"kind": "Dataset", "examples": 10, "fingerprint": values["data"].fingerprint()}
    assert found["w"].tolist() == values["w"].tolist() and found["w"].dtype == np.float64
    for name in ("epochs", "rate", "done", "note", "large", "small", "medium"):
        assert found[name] == values[name] and type(found[name]) is type(values[name])


def test_axis_names_are_in_the_file(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "a.pt", m=filled(mlp_layout()), w=Tensor(np.zeros((2, 3), np.float32), ("V", "D")))
    checkpoint = read_checkpoint(tmp_path / "a.pt")
    assert checkpoint.axes("m")["hidden.weight"] == ("Hidden", "In") and checkpoint.tensor_axes("w") == ("V", "D")
    assert checkpoint.axes("none") == {} and checkpoint.tensor_axes("m") is None


def test_the_same_state_gives_the_same_bytes_under_any_name(tmp_path: Path) -> None:
    for name in ("a.pt", "b.other"):
        save_checkpoint(tmp_path / name, **sample())
    assert (tmp_path / "a.pt").read_bytes() == (tmp_path / "b.other").read_bytes()
    save_checkpoint(tmp_path / "c.pt", **sample(seed=2))
    assert (tmp_path / "a.pt").read_bytes() != (tmp_path / "c.pt").read_bytes()


def test_golden_bytes(tmp_path: Path) -> None:
    """A change here is a change of the format: files of one program, data and seed would differ between releases."""
    save_checkpoint(tmp_path / "a.pt", w=np.arange(3, dtype=np.float32), epochs=3, mode=Train(seed=1), sink=MemorySink())
    assert hashlib.blake2b((tmp_path / "a.pt").read_bytes(), digest_size=16).hexdigest() == "c1b64bb52826c9df61ec133e0adb33e2"


def test_a_nan_is_saved_with_its_canonical_bits(tmp_path: Path) -> None:
    odd = np.array([0xFFC12345, 0x7F800001, 0x3F800000], np.uint32).view(np.float32)
    negative = np.array([0xFFF8000000000001], np.uint64).view(np.float64)
    save_checkpoint(tmp_path / "a.pt", w=odd, x=float(negative[0]), v=negative)
    found = load_checkpoint(tmp_path / "a.pt")
    assert found["w"].view(np.uint32).tolist() == [0x7FC00000, 0x7FC00000, 0x3F800000]
    assert math.copysign(1, found["x"]) == 1 and found["v"].view(np.uint64).tolist() == [0x7FF8000000000000]


def test_members_are_stored_at_multiples_of_64(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "a.pt", **sample())
    with zipfile.ZipFile(tmp_path / "a.pt") as archive, open(tmp_path / "a.pt", "rb") as file:
        assert archive.testzip() is None
        for info in archive.infolist():
            file.seek(info.header_offset + 26)
            lengths = int.from_bytes(file.read(2), "little") + int.from_bytes(file.read(2), "little")
            assert info.compress_type == zipfile.ZIP_STORED and (info.header_offset + 30 + lengths) % 64 == 0
        assert {"archive/data.pkl", "archive/version", "archive/byteorder", "archive/data/0"} <= set(archive.namelist())


TORCH_DTYPES = ["float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64", "complex128"]


@pytest.mark.parametrize("dtype", TORCH_DTYPES)
def test_tensors_of_pytorch_come_with_their_dtype_and_strides(tmp_path: Path, dtype: str) -> None:
    base = (torch.randn(4, 6, 2) * 10).to(getattr(torch, dtype))
    state = {
        "whole": base,
        "transposed": base.transpose(0, 2),
        "part": base[1:3, ::2, 1],
        "expanded": base[0, 0, 0].expand(3, 5),
        "scalar": base[1, 2, 0],
        "empty": base[:, :0],
        "same": base,
    }
    torch.save(state, tmp_path / "t.pt")
    found = load_checkpoint(tmp_path / "t.pt")
    assert tuple(found) == tuple(state)
    for name, tensor in state.items():
        expected = tensor.numpy()
        assert found[name].dtype == expected.dtype and found[name].shape == expected.shape
        assert found[name].tobytes() == expected.tobytes() and (found[name].size == 0 or not found[name].flags.writeable)


def test_state_dicts_as_pytorch_users_save_them(tmp_path: Path) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
    net[2].weight = torch.nn.Parameter(torch.randn(4, 2).T)
    optimizer = torch.optim.AdamW(net.parameters())
    net(torch.randn(5, 3)).sum().backward()
    optimizer.step()
    torch.save(net.state_dict(), tmp_path / "plain.pt")
    found = load_checkpoint(tmp_path / "plain.pt")
    assert {name: array.tobytes() for name, array in found.items()} == {n: t.numpy().tobytes() for n, t in net.state_dict().items()}
    whole = {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "loss": 0.5, "args": {"size": [1, (2, None)]}}
    torch.save(whole, tmp_path / "whole.pt")
    found = load_checkpoint(tmp_path / "whole.pt")
    assert found["optimizer"]["param_groups"][0]["betas"] == (0.9, 0.999) and found["args"] == {"size": [1, (2, None)]}
    assert found["optimizer"]["state"][0]["exp_avg"].shape == (4, 3) and (found["epoch"], found["loss"]) == (3, 0.5)
    torch.save({"p": torch.nn.Parameter(torch.ones(2)), "size": torch.Size([2, 3]), "order": OrderedDict(a=1)}, tmp_path / "odd.pt")
    odd = load_checkpoint(tmp_path / "odd.pt")
    assert odd["p"].tolist() == [1, 1] and odd["size"] == (2, 3) and odd["order"] == {"a": 1}


def test_what_pytorch_saved_and_we_cannot_use_is_refused_with_its_kind(tmp_path: Path) -> None:
    def kind_of(value: object, **options: Any) -> str:
        torch.save(value, tmp_path / "t.pt", **options)
        with pytest.raises(CheckpointError) as raised:
            load_checkpoint(tmp_path / "t.pt")
        assert str(tmp_path / "t.pt") in raised.value.message
        return str(raised.value.kind)

    assert kind_of({"w": torch.zeros(2, dtype=torch.float8_e4m3fn)}) == "dtype"
    assert kind_of({"w": torch.zeros(2)}, _use_new_zipfile_serialization=False) == "version"
    assert kind_of({"w": torch.zeros(2)}, pickle_protocol=4) == "version"
    assert kind_of(torch.zeros(2)) == kind_of([1]) == kind_of({1: torch.zeros(2)}) == "corrupt"
    assert kind_of(torch.nn.Linear(2, 2)) == "corrupt"
    assert kind_of({"shapescript": {"version": 2}}) == "version" and kind_of({"shapescript": 3}) == "corrupt"


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"x": None}, "R1004"),
        ({"x": {1, 2}}, "R1004"),
        ({"x": [1.0]}, "R1004"),
        ({"x": 2**63}, "R1004"),
        ({"x": "half \ud800"}, "R1004"),
        ({"x": np.array(["a"])}, "R1001"),
        ({"shapescript": 1}, "R1005"),
    ],
)
def test_a_value_that_cannot_be_saved_is_refused_before_anything_is_written(tmp_path: Path, values: dict[str, Any], code: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        save_checkpoint(tmp_path / "a.pt", **values)
    assert raised.value.code == code and not list(tmp_path.iterdir())


def test_numbers_of_numpy_and_state_dicts_are_saved_as_what_they_are(tmp_path: Path) -> None:
    state = {"a.weight": torch.ones(2), "b": np.zeros(3, np.float32)}
    save_checkpoint(tmp_path / "a.pt", path=np.int64(3), rate=np.float64(0.5), ok=np.bool_(False), m=state)
    found = load_checkpoint(tmp_path / "a.pt")
    assert [type(found[name]) for name in ("path", "rate", "ok")] == [int, float, bool]
    assert found["m"]["a.weight"].tolist() == [1, 1]


def test_a_missing_checkpoint_is_a_file_not_found_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        load_checkpoint(tmp_path / "none.pt")
    assert isinstance(raised.value, CheckpointMissing) and (raised.value.code, raised.value.kind) == ("R1301", "missing")
    assert raised.value.errno == errno.ENOENT and raised.value.filename == str(tmp_path / "none.pt")
    with pytest.raises(CheckpointError, match=r"R1302: .*directory"):
        load_checkpoint(tmp_path)


def failed_save(path: Path, *words: str) -> CheckpointUnwritable:
    with pytest.raises(CheckpointUnwritable) as raised:
        save_checkpoint(path, **sample())
    error = raised.value
    assert (error.code, error.kind) == ("R1304", "write") and isinstance(error, OSError)
    assert str(path) in error.message and all(word in error.message for word in words)
    return error


def test_a_place_that_cannot_be_written_is_named_with_the_cause(tmp_path: Path) -> None:
    failed_save(tmp_path / "missing" / "a.pt", "No such file or directory")
    failed_save(tmp_path, "not a regular file")
    os.mkfifo(tmp_path / "pipe.pt")
    failed_save(tmp_path / "pipe.pt", "not a regular file")
    assert stat.S_ISFIFO((tmp_path / "pipe.pt").stat().st_mode) and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("failing", ["fsync", "replace", "write"])
def test_a_failed_save_leaves_the_old_file_and_no_temporary_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    path = tmp_path / "a.pt"
    save_checkpoint(path, epochs=1)
    before = path.read_bytes()

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    target = {"fsync": "os.fsync", "replace": "pathlib.Path.replace", "write": "shapescript.runtime.zip_writer.ZipWriter._write"}[failing]
    with monkeypatch.context() as patch:
        patch.setattr(target, fail)
        assert failed_save(path, "No space left on device").errno == errno.ENOSPC
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]
    save_checkpoint(path, epochs=2)
    assert load_checkpoint(path) == {"epochs": 2}


def test_an_interrupted_save_leaves_no_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(tmp_path / "a.pt", epochs=1)
    assert not list(tmp_path.iterdir())


def test_an_unwritable_folder_leaves_the_old_checkpoint() -> None:
    """In a folder that others can reach, since the test may run as root and has to give that up."""
    code = """
import os
from shapescript.runtime.checkpoint import load_checkpoint, save_checkpoint
from shapescript.runtime.errors import CheckpointUnwritable
save_checkpoint("a.pt", epochs=1)
load_checkpoint("a.pt")
os.chmod(".", 0o555)
if os.geteuid() == 0:
    os.seteuid(65534)
try:
    save_checkpoint("a.pt", epochs=2)
except CheckpointUnwritable as error:
    print(error)
print(load_checkpoint("a.pt"), os.listdir())
"""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=60, check=True)
        os.chmod(folder, 0o755)
    error, found = done.stdout.splitlines()
    assert error.startswith("R1304: a.pt: the checkpoint can't be written: Permission denied")
    assert found == "{'epochs': 1} ['a.pt']"


def test_a_file_size_limit_leaves_the_old_checkpoint(tmp_path: Path) -> None:
    code = """
import numpy as np, resource
from shapescript.runtime.checkpoint import load_checkpoint, save_checkpoint
from shapescript.runtime.errors import CheckpointUnwritable
save_checkpoint("a.pt", epochs=1)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    save_checkpoint("a.pt", epochs=2, w=np.zeros(100_000))
except CheckpointUnwritable as error:
    print(error)
print(load_checkpoint("a.pt"))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    error, found = done.stdout.splitlines()
    assert error.startswith("R1304: a.pt: the checkpoint can't be written: File too large") and found == "{'epochs': 1}"
    assert [path.name for path in tmp_path.iterdir()] == ["a.pt"]


def test_a_kill_at_any_time_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    code = """
import itertools, numpy as np
from shapescript.runtime.checkpoint import save_checkpoint
for step in itertools.count():
    save_checkpoint("a.pt", step=step, w=np.full(50_000, step))
    print(step, flush=True)
"""
    for turns in (1, 3, 6):
        with subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            reached = [int(process.stdout.readline()) for _ in range(turns)][-1]
            process.send_signal(signal.SIGKILL)
            process.wait(timeout=60)
        found = load_checkpoint(tmp_path / "a.pt")
        assert found["step"] >= reached and (found["w"] == found["step"]).all()


def test_a_link_is_followed_and_stays(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "real.pt", epochs=1)
    (tmp_path / "link.pt").symlink_to("real.pt")
    save_checkpoint(tmp_path / "link.pt", epochs=2)
    assert (tmp_path / "link.pt").is_symlink() and load_checkpoint(tmp_path / "real.pt") == {"epochs": 2}


def test_logs_are_durable_before_the_checkpoint_that_counts_them(tmp_path: Path) -> None:
    class Recording(MemorySink):
        flushed = False

        def flush(self) -> None:
            self.flushed = True

    sink = Recording()
    sink.write("Log", {"step": 1})
    save_checkpoint(tmp_path / "a.pt", sink=sink)
    assert sink.flushed and load_checkpoint(tmp_path / "a.pt")["sink"]["records"] == 1


def test_nothing_of_pytorch_is_imported_to_save_or_load(tmp_path: Path) -> None:
    code = """
import sys, json
from shapescript.runtime.checkpoint import load_checkpoint, save_checkpoint
save_checkpoint("a.pt", epochs=1)
load_checkpoint("a.pt")
print(json.dumps([name for name in ("torch", "llvmlite", "lark") if name in sys.modules]))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == []
