"""The sink that writes scalars for TensorBoard: a folder with one event file, whose name and bytes no clock decides.

A record is one event. Its step is the record's int field `step`, else the record's number, from 1 on; the time of the event is the
step too, in seconds, so that the same run gives the same bytes. Each of the other fields is a series of its name: numbers and bools as
scalars, strings as texts. A scalar is an f32, to which other numbers are rounded: the format has doubles too, but the server that
`tensorboard` starts leaves them out.

TensorBoard reads every file of a folder whose name has `tfevents` in it. So what lies beside, the lock, an old log, what was cut off,
is called `events.lock`, `events.1`, `events.tail.1`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from shapescript.runtime.errors import ArgumentError
from shapescript.runtime.event_frames import frame, whole_frames
from shapescript.runtime.extras import optional_module
from shapescript.runtime.files import regular_file
from shapescript.runtime.line_sink import LineSink
from shapescript.runtime.log_lines import plain_fields

FILE_NAME = "events.out.tfevents.0000000000.shapescript"
FILE_VERSION = "brain.Event:2"
STEP = "step"
LARGEST_STEP = 2**63 - 1


class TensorBoardSink(LineSink):
    """Appends records to the event file of a folder; line_sink.py says what happens to one that is there."""

    kind = "tensorboard"
    has_head = True

    def __init__(self, path: str | os.PathLike[str]) -> None:
        purpose = "writing TensorBoard's event files"
        self._events = optional_module("tensorboard.compat.proto.event_pb2", purpose)
        self._summaries = optional_module("tensorboard.compat.proto.summary_pb2", purpose)
        self._types = optional_module("tensorboard.compat.proto.types_pb2", purpose)
        super().__init__(path)

    def _encode(self, record_name: str, fields: Mapping[str, Any]) -> bytes:
        values = plain_fields(record_name, fields)
        number = values.get(STEP)
        if type(number) is not int:
            number = self._position.records + 1
        elif abs(number) > LARGEST_STEP:
            raise ArgumentError("R1004", f"{record_name}.{STEP}: a step of TensorBoard fits in 64 bits")
        else:
            del values[STEP]
        event = self._events.Event(wall_time=float(number), step=number)
        for name, value in values.items():
            self._add(event.summary.value.add(tag=name), f"{record_name}.{name}", value)
        return frame(event.SerializeToString(deterministic=True))

    def _add(self, place: Any, what: str, value: Any) -> None:
        """Put a field's value into a summary's place."""
        if isinstance(value, np.ndarray):
            raise ArgumentError("R1004", f"{what}: TensorBoard's scalars are single values, got an array")
        if isinstance(value, str):
            try:
                text = value.encode()
            except UnicodeEncodeError:
                raise ArgumentError("R1004", f"{what}: half of a surrogate pair can't be written into an event file") from None
            place.metadata.plugin_data.plugin_name, place.metadata.data_class = "text", self._summaries.DATA_CLASS_TENSOR
            place.tensor.dtype = self._types.DT_STRING
            place.tensor.string_val.append(text)
            return
        try:
            number = float(value)
        except OverflowError:
            raise ArgumentError("R1004", f"{what}: the number is too large for a scalar of TensorBoard") from None
        with np.errstate(over="ignore"):  # what is beyond f32 is infinite there
            place.simple_value = float(np.float32(number))

    def _pieces(self, content: BinaryIO) -> Iterator[bytes]:
        return whole_frames(content)

    def _new_head(self, fields: Mapping[str, Any]) -> bytes:
        return frame(self._events.Event(file_version=FILE_VERSION).SerializeToString(deterministic=True))

    def _target(self) -> Path:
        return regular_file(self.path / FILE_NAME)

    def _beside(self, target: Path) -> Path:
        return target.with_name("events")

    def _folder_is_there(self) -> bool:
        return self.path.exists()

    def _take_lock(self) -> None:
        if not self._is_locked():
            self._target()  # a path that none can be makes no folder
            self.path.mkdir(parents=True, exist_ok=True)
        super()._take_lock()


def tensorboard(path: str | os.PathLike[str]) -> TensorBoardSink:
    """A sink that writes TensorBoard's event file in the folder `path`; nothing is made before the first write.

    Raises PackageMissing R1502 where the package `tensorboard` isn't installed.
    """
    return TensorBoardSink(path)
