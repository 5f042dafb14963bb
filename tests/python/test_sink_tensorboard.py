"""TensorBoard's own readers get what was written; and no clock and no chance is in the file."""

from __future__ import annotations

import gc
import math
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.context import RequestContext
from tensorboard.summary.writer.record_writer import RecordWriter
from tensorboard.util import tensor_util

from shapescript.runtime.errors import ArgumentError, LogError, PackageMissing
from shapescript.runtime.event_frames import frame, masked_checksum
from shapescript.runtime.tensorboard_sink import FILE_NAME, tensorboard

WRITTEN = [
    {"step": 1, "single": np.float32(0.1), "double": 0.1, "ok": True, "count": 2**53, "note": "é\nx"},
    {"step": 2, "single": np.float32(1e-45), "double": 5e-324, "ok": False, "count": -3, "note": ""},
    {"step": 5, "single": np.float32(np.nan), "double": -math.inf, "ok": np.bool_(True), "count": np.int64(0), "note": "漢🙂"},
]
SCALARS = ("single", "double", "ok", "count")


Result = TypeVar("Result")


def read_quietly(read: Callable[[], Result]) -> Result:
    """What `read` gives. TensorBoard's readers leave their files to the collector: here, before anybody is warned of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        result = read()
        gc.collect()
    return result


def written(folder: Path) -> Path:
    sink = tensorboard(folder)
    for fields in WRITTEN:
        sink.write("Row", fields)
    sink.close()
    return folder


def accumulated(folder: Path) -> dict[str, list[tuple[int, Any]]]:
    """What TensorBoard's accumulator has: scalars, and texts as the bytes in their tensors."""

    def read() -> dict[str, list[tuple[int, Any]]]:
        found = EventAccumulator(str(folder), size_guidance={"tensors": 0, "scalars": 0})
        found.Reload()
        tags = found.Tags()
        assert {kind for kind, held in tags.items() if held} <= {"scalars", "tensors"}
        scalars = {tag: [(event.step, event.value) for event in found.Scalars(tag)] for tag in tags["scalars"]}
        texts = {tag: [(e.step, tensor_util.make_ndarray(e.tensor_proto).item()) for e in found.Tensors(tag)] for tag in tags["tensors"]}
        return scalars | texts

    return read_quietly(read)


def rounded(value: Any) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(float(value)))


def test_the_accumulator_reads_every_value_as_f32(tmp_path: Path) -> None:
    found = accumulated(written(tmp_path / "runs" / "a"))
    assert set(found) == {*SCALARS, "note"}
    for name in SCALARS:
        assert [step for step, _ in found[name]] == [1, 2, 5]
        wanted = [rounded(fields[name]) for fields in WRITTEN]
        assert np.array([value for _, value in found[name]]).tobytes() == np.array(wanted).tobytes(), name
    assert [text.decode() for _, text in found["note"]] == [fields["note"] for fields in WRITTEN]


def test_numbers_beyond_f32_are_infinite(tmp_path: Path) -> None:
    sink = tensorboard(tmp_path)
    sink.write("Row", {"big": 1e300, "small": -1e300, "int": 10**200})
    sink.close()
    assert accumulated(tmp_path) == {"big": [(1, math.inf)], "small": [(1, -math.inf)], "int": [(1, math.inf)]}


def test_what_tensorboard_shows_are_scalars_and_texts(tmp_path: Path) -> None:
    """The way of TensorBoard's own server: the multiplexer, and the provider that its pages ask."""
    written(tmp_path / "a")

    def look() -> None:
        multiplexer = EventMultiplexer()
        multiplexer.AddRunsFromDirectory(str(tmp_path))
        multiplexer.Reload()
        provider, context = MultiplexerDataProvider(multiplexer, str(tmp_path)), RequestContext()
        listed = provider.list_scalars(context, experiment_id="", plugin_name="scalars")
        assert set(listed["a"]) == set(SCALARS)
        shown = provider.read_scalars(context, experiment_id="", plugin_name="scalars", downsample=100)["a"]
        assert [(point.step, point.value) for point in shown["count"]] == [(1, 2.0**53), (2, -3.0), (5, 0.0)]
        assert [point.value for point in shown["double"][:2]] == [rounded(0.1), 0.0]
        assert set(provider.list_tensors(context, experiment_id="", plugin_name="text")["a"]) == {"note"}

    read_quietly(look)


def test_a_record_without_a_step_has_its_number(tmp_path: Path) -> None:
    sink = tensorboard(tmp_path)
    for loss in (0.5, 0.25):
        sink.write("Row", {"loss": loss})
    sink.write("Row", {"loss": 0.125, "step": 2.5})  # no int: a series like others
    sink.close()
    assert accumulated(tmp_path) == {"loss": [(1, 0.5), (2, 0.25), (3, 0.125)], "step": [(3, 2.5)]}


def test_the_same_run_gives_the_same_bytes_in_another_process(tmp_path: Path) -> None:
    here = written(tmp_path / "a") / FILE_NAME
    code = "from pathlib import Path; from test_sink_tensorboard import written; written(Path('b'))"
    environment = {"PYTHONPATH": str(Path(__file__).parent), "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo"}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True, timeout=60)
    assert here.read_bytes() == (tmp_path / "b" / FILE_NAME).read_bytes()
    assert [file.name for file in here.parent.iterdir()] == [FILE_NAME]


def test_frames_are_those_of_tensorboards_writer(tmp_path: Path) -> None:
    path = tmp_path / "file"
    events = [b"", b"x", bytes(range(256)) * 5]
    with path.open("wb") as file:
        writer = RecordWriter(file)
        for event in events:
            writer.write(event)
    assert path.read_bytes() == b"".join(map(frame, events))
    assert masked_checksum(b"123456789") == (((0xE3069283 >> 15 | 0xE3069283 << 17) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")


def test_an_old_file_is_moved_to_where_tensorboard_does_not_look(tmp_path: Path) -> None:
    for loss in (1.0, 2.0):
        tensorboard(tmp_path).write("Row", {"loss": loss})
    assert sorted(file.name for file in tmp_path.iterdir()) == ["events.1", FILE_NAME]
    assert accumulated(tmp_path) == {"loss": [(1, 2.0)]}


@pytest.mark.parametrize("fields", [{"x": np.zeros(2)}, {"x": "\ud800"}, {"x": 10**400}, {"step": 2**63}, {"x": None}])
def test_what_no_event_can_hold_is_refused_and_makes_nothing(fields: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"R1004: Row\."):
        tensorboard(tmp_path / "a").write("Row", fields)
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_folders_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    for folder in (tmp_path / "a", tmp_path / "a" / "b"):
        with pytest.raises(LogError, match="R1401"):
            tensorboard(folder).write("Row", {"x": 1.0})


def test_a_folder_that_none_can_be_called_is_an_error_of_the_log(tmp_path: Path) -> None:
    for change in (lambda sink: sink.write("Row", {"x": 1.0}), lambda sink: sink.check_write("Row", {"x": 1.0})):
        with pytest.raises(LogError, match="R1401"):
            change(tensorboard(tmp_path / "a\0b"))
    assert list(tmp_path.iterdir()) == []


def test_without_the_package_the_command_is_said_that_installs_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard.compat.proto.event_pb2", None)
    with pytest.raises(PackageMissing, match=r"R1502: .*TensorBoard.*pip install 'shapescript\[tensorboard\]'"):
        tensorboard(tmp_path)


def test_the_package_is_loaded_when_a_sink_is_made_and_only_its_formats() -> None:
    code = """
import sys, shapescript
from shapescript import host_logs
assert not any(name.partition(".")[0] in ("tensorboard", "google") for name in sys.modules)
shapescript.tensorboard("runs")
heavy = {"tensorflow", "torch", "tensorboard.backend", "tensorboard.program", "tensorboard.compat.tensorflow_stub", "grpc", "PIL"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
