"""Kernels that several functions have in common: compiled once in a process, taken from what a function was before, the same bits."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llvmlite import ir
from test_compile_cache import code_in

import shapescript
from shapescript.compiler.check.checker import check_source
from shapescript.compiler.codegen import emit, jit, kernel_objects
from shapescript.compiler.codegen.artifact_data import code_from_bytes
from shapescript.compiler.codegen.context import ENTRY
from shapescript.compiler.codegen.emit import I64, PTR
from shapescript.compiler.codegen.kernel_objects import KNOWN, Code, KnownKernels, compiled, load, with_needs
from shapescript.compiler.codegen.loading import NativeCode
from shapescript.compiler.codegen.lower_function import lower_function
from shapescript.compiler.codegen.module_parts import ModuleParts, parts
from shapescript.compiler.codegen.program import compile_artifact
from shapescript.compiler.codegen.target import host, x86_64_v3
from shapescript.compiler.codegen.workers import PROCESS
from shapescript.compiler.ir.nodes import Function
from shapescript.compiler.passes.pipeline import compile_entry
from shapescript.object_cache import SUFFIX, ObjectCache

TEXT = """
dim I = 7
dim H = 5

model Net:
    w: [I H] = normal(0, 1)
    v: [H] = normal(0, 1)

fn forward(m: Net, x: [b I]) -> [b]:
    return relu(x @ m.w) @ m.v

fn loss(m: Net, x: [b I], y: [b]) -> []:
    return mean((forward(m, x) - y) ** 2, over=b)

fn step(mut m: Net, mut opt: AdamW[Net], x: [b I], y: [b]) -> float:
    l, g = value_and_grad(loss(m, x, y), wrt=m)
    update(mut m, mut opt, g, lr=0.1)
    return float(l)
"""
ORDERS = (("forward", "loss", "step"), ("step", "loss", "forward"), ("loss", "step", "forward"))


@pytest.fixture(autouse=True)
def nothing_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The cache, of the test's own, holds no pool of threads: that is there before."""
    PROCESS.started(host(), 3)
    monkeypatch.setenv("SHAPESCRIPT_CACHE_DIR", str(tmp_path / "cache"))
    KNOWN.clear()
    yield
    KNOWN.clear()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """The kernels that LLVM was given since it was asked last."""
    texts: list[str] = []
    real = jit.emit_loadable

    def noting(text: str, target: object) -> bytes:
        texts.append(text)
        return real(text, host())

    monkeypatch.setattr(jit, "emit_loadable", noting)

    def kernels() -> list[str]:
        found = [name for text in texts for name in re.findall(r'^define [^\n]*?@"(kernel\.\w+)"\(', text, re.MULTILINE)]
        texts.clear()
        return found

    return kernels


def functions(text: str = TEXT) -> dict[str, Function]:
    module = check_source(text).module
    assert module is not None
    return {function.name: compile_entry(module, key, {}) for key, function in module.functions.items()}


def pieces(function: Function) -> ModuleParts:
    low = lower_function(function, host())
    return parts(low.module, (low.native.name, ENTRY))


def written(folder: Path, text: str = TEXT) -> Path:
    path = folder / "program.ss"
    path.write_text(text, "utf-8")
    return path


def results(path: Path, order: tuple[str, ...]) -> dict[str, list[str]]:
    """The bits of what each function gives, called in this order."""
    program = shapescript.load(path)
    x = np.random.default_rng(0).normal(size=(19, 7)).astype(np.float32)
    found = {}
    for name in order:
        m = program.Net(seed=1)
        given = {"forward": (m, x), "loss": (m, x, x[:, 0]), "step": (m, shapescript.AdamW(m), x, x[:, 0])}[name]
        found[name] = [np.asarray(getattr(program, name)(*given)).tobytes().hex(), m.state_dict()["w"].tobytes().hex()]
    return found


# ---- names


def test_a_kernel_has_the_same_name_wherever_it_is() -> None:
    """Though functions of two modules are called by other names there, and come in another order."""
    names = {name: set(pieces(function).kernels) for name, function in functions().items()}
    assert names["forward"] & names["loss"] and names["forward"] & names["step"] and names["loss"] & names["step"]
    assert names["step"] - names["loss"] - names["forward"]
    again = {name: set(pieces(function).kernels) for name, function in reversed(functions().items())}
    assert again == names


def module(inner: int, table: int, *, weighted: bool, twice: bool = False) -> ModuleParts:
    """A module whose function `outer` calls one that adds a number, and reads a table."""
    made = ir.Module("made")
    if twice:
        _adder(made, inner, "first")
    own, b = emit.function(made, "own", [I64], I64)
    add = _adder(made, inner, "add")
    outer, inside = emit.function(made, "outer", [I64], I64)
    found = inside.load(emit.constant_table(made, "table", [table]), typ=I64)
    with inside.if_then(inside.icmp_signed(">", found, I64(5)), likely=False if weighted else None):
        inside.store(I64(1), emit.stack(inside, I64, 1))
    inside.ret(inside.call(add, outer.args))
    total = b.call(outer, own.args)
    b.ret(b.add(total, b.call(made.globals["first"], own.args)) if twice else total)
    return parts(made, ["own"])


def _adder(made: ir.Module, number: int, name: str) -> ir.Function:
    fn, b = emit.function(made, name, [I64], I64)
    b.ret(b.add(fn.args[0], I64(number)))
    return fn


def test_what_a_kernel_names_is_in_its_name() -> None:
    """What it calls, its tables, and what says which way is likely."""
    plain = module(1, 2, weighted=False)
    assert list(plain.kernels) == list(module(1, 2, weighted=False).kernels) and len(plain.kernels) == 2
    (outer,) = plain.used_kernels
    others = [module(3, 2, weighted=False), module(1, 4, weighted=False), module(1, 2, weighted=True)]
    assert len({outer, *(name for other in others for name in other.used_kernels)}) == 4


def test_equal_functions_of_a_module_are_one() -> None:
    found = module(1, 2, weighted=False, twice=True)
    assert set(found.kernels) == set(module(1, 2, weighted=False).kernels) and len(found.used_kernels) == 2


# ---- what is compiled


@pytest.mark.parametrize("order", ORDERS)
def test_no_kernel_is_compiled_twice(tmp_path: Path, order: tuple[str, ...], made: Callable[[], list[str]]) -> None:
    wanted = {name: set(pieces(function).kernels) for name, function in functions().items()}
    path, known = written(tmp_path), set[str]()
    for name in order:
        results(path, (name,))
        new = made()
        assert len(new) == len(set(new)) and set(new) == wanted[name] - known
        known |= wanted[name]


def test_the_bits_do_not_depend_on_what_was_compiled_before(tmp_path: Path) -> None:
    alone: dict[str, list[str]] = {}
    for name in ORDERS[0]:
        KNOWN.clear()
        alone |= results(written(tmp_path), (name,))
        ObjectCache(tmp_path / "cache").clear()
    for order in ORDERS:
        KNOWN.clear()
        ObjectCache(tmp_path / "cache").clear()
        assert results(written(tmp_path), order) == results(written(tmp_path), order) == alone  # compiled, then loaded


def test_threads_may_compile_at_once() -> None:
    made = list(functions().values())
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda function: load(compile_artifact(function, host()).code, host()), made * 4))
    assert all(code.address(ENTRY) for code in found)


def test_another_target_has_kernels_of_its_own() -> None:
    known, function = KnownKernels(), pieces(functions()["forward"])
    compiled(function, host(), known)
    assert known.provided(function, host())[1] == []
    assert set(known.provided(function, x86_64_v3())[1]) == set(function.kernels)


# ---- what was there before


def test_a_changed_function_takes_over_the_kernels_that_it_still_has(tmp_path: Path, made: Callable[[], list[str]]) -> None:
    path = written(tmp_path)
    results(path, ("step",))
    first = made()
    KNOWN.clear()  # as in another process
    written(tmp_path, TEXT.replace("** 2", "** 4"))
    results(path, ("step",))
    second = made()
    assert first and second and not set(first) & set(second) and len(second) < len(first)


def test_what_is_damaged_is_not_taken_over(tmp_path: Path, made: Callable[[], list[str]]) -> None:
    path = written(tmp_path)
    results(path, ("forward",))
    first = made()
    KNOWN.clear()
    folder = ObjectCache(tmp_path / "cache")
    for entry in folder.entries():
        file = tmp_path / "cache" / f"{entry.name}{SUFFIX}"
        file.write_bytes(file.read_bytes()[:-1])
    changed = TEXT.replace("relu(x @ m.w)", "relu(x @ m.w) * 2.0")
    found = results(written(tmp_path, changed), ("forward",))
    assert set(made()) & set(first)
    KNOWN.clear()
    folder.clear()
    assert results(path, ("forward",)) == found


# ---- what is kept


def test_what_is_kept_loads_alone(tmp_path: Path) -> None:
    """In another process, when what its kernels were first made for is gone."""
    path = written(tmp_path)
    wanted = results(path, ("step", "loss"))
    files = code_in(tmp_path / "cache")
    assert len(files) == 2
    (tmp_path / "cache" / f"{files[0]}{SUFFIX}").unlink()
    code = "import sys, test_shared_kernels as t; from pathlib import Path; print(t.results(Path(sys.argv[1]), ('loss',)))"
    found = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        cwd=Path(__file__).parent,
        env={**os.environ, "SHAPESCRIPT_LOG": "compile"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == str({"loss": wanted["loss"]}) and "loaded loss" in found.stderr and "compiled" not in found.stderr


def test_what_is_kept_is_compiled_no_more_and_loads_without_llvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path)
    wanted = results(path, ORDERS[0])
    if host().is_x86 and sys.platform == "linux":  # elsewhere LLVM loads all objects
        monkeypatch.delattr(jit, "load_with_llvm")
    monkeypatch.delattr(jit, "emit_loadable")
    assert results(path, ORDERS[0]) == wanted


def test_bytes_that_are_no_objects_are_refused(tmp_path: Path) -> None:
    results(written(tmp_path), ("loss",))
    cache = ObjectCache(tmp_path / "cache")
    (name,) = code_in(tmp_path / "cache")
    data = cache.read(name)
    assert data is not None and ENTRY in code_from_bytes(data).names
    for bad in (data[:-5000], data.replace(b"\x7fELF", b"\x7fFLE"), data[: data.index(b"\x7fELF")]):
        with pytest.raises(Exception, match=r"."):
            load(code_from_bytes(bad), host())


def test_one_function_takes_kernels_from_few_objects() -> None:
    """Each of these has kernels of its own, and a last one has them all."""
    bodies = [f"fn f{n}(x: [b]) -> []:\n    return sum(x * {n + 2}.5 + {n}.25, over=b)\n" for n in range(12)]
    last = "fn all(x: [b]) -> []:\n    return " + " + ".join(f"sum(x * {n + 2}.5 + {n}.25, over=b)" for n in range(12)) + "\n"
    found = functions("\n".join([*bodies, last]))
    for name in found:
        code = compile_artifact(found[name], host()).code
        assert len(with_needs([code])) <= kernel_objects.MOST_NEEDED + 1
    assert len(with_needs([code])) > 2


def test_known_kernels_are_bounded() -> None:
    made = [Code(bytes([n]) * 100, (f"kernel.{n}",), (), ()) for n in range(4)]
    known = KnownKernels(limit=250)
    for code in made:
        known.add(host(), code)
        known.add(host(), code)
    assert [name for _, name in known._objects] == ["kernel.2", "kernel.3"] and known._bytes == 200


# ---- calls from one object to another


def test_arguments_and_results_of_all_sorts_go_from_one_object_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than registers hold, vectors, and the address of a kernel; loaded by us, and by LLVM."""
    made = ir.Module("made")
    vector = emit.vector_of(I64, 4)
    own, b = emit.function(made, ENTRY, [I64, PTR], I64)
    own.linkage = ""
    kernel, inside = emit.function(made, "kernel", [I64] * 12 + [vector, PTR], I64)
    total = inside.extract_element(kernel.args[12], I64(3))
    for place, argument in enumerate(kernel.args[:12]):
        total = inside.add(total, inside.mul(argument, I64(place + 1)))
    inside.store(total, kernel.args[13])
    inside.ret(total)
    numbers = [b.add(own.args[0], I64(place)) for place in range(12)]
    b.store(kernel, own.args[1])
    b.ret(b.call(kernel, [*numbers, emit.splat(b, I64(1000), 4), emit.at(b, own.args[1], 1, I64)]))
    code = compiled(parts(made, [ENTRY]), host(), KnownKernels())
    assert [len(one.uses) for one in with_needs([code])] == [0, 1]
    out = np.zeros(2, np.int64)
    native = load(code, host())
    assert_called(native, out, code)
    with_llvm = {one.data: NativeCode(jit.load_with_llvm(one.data, host())) for one in with_needs([code])}
    monkeypatch.setattr(kernel_objects, "load_object", lambda data, _: with_llvm[data])
    assert_called(load(code, host()), out, code)


def assert_called(native: NativeCode, out: np.ndarray[Any, Any], code: Code) -> None:
    found = native.function(ENTRY, [ctypes.c_int64, ctypes.c_void_p], ctypes.c_int64)(5, out.ctypes.data)
    assert found == out[1] == 1000 + sum((5 + place) * (place + 1) for place in range(12))
    (needed,) = native.needs
    assert out[0] == needed.address(code.uses[0])
