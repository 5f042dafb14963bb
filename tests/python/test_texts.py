"""Texts in programs: windows and lines as datasets, parts and samples, vocabularies; on both engines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from text_programs import ENGINES, TEXT, program

import shapescript
from shapescript.compiler.numerics.random import order
from shapescript.compiler.numerics.sampling import sampled_rows
from shapescript.runtime.vocabulary import Vocabulary

DATA = """
dim Span = 6

data Window:
    ids: int[Span]

fn whole() -> int:
    return load_text[Window]("input.txt").count

fn show(path: str, k: int, sink: LogSink):
    text = load_text[Window](path)
    cut = text.count * 9 // 10
    train = text |> take(cut)
    held = text |> skip(cut)
    log(train, sink)
    log(held, sink)
    log(text |> part(3, 11), sink)
    for batch in train |> shuffle(k) |> take(20) |> batches(6):
        write(sink, row(batch.ids))
    for batch in train |> shuffle(k) |> skip(cut - 3) |> batches(6):
        write(sink, row(batch.ids))
    for batch in held |> sample(9, k, seed=2) |> batches(4, drop_last=true):
        write(sink, row(batch.ids))
    write(sink, Row(count=(train |> shuffle(k) |> take(20)).count, total=(held |> sample(9, k)).count))

data Row:
    count: int
    total: int

fn row(ids: int[b Span]) -> Row:
    return Row(count=b, total=int(sum(ids * ids, over=(b, Span))))

fn log(data: Dataset[Window], sink: LogSink):
    write(sink, row(data.all.ids))
    for batch in data |> batches(7):
        write(sink, row(batch.ids))
"""


def test_parts_of_a_text_are_those_of_numpy(tmp_path: Path) -> None:
    text = TEXT * 3
    (tmp_path / "input.txt").write_text(text, "utf-8")
    ids = Vocabulary.of_text(text).encode(text)
    rows = np.lib.stride_tricks.sliding_window_view(ids, 6)
    cut = len(rows) * 9 // 10
    train, held = rows[:cut], rows[cut:]

    def cut_up(chosen: np.ndarray, size: int) -> list[tuple[int, int]]:
        return [(len(each), int((each * each).sum())) for each in (chosen[at : at + size] for at in range(0, len(chosen), size))]

    expected: list[tuple[int, int]] = []
    for part in (train, held, rows[3:11]):
        expected += cut_up(part, len(part)) + cut_up(part, 7)
    shuffled = train[order(cut, 0, 4)]
    expected += cut_up(shuffled[:20], 6) + cut_up(shuffled[cut - 3 :], 6)
    expected += cut_up(held[sampled_rows(len(held), 2, 4, 0, 9)], 4)[:2]
    expected.append((20, 9))
    for engine in ENGINES:
        found = program(tmp_path, DATA, engine)
        sink = shapescript.MemorySink()
        found.show("input.txt", 4, sink)
        assert [(record.count, record.total) for record in sink.records] == expected
        assert found.whole() == len(rows)


TRAINING = """
import shapescript.std.nn as nn

dim Vocabulary = characters("input.txt")
dim Span = 4

data Window:
    ids: int[Span]

model Bag:
    words: nn.Embedding[Vocabulary, 5]
    out: nn.Linear[5, Vocabulary]

fn loss(m: Bag, batch: Window[b]) -> []:
    hidden = mean(nn.embedding(batch.ids, m.words), over=Span)
    return hidden |> nn.linear(m.out) |> cross_entropy(max(batch.ids, over=Span))

fn run(mut m: Bag, mut opt: AdamW[Bag], text: Dataset[Window], done: int, steps: int) -> float:
    mut last = 0.0
    for epoch in done..steps:
        for batch in text |> shuffle(epoch) |> take(30) |> batches(8):
            l, g = value_and_grad(loss(m, batch), wrt=m)
            update(mut m, mut opt, g, lr=1e-2)
            last = float(l)
        save("run.pt", m=m, opt=opt, done=epoch + 1, data=text)
    return last

fn main(steps: int, carry_on: bool) -> (Bag, float):
    text = load_text[Window]("input.txt") |> skip(5)
    mut m = Bag(seed=1)
    mut opt = AdamW(m)
    mut done = 0
    if carry_on:
        m, opt, done = load("run.pt", m=Bag, opt=AdamW[Bag], done=int, data=text)
    last = run(mut m, mut opt, text, done, steps)
    return m, last

fn other():
    text = load_text[Window]("input.txt") |> skip(6)
    done = load("run.pt", done=int, data=text)
    print(done)
"""


def test_training_on_a_text_is_the_same_on_both_engines_and_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "input.txt").write_text(TEXT, "utf-8")
    found = []
    for engine in ENGINES:
        m, last = program(tmp_path, TRAINING, engine).main(3, False)
        found.append(({name: array.tobytes() for name, array in m.state_dict().items()}, last))
    native = program(tmp_path, TRAINING)
    native.main(2, False)
    m, last = native.main(3, True)
    found.append(({name: array.tobytes() for name, array in m.state_dict().items()}, last))
    assert found[0] == found[1] == found[2]
    with pytest.raises(shapescript.CheckpointError, match=r"R1303: .*data: the dataset isn't the one"):
        native.other()


def test_a_dataset_of_python_s_goes_where_a_programs_does(tmp_path: Path) -> None:
    for engine in ENGINES:
        found = program(tmp_path, DATA, engine)
        data = found.Window.windows(np.arange(50))
        sink = shapescript.MemorySink()
        for given in (data, data.part(10, 30), found.Window.dataset(ids=data.all.ids)):
            found.log(given, sink)
        counts = [record.count for record in sink.records]
        assert counts == [45, *[7] * 6, 3, 20, 7, 7, 6, 45, *[7] * 6, 3]
        assert sink.records[0].total == sink.records[12].total == int((data.all.ids**2).sum())
        with pytest.raises(shapescript.ShapeScriptError, match="R1004: data: expected a dataset, got one in another order"):
            found.log(data.shuffle(1).take(4), sink)


LINES = """
dim Vocabulary = characters("names.txt")
dim Longest = longest_line("names.txt") + 1

data Name:
    length: int
    ids: int[Longest]

fn lines_of(names: Dataset[Name]) -> (int, int):
    return names.count, int(sum(names.all.length, over=rows))

fn shown(size: int) -> str:
    v = vocabulary("names.txt")
    mut text = "none"
    for batch in load_lines[Name]("names.txt") |> batches(size, drop_last=true):
        text = decode(v, max(batch.ids, over=batch))
    return text

fn masked(batch: Name[b]) -> bool[b Longest]:
    return int(zeros[b Longest]) + arange[Longest] < batch.length

fn read(path: str) -> (int, int):
    return lines_of(load_lines[Name](path, vocabulary=vocabulary("names.txt")))
"""


def test_lines_are_examples(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("ada\nblaise\n\ngrace\n")
    (tmp_path / "long.txt").write_text("a\nadaadaadaada\n")
    (tmp_path / "strange.txt").write_text("ada\nzoe\n")
    for engine in ENGINES:
        found = program(tmp_path, LINES, engine)
        assert found.Longest == 7 and found.Vocabulary == len(set("adablaisegrace")) + 1
        assert found.read("names.txt") == (4, 14)
        assert found.shown(4) == "graise\n"
        batch = found.Name.batch(length=np.array([3, 0, 7]), ids=np.zeros((3, 7), np.int64))
        assert found.masked(batch).sum(axis=1).tolist() == [3, 0, 7] and found.masked(batch)[0].tolist() == [True] * 3 + [False] * 4
        with pytest.raises(shapescript.DataError, match=r"R1202: .*long.txt: line 2 has 12 ids, and Name.ids has room for 7") as raised:
            found.read("long.txt")
        assert raised.value.span.line == 23
        with pytest.raises(shapescript.DataError, match=r"R1203: .*strange.txt: line 2: 'z' at position 0"):
            found.read("strange.txt")


WORDS = """
fn codes(v: Vocabulary, text: str) -> int:
    ids = encode(v, text)
    return int(sum(ids, over=characters))

fn there_and_back(v: Vocabulary, text: str) -> str:
    return decode(v, encode(v, text))

fn twice(v: Vocabulary, text: str, count: int) -> int:
    mut total = 0
    for i in 0..count:
        one = encode(v, text)
        other = encode(v, there_and_back(v, text))
        total = total + int(sum(one, over=characters)) + int(sum(other, over=characters))
    return total

fn one(v: Vocabulary, text: str) -> int:
    return encode_one(v, text)

fn shown(v: Vocabulary, ids: int[n]) -> str:
    return decode(v, ids)

fn bytes_of(text: str) -> (str, int):
    v = byte_vocabulary()
    return there_and_back(v, text), codes(v, text)

fn of_file(path: str) -> Vocabulary:
    return vocabulary(path)

fn kept(v: Vocabulary, other: Vocabulary):
    save("v.pt", v=v)
    n = load("v.pt", v=other, n=int)
    print(n)
"""


def test_texts_go_through_ids_and_back(tmp_path: Path) -> None:
    (tmp_path / "input.txt").write_text(TEXT, "utf-8")
    ordered = sorted(set(TEXT))
    for engine in ENGINES:
        found = program(tmp_path, WORDS, engine)
        v = found.of_file("input.txt")
        assert isinstance(v, shapescript.Vocabulary) and list(v.characters) == ordered
        for text in (TEXT, "", "ß漢🙂", "\n"):
            assert found.there_and_back(v, text) == text
            total = sum(map(ordered.index, text))
            assert found.codes(v, text) == total and found.twice(v, text, 3) == 6 * total
            assert found.bytes_of(text) == (text, sum(text.encode()))
        assert found.one(v, "🙂") == len(ordered) - 1 and found.shown(v, np.array([0, 1])) == "".join(ordered[:2])
        with pytest.raises(shapescript.DataError, match="R1203: the text: 'x' at position 2") as raised:
            found.codes(v, "Dex")
        assert raised.value.span.line == 3
        for text in ("", "De"):
            with pytest.raises(shapescript.DataError, match=f"R1203: encode_one: '{text}' is {len(text)} ids, not one"):
                found.one(v, text)
        with pytest.raises(shapescript.DataError, match="R1203: id 99 at position 1"):
            found.shown(v, np.array([0, 99]))
        with pytest.raises(TypeError, match="R1004: v: expected a vocabulary"):
            found.one("abc", "a")


def test_what_only_a_run_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "input.txt").write_text("short", "utf-8")
    (tmp_path / "bad.txt").write_bytes(b"abcdefgh\xff")
    for engine in ENGINES:
        found = program(tmp_path, DATA, engine)
        sink = shapescript.MemorySink()
        for path, code, words in [
            ("input.txt", "R1202", "the text has 5 ids, fewer than one window, whose Window.ids has 6"),
            ("missing.txt", "R1201", "no such data file"),
            ("bad.txt", "R1202", "it is not UTF-8: byte 8"),
        ]:
            with pytest.raises(shapescript.DataError, match=words) as raised:
                found.show(path, 0, sink)
            assert (raised.value.code, raised.value.span.line) == (code, 11)
        (tmp_path / "small.txt").write_text("just 12 more", "utf-8")
        with pytest.raises(shapescript.DataError, match=r"R1107: the examples 3\.\.11 of a dataset that has 7") as raised:
            found.show("small.txt", 0, sink)
        assert raised.value.span.line == 17
