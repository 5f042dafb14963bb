"""How much work checking and compiling are, in counts: what is checked at all, and that the work grows as the program does."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from fixtures import EXAMPLES, ROOT

from shapescript.checking import check
from shapescript.compiler.check import checker
from shapescript.compiler.check.checker import check_file, check_source
from shapescript.compiler.check.program import Program
from shapescript.compiler.ir.nodes import Function, walk
from shapescript.compiler.passes.pipeline import compile_entry
from shapescript.compiler.passes.plan import plan_memory
from shapescript.compiler.syntax import tables

STD = ROOT / "shapescript" / "std"

# ---- what is checked


@contextmanager
def bodies_checked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """The functions whose bodies are checked meanwhile, as module:name, and how often."""
    found: Counter[str] = Counter()
    original = checker.check_function

    def counted(info: Any, *rest: Any) -> Any:
        found[f"{Path(info.scope.name).stem}:{info.signature.name}"] += 1
        return original(info, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(checker, "check_function", counted)
        yield found


def test_of_the_standard_library_what_is_called_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    with bodies_checked(monkeypatch) as found:
        check_file(EXAMPLES / "train_mlp.ss")
    own = {name for name in found if name.startswith("train_mlp:")}
    assert len(own) >= 7
    assert set(found) - own == {"nn:linear"}
    assert max(found.values()) == 1


def test_a_function_of_the_standard_library_is_checked_when_python_calls_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with bodies_checked(monkeypatch) as found:
        program = check_source("import shapescript.std.nn as nn\n")
        signature = program.imports["nn"]["layer_norm"][0]
        assert not found and program.module is not None and signature.key not in program.module.functions
        program.generics.complete(signature.key)
    assert set(found) == {"nn:layer_norm"} and signature.key in program.module.functions


def test_a_module_of_the_users_own_is_checked_whole(tmp_path: Path) -> None:
    (tmp_path / "own.ss").write_text("fn unused(x: [b]) -> [b]:\n    return y\n", "utf-8")
    (tmp_path / "main.ss").write_text("import own\n", "utf-8")
    assert [found.code for found in check(tmp_path / "main.ss")] == ["E0201"]


def test_a_copy_of_a_module_of_the_library_is_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nn.ss").write_bytes((STD / "nn.ss").read_bytes())
    (tmp_path / "main.ss").write_text("import nn\n", "utf-8")
    with bodies_checked(monkeypatch) as found:
        check_file(tmp_path / "main.ss")
    assert {"nn:linear", "nn:layer_norm"} <= set(found)


@pytest.mark.parametrize("path", sorted(STD.glob("*.ss")), ids=lambda path: path.stem)
def test_the_library_is_sound(path: Path) -> None:
    assert check(path) == []


def test_checking_reads_the_tables_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tables.tables()
    before = tables.tables.cache_info().misses
    check_file(EXAMPLES / "train_mlp.ss")
    assert tables.tables.cache_info().misses == before


# ---- how it grows


def chain(statements: int) -> str:
    """A training step of a model with so many statements, each of which needs the one before."""
    body = "".join(f"    x{n + 1} = tanh(x{n} * m.w + m.b) * 2.0\n" for n in range(statements))
    return f"""dim N = 4

model M:
    w: [N] = ones
    b: [N] = zeros

fn loss(m: M, x0: [b N]) -> []:
{body}    return mean(x{statements}, over=(b, N))

fn step(mut m: M, mut opt: AdamW[M], x: [b N]) -> []:
    value, gradient = value_and_grad(loss(m, x), m)
    update(mut m, mut opt, gradient, lr=0.1)
    return value
"""


def calls(work: Callable[[], Any]) -> Counter[str]:
    """How often each function of the compiler is called."""
    found: Counter[str] = Counter()

    def seen(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            found[frame.f_code.co_qualname] += 1

    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


def compiled(program: Program) -> Function:
    assert program.module is not None
    return compile_entry(program.module, program.functions["step"][0].key, {})


FEW, MANY = 25, 100


@lru_cache(maxsize=1)
def programs() -> tuple[Program, Program]:
    few, many = check_source(chain(FEW)), check_source(chain(MANY))
    return few, many


def growth(few: Counter[str], many: Counter[str]) -> float:
    return many.total() / few.total()


def test_checking_grows_as_the_program_does() -> None:
    few, many = (calls(lambda count=count: check_source(chain(count))) for count in (FEW, MANY))
    assert growth(few, many) < 1.25 * MANY / FEW


def test_passes_grow_as_the_program_does() -> None:
    few, many = (calls(lambda program=program: compiled(program)) for program in programs())
    assert growth(few, many) < 1.25 * MANY / FEW


def test_the_plan_looks_at_the_operations_of_a_block_a_few_times() -> None:
    for program in programs():
        function = compiled(program)
        found = calls(lambda function=function: plan_memory(function))
        assert found["rows_bound"] <= 2 * sum(1 for _ in walk(function.body))
