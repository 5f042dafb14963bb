"""The pipeline and its first pass: printed IR of each stage, sizes put in, calls inlined, loops over lists unrolled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from built_programs import HIDDEN, MLP, at, call, f32, function, i64, linear_type, stack, stack_type, train_mlp
from conftest import Golden
from evaluating import RecordingHost, flat_model, fresh_state, mode, tensors_of

from shapescript.compiler.check.checker import check_file
from shapescript.compiler.diagnostics.model import CompileError, InternalError
from shapescript.compiler.ir.nodes import Function, Module, Value, walk
from shapescript.compiler.ir.printer import print_function
from shapescript.compiler.ir.sizes import Size, divide, fresh, number, of
from shapescript.compiler.ir.starts import HostNumber, StartRule
from shapescript.compiler.ir.types import DatasetType, Element, ListType, RecordType, TensorType
from shapescript.compiler.ops.build import Builder
from shapescript.compiler.passes.expand import expand
from shapescript.compiler.passes.pipeline import STEPS, compile_entry
from shapescript.compiler.passes.specialise import specialise
from shapescript.compiler.passes.symbols import attribute_key, substitute_attribute
from shapescript.compiler.reference.engine import Evaluator
from shapescript.compiler.reference.layouts import Layout

ROOT = Path(__file__).parents[2]


def names(function_: Function) -> list[str]:
    return [op.name for op in walk(function_.body)]


# ---- the whole pipeline


@pytest.mark.parametrize("step", [name for name, _ in STEPS])
def test_training_step_after_each_step(step: str, golden: Golden) -> None:
    golden(f"mlp_step_{step}", print_function(compile_entry(train_mlp(), "train_step", {}, step, verify=True)))


def test_training_loop(golden: Golden) -> None:
    golden("mlp_fit_final", print_function(compile_entry(train_mlp(), "fit", {}, verify=True)))


def test_every_stage_gives_the_same_bytes() -> None:
    generator = np.random.default_rng(0)
    tensors = {name: generator.normal(0, 0.2, place.shape).astype(np.float32) for name, place in Layout(MLP).places.items()}
    pixels, labels = generator.random((7, 64), np.float32), generator.integers(0, 10, 7)
    found = []
    for step in ("expanded", "simplified", "fused", "final"):
        evaluator = Evaluator(compile_entry(train_mlp(), "train_step", {}, step))
        model, state, host, train = flat_model(MLP, tensors), fresh_state(MLP), RecordingHost(), mode(1, 5)
        for _ in range(2):
            evaluator.run([model, state, pixels, labels, "sink", train], host)
        found.append((model.tobytes(), [slot.tobytes() for slot in state.slots if slot is not None], host.calls))
        assert any((new != tensors[name]).any() for name, new in tensors_of(MLP, model).items())
    assert all(other == found[0] for other in found)


PROGRAMS = sorted([*(ROOT / "examples").glob("*.ss"), *(ROOT / "tests" / "programs").glob("*.ss")])


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_programs_compile_to_valid_ir(path: Path) -> None:
    program = check_file(path)
    assert program.module is not None and not program.diagnostics
    for key, function_ in program.module.functions.items():
        if not function_.dims:
            final = compile_entry(program.module, key, {}, verify=True)
            assert not {"call", "for_list", "value_and_grad", "softmax", "stop_gradient"} & set(names(final))


def test_an_unknown_step_is_refused() -> None:
    with pytest.raises(ValueError, match="no step 'fussed'; there are ir, grad"):
        compile_entry(train_mlp(), "fit", {}, "fussed")


# ---- specialise


def test_calls_are_inlined_with_sizes_of_the_call() -> None:
    text = print_function(specialise(train_mlp(), "forward", {}))
    assert "f32[Hidden In] = leaf(%m) {path=hidden.weight}" in text and "f32[b Classes] = add" in text
    assert "call" not in text and "submodel" not in text


def test_lists_are_unrolled(golden: Golden) -> None:
    module, depth = stack()
    golden("stack_ir", print_function(compile_entry(module, "deep", {depth: number(3)}, "ir", verify=True)))
    assert names(specialise(module, "deep", {depth: number(0)})) == []
    assert names(specialise(module, "deep", {depth: number(12)})).count("tanh") == 12
    with pytest.raises(InternalError, match="length of blocks"):
        specialise(module, "deep", {})


def test_long_chains_of_calls_need_no_recursion() -> None:
    x = Value(f32(HIDDEN), "x")
    functions = {"f0": function("f0", [x], b := Builder(at(1)), [b.op("tanh", x)])}
    for place in range(1, 3000):
        x = Value(f32(HIDDEN), "x")
        b = Builder(at(1))
        functions[f"f{place}"] = function(f"f{place}", [x], b, call(b, f"f{place - 1}", [x], [x.type]))
    assert names(specialise(Module(functions), "f2999", {})) == ["tanh"]


def test_loops_that_nest_too_deeply_through_calls_are_refused() -> None:
    functions: dict[str, Function] = {}
    for place in range(120):
        n = Value(i64(), "n")
        b, inner = Builder(at(2)), Builder(at(3))
        body = call(inner, f"f{place - 1}", [n], []) if place else inner.emit("print", n)
        b.emit("for_range", n, n, regions=[inner.block([Value(i64(), "i")], body)])
        functions[f"f{place}"] = function(f"f{place}", [n], b, [])
    with pytest.raises(CompileError) as caught:
        specialise(Module(functions), "f119", {})
    assert [d.code for d in caught.value.diagnostics] == ["E0112"]
    assert "for_range" in names(specialise(Module(functions), "f90", {}))


def halves() -> Module:
    """fn half[D](x: [D]) -> [D/2], called with D = b."""
    width, rows = fresh("D"), fresh("b")
    x, y = Value(f32(of(width)), "x"), Value(f32(of(rows)), "y")
    half = divide(of(width), number(2))
    b, c = Builder(at(30)), Builder(at(31))
    inner = function("half", [x], b, [b.full(0.0, f32(half))], dims=[width])
    outer = function("outer", [y], c, call(c, "half", [y], [f32(divide(of(rows), number(2)))], [(width, of(rows))]))
    return Module({"half": inner, "outer": outer})


def test_a_division_with_a_remainder_is_reported_at_the_call() -> None:
    module = halves()
    assert "f32[3]" in print_function(specialise(module, "half", {module.functions["half"].dims[0]: number(6)}))
    (rows,) = module.functions["outer"].body.parameters[0].type.axes[0].symbols()  # type: ignore[union-attr]
    with pytest.raises(CompileError) as caught:
        specialise(module, "outer", {rows: number(7)})
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "E0501" and "7 is not a multiple of 2" in diagnostic.message
    assert diagnostic.span == at(31)


@pytest.mark.parametrize("axes", [lambda width, _: (width, width), lambda width, rows: (width, rows * width)])
def test_a_tensor_of_too_many_elements_is_refused_where_it_is_made(axes: Callable[[Size, Size], tuple[Size, ...]]) -> None:
    width, rows, b = fresh("W"), fresh("n"), Builder(at(21))
    x = Value(f32(of(width), of(rows)), "x")
    total = b.op("sum", b.full(1.0, f32(*axes(of(width), of(rows)))), positions=(0, 1))
    module = Module({"wide": function("wide", [x], b, [total], dims=[width])})
    specialise(module, "wide", {width: number(2**24)})
    with pytest.raises(CompileError) as caught:
        specialise(module, "wide", {width: number(2**25)})
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.span) == ("E0503", at(21)) and str(2**50) in diagnostic.message


def test_symbols_bound_in_a_callee_are_new_at_each_inlining() -> None:
    record = RecordType("Digit", (("pixels", f32(HIDDEN)),))
    rows = of(fresh("rows"))
    b, c = Builder(at(1)), Builder(at(2))
    loaded = b.op("load_data", b.op("string", value="digits.npz"), dataset=DatasetType(record, rows))
    load = function("load", [], b, [loaded])
    first, second = (call(c, "load", [], [DatasetType(record, of(fresh("rows")))])[0] for _ in range(2))
    pixels = [c.op("dataset_all", data) for data in (first, second)]
    main = function("main", [], c, pixels)
    one, two = (value.type for value in specialise(Module({"load": load, "main": main}), "main", {}).body.yields)
    assert isinstance(one, TensorType) and isinstance(two, TensorType)
    assert str(one) == str(two) and one.axes[0] != two.axes[0]


def test_mutable_parameters_give_their_new_values_after_the_results() -> None:
    m, x = Value(MLP, "m"), Value(linear_type(HIDDEN, HIDDEN), "layer")
    b, c = Builder(at(1)), Builder(at(2))
    factor = b.constant(0.5, Element.F32)
    inner = function("halve", [x], b, [factor], [b.op("scale_model", x, factor)], [x])
    m = Value(stack_type(HIDDEN, number(2)), "m")
    part = c.op("submodel", m, path="blocks.1")
    result, changed = call(c, "halve", [part], [f32(), part.type])
    outer = function("outer", [m], c, [result], [c.op("replace_submodel", m, changed, path="blocks.1")], [m])
    found = compile_entry(Module({"halve": inner, "outer": outer}), "outer", {}, verify=True)
    assert names(found) == ["submodel", "constant", "scale_model", "replace_submodel"], "no copy: the part is changed where it lies"


def test_sizes_in_attributes_of_every_kind() -> None:
    n = fresh("n")
    sizes = {n: number(4)}
    linear_n = linear_type(of(n), number(2))
    assert substitute_attribute(of(n), sizes) == number(4)
    assert substitute_attribute((of(n), "name", 3, None), sizes) == (number(4), "name", 3, None)
    assert substitute_attribute({"a": [of(n)]}, sizes) == {"a": [number(4)]}
    assert substitute_attribute(ListType(linear_n, of(n)), sizes) == ListType(linear_type(number(4), number(2)), number(4))
    assert substitute_attribute(RecordType("R", (("x", f32(of(n))),)), sizes) == RecordType("R", (("x", f32(number(4))),))
    assert substitute_attribute(((n, of(n)),), sizes) == ((n, number(4)),)
    rule = StartRule("uniform", (HostNumber("size", size=of(n)),))
    assert "4" in str(rule and substitute_attribute(linear_n, sizes))


def test_attributes_that_mean_different_numbers_have_different_keys() -> None:
    keys = [attribute_key(value) for value in (0, 0.0, -0.0, False, (0,), (0.0,))]
    assert len(set(keys)) == len(keys)
    assert attribute_key(float("nan")) == attribute_key(float("nan"))


# ---- expand


def test_composites_are_expanded_everywhere() -> None:
    n = Value(i64(), "n")
    x = Value(f32(HIDDEN, HIDDEN), "x")
    b, inner, h = Builder(at(1)), Builder(at(2)), Value(x.type, "h")
    body = inner.block([Value(i64(), "i"), h], [inner.op("stop_gradient", inner.op("softmax", h, positions=(1,)))])
    found = expand(function("f", [n, x], b, b.emit("for_range", n, n, x, regions=[body])))
    assert "exp" in names(found) and not {"softmax", "stop_gradient"} & set(names(found))


def test_the_documented_step_is_the_golden_one() -> None:
    golden_text = (Path(__file__).parent / "golden" / "mlp_step_final.txt").read_text("utf-8")
    assert golden_text in (ROOT / "docs" / "final_ir.md").read_text("utf-8")
