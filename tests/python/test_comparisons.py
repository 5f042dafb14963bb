"""Every entry of the op table beside PyTorch: the table is the package `comparisons`."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from pathlib import Path
from typing import Any

import comparisons
import pytest
from comparisons.comparison import Comparison
from comparisons.programs import shown, wrt_of
from comparisons.running import Compared

from shapescript.compiler.ops.table import NoDerivative, entries

_HANDLE = "a mode, a log, a file or a dataset: what it does is no arithmetic (test_native_programs, test_api)"
_TEXT = "texts as data: whole numbers looked up, no arithmetic"
_OPTIMISER = "a training run beside torch.optim (test_train_mlp) and update by update (test_kernel_optimiser)"
# Entries that no comparison of values can name, and why.
WITHOUT_COUNTERPART: dict[str, str] = {
    **dict.fromkeys(("mode_draw", "mode_eval", "mode_is_train", "mode_train", "string", "print"), _HANDLE),
    **dict.fromkeys(("sink_open", "write", "flush", "save", "load", "latest"), _HANDLE),
    **dict.fromkeys(("load_data", "dataset_all", "dataset_part", "dataset_concat", "dataset_split", "dataset_filter"), _HANDLE),
    **dict.fromkeys(("order", "order_part", "order_size", "for_batches"), _HANDLE),
    **dict.fromkeys(("byte_vocabulary", "decode", "encode", "encode_one", "encoded_size", "load_text", "vocabulary"), _TEXT),
    **dict.fromkeys(("optimiser", "optimiser_step", "update", "global_norm", "scale_model", "all_finite"), _OPTIMISER),
    **dict.fromkeys(("flat", "pack_flat"), "a model's buffer as it lies: no arithmetic (test_memory_passes, test_std_optim)"),
    "by_leaf": "numbers of a model's groups, along its buffer: no arithmetic (test_own_optimisers)",
    "copy": "the same elements, put in by insert_copies (test_copies)",
    "dropout": "a random stream of our own: bit by bit in test_random, its gradient in test_gradient_rules",
    "groups": "a text of how parameters are treated (test_groups)",
    "model_start": "a random stream of our own (test_random)",
    "replace_submodel": "a part of a model in another's place: no arithmetic (test_reference_models)",
    **dict.fromkeys(("categorical", "random_normal", "random_uniform"), "a random stream of our own: by its definition in test_draws"),
    "sample_order": "a random stream of our own (test_text_windows)",
    "to_bf16": "rounding bit by bit, and operations of bf16 beside PyTorch's, in test_bfloat16",
    "to_bool": "no program converts to bool; the reference beside native code in test_kernel_scalars",
}


@cache
def found() -> dict[str, Comparison]:
    """All entries by subject and name."""
    table: dict[str, Comparison] = {}
    for module in pkgutil.iter_modules(comparisons.__path__):
        for comparison in getattr(importlib.import_module(f"comparisons.{module.name}"), "ENTRIES", ()):
            name = f"{module.name}-{comparison.name}"
            assert name not in table, f"two entries are called {name}"
            table[name] = comparison
    return table


CASES = [(name, element) for name, comparison in found().items() for element in comparison.elements]
made: dict[tuple[str, str], Compared] = {}


@pytest.fixture
def compared(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """An entry's program, compiled once for all its tests."""
    if request.param not in made:
        name, element = request.param
        made[request.param] = Compared(found()[name], element, tmp_path)
    return made[request.param]


def parametrised(cases: list[tuple[str, str]]) -> Any:
    return pytest.mark.parametrize("compared", cases, ids="-".join, indirect=True)


@parametrised(CASES)
def test_values_and_gradients_beside_pytorch(compared: Compared) -> None:
    for sizes in compared.cases():
        compared.compare(compared.arguments(sizes))


@parametrised([case for case in CASES if found()[case[0]].nonempty])
def test_sizes_of_nothing_in_both_engines(compared: Compared) -> None:
    """Where an axis of no places is an error of the run, both engines say the same; where it isn't, they give the same bytes."""
    for sizes in compared.empty_cases():
        compared.same_outcome(compared.arguments(sizes))


@parametrised([case for case in CASES if len(found()[case[0]].limits)])
def test_numbers_at_the_limits_beside_pytorch(compared: Compared) -> None:
    compared.compare(compared.extreme_arguments(), extreme=True)


def takes_model(comparison: Comparison) -> bool:
    """Whether a gradient is taken of a model: a program has no sum over all of one's gradient, to take its gradient."""
    parameters = {parameter.name: parameter for parameter in shown(comparison).parameters}
    return any(parameters[name].element is None for name in wrt_of(comparison, shown(comparison)))


SMOOTH = [(name, "f64") for name, c in found().items() if "f64" in c.elements and c.smooth and wrt_of(c, shown(c))]
TWICE = [(name, element) for name, element in SMOOTH if found()[name].twice and not takes_model(found()[name])]


@parametrised(SMOOTH)
def test_gradients_along_random_directions(compared: Compared) -> None:
    compared.along_directions()


@parametrised(TWICE)
def test_gradients_of_gradients(compared: Compared) -> None:
    compared.twice()


@parametrised([(name, c.elements[-1]) for name, c in found().items()])
def test_an_entry_covers_what_it_names(compared: Compared) -> None:
    assert set(compared.comparison.ops) <= compared.operations


def test_every_operation_of_the_table_is_compared() -> None:
    covered = {op for comparison in found().values() for op in comparison.ops}
    table = set(entries())
    assert table - covered - WITHOUT_COUNTERPART.keys() == set(), "operations without a comparison"
    assert WITHOUT_COUNTERPART.keys() <= table - covered, "not in the table, or compared after all"


def test_every_derivative_of_the_table_is_compared() -> None:
    compared = {op for comparison in found().values() if wrt_of(comparison, shown(comparison)) for op in comparison.ops}
    rules = {name for name, entry in entries().items() if not isinstance(entry.derivative, NoDerivative)}
    assert rules - compared - WITHOUT_COUNTERPART.keys() == set()
