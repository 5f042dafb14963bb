"""Every function of the standard library, each overload by itself, is compared with something by a test."""

from __future__ import annotations

from pathlib import Path

import pytest
from comparisons.programs import compared_program
from test_comparisons import found

import shapescript
from shapescript.compiler.check.checker import check_file
from shapescript.compiler.ir.nodes import walk

# Modules that no comparison of values with PyTorch's functions can name: what compares them.
ELSEWHERE = {
    "fit": "training runs, stopped and resumed (test_generics, test_train_mlp)",
    "metric": "whole numbers, and sums that are divided outside (test_metrics)",
    "optim": "step by step with formulas of NumPy (test_std_optim)",
    "schedule": "step by step with torch.optim.lr_scheduler (test_schedules)",
}
# What gives no tensor that a gradient could be taken of.
WITHOUT_COUNTERPART = {
    "loss:counted_cross_entropy": "cross_entropy, which is compared, with a count beside it",
}


def of_the_library(key: str) -> str:
    """`nn:linear#0` of a function's key, which begins with the path of its file and may end with what its elements are: `#0.1`."""
    path, _, name = key.rpartition(":")
    return f"{Path(path).stem}:{name.partition('.')[0]}"


@pytest.fixture(scope="module")
def reached(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The functions of the library that the programs of the comparisons call, by themselves or by others."""
    program, reached = tmp_path_factory.mktemp("reached") / "compared.ss", set()
    for comparison in found().values():
        if "shapescript.std." not in comparison.program:
            continue
        program.write_text(compared_program(comparison, comparison.elements[0]), "utf-8")
        functions = check_file(program).module.functions
        waiting, seen = [key for key in functions if key.startswith(f"{program}:f#")], set()
        assert waiting
        while waiting:
            key = waiting.pop()
            if key not in seen:
                seen.add(key)
                waiting += [str(op.attributes["callee"]) for op in walk(functions[key].body) if op.name == "call"]
        reached |= {of_the_library(key) for key in seen}
    return reached


@pytest.mark.parametrize("module", [name for name in shapescript.std.names() if name not in ELSEWHERE])
def test_each_function_is_compared(module: str, reached: set[str]) -> None:
    functions = [of_the_library(key) for key in check_file(shapescript.std.path(module)).module.functions]
    declared = {key for key in functions if key.startswith(f"{module}:")}
    lacking = {key for key in declared - reached if key.partition("#")[0] not in WITHOUT_COUNTERPART}
    assert declared and not lacking, f"functions without a comparison: {', '.join(sorted(lacking))}"


def test_exceptions_are_functions_that_no_comparison_reaches(reached: set[str]) -> None:
    assert set(ELSEWHERE) <= set(shapescript.std.names())
    assert not {key.partition("#")[0] for key in reached} & WITHOUT_COUNTERPART.keys()
