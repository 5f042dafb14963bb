"""`shapescript inspect`: what checkpoints and files of arrays hold, as text and as JSON, and what is left of damaged ones."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import Golden
from runtime_samples import digits, filled, leaf, mlp_layout
from safetensors.torch import save_file

import shapescript
from shapescript.cli import main
from shapescript.runtime.checkpoint import save_checkpoint
from shapescript.runtime.entries import Tensor
from shapescript.runtime.inspection import inspect
from shapescript.runtime.layout import Layout
from shapescript.runtime.mode import Eval, Train
from shapescript.runtime.optimiser import AdamW
from shapescript.runtime.sinks import MemorySink


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def saved(path: str) -> None:
    layout = Layout("Net", [leaf("head.weight", "Classes In", 3, 4), leaf("head.bias", "Classes", 3), leaf("scale", "", dtype="bf16")])
    model = filled(layout)
    opt, mode, sink = AdamW(model, betas=(0.8, 0.99)), Train(seed=5), MemorySink()
    opt.step, mode.draws = 1234, 56
    opt.layout.slots.view(opt.slot("second"), "head.bias")[1:] = math.nan, math.inf
    sink.write("Log", {"step": 1})
    handles = {"mode": mode, "test": Eval, "sink": sink, "data": digits()}
    plain = {"epochs": 3, "rate": 1e-3, "worst": math.nan, "done": False, "note": "two words", "w": Tensor(np.zeros((2, 3)), ("V", "D"))}
    save_checkpoint(path, m=model, opt=opt, **handles, **plain)


def told(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> tuple[str, str]:
    assert main(["inspect", *words]) == status
    captured = capsys.readouterr()
    return captured.out, captured.err


@pytest.mark.parametrize("name", ["a.pt", "a.safetensors"])
def test_a_checkpoint_as_text(capsys: pytest.CaptureFixture[str], golden: Golden, name: str) -> None:
    saved(name)
    golden(f"inspect_{name.split('.')[1]}", told(capsys, name)[0])


def test_files_of_others_as_text(capsys: pytest.CaptureFixture[str], golden: Golden) -> None:
    weight = torch.tensor([[1.0, float("nan")], [float("inf"), 0.0]])
    torch.save(
        {"model": {"w": weight, "b": torch.zeros(2, dtype=torch.int32)}, "epoch": 3, "args": {"lr": [0.1, 0.2], "name": "x"}}, "t.pt"
    )
    save_file({"w": weight.to(torch.bfloat16), "b": torch.zeros(2, dtype=torch.bool)}, "t.safetensors")
    np.savez("d.npz", x=weight.numpy(), label=np.arange(2))
    np.savez_compressed("c.npz", x=weight.numpy(), empty=np.zeros((0, 3)), text=np.array(["a", "b"]), one=np.float32(1))
    np.save("d.npy", weight.numpy().T)
    text, errors = told(capsys, "t.pt", "t.safetensors", "d.npz", "c.npz", "d.npy")
    golden("inspect_others", "\n".join(line.split(", valid")[0] for line in text.split("\n")))
    assert text.count(", valid\n") == 5 and errors == ""


def test_a_checkpoint_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    saved("a.pt")
    text, _ = told(capsys, "--json", "a.pt", "a.pt")
    first, second = text.splitlines()
    found = json.loads(first, parse_constant=lambda _: pytest.fail("no strict JSON"))
    assert first == second and (found["path"], found["format"], found["valid"], found["error"], found["ours"]) == (
        "a.pt",
        "PyTorch",
        True,
        None,
        True,
    )
    assert found["facts"]["step"] == 1234 and found["bytes"] == Path("a.pt").stat().st_size
    entries = {entry["name"]: entry for entry in found["entries"]}
    model = entries["m"]
    assert (model["kind"], model["model"], model["numbers"], model["bytes"]) == ("model", "Net", 16, 62)
    assert model["tensors"][1] == {
        "name": "head.weight", "dtype": "float32", "axes": ["Classes", "In"], "shape": [3, 4], "not_finite": 0, "lost": False,
    }  # fmt: skip
    assert model["tensors"][2]["dtype"] == "bfloat16"
    second_bias = next(tensor for tensor in entries["opt"]["tensors"] if tensor["name"] == "second.head.bias")
    assert second_bias["not_finite"] == 2 and second_bias["axes"] == ["Classes"]
    assert entries["opt"]["values"]["step"] == 1234 and entries["opt"]["values"]["betas"] == [0.8, 0.99]
    assert entries["mode"]["values"] == {"seed": 5, "draws": 56} and entries["sink"]["values"]["records"] == 1
    assert entries["data"]["values"] == {"examples": 10, "fingerprint": digits().fingerprint()}
    assert [entries[name]["value"] for name in ("epochs", "rate", "worst", "done", "note")] == [3, 1e-3, "NaN", False, "two words"]
    assert (entries["w"]["kind"], entries["w"]["tensors"][0]["axes"]) == ("tensor", ["V", "D"])


@pytest.mark.parametrize("name", ["a.pt", "a.safetensors"])
def test_what_is_left_of_a_file_at_each_length(name: str) -> None:
    """More of the file never tells less, and what is told is what the whole file tells."""
    save_checkpoint(name, m=filled(mlp_layout()), opt=AdamW(filled(mlp_layout())), epochs=3)
    whole, data = inspect(name), Path(name).read_bytes()
    wanted = {(entry.name, tensor.name): tensor for entry in whole.entries for tensor in entry.tensors}
    before = -1
    for length in range(0, len(data), 5):
        Path(name).write_bytes(data[:length])
        found = inspect(name)
        assert found.error is not None and (found.error.code, found.nbytes) == ("R1302", length)
        tensors = {(entry.name, tensor.name): tensor for entry in found.entries for tensor in entry.tensors}
        assert not tensors or tensors.keys() == wanted.keys()
        readable = sum(not tensor.lost for tensor in tensors.values())
        assert all(tensor.lost or tensor == wanted[place] for place, tensor in tensors.items()) and readable >= before
        before = readable if tensors else before
    assert before >= len(wanted) - 1  # the last numbers are the last bytes of a `.safetensors` file


def test_a_damaged_tensor_of_a_pt_file_is_lost_and_the_others_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    save_checkpoint("a.pt", a=np.ones(3), b=np.full(3, 2.0), c=np.full(3, math.nan), epochs=3)
    data = bytearray(Path("a.pt").read_bytes())
    data[data.index(np.full(3, 2.0).tobytes()) + 2] ^= 1
    Path("a.pt").write_bytes(data)
    text, errors = told(capsys, "a.pt", status=1)
    assert text.splitlines()[0].endswith("not valid: what can still be read")
    assert "b: tensor float64 (3,), lost" in text and "c: tensor float64 (3,), not finite: 3" in text and "epochs: int 3" in text
    assert errors.startswith("error[R1302]: a.pt: the checkpoint is damaged") and "checksum" in errors
    found = json.loads(told(capsys, "--json", "a.pt", status=1)[0])
    assert not found["valid"] and (found["error"]["code"], found["error"]["kind"]) == ("R1302", "corrupt")


def test_one_array_of_an_npz_that_is_damaged_is_passed_over(capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("d.npz", a=np.ones(3), b=np.full(3, 2.0), c=np.full(3, math.nan))
    data = bytearray(Path("d.npz").read_bytes())
    data[data.index(np.full(3, 2.0).tobytes()) + 2] ^= 1
    Path("d.npz").write_bytes(data)
    text, errors = told(capsys, "d.npz", status=1)
    assert text.splitlines()[1:] == ["a: tensor float64 (3,)", "c: tensor float64 (3,), not finite: 3"] and "R1202" in errors


def test_each_file_is_told_whatever_is_wrong_with_others(capsys: pytest.CaptureFixture[str]) -> None:
    saved("a.pt")
    Path("b.pt").write_bytes(b"hello")
    Path("c.npz").write_bytes(b"hello")
    Path("d.npy").write_bytes(b"")
    Path("folder.pt").mkdir()
    text, errors = told(capsys, "none.pt", "b.pt", "none.npz", "c.npz", "d.npy", "folder.pt", "a.pt", status=1)
    assert text.count("nothing can be read") == 4 and "m: model Net" in text
    assert [line[6:11] for line in errors.splitlines() if line.startswith("error")] == [
        "R1301",
        "R1302",
        "R1201",
        "R1202",
        "R1202",
        "R1302",
    ]


def test_names_that_a_terminal_would_obey_are_told_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    torch.save({"\x1b[2J": 1, "a\nb": {"\r": torch.zeros(2)}, "long" * 100: "x\x07"}, "t.pt")
    text, _ = told(capsys, "t.pt")
    assert all(line.isprintable() for line in text.splitlines()) and "'\\x1b[2J': int 1" in text and "'a\\nb': dict" in text
    assert max(map(len, text.splitlines())) < 200


def test_from_python(tmp_path: Path) -> None:
    saved("a.pt")
    found: Any = shapescript.inspect("a.pt")
    assert found.error is None and found.entries[0].tensors[0].axes == ("Classes",) and found.facts["step"] == 1234
    with pytest.raises(shapescript.CheckpointMissing):
        shapescript.inspect(tmp_path / "none.pt")
    with pytest.raises(shapescript.DataFileMissing):
        shapescript.inspect("none.npy")


def test_help_loads_no_numpy() -> None:
    code = """
import sys
from shapescript.cli import main
for words in (["inspect", "--help"], ["--help"]):
    assert main(words) == 0
assert main(["inspect"]) == 2
print([name for name in ("numpy", "llvmlite", "safetensors") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "[]" and "--json" in done.stdout
