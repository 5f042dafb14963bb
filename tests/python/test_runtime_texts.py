"""Texts and vocabularies from Python: ids beside what Python itself says, windows beside NumPy's, files that can't be used."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import shapescript
from shapescript.compiler.numerics.texts import characters_of, decoded, lines_of
from shapescript.runtime import restore
from shapescript.runtime.dataset import Dataset
from shapescript.runtime.errors import ArgumentError, DataError, DataFileMissing
from shapescript.runtime.npz import find_data_file
from shapescript.runtime.orders import Ordered
from shapescript.runtime.record import Field, RecordType
from shapescript.runtime.texts import load_bytes, load_lines, load_text, read_text
from shapescript.runtime.vocabulary import ByteVocabulary, Vocabulary

TEXT = "Häuser, 漢字 und 🙂:\nñandú – ok\n\nzuletzt"


def window(span: int) -> RecordType:
    return RecordType("Window", (Field("ids", "i64", ("Span",), (span,)),))


def line(room: int, *, length: bool = True) -> RecordType:
    ids = Field("ids", "i64", ("Longest",), (room,))
    return RecordType("Line", (Field("length", "i64"), ids) if length else (ids,))


def written(folder: Path, data: str | bytes) -> Path:
    path = folder / "input.txt"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


# ---- vocabularies


def test_ids_are_places_in_the_order_of_code_points() -> None:
    vocabulary = Vocabulary.of_text(TEXT)
    ordered = sorted(set(TEXT))
    assert list(vocabulary.characters) == ordered and len(vocabulary) == len(ordered)
    ids = vocabulary.encode(TEXT)
    assert ids.dtype == np.int64 and ids.tolist() == [ordered.index(character) for character in TEXT]
    assert vocabulary.decode(ids) == TEXT and vocabulary.decode(ids[:0]) == "" and vocabulary.encode("").tolist() == []


def test_a_vocabulary_keeps_the_order_that_it_is_given() -> None:
    vocabulary = Vocabulary("cab🙂")
    assert vocabulary.encode("🙂bac").tolist() == [3, 2, 1, 0] and vocabulary.decode(np.array([0, 3])) == "c🙂"
    with pytest.raises(ArgumentError, match="R1004: characters: 'b' stands there twice"):
        Vocabulary("abcb")
    with pytest.raises(ArgumentError, match="R1004: characters: expected a str, got bytes"):
        Vocabulary(b"ab")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "characters", "words"),
    [
        ("ab?", "ab", ["'?' at position 2", "2 characters"]),
        ("a", "", ["'a' at position 0", "0 characters"]),
        ("abü", "abc", ["'ü' at position 2"]),
        ("\U0010ffff", "a", ["position 0"]),
    ],
)
def test_a_character_that_is_not_there_is_named(text: str, characters: str, words: list[str]) -> None:
    with pytest.raises(DataError) as raised:
        Vocabulary(characters).encode(text)
    assert raised.value.code == "R1203" and all(word in raised.value.message for word in words)


@pytest.mark.parametrize(("ids", "words"), [([0, 3], "id 3 at position 1"), ([-1], "id -1 at position 0"), ([2**62], "ids go from 0 to 2")])
def test_an_id_that_stands_for_nothing_is_named(ids: list[int], words: str) -> None:
    with pytest.raises(DataError, match=words) as raised:
        Vocabulary("abc").decode(np.array(ids))
    assert raised.value.code == "R1203"
    with pytest.raises(ArgumentError, match="R1004: ids"):
        Vocabulary("abc").decode(np.zeros((2, 2), np.int64))


def test_bytes_are_a_vocabulary_of_every_text() -> None:
    vocabulary = ByteVocabulary()
    assert vocabulary.encode(TEXT).tolist() == list(TEXT.encode()) and vocabulary.decode(vocabulary.encode(TEXT)) == TEXT
    assert vocabulary.decode(np.array([72, 0xC3, 105])) == "H\ufffdi" and len(vocabulary) == 256
    with pytest.raises(DataError, match="R1203"):
        vocabulary.encode("a\ud800")


# ---- texts


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"a\r\nb\rc\nd", "a\nb\nc\nd"),
        (b"\r\r\n\n\r", "\n\n\n\n"),
        (b"\xef\xbb\xbfabc\xef\xbb\xbf", "abc\ufeff"),
        (TEXT.encode(), TEXT),
        (b"", ""),
        (b"a\x00\x0b\xe2\x80\xa8", "a\0\x0b\u2028"),
    ],
)
def test_a_text_is_what_python_reads(tmp_path: Path, data: bytes, text: str) -> None:
    path = written(tmp_path, data)
    assert read_text(path) == text == path.read_text("utf-8").removeprefix("\ufeff")
    with path.open(encoding="utf-8-sig") as file:
        assert lines_of(text) == [found.removesuffix("\n") for found in file]
    assert characters_of(text) == "".join(sorted(set(text)))


@pytest.mark.parametrize("data", [b"abc\xff", b"\xc3", b"\xed\xa0\x80", b"ab\xc0\x80"])
def test_what_is_not_utf8_is_refused_with_the_place(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(ValueError, match="it is not UTF-8: byte"):
        decoded(data)
    with pytest.raises(DataError, match=r"R1202: .*input.txt: it is not UTF-8: byte"):
        load_text(window(1), written(tmp_path, data))
    assert len(load_bytes(window(1), tmp_path / "input.txt")) == len(data)


@pytest.mark.parametrize("span", [0, 1, 2, 7, len(TEXT)])
def test_windows_are_those_of_numpy(tmp_path: Path, span: int) -> None:
    data = load_text(window(span), written(tmp_path, TEXT))
    ids = Vocabulary.of_text(TEXT).encode(TEXT)
    wanted = [ids[start : start + span].tolist() for start in range(len(TEXT) - span + 1)]
    if span:
        assert wanted == np.lib.stride_tricks.sliding_window_view(ids, span).tolist()
    assert len(data) == len(wanted) and data.all.ids.tolist() == wanted
    assert [row for batch in data.batches(4) for row in batch.ids.tolist()] == wanted
    order = data.shuffle(3).rows(0, len(data))
    assert [row for batch in data.shuffle(3).batches(5) for row in batch.ids.tolist()] == [wanted[row] for row in order]


def test_windows_share_one_array(tmp_path: Path) -> None:
    data = load_bytes(window(1000), written(tmp_path, bytes(range(256)) * 1000))
    (array,) = data.arrays
    assert array.strides == (8, 8) and array.nbytes > 2 * 10**9 and data.block.tolist() == [255_001, 0, array.ctypes.data, 8]
    batch = next(iter(data.shuffle(0).batches(3)))
    assert batch.ids.flags.c_contiguous and batch.ids.shape == (3, 1000)
    with pytest.raises(ValueError, match="read-only"):
        array[0, 0] = 1


def test_windows_of_an_array() -> None:
    values = np.arange(9)
    data = Dataset.of_windows(window(4), values)
    values[:] = 0
    assert data.all.ids[5].tolist() == [5, 6, 7, 8] and len(data) == 6
    floats = RecordType("Wave", (Field("x", "f32", ("N",), (2,)),))
    assert Dataset.of_windows(floats, np.arange(3, dtype=np.float32)[::-1]).all.x.tolist() == [[2.0, 1.0], [1.0, 0.0]]
    for record, array, code in [
        (window(4), np.arange(3), "R1002"),
        (window(4), np.zeros((4, 4), np.int64), "R1002"),
        (window(4), np.arange(9, dtype=np.int32), "R1001"),
        (line(4), np.arange(9), "R1002"),
        (window(4), [1, 2, 3, 4], "R1004"),
    ]:
        with pytest.raises(ArgumentError) as raised:
            Dataset.of_windows(record, array)
        assert raised.value.code == code


@pytest.mark.parametrize(("data", "span"), [("", 1), ("abc", 4), ("ä", 2)])
def test_a_text_shorter_than_a_window_is_refused(tmp_path: Path, data: str, span: int) -> None:
    with pytest.raises(DataError, match=r"R1202: .*input.txt: the text has .* ids, fewer than one window") as raised:
        load_text(window(span), written(tmp_path, data))
    assert f"has {len(data)} ids" in raised.value.message and f"has {span}" in raised.value.message


def test_ids_may_be_of_another_texts_vocabulary(tmp_path: Path) -> None:
    path = written(tmp_path, "abba")
    assert load_text(window(2), path, Vocabulary("xba")).all.ids.tolist() == [[2, 1], [1, 1], [1, 2]]
    assert load_text(window(4), path, ByteVocabulary()).all.ids.tolist() == [list(b"abba")]
    with pytest.raises(DataError, match=r"R1203: .*input.txt: 'b' at position 1"):
        load_text(window(2), path, Vocabulary("a"))


# ---- lines


def test_lines_are_filled_up_with_line_ends(tmp_path: Path) -> None:
    vocabulary = Vocabulary.of_text(TEXT)
    data = load_lines(line(20), written(tmp_path, TEXT.replace("\n", "\r\n")))
    lines = TEXT.split("\n")
    end = vocabulary.encode("\n")[0]
    assert data.all.length.tolist() == [len(each) for each in lines]
    for ids, each in zip(data.all.ids, lines, strict=True):
        assert vocabulary.decode(ids[: len(each)]) == each and set(ids[len(each) :].tolist()) == {end}
    assert load_lines(line(20, length=False), tmp_path / "input.txt").all.ids.tolist() == data.all.ids.tolist()


@pytest.mark.parametrize(
    ("data", "lengths"), [("", []), ("\n", [0]), ("ab\nc", [2, 1]), ("ab\nc\n", [2, 1]), ("ab\n\n", [2, 0]), ("abc", [3])]
)
def test_which_lines_there_are(tmp_path: Path, data: str, lengths: list[int]) -> None:
    assert load_lines(line(3), written(tmp_path, data)).all.length.tolist() == lengths


def test_lines_that_do_not_fit_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"R1202: .*input.txt: line 2 has 4 ids, and Line.ids has room for 3: 'beta'"):
        load_lines(line(3), written(tmp_path, "abc\nbeta\ngamma"))
    with pytest.raises(DataError, match=r"R1202: .*input.txt: no line of the vocabulary's text has an end"):
        load_lines(line(4), written(tmp_path, "abc"))
    with pytest.raises(DataError, match=r"R1203: .*input.txt: line 2: 'ü' at position 1"):
        load_lines(line(4), written(tmp_path, "abc\naüa\n"), Vocabulary("abc\n"))


# ---- files


def test_pythons_own_library_has_texts() -> None:
    path = find_data_file("python:pydoc_data/topics.py", ())
    assert path == Path(os.__file__).parent / "pydoc_data" / "topics.py"
    assert len(load_text(window(64), path)) == len(path.read_text("utf-8")) - 63
    with pytest.raises(DataFileMissing, match=r"R1201: python:no_such.py"):
        find_data_file("python:no_such.py", (Path.cwd(),))


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(DataFileMissing, match="R1201"):
        load_text(window(1), tmp_path / "missing.txt")
    with pytest.raises(DataError, match=r"R1202: .*a directory"):
        load_bytes(window(1), tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match=r"R1202: .*not a regular file"):
        load_lines(line(1), tmp_path / "pipe")


# ---- parts and samples


@pytest.mark.parametrize("make", ["windows", "rows"])
def test_parts_are_the_rows_from_start_to_stop(make: str) -> None:
    values = np.arange(40)
    rows = np.lib.stride_tricks.sliding_window_view(values, 4)
    data = Dataset.of_windows(window(4), values) if make == "windows" else Dataset(window(4), {"ids": rows})
    for start, stop in [(0, 37), (3, 20), (36, 37), (5, 5), (37, 37)]:
        part = data.part(start, stop)
        assert len(part) == stop - start and part.all.ids.tolist() == rows[start:stop].tolist()
        assert part.fingerprint() == (Dataset(window(4), {"ids": rows[start:stop]}) if make == "rows" else part).fingerprint()
        assert part.arrays[0].base is not None and part.part(0, len(part)).all.ids.tolist() == part.all.ids.tolist()
    assert data.skip(30).take(5).all.ids.tolist() == rows[30:35].tolist()
    ordered = data.shuffle(2)
    assert ordered.skip(5).take(9).part(1, 8).rows(0, 7).tolist() == ordered.rows(6, 7).tolist()
    assert [len(batch) for batch in ordered.take(7).batches(3)] == [3, 3, 1]


@pytest.mark.parametrize(("start", "stop"), [(-1, 3), (4, 3), (0, 8), (8, 8)])
def test_parts_outside_are_refused(start: int, stop: int) -> None:
    data = Dataset.of_windows(window(4), np.arange(10))
    for examples in (data, data.shuffle(1), data.sample(7, 1)):
        with pytest.raises(DataError, match=rf"R1107: the examples {start}..{stop} of a dataset that has 7"):
            examples.part(start, stop)


def test_fingerprints_follow_the_windows() -> None:
    data = Dataset.of_windows(window(4), np.arange(40))
    others = [Dataset.of_windows(window(5), np.arange(40)), Dataset.of_windows(window(4), np.arange(1, 41)), data.skip(1), data.take(36)]
    assert data.fingerprint() == Dataset.of_windows(window(4), np.arange(40)).fingerprint()
    assert len({data.fingerprint(), *(other.fingerprint() for other in others)}) == 5
    assert data.skip(3).fingerprint() == Dataset.of_windows(window(4), np.arange(3, 40)).fingerprint()


def sampled(examples: int, count: int, k: int, seed: int = 0) -> list[int]:
    ordered: Ordered = Dataset.of_windows(window(1), np.arange(examples)).sample(count, k, seed=seed)
    return [value for batch in ordered.batches(100) for value in batch.ids[:, 0].tolist()]


GOLDEN_SAMPLE = [5, 3, 6, 3, 6, 4, 0, 2, 1, 9, 5, 8]


def test_samples_are_drawn_from_all_examples() -> None:
    assert sampled(10, 12, 3, seed=7) == GOLDEN_SAMPLE  # a change here is a breaking change
    counts = np.bincount(sampled(7, 14_000, 1), minlength=7)
    assert ((counts - 2000) ** 2 / 2000).sum() < 16.8  # chi-square with 6 degrees of freedom, 1 in 100
    assert sampled(50, 20, 1) != sampled(50, 20, 2) != sampled(50, 20, 2, seed=1) and sampled(50, 5, 1) == sampled(50, 20, 1)[:5]
    with pytest.raises(DataError, match="R1102"):
        Dataset(window(1), {"ids": np.zeros((0, 1), np.int64)}).sample(3, 1)


# ---- checkpoints


def test_a_vocabulary_is_compared_with_the_saved_one(tmp_path: Path) -> None:
    shapescript.save_checkpoint(tmp_path / "a.pt", v=Vocabulary("abc"), b=ByteVocabulary())
    assert restore.restore(tmp_path / "a.pt", {"v": Vocabulary("abc"), "b": ByteVocabulary()}) == []
    with pytest.raises(shapescript.CheckpointError, match=r"R1303: .*v: the value isn't the saved one") as raised:
        restore.restore(tmp_path / "a.pt", {"v": Vocabulary("abd")})
    assert raised.value.kind == "value"
