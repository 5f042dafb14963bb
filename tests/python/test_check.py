"""The checker: each program of programs/check gives exactly the diagnostics that its own comments state; good programs give none."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from fixtures import EXAMPLES, PROGRAMS, ROOT, expected

from shapescript.compiler.check.checker import check_file, check_source
from shapescript.compiler.diagnostics.render import render_text
from shapescript.compiler.ir.printer import print_module
from shapescript.compiler.ir.types import OptimiserType
from shapescript.compiler.ir.verifier import verify_function
from shapescript.compiler.ops.table import infer

WRONG = sorted((PROGRAMS / "check").glob("*.ss"))
GOOD = sorted([*EXAMPLES.glob("*.ss"), *(ROOT / "tests" / "programs").glob("*.ss"), *(ROOT / "shapescript" / "std").glob("*.ss")])


@pytest.mark.parametrize("path", WRONG, ids=lambda path: path.stem)
def test_wrong_program(path: Path) -> None:
    program = check_file(path)
    found = [(d.code, d.span.line, d.span.column) for d in program.diagnostics if d.span]
    assert found == expected(path)
    assert (program.module is None) == any(d.is_error for d in program.diagnostics)
    assert render_text(program.diagnostics).count("^") >= len(found)


def test_there_are_wrong_programs() -> None:
    assert len(WRONG) > 60


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_good_program_checks_to_valid_ir(path: Path) -> None:
    program = check_file(path)
    assert program.diagnostics == ()
    assert program.module is not None
    for function in program.module.functions.values():
        verify_function(function, infer)
    assert path.stem in ("fit", "optim") or "fn " in print_module(program.module)  # of generic functions there are instances only


def body(text: str, head: str = "") -> str:
    """The IR of function `f` as text."""
    program = check_source(head + text)
    assert program.diagnostics == (), [str(d) for d in program.diagnostics]
    assert program.module is not None
    for function in program.module.functions.values():
        verify_function(function, infer)
    return print_module(program.module)


def test_leading_axes_serve_any_rank() -> None:
    head = "import shapescript.std.nn as nn\ndim I = 3\ndim O = 4\n"
    text = body("fn f(l: nn.Linear[I, O], x: [b n I]) -> [b n O]:\n    return x |> nn.linear(l)\n", head)
    assert "reshape" in text and "sizes=((s b*n) (I I) (O O))" in text
    assert "sizes=((s 1)" in body("fn f(l: nn.Linear[I, O], x: [I]) -> [O]:\n    return x |> nn.linear(l)\n", head)


def test_layers_of_equal_dims_are_sound() -> None:
    head = "import shapescript.std.nn as nn\ndim Width = 3\n"
    body("fn f(l: nn.Linear[Width, Width], x: [b Width]) -> [b Width]:\n    return x |> nn.linear(l) |> nn.linear(l)\n", head)


def test_new_axis_name_is_the_same_in_the_whole_function() -> None:
    text = "fn f(q: [b n D], v: [b n D]) -> [b n D]:\n    s = einsum(q, q: b n D, b m D -> b n m)\n"
    text += "    return einsum(s, v: b n m, b m D -> b n D)\n"
    assert "contraction" in body(text, "dim D = 4\n")


def test_broadcast_is_by_name_not_by_place() -> None:
    text = body("fn f(x: [b D], v: [D], w: [b]) -> [b D]:\n    return x + v + w\n", "dim D = 5\n")
    assert "positions=(1)" in text and "positions=(0)" in text


def test_squeeze_of_an_axis_of_one() -> None:
    assert "reshape" in body("fn f(x: [b One]) -> [b]:\n    return rearrange(x: b One -> b)\n", "dim One = 1\n")


def test_dim_overrides_come_before_checking() -> None:
    program = check_source("dim A = 4\ndim B = A / 2\n", dims={"A": 6})
    assert dict(program.dims) == {"A": 6, "B": 3}
    wrong = check_source("dim A = 4\ndim B = A / 2\n", dims={"A": 7, "C": 1})
    assert sorted(d.code for d in wrong.diagnostics) == ["E0501", "E0504"]


def test_early_return_continues_in_the_other_branch() -> None:
    text = "fn f(x: int) -> int:\n    mut y = x\n    if x > 0:\n        return 1\n    elif x < -3:\n        y = 2\n"
    text += "    y = y + 1\n    return y\n"
    assert body(text).count("if(") == 2


def test_assignments_in_blocks_are_carried() -> None:
    text = body("fn f(n: int) -> int:\n    mut s = 0\n    for i in 0..n:\n        if i % 2 == 0:\n            s = s + i\n    return s\n")
    assert "for_range" in text and "%s.1: i64[] = for_range" in text


def test_dims_of_two_modules_agree_by_name_and_size(tmp_path: Path) -> None:
    (tmp_path / "base.ss").write_text("dim D = 4\n\nfn double(x: [b D]) -> [b D]:\n    return x + x\n")
    main = tmp_path / "main.ss"
    main.write_text("import base\n\ndim D = 4\n\nfn f(x: [b D]) -> [b D]:\n    return base.double(x)\n")
    assert check_file(main).diagnostics == ()
    main.write_text("import base\n\ndim D = 5\n\nfn f(x: [b D]) -> [b D]:\n    return base.double(x)\n")
    assert [d.code for d in check_file(main).diagnostics] == ["E0401"]


def test_import_of_names_and_cycles(tmp_path: Path) -> None:
    (tmp_path / "base.ss").write_text("dim D = 4\n\nfn double(x: [b D]) -> [b D]:\n    return x + x\n")
    main = tmp_path / "main.ss"
    main.write_text("from base import D, double\n\nfn f(x: [b D]) -> [b D]:\n    return double(x)\n")
    assert check_file(main).diagnostics == ()
    (tmp_path / "base.ss").write_text("import main\n")
    assert [d.code for d in check_file(main).diagnostics if d.code == "E0206"] == ["E0206"]


def test_error_in_an_imported_file_is_shown_there(tmp_path: Path) -> None:
    (tmp_path / "base.ss").write_text("fn double(x: [b]) -> [b]:\n    return y\n")
    main = tmp_path / "main.ss"
    main.write_text("import base\n")
    (diagnostic,) = check_file(main).diagnostics
    assert diagnostic.code == "E0201" and diagnostic.span is not None and diagnostic.span.source.path.endswith("base.ss")


def test_signatures_say_what_a_host_needs() -> None:
    program = check_file(EXAMPLES / "train_mlp.ss")
    (step,) = program.functions["train_step"]
    assert [p.mutable for p in step.parameters] == [True, True, False, False, False]
    (main,) = program.functions["main"]
    assert [(p.name, str(p.type), p.default) for p in main.parameters] == [("epochs", "int", 100), ("carry_on", "bool", False)]
    assert program.module is not None
    kinds = [value.type for value in program.module.functions[step.key].body.parameters]
    assert isinstance(kinds[1], OptimiserType)


MUTATIONS = 120


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_no_mutation_of_a_program_breaks_the_checker(path: Path) -> None:
    """Tokens dropped, doubled, exchanged: diagnostics or a program, never another exception."""
    text = path.read_text("utf-8")
    words = text.replace("(", " ( ").replace("[", " [ ").split(" ")
    generator = random.Random(path.stem)
    for _ in range(MUTATIONS // len(GOOD)):
        mutated = list(words)
        for _ in range(generator.randint(1, 3)):
            place, other = generator.randrange(len(mutated)), generator.randrange(len(mutated))
            match generator.randrange(3):
                case 0:
                    del mutated[place]
                case 1:
                    mutated.insert(place, mutated[other])
                case _:
                    mutated[place], mutated[other] = mutated[other], mutated[place]
        program = check_source(" ".join(mutated), str(path))
        assert program.module is not None or program.diagnostics
