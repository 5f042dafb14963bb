"""Data files: found beside the program or in the working directory, and refused with a code when damaged."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runtime_samples import DIGIT, digit_arrays

from shapescript.runtime.errors import DataError, DataFileMissing
from shapescript.runtime.npz import find_data_file, load_npz


def written(path: Path, **arrays: Any) -> Path:
    np.savez_compressed(path, **arrays)
    return path


def test_a_file_may_hold_more_arrays_than_the_record_has_fields(tmp_path: Path) -> None:
    arrays: dict[str, Any] = digit_arrays()
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "d.npz", extra=np.zeros(3), **arrays)
        data = load_npz(DIGIT, tmp_path / "d.npz")
        assert data.all.pixels.tobytes() == arrays["pixels"].tobytes() and data.all.label.tolist() == arrays["label"].tolist()


def test_orders_of_memory_versions_of_the_format_and_empty_arrays_are_read(tmp_path: Path) -> None:
    arrays = digit_arrays(5)
    np.savez(tmp_path / "f.npz", pixels=np.asfortranarray(arrays["pixels"]), label=arrays["label"])
    assert load_npz(DIGIT, tmp_path / "f.npz").all.pixels.tolist() == arrays["pixels"].tolist()
    with zipfile.ZipFile(tmp_path / "2.npz", "w") as archive:
        for name, array in arrays.items():
            stream = io.BytesIO()
            np.lib.format.write_array(stream, array, version=(2, 0))
            archive.writestr(f"{name}.npy", stream.getvalue())
    assert load_npz(DIGIT, tmp_path / "2.npz").all.pixels.tolist() == arrays["pixels"].tolist()
    assert len(load_npz(DIGIT, written(tmp_path / "0.npz", pixels=np.zeros((0, 4), "f4"), label=np.zeros(0, "i8")))) == 0


def test_the_first_folder_that_has_the_file_is_taken(tmp_path: Path) -> None:
    beside, working = tmp_path / "program", tmp_path / "work"
    for folder in (beside, working):
        folder.mkdir()
    (working / "d.npz").touch()
    assert find_data_file("d.npz", [beside, working]) == working / "d.npz"
    (beside / "d.npz").touch()
    assert find_data_file("d.npz", [beside, working]) == beside / "d.npz"
    assert find_data_file(working / "d.npz", [beside]) == working / "d.npz"


def test_a_missing_file_is_a_file_not_found_error_that_names_the_places(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        find_data_file("d.npz", [tmp_path / "a", tmp_path / "b"])
    assert isinstance(raised.value, DataFileMissing) and raised.value.code == "R1201" and raised.value.filename == "d.npz"
    assert f"{tmp_path}/a/d.npz" in str(raised.value) and f"{tmp_path}/b/d.npz" in str(raised.value)
    with pytest.raises(DataFileMissing, match="R1201"):
        load_npz(DIGIT, tmp_path / "none.npz")


def refused(path: Path, *words: str) -> None:
    with pytest.raises(DataError) as raised:
        load_npz(DIGIT, path)
    assert raised.value.code == "R1202" and not isinstance(raised.value, FileNotFoundError)
    assert str(path) in raised.value.message and "\n" not in raised.value.message
    assert all(word in raised.value.message for word in words)


def test_arrays_that_do_not_fit_are_named_with_the_file(tmp_path: Path) -> None:
    arrays = digit_arrays()
    refused(written(tmp_path / "a.npz", pixels=arrays["pixels"]), "no array 'label'", "it holds pixels")
    refused(written(tmp_path / "b.npz", pixels=arrays["pixels"], labels=arrays["label"]), "did you mean 'labels'")
    refused(written(tmp_path / "c.npz", pixels=arrays["pixels"].astype("f8"), label=arrays["label"]), "Digit.pixels", "float64")
    refused(written(tmp_path / "d.npz", pixels=arrays["pixels"], label=arrays["label"][1:]), "10 in pixels, 9 in label")


def test_files_of_another_kind_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.npz").write_text("pixels,label\n")
    refused(tmp_path / "text.npz", "damaged, or no .npz file")
    np.save(tmp_path / "one.npy", np.zeros(3))
    refused(tmp_path / "one.npy", "no .npz file")
    (tmp_path / "folder.npz").mkdir()
    refused(tmp_path / "folder.npz", "can't be read", "directory")
    refused(written(tmp_path / "objects.npz", pixels=np.array([{}, []], object), label=np.arange(2)), "Python objects")


def test_every_truncation_and_every_flipped_byte_is_refused_or_harmless(tmp_path: Path) -> None:
    arrays = digit_arrays(3)
    whole = written(tmp_path / "d.npz", **arrays).read_bytes()
    path = tmp_path / "damaged.npz"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        refused(path)
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x41]) + whole[place + 1 :])
        try:
            data = load_npz(DIGIT, path)
        except DataError as error:
            assert error.code == "R1202"
        else:
            assert data.all.pixels.tobytes() == arrays["pixels"].tobytes() and data.all.label.tobytes() == arrays["label"].tobytes()


def test_a_header_that_promises_more_than_the_file_holds_allocates_nothing(tmp_path: Path) -> None:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f4", "fortran_order": False, "shape": (10**15, 4)})
    with zipfile.ZipFile(tmp_path / "huge.npz", "w") as archive:
        archive.writestr("pixels.npy", stream.getvalue() + bytes(64))
        archive.writestr("label.npy", stream.getvalue())
    refused(tmp_path / "huge.npz", "isn't the size of its data")
