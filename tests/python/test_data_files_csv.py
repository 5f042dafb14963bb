"""CSV files: exact numbers, against Python's `csv` and exact fractions; rows found once; mistakes named by line and column."""

from __future__ import annotations

import csv
import os
import random
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fed_data import own_threads
from runtime_samples import DIGIT, digit_arrays

from shapescript.runtime.csv_cells import CellError, values_of
from shapescript.runtime.csv_rows import CsvFile
from shapescript.runtime.csv_scan import row_starts
from shapescript.runtime.data_files import load_file
from shapescript.runtime.dataset import Dataset
from shapescript.runtime.errors import DataError, DataFileMissing, DataRowError
from shapescript.runtime.opened_file import OpenedFile
from shapescript.runtime.record import Field, RecordType

POINT = RecordType("Point", (Field("x", "f32"), Field("n", "i64"), Field("on", "bool")))
X = RecordType("X", (Field("x", "f64"),))


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "rows.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def points(folder: Path, text: str | bytes) -> list[tuple[float, int, bool]]:
    batch = load_file(POINT, written(folder, text)).all
    return list(zip(batch.x.tolist(), batch.n.tolist(), batch.on.tolist(), strict=True))


def numbers(folder: Path, text: str | bytes) -> list[float]:
    found: list[float] = load_file(X, written(folder, text)).all.x.tolist()
    return found


def refused(record: RecordType, path: Path, *words: str) -> None:
    with pytest.raises(DataError) as raised:
        load_file(record, path)
    assert raised.value.code == "R1202" and str(path) in raised.value.message
    assert all(word in raised.value.message for word in words), raised.value.message


def wrong(record: RecordType, path: Path, row: int, line: int, column: str | None, *words: str) -> None:
    """Reading all rows fails at this one."""
    with pytest.raises(DataRowError) as raised:
        load_file(record, path).source.read(np.arange(row + 1))
    error = raised.value
    assert (error.code, error.filename, error.row, error.line, error.column) == ("R1204", str(path), row, line, column), error
    place = f"line {line}" + (f", column {column!r}" if column else "")
    assert all(word in error.message for word in (str(path), place, *words)), error.message


# ---- what is read


def test_a_csv_file_gives_what_the_arrays_give(tmp_path: Path) -> None:
    arrays: dict[str, Any] = digit_arrays(100)
    with (tmp_path / "d.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["label", "name", *(f"pixels.{i}" for i in range(4))])
        for label, pixels in zip(arrays["label"], arrays["pixels"], strict=True):
            writer.writerow([label, 'a "name",\nover lines' if label % 3 else "plain", *pixels])
    data, held = load_file(DIGIT, tmp_path / "d.csv"), Dataset(DIGIT, arrays)
    assert len(data) == 100 and data.fed and data.fingerprint() == held.fingerprint()
    rows = np.array([7, 8, 9, 3, 3, 99, 0])
    for name in arrays:
        assert data.source.read(rows)[name].tobytes() == arrays[name][rows].tobytes()
        assert data.source.column(name, 5, 17).tobytes() == arrays[name][5:17].tobytes()
    for mine, wanted in zip(data.shuffle(3).batches(7), held.shuffle(3).batches(7), strict=True):
        assert mine.pixels.tobytes() == wanted.pixels.tobytes() and mine.label.tobytes() == wanted.label.tobytes()


def test_fields_of_two_axes_and_empty_ones(tmp_path: Path) -> None:
    record = RecordType("M", (Field("m", "i64", ("a", "b"), (2, 3)), Field("none", "f32", ("c",), (0,)), Field("one", "i64", ("d",), (1,))))
    names = [f"m.{i}.{j}" for j in range(3) for i in range(2)]
    batch = load_file(record, written(tmp_path, ",".join([*names, "one.0"]) + "\n00,10,01,11,02,12,7\n")).all
    assert batch.m.tolist() == [[[0, 1, 2], [10, 11, 12]]] and batch.none.shape == (1, 0) and batch.one.tolist() == [[7]]


@pytest.mark.parametrize(
    "text",
    [
        "x,n,on\n1.5,2,true\n-3,4,0\n",
        "x,n,on\r\n1.5,2,true\r\n-3,4,0\r\n",
        "\ufeffx,n,on\n1.5,2,true\n-3,4,0",
        "\n\r\nx,n,on\n\n1.5,2,true\n\n\n-3,4,0\n\n\r\n",
        '"x","n","on"\n"1.5","2","TRUE"\n\n"-3","4","0"',
        "on , n,\tx\nTrue, 2 ,1.5\n0,4,-3\r\n\r",
        'more,x,n,on,"a ""b"", c\nd"\n"1\n\n2",+1.50e0,+2,1,","\r\n,-3.,0004,false,"\r\n"\n',
        "x,n,on,more,more\n15e-1,2,true,,\n-3,4,False,\xe9,\x00\n",
    ],
)
def test_the_ways_in_which_the_same_rows_are_written(tmp_path: Path, text: str) -> None:
    assert points(tmp_path, text) == [(1.5, 2, True), (-3.0, 4, False)]


def test_columns_that_nobody_reads_may_hold_any_bytes(tmp_path: Path) -> None:
    assert numbers(tmp_path, b'x,y\n1,\xff\xfe\n2,"\xff"\n') == [1.0, 2.0]


def test_no_rows(tmp_path: Path) -> None:
    for text in ("x,n,on", "x,n,on\n", "x,n,on\r\n\r\n\n"):
        assert points(tmp_path, text) == []
    with pytest.raises(DataError, match="R1102"):
        next(iter(load_file(POINT, tmp_path / "rows.csv").batches(4)))


def test_rows_are_found_as_the_csv_module_finds_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shapescript.runtime.csv_scan.AT_ONCE", 16)
    draw = random.Random(1)
    for _ in range(400):
        rows = [
            [draw.choice(["1", "-2.5", "", "3e4", 'q"u', "a\nb", "c\r\nd", ","]) for _ in range(2)] for _ in range(draw.randrange(1, 8))
        ]
        quoting = draw.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
        with (tmp_path / "rows.csv").open("w", newline="") as file:
            csv.writer(file, quoting=quoting, lineterminator=draw.choice(["\n", "\r\n"])).writerows(rows)
        whole = (tmp_path / "rows.csv").read_bytes()
        cut = whole if draw.random() < 0.5 else whole.rstrip(b"\r\n")
        path = written(tmp_path, cut)
        starts = row_starts(OpenedFile(path)).tolist()
        parts = [cut[start:end].decode() for start, end in zip(starts, [*starts[1:], len(cut)], strict=True)]
        assert [next(csv.reader([part])) for part in parts] == rows


# ---- numbers


def rounded_by_fractions(text: str, digits: int, least: int) -> float:
    """The nearest number of a binary type, half to even, by exact arithmetic: `digits` of precision, 2**least the smallest above 0."""
    exact = Fraction(text)
    if not exact:
        return 0.0
    scale = max(exact.numerator.bit_length() - exact.denominator.bit_length() - 1 - digits, least - 1)
    while abs(exact) / Fraction(2) ** scale >= 2**digits:
        scale += 1
    scale = max(scale, least)
    return float(round(exact / Fraction(2) ** scale) * Fraction(2) ** scale)


def hard_cases(digits: int, least: int) -> list[str]:
    """Decimals on, just below and just above the points halfway between two numbers of the type."""
    draw, texts = random.Random(2), []
    for _ in range(200):
        mantissa, power = draw.randrange(2 ** (digits - 1), 2**digits), draw.randrange(-60, 40)
        half = (Fraction(mantissa) + Fraction(1, 2)) * Fraction(2) ** power
        texts += around(half)
    for mantissa in (0, 1, 2, 5, 2 ** (digits - 1) - 1):  # below the normal numbers
        texts += around((Fraction(mantissa) + Fraction(1, 2)) * Fraction(2) ** least)
    return texts


def around(value: Fraction) -> list[str]:
    text = decimal_text(value)
    tail = text + ("" if "." in text else ".")
    return [text, tail + "0" * 60 + "1", decimal_text(value - value / 10**40), f"-{tail}{'0' * 30}1"]


def decimal_text(value: Fraction) -> str:
    """All digits of a fraction, if its denominator is made of 2s and 5s."""
    places = 0
    while value.denominator != 1:
        value, places = value * 10, places + 1
    whole = str(value.numerator).rjust(places + 1, "0")
    return f"{whole[:-places]}.{whole[-places:]}" if places else whole


def test_floats_are_rounded_once() -> None:
    texts = hard_cases(24, -149)
    wanted = [rounded_by_fractions(text, 24, -149) for text in texts]
    found = values_of(texts, "f32")
    assert found.dtype == np.float32 and found.astype(np.float64).tolist() == wanted
    twice = np.array([float(text) for text in texts]).astype(np.float32)
    assert (twice != found).sum() > 200  # the cases are those where rounding twice goes wrong


def test_bf16_is_rounded_once() -> None:
    from shapescript.runtime.arrays import widened

    texts = hard_cases(8, -133)
    assert widened(values_of(texts, "bf16")).astype(np.float64).tolist() == [rounded_by_fractions(text, 8, -133) for text in texts]


def test_doubles_are_those_nearest() -> None:
    texts = [*hard_cases(53, -1074), *(repr(random.Random(3).random() * 10.0**power) for power in range(-300, 300, 7))]
    assert values_of(texts, "f64").tolist() == [rounded_by_fractions(text, 53, -1074) for text in texts]


def test_every_float32_comes_back_from_its_shortest_text() -> None:
    bits = np.random.default_rng(1).integers(0, 2**32, 20000, dtype=np.uint32)
    values = bits.view(np.float32)
    values = values[np.isfinite(values)]
    assert values_of([str(value) for value in values], "f32").tobytes() == values.tobytes()
    assert values_of([repr(float(value)) for value in values], "f32").tobytes() == values.tobytes()


def test_the_largest_and_the_smallest(tmp_path: Path) -> None:
    largest, beyond = Fraction(2) ** 128 - Fraction(2) ** 104, Fraction(2) ** 128 - Fraction(2) ** 103
    assert values_of([str(beyond - 1), str(-largest)], "f32").tolist() == [float(largest), -float(largest)]
    for text, dtype in ((str(beyond), "f32"), ("1e39", "f32"), ("-1e400", "f64"), ("3.4e38", "bf16"), ("1" * 400, "f32")):
        with pytest.raises(CellError, match="within the range of"):
            values_of(["0", text], dtype)
    tiny = values_of(["1e-400", "-1e-46", "7.006492321624085e-46", "7.1e-46"], "f32")
    assert tiny.tolist() == [0.0, -0.0, 0.0, 1.401298464324817e-45] and np.signbit(tiny[1])
    assert values_of(["0e99999999999999999999", "1e-99999999999999999999", "." + "0" * 5000 + "1e5001"], "f64").tolist() == [0.0, 0.0, 1.0]
    assert numbers(tmp_path, "x\n" + "1" * 100000 + "e-99999\n") == [1.1111111111111112]


def test_special_floats() -> None:
    texts = ["NaN", "Infinity", "-Infinity", "nan", "-nan", "inf", "+inf", "-INF", " nan\t"]
    for dtype in ("f32", "f64"):
        found = values_of(texts, dtype)  # type: ignore[arg-type]
        wanted = np.array([np.nan, np.inf, -np.inf, np.nan, np.nan, np.inf, np.inf, -np.inf, np.nan], found.dtype)
        assert found.tobytes() == wanted.tobytes()


@pytest.mark.parametrize(
    "text",
    ["", " ", "abc", "1_000", "0x10", "1,5", "1e", "e5", ".", "+", "--1", "1 2", "١", "1.5f", "nanx", "infin", "(nan)", "1e5.0", "\u00a01"],
)
def test_what_is_no_float(text: str) -> None:
    with pytest.raises(CellError, match="a number"):
        values_of(["1", text], "f32")


def test_whole_numbers_are_exact() -> None:
    texts = ["9223372036854775807", "-9223372036854775808", "+0", "-0", "0" * 5000 + "7", "9007199254740993", " 5 "]
    assert values_of(texts, "i64").tolist() == [2**63 - 1, -(2**63), 0, 0, 7, 9007199254740993, 5]
    for text in ("9223372036854775808", "-9223372036854775809", "1" + "0" * 5000):
        with pytest.raises(CellError, match="64 bits"):
            values_of([text], "i64")
    for text in ("1.0", "1e3", "", "true", "0x1", "1_0", "١"):
        with pytest.raises(CellError, match="a whole number"):
            values_of([text], "i64")


def test_bools() -> None:
    assert values_of(["true", "False", "1", "0", "TRUE", " false"], "bool").tolist() == [True, False, True, False, True, False]
    for text in ("yes", "", "2", "t", "1.0", "00"):
        with pytest.raises(CellError, match="true, false, 1 or 0"):
            values_of([text], "bool")


# ---- what is wrong


def test_headers_that_do_not_fit(tmp_path: Path) -> None:
    refused(POINT, written(tmp_path, "x,m,on\n1,2,0\n"), "no column 'n' for the field of Point", "it holds x, m, on")
    refused(POINT, written(tmp_path, "x,N,ON\n"), "no column 'n'")
    refused(POINT, written(tmp_path, "x,n,on,n\n1,2,0,3\n"), "2 columns 'n'")
    refused(DIGIT, written(tmp_path, "label,pixels_0\n"), "no column 'pixels.0' for Digit.pixels", "did you mean 'pixels_0'")
    refused(POINT, written(tmp_path, ""), "the file is empty")
    refused(POINT, written(tmp_path, b"\xef\xbb\xbf\r\n\n"), "the file is empty")
    refused(POINT, written(tmp_path, "x,n,on\n".encode("utf-16")), "isn't UTF-8", "0xFF")
    refused(POINT, written(tmp_path, 'x,"n,on\n1,2,0\n'), "the header is malformed: a quote that isn't closed")
    refused(POINT, written(tmp_path, "x,n,on\r1,2,0\r"), "carriage return within a line")
    refused(POINT, written(tmp_path, "1,2,0\n1,2,0\n"), "it holds 1, 2, 0")
    refused(X, written(tmp_path, ",".join(map(str, range(1000)))), ", …")


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(DataFileMissing, match="R1201"):
        load_file(POINT, tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    refused(POINT, tmp_path / "folder.csv", "directory")


def test_a_line_without_an_end_is_no_csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shapescript.runtime.csv_scan.AT_ONCE", 16)
    monkeypatch.setattr("shapescript.runtime.csv_scan.LONGEST_LINE", 64)
    refused(POINT, written(tmp_path, "x,n,on\n" + "1" * 1000 + "\n"), "a line of more than 64 bytes")
    refused(POINT, written(tmp_path, 'x,n,on\n"' + "1" * 1000 + "\n"), "a line of more than 64 bytes")


def test_a_wrong_row_is_named_by_line_and_column(tmp_path: Path) -> None:
    head = 'x,n,on,note\n1,2,0,"a\nb"\n\n'
    for row, column, words in (
        ("abc,2,0,", "x", ("found 'abc', expected a number",)),
        (",2,0,", "x", ("found an empty cell, expected a number",)),
        ('1, "",0,', "n", ("found ' \"\"', expected a whole number",)),
        ("1,1.0,0,", "n", ("found '1.0', expected a whole number",)),
        ("1,9223372036854775808,0,", "n", ("64 bits",)),
        ("1e39,2,0,", "x", ("found '1e39'", "range of float32")),
        ("1,2,maybe,", "on", ("found 'maybe', expected true, false, 1 or 0",)),
        ("\xff,2,0,", "x", ("found",)),
        (f"{'a' * 1000},2,0,", "x", ("aaa'…",)),
        ("1,2,0", None, ("found 3 cells, expected 4",)),
        ("1", None, ("found 1 cell, expected 4",)),
        ("1,2,0,,", None, ("found 5 cells, expected 4",)),
        ('"1"2,3,0,', None, ("malformed",)),
        ('1,2,0,"', None, ("a quote that isn't closed",)),
        ("1,2\r3,0,", None, ("carriage return",)),
    ):
        path = written(tmp_path, head + row)
        assert load_file(POINT, path).take(1).all.x.tolist() == [1.0]
        wrong(POINT, path, 1, 5, column, *words)
        wrong(POINT, written(tmp_path, f"x,n,on,note\n{row}"), 0, 2, column)


def test_bytes_that_are_no_text_are_named_too(tmp_path: Path) -> None:
    wrong(X, written(tmp_path, b"x\n1\n\xff\xfe\n"), 1, 3, "x", "\\udcff", "expected a number")


def test_the_first_wrong_row_is_the_one_that_is_named(tmp_path: Path) -> None:
    wrong(POINT, written(tmp_path, "x,n,on\n1,2,0\n1,bad,0\nbad,2,0\n1,2,0\n"), 1, 3, "n")


def test_a_malformed_row_comes_up_at_the_batch_that_needs_it(tmp_path: Path) -> None:
    lines = ["x,n,on", *(f"{i}.5,{i},{i % 2}" for i in range(100))]
    lines[38] = "oops"
    data = load_file(POINT, written(tmp_path, "\n".join(lines)))
    before, given = own_threads(), []
    with pytest.raises(DataRowError, match="row 37"):
        for batch in data.batches(4, prefetch=4):
            given.append(batch.n.tolist())
    assert given == [list(range(start, start + 4)) for start in range(0, 36, 4)] and own_threads() == before
    assert [batch.n.tolist() for batch in data.skip(38).batches(31)] == [list(range(38, 69)), list(range(69, 100))]
    with pytest.raises(DataRowError, match="row 37"):
        data.fingerprint()


def test_cells_may_be_longer_than_python_takes_by_itself(tmp_path: Path) -> None:
    csv.field_size_limit(1 << 17)  # Python's own
    long = "q" * (1 << 17) + "\n7,7,1,no row\n"
    text = f'x,n,on,note\n1,2,0,"{long}"\n3,4,1,"{long}{long}"\n5,6,0,{"q" * (1 << 18)}\n'
    assert points(tmp_path, text) == [(1.0, 2, False), (3.0, 4, True), (5.0, 6, False)]


def test_a_file_that_is_cut_short_or_grows_while_it_is_read(tmp_path: Path) -> None:
    text = "x,n,on\n" + "".join(f"{i}.5,{i},1\n" for i in range(10, 60))
    path = written(tmp_path, text)
    data = load_file(POINT, path)
    with path.open("a") as file:
        file.write("1,2,0\n")
    assert len(data) == 50 and data.all.n.tolist() == list(range(10, 60))
    os.truncate(path, len("x,n,on\n") + 10 * 30 + 4)
    assert data.take(30).all.n.tolist() == list(range(10, 40))
    with pytest.raises(DataRowError, match=r"row 30 isn't there any more"):
        data.source.read(np.arange(20, 40))


def test_every_truncation_is_refused_or_reads_as_rows(tmp_path: Path) -> None:
    whole = b'x,n,on\n1.5,2,true\n"-3",4,"0"\n'
    for length in range(len(whole)):
        path = written(tmp_path, whole[:length])
        try:
            load_file(POINT, path).source.read(np.arange(len(load_file(POINT, path))))
        except DataError as error:
            assert error.code in ("R1202", "R1204")


def test_random_bytes_never_end_in_another_error(tmp_path: Path) -> None:
    draw = random.Random(5)
    pieces: Sequence[bytes] = [b"x", b",", b"\n", b"\r", b'"', b"1", b"\xff", b"\0", b"n,on", b" ", b"e5", b"-"]
    for _ in range(2000):
        path = written(tmp_path, draw.choice([b"x,n,on\n1,2,0\n", b"x,n,on\n", b""]) + b"".join(draw.choices(pieces, k=draw.randrange(30))))
        try:
            source = CsvFile(POINT, path)
            source.read(np.arange(len(source)))
        except DataError as error:
            assert error.code in ("R1202", "R1204") and "\n" not in error.message


def test_large_runs_of_rows_are_parsed_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "x,n,on\n" + "".join(f"{i},{i},1\n" for i in range(500)))
    for size in (1, 10, 64):
        monkeypatch.setattr("shapescript.runtime.csv_rows.AT_ONCE", size)
        assert load_file(POINT, path).all.n.tolist() == list(range(500))
