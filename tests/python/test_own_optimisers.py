"""Optimisers that a program writes itself: two passes over the buffers, nothing moved, and the bits of their formulas."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from both_engines import Both
from own_optimisers import GROUPS, MODELS, STATES, members, program

import shapescript.checking
from shapescript.compiler.ir.nodes import Function, Op, walk
from shapescript.compiler.ir.sizes import product
from shapescript.compiler.ir.types import ModelType, sorted_leaves
from shapescript.compiler.ops.locations import Plan, has_storage, part_offset
from shapescript.compiler.passes.pipeline import compile_entry
from shapescript.compiler.passes.plan import plan_memory

# What goes over whole buffers: a look at the gradient, then all the rest. A check behind a norm looks at this number.
WALKS = {
    "lion": ["global_norm", "kernel"],
    "unclipped": ["check_finite", "kernel"],
    "sgd": ["global_norm", "kernel"],
    "momentum": ["global_norm", "kernel"],
    "adamw": ["global_norm", "kernel"],
    "accumulate": ["global_norm", "kernel"],
}


def compiled(folder: Path, text: str, function: str) -> Function:
    path = folder / "program.ss"
    path.write_text(text)
    checked = shapescript.checking.checked_file(path, None)
    assert checked.module is not None
    (signature,) = checked.functions[function]
    return compile_entry(checked.module, signature.key, {}, verify=True)


def walks(function: Function) -> list[str]:
    packed = {op.operands[0] for op in walk(function.body) if op.name == "pack_flat"}
    return [op.name for op in walk(function.body) if _walks(op) or not packed.isdisjoint(op.results)]


def _walks(op: Op) -> bool:
    if op.name in ("leaf", "submodel", "flat", "pack", "pack_flat", "replace_submodel") or (
        op.name == "check_finite" and len(op.operands) > 1
    ):
        return False
    return any(isinstance(value.type, ModelType) for value in (*op.operands, *op.results))


def moved(function: Function) -> list[str]:
    """What isn't computed where it ends: operations that copy, and results that are moved at the end."""
    plan, body = plan_memory(function), function.body
    changed = [value for value, mutable in zip(body.parameters, function.mutable, strict=True) if mutable]
    ends = zip(changed, body.yields[function.results :], strict=True)
    late = [str(value.hint) for value, end in ends if has_storage(value) and plan.locations[value] != plan.locations[end]]
    return [op.name for op in walk(body) if _moves(op, plan)] + late


def _moves(op: Op, plan: Plan) -> bool:
    places = plan.locations
    if op.name == "copy":
        return True
    if op.name == "pack_flat":
        return places[op.operands[0]] != places[op.result]
    part = op.operands[1] if op.name == "replace_submodel" else None
    return (
        part is not None
        and has_storage(part)
        and places[part] != places[op.result].part(part_offset(op.result.type, op.attributes["path"]))
    )


# In bf16 a gradient that is 0, as that of what is frozen, is a number of f32 where it isn't clipped, so that each parameter has a kernel;
# and AdamW has more operations than go into one kernel.
CASES = [(optimiser, element) for optimiser in WALKS for element in ("", "f64", "bf16")]
CASES = [case for case in CASES if case not in (("unclipped", "bf16"), ("adamw", "bf16"))]


@pytest.mark.parametrize("groups", ["", GROUPS], ids=["alike", "groups"])
@pytest.mark.parametrize(("optimiser", "element"), CASES)
def test_an_optimiser_takes_two_passes_and_moves_nothing(tmp_path: Path, optimiser: str, element: str, groups: str) -> None:
    function = compiled(tmp_path, program(members(element, groups=groups)), optimiser)
    assert walks(function) == WALKS[optimiser]
    assert moved(function) == []


@pytest.mark.parametrize("groups", ["", GROUPS], ids=["alike", "groups"])
def test_what_is_read_and_written_once(tmp_path: Path, groups: str) -> None:
    """Gradient, parameters and moments are read once; all but the gradient are written once. Numbers of groups take no memory."""
    counts = {}
    for optimiser in WALKS:
        function = compiled(tmp_path, program(members(groups=groups)), optimiser)
        (kernel,) = [
            op for op in walk(function.body) if op.name == "kernel" and walks(function)[-1] == "kernel" and len(op.attributes["space"]) == 1
        ]
        counts[optimiser] = sum(map(has_storage, kernel.operands)), len(kernel.results)
    assert counts == {"lion": (3, 2), "unclipped": (3, 2), "sgd": (2, 1), "momentum": (3, 2), "adamw": (4, 3), "accumulate": (2, 1)}


@pytest.mark.parametrize("name", MODELS)
def test_both_engines_give_the_same_bits(tmp_path: Path, name: str) -> None:
    both = Both(tmp_path, MODELS[name])
    x = np.random.default_rng(1).standard_normal((4, 5)).astype(np.float32)
    for optimiser, state in STATES.items():
        m = both.native.Net(seed=1)
        own = getattr(both.native, state)(m)
        for limit in (0.5, 1e9, 1e-42):
            both.call(optimiser, m, own, x, limit)


@pytest.mark.parametrize("optimiser", ["lion", "sgd", "momentum", "adamw", "accumulate"])
def test_where_element_types_differ_parameters_change_where_they_lie(tmp_path: Path, optimiser: str) -> None:
    """Each has a kernel of its own there; what the model has beside them stays where it is."""
    text = program("    buffer seen: int[2] = zeros\n" + members("", "f64"))
    function = compiled(tmp_path, text, optimiser)
    plan = plan_memory(function)
    assert moved(function) == []
    _, *packs = [op for op in walk(function.body) if op.name == "pack"]  # the first one is the gradient's
    for pack in packs:
        model = pack.result.type
        assert isinstance(model, ModelType)
        for leaf, operand in zip(sorted_leaves(model), pack.operands, strict=True):
            place = plan.locations[pack.result].part(part_offset(model, leaf.name))
            assert not has_storage(operand) or not product(leaf.type.axes).constant() or plan.locations[operand] == place, leaf.name
    assert packs
