"""The compile cache in use: what is loaded does what was compiled, to the bit, and nothing is loaded that isn't what would be compiled."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cached_programs
import numpy as np
import pytest
from cached_programs import JOBS
from forked import Forks

import shapescript
from shapescript import code_places, compile_keys, native_functions
from shapescript.cache_settings import cache_folder
from shapescript.code_digest import code_digest
from shapescript.compile_keys import Key
from shapescript.compiler.codegen.target import host
from shapescript.compiler.codegen.workers import PROCESS
from shapescript.object_cache import SUFFIX, ObjectCache

HALF = "fn half(x: [n]) -> [n]:\n    return x * 0.5\n"
USER = 'import helper\n\nconst Text = "text.txt"\ndim V = characters(Text)\n\nfn f(x: [n]) -> [n]:\n    return helper.half(x) + f32(V)\n'
Told = Callable[[], list[str]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, which holds no pool of threads: that is there before."""
    PROCESS.started(host(), 3)
    monkeypatch.setenv("SHAPESCRIPT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("SHAPESCRIPT_LOG", "compile")
    return tmp_path / "cache"


@pytest.fixture
def told(folder: Path, capfd: pytest.CaptureFixture[str]) -> Told:
    """What was told since it was asked last, a line for each function, without times and places."""

    def lines() -> list[str]:
        found = [line.removeprefix("shapescript: ") for line in capfd.readouterr().err.splitlines()]
        return [re.sub(r" \(.*\.ss:\d+\)|; looking it up .*| from the cache: .*|; passes .*", "", line) for line in found]

    return lines


def code_in(folder: Path) -> list[str]:
    """The entries that hold code."""
    return [entry.name for entry in ObjectCache(folder).entries() if not entry.name.startswith(("gradients-", "machine-"))]


def x_to_y(path: Path, **dims: int) -> list[float]:
    found: list[float] = shapescript.load(path, dims=dims).f(np.arange(3, dtype=np.float32)).tolist()
    return found


def written(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name, text in {"program.ss": USER, "helper.ss": HALF, "text.txt": "abcd"}.items():
        (folder / name).write_text(text)
    return folder / "program.ss"


# ---- the same bits


@pytest.mark.parametrize("job", JOBS)
def test_loaded_code_does_what_compiled_code_does(job: str, tmp_path: Path, forks: Forks, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "program.ss"
    path.write_text(JOBS[job][0])
    cache = tmp_path / "cache"
    found = []
    for place in ("first", "second"):
        (tmp_path / place).mkdir()
        child = forks.start(tmp_path, tmp_path / place, "cached_programs", [job, str(path), str(cache)])
        found.append((child.stdout.read(), *child.end()))
    monkeypatch.setenv("SHAPESCRIPT_CACHE", "off")
    assert [status for _, status, _ in found] == [0, 0]
    fresh = cached_programs.told(job, path)
    assert [out.splitlines()[-1] for out, _, _ in found] == [fresh, fresh]
    (_, _, first), (_, _, second) = found
    assert first.count("it isn't in the cache") == len(first.splitlines()) == len(code_in(cache)) > 0
    assert second.count("from the cache") == len(second.splitlines()) == len(first.splitlines())


def test_processes_that_compile_the_same_at_once_share_it(tmp_path: Path) -> None:
    path = tmp_path / "program.ss"
    path.write_text(JOBS["failures"][0])
    words = [sys.executable, cached_programs.__file__, "failures", str(path), str(tmp_path / "cache")]
    processes = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL) for _ in range(3)]
    found = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * 3
    assert len(set(found)) == 1 and found[0]
    assert len(code_in(tmp_path / "cache")) == 1 and all(name.endswith(SUFFIX) for name in os.listdir(tmp_path / "cache"))


# ---- what is compiled anew


def test_a_batch_size_compiles_nothing(tmp_path: Path, told: Told) -> None:
    path = written(tmp_path / "a")
    for wanted in (["compiled f: it isn't in the cache"], ["loaded f"]):
        program = shapescript.load(path)
        for size in (3, 1, 0, 100):
            program.f(np.zeros(size, np.float32))
        assert told() == wanted


def test_dims_are_part_of_the_key(tmp_path: Path, told: Told) -> None:
    path = written(tmp_path / "a")
    for dims, cause in (
        ({}, "compiled f: it isn't in the cache"),
        ({"V": 9}, "compiled f: its sources or dims have changed"),
        ({}, "loaded f"),
        ({"V": 9}, "loaded f"),
    ):
        assert x_to_y(path, **dims) == [dims.get("V", 4) + half for half in (0.0, 0.5, 1.0)]
        assert told() == [cause]


def test_what_an_import_changes_is_compiled(tmp_path: Path, told: Told) -> None:
    path = written(tmp_path / "a")
    helper = path.with_name("helper.ss")
    x_to_y(path)
    told()
    for text, factor, cause in (
        (HALF.replace("0.5", "0.25"), 0.25, "compiled f: its sources or dims have changed"),
        (f"# a remark\n\n{HALF}\nfn other() -> int:\n    return 1\n", 0.5, "loaded f"),  # nothing that f reaches has changed
        (HALF.replace("x * 0.5", "x * 0.75"), 0.75, "compiled f: its sources or dims have changed"),
    ):
        helper.write_text(text)
        assert x_to_y(path) == [4 + factor * x for x in range(3)]
        assert told() == [cause]


def test_sizes_counted_in_a_file_are_part_of_the_key(tmp_path: Path, told: Told) -> None:
    path = written(tmp_path / "a")
    x_to_y(path)
    path.with_name("text.txt").write_text("abcdef")
    assert x_to_y(path)[0] == 6.0
    assert told() == ["compiled f: it isn't in the cache", "compiled f: its sources or dims have changed"]


def test_a_program_that_has_moved_is_loaded(tmp_path: Path, told: Told) -> None:
    results = [x_to_y(written(tmp_path / name)) for name in ("a", "b")]
    assert results[0] == results[1] and told() == ["compiled f: it isn't in the cache", "loaded f"]


def test_errors_of_loaded_code_are_placed_in_the_program_as_it_is(tmp_path: Path, told: Told) -> None:
    path = tmp_path / "program.ss"
    text = "fn f(x: [n], k: int[b]) -> [b]:\n    return gather(x, k, over=n)\n"
    lines = []
    for before in ("", "# a remark\n\n"):
        path.write_text(before + text)
        with pytest.raises(shapescript.ShapeScriptError, match="R1101") as failure:
            shapescript.load(path).f(np.zeros(3, np.float32), np.array([3]))
        span: Any = failure.value.span
        lines.append((span.line, span.text))
    assert lines[0][0] + 2 == lines[1][0] and lines[0][1] == lines[1][1] and "gather" in lines[0][1]
    assert told() == ["compiled f: it isn't in the cache", "loaded f"]


def test_instances_of_generic_functions_are_told_apart(tmp_path: Path, told: Told) -> None:
    """The two records look the same to native code; which functions meet the requirement tells."""
    path = tmp_path / "program.ss"
    path.write_text(GENERIC)
    for order in (("One", "Two"), ("Two", "One")):
        program = shapescript.load(path)
        x = np.ones(3, np.float32)
        assert {name: program.total(getattr(program, name).dataset(x=x)) for name in order} == {"One": 3.0, "Two": 6.0}
    causes = told()
    assert len(causes) == 4 and [cause.startswith("loaded") for cause in causes] == [False, False, True, True]


GENERIC = """
data One:
    x: []

data Two:
    x: []

fn seen(batch: One[b]) -> []:
    return sum(batch.x, over=b)

fn seen(batch: Two[b]) -> []:
    return 2.0 * sum(batch.x, over=b)

fn total[E: data](rows: Dataset[E]) -> float
    requires seen(batch: E[b]) -> []:
    mut found = 0.0
    for batch in rows |> batches(2):
        found = found + float(seen(batch))
    return found
"""


def test_another_machine_compiles(tmp_path: Path, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a")
    x_to_y(path)
    other = replace(host(), name="other")
    monkeypatch.setattr(native_functions, "host", lambda: other)
    x_to_y(path)
    assert told() == ["compiled f: it isn't in the cache", "compiled f: it was compiled for another CPU"]


def test_another_compiler_compiles(tmp_path: Path, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a")
    x_to_y(path)
    monkeypatch.setattr(compile_keys, "code_at_first", lambda: bytes(32))
    monkeypatch.setattr(compile_keys, "compiler_code", lambda: bytes(32))
    x_to_y(path)
    x_to_y(path)
    assert told() == [
        "compiled f: it isn't in the cache",
        "compiled f: another version of ShapeScript or LLVM compiled it last",
        "loaded f",
    ]


def test_a_compiler_whose_files_change_while_it_runs_keeps_nothing(
    tmp_path: Path, folder: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "a")
    monkeypatch.setattr(code_places, "compiler_digest", lambda: None)
    x_to_y(path)
    assert told() == ["compiled f: it isn't in the cache", "not kept f: the compiler's files have changed"]
    monkeypatch.setattr(compile_keys, "code_at_first", lambda: None)
    x_to_y(path)
    assert told() == ["compiled f: the compiler's files have changed since it was loaded"] and not code_in(folder)


def test_every_byte_of_the_compilers_files_counts(tmp_path: Path) -> None:
    for room in ("a", "b"):
        (tmp_path / room).mkdir()
        (tmp_path / room / "one.py").write_text("x = 1\n")
    rooms, later = [tmp_path / "a", tmp_path / "b"], os.stat(tmp_path / "b" / "one.py").st_mtime + 1
    digests = [code_digest(rooms, later)]
    (tmp_path / "a" / "one.py").write_text("x = 2\n")
    digests.append(code_digest(rooms, later))
    (tmp_path / "a" / "two.py").write_text("")
    digests.append(code_digest(rooms, later))
    (tmp_path / "a" / "two.py").rename(tmp_path / "b" / "two.py")
    digests.append(code_digest(rooms, later))
    (tmp_path / "b" / "notes.txt").write_text("no code")
    assert code_digest(rooms, later) == digests[-1] and None not in digests and len(set(digests)) == 4
    assert code_digest(rooms, later - 2) is None  # changed since
    assert code_digest(rooms, os.stat(tmp_path / "b" / "two.py").st_ctime + 0.01) is None  # or so shortly before that clocks can't tell
    for path in tmp_path.glob("*/*.py"):
        os.utime(path, (1, 1))  # as where a file is moved to this place: its text is old, and not what was loaded
    assert code_digest(rooms, later - 2) is None
    assert code_digest([tmp_path], later) is None  # no code


def test_a_function_that_measures_itself_is_another(tmp_path: Path, told: Told) -> None:
    program = shapescript.load(written(tmp_path / "a"))
    instances: Any = vars(program)["_instances"]
    key = vars(program)["_checked"].functions["f"][0].key
    for flags in ((), (native_functions.PROFILE,), (), (native_functions.PROFILE,)):
        native = native_functions.native_function(instances.module, key, {}, flags)
        assert native.run([np.ones(2, np.float32)], None)[0].tolist() == [4.5, 4.5]  # type: ignore[arg-type]
    assert [line.split()[0] for line in told()] == ["compiled", "compiled", "loaded", "loaded"]


# ---- what can't be used


def entry_of(folder: Path) -> Path:
    (name,) = code_in(folder)
    return folder / f"{name}{SUFFIX}"


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def rewrite(path: Path) -> None:
    """Whole, and of no sense."""
    ObjectCache(path.parent).write(path.stem, bytes(32), b"no artifact")


def of_no_code(path: Path) -> None:
    """Whole, but for the code."""
    cache = ObjectCache(path.parent)
    content = cache.read(path.stem)
    assert content is not None
    cache.write(path.stem, bytes(32), content.partition(b"\x7fELF")[0] + b"no code")


def open_up(path: Path) -> None:
    path.chmod(0o666)


def link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


@pytest.mark.parametrize("damage", [cut, flip, rewrite, of_no_code, open_up, link])
def test_what_is_damaged_is_compiled_and_replaced(tmp_path: Path, folder: Path, told: Told, damage: Callable[[Path], None]) -> None:
    path = written(tmp_path / "a")
    results = [x_to_y(path)]
    damage(entry_of(folder))
    results += [x_to_y(path), x_to_y(path)]
    assert results[0] == results[1] == results[2]
    first, second, third = told()
    assert (first, third) == ("compiled f: it isn't in the cache", "loaded f")
    assert second.startswith("compiled f: what the cache has is no use: ")


def test_an_unwritable_folder_means_no_cache(tmp_path: Path, folder: Path, told: Told) -> None:
    folder.write_text("no folder")
    path = written(tmp_path / "a")
    assert x_to_y(path) == x_to_y(path) == [4.0, 4.5, 5.0]
    assert told() == [f"compiled f: the cache can't be used: {folder}: it is no folder"] * 2


def test_a_full_disk_means_no_cache(tmp_path: Path, folder: Path, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ObjectCache, "write", lambda *_: "No space left on device")
    assert x_to_y(written(tmp_path / "a")) == [4.0, 4.5, 5.0]
    assert told() == ["compiled f: it isn't in the cache", "not kept f: No space left on device"]


def test_the_cache_can_be_turned_off(tmp_path: Path, folder: Path, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHAPESCRIPT_CACHE", "off")
    path = written(tmp_path / "a")
    assert x_to_y(path) == x_to_y(path)
    assert told() == ["compiled f: the cache is off"] * 2 and not folder.exists()


# ---- the environment


def test_nothing_is_told_unless_it_is_asked_for(tmp_path: Path, folder: Path, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHAPESCRIPT_LOG")
    path = written(tmp_path / "a")
    assert x_to_y(path) == x_to_y(path) and told() == []


def test_the_log_has_times_and_places(tmp_path: Path, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "a")
    x_to_y(path), x_to_y(path), shapescript.load(path, engine="numpy").f(np.ones(1, np.float32))
    first, second, third = capfd.readouterr().err.splitlines()
    time = r"\d+\.\d{3} s"
    times = ", ".join(f"{part} {time}" for part in ("looking it up", "passes", "codegen", "LLVM"))
    assert_matches(rf"shapescript: compiled f \(program\.ss:6\): it isn't in the cache; {times}", first)
    assert_matches(rf"shapescript: loaded f \(program\.ss:6\) from the cache: {time}", second)
    assert_matches(rf"shapescript: compiled f \(program\.ss:6\): the reference evaluator keeps nothing; passes {time}", third)


def assert_matches(pattern: str, text: str) -> None:
    assert re.fullmatch(pattern, text), text


@pytest.mark.parametrize(("name", "word"), [("SHAPESCRIPT_LOG", "compiles"), ("SHAPESCRIPT_CACHE", "of")])
def test_unknown_words_are_refused(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, word: str) -> None:
    monkeypatch.setenv(name, word)
    with pytest.raises(shapescript.ArgumentError, match=f"R1004: {name}: expected .*, got '{word}'"):
        x_to_y(written(tmp_path / "a"))


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    monkeypatch.setenv("SHAPESCRIPT_CACHE_DIR", "here")
    assert cache_folder() == Path.cwd() / "here"
    monkeypatch.setenv("SHAPESCRIPT_CACHE_DIR", "")
    assert cache_folder() == Path("/caches/shapescript")
    for above in ("relative", ""):
        monkeypatch.setenv("XDG_CACHE_HOME", above)
        for platform, wanted in (("linux", ".cache/shapescript"), ("darwin", "Library/Caches/shapescript")):
            monkeypatch.setattr(sys, "platform", platform)
            assert cache_folder() == Path("/home/someone", wanted)


def test_a_name_of_a_file_has_every_digest_whole() -> None:
    digests = [bytes([number]) * 32 for number in range(4)]
    assert code_places.file_name(Key(*digests)) == "-".join(digests[place].hex() for place in (1, 3, 2))
