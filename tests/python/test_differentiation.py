"""Gradients of whole functions: models, gradients of gradients, the order of sums, what takes part and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest
import torch
from built_programs import at
from evaluating import SPAN, RecordingHost, flat_model, function_of, linear, tensor, tensors_of
from gradients import Gradient, gradient, ready, sizes, total

from shapescript.compiler.check.checker import check_source
from shapescript.compiler.diagnostics.model import CompileError
from shapescript.compiler.ir.nodes import Value, walk
from shapescript.compiler.ir.printer import print_function
from shapescript.compiler.ir.sizes import number
from shapescript.compiler.ir.types import FLOAT, INT, Element, Member, ModelType, TensorType
from shapescript.compiler.ops.build import Builder, result_type
from shapescript.compiler.passes.differentiate import differentiate
from shapescript.compiler.passes.pipeline import compile_entry
from shapescript.compiler.reference.engine import Evaluator

# ---- models

SMALL = ModelType("Mlp", "main", (), (Member("hidden", linear(number(3), number(5))), Member("output", linear(number(5), number(2)))))


def forward(b: Builder, m: Value, x: Value) -> Value:
    h = x
    for name in ("hidden", "output"):
        layer = b.op("submodel", m, path=name)
        y = b.op("contraction", h, b.op("leaf", layer, path="weight"), left=(0, 1), right=(2, 1), out=(0, 2))
        bias = b.op("leaf", layer, path="bias")
        y = b.op("add", y, b.broadcast(bias, result_type(y).axes, (1,)))
        h = b.op("tanh", y) if name == "hidden" else y
    return h


def random_tensors(seed: int = 0) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    shapes = {"hidden.bias": (5,), "hidden.weight": (5, 3), "output.bias": (2,), "output.weight": (2, 5)}
    return {name: generator.normal(0, 1, shape).astype(np.float32) for name, shape in shapes.items()}


def test_gradient_of_a_model_beside_pytorch() -> None:
    tensors, x = random_tensors(), np.random.default_rng(1).normal(0, 1, (4, 3)).astype(np.float32)
    function = function_of([SMALL, tensor(4, 3)], lambda b, m, p: gradient(b, m, lambda c, inside: forward(c, inside, p)))
    _, packed = Evaluator(ready(function)).run([flat_model(SMALL, tensors), x], RecordingHost())
    twins = {name: torch.from_numpy(value).requires_grad_() for name, value in tensors.items()}
    h = torch.tanh(torch.from_numpy(x) @ twins["hidden.weight"].T + twins["hidden.bias"])
    (h @ twins["output.weight"].T + twins["output.bias"]).sum().backward()
    for name, found in tensors_of(SMALL, packed).items():  # type: ignore[arg-type]
        np.testing.assert_allclose(found, twins[name].grad, rtol=1e-4, atol=1e-6, err_msg=name)


def test_leaves_without_a_contribution_get_zeros() -> None:
    def outputs_only(b: Builder, m: Value) -> Value:
        return b.op("leaf", m, path="output.bias")

    function = ready(function_of([SMALL], lambda b, m: gradient(b, m, outputs_only)))
    _, packed = Evaluator(function).run([flat_model(SMALL, random_tensors())], RecordingHost())
    found = tensors_of(SMALL, packed)  # type: ignore[arg-type]
    assert (found["output.bias"] == 1).all() and all((found[name] == 0).all() for name in found if name != "output.bias")


def test_whole_numbers_in_a_model_get_zeros_of_their_type() -> None:
    members = (Member("count", tensor(2, element=Element.I64)), Member("rate", tensor(element=Element.F64)))
    counted = ModelType("Counted", "main", (), members)
    function = ready(function_of([counted], lambda b, m: gradient(b, m, lambda c, p: c.op("exp", c.op("leaf", p, path="rate")))))
    (pack,) = [op for op in walk(function.body) if op.name == "pack"]
    assert [str(operand.type) for operand in pack.operands] == ["i64[2]", "f64[]"]


def test_gradients_flow_through_packed_and_replaced_models() -> None:
    """The loss of a model whose output layer was replaced by one that is packed from the hidden bias."""
    layer = linear(number(5), number(2))

    def make(b: Builder, m: Value) -> Value:
        bias = b.op("leaf", m, path="hidden.bias")
        weight = b.op("broadcast", bias, axes=sizes(2, 5), positions=(1,))
        named = {"bias": b.op("leaf", m, path="output.bias"), "weight": b.op("mul", weight, weight)}
        part = b.op("pack", *(named[name] for name in sorted(named)), model=layer)
        whole = b.op("replace_submodel", m, part, path="output")
        product = b.op("mul", b.op("leaf", whole, path="output.weight"), b.op("leaf", whole, path="output.weight"))
        return b.op("add", total(b, product), total(b, b.op("leaf", whole, path="hidden.weight")))

    function = ready(function_of([SMALL], lambda b, m: gradient(b, m, make)))
    tensors = random_tensors()
    _, packed = Evaluator(function).run([flat_model(SMALL, tensors)], RecordingHost())
    found = tensors_of(SMALL, packed)  # type: ignore[arg-type]
    np.testing.assert_allclose(found["hidden.bias"], 2 * 4 * tensors["hidden.bias"] ** 3, rtol=1e-5)
    assert (found["hidden.weight"] == 1).all() and (found["output.weight"] == 0).all() and (found["output.bias"] == 0).all()


def test_gradient_of_a_gradient_of_a_model() -> None:
    tensors, x = random_tensors(), np.random.default_rng(1).normal(0, 1, (4, 3)).astype(np.float32)

    def outer(b: Builder, m: Value, p: Value) -> Value:
        _, inner = gradient(b, m, lambda c, inside: forward(c, inside, p))
        weight = b.op("leaf", inner, path="hidden.weight")
        return b.op("mul", weight, weight)

    function = function_of([SMALL, tensor(4, 3)], lambda b, m, p: gradient(b, m, lambda c, inside: outer(c, inside, p)))
    _, packed = Evaluator(ready(function)).run([flat_model(SMALL, tensors), x], RecordingHost())
    twins = {name: torch.from_numpy(value).requires_grad_() for name, value in tensors.items()}
    h = torch.tanh(torch.from_numpy(x) @ twins["hidden.weight"].T + twins["hidden.bias"])
    loss = (h @ twins["output.weight"].T + twins["output.bias"]).sum()
    (first,) = torch.autograd.grad(loss, twins["hidden.weight"], create_graph=True)
    (first * first).sum().backward()
    for name, found in tensors_of(SMALL, packed).items():  # type: ignore[arg-type]
        expected = twins[name].grad
        np.testing.assert_allclose(found, np.zeros_like(found) if expected is None else expected, rtol=2e-4, atol=1e-5, err_msg=name)


# ---- the structure of what is made


def test_adjoints_begin_with_the_first_contribution_in_reverse_program_order() -> None:
    def make(b: Builder, x: Value) -> Value:
        first, second, third = (b.op(name, x) for name in ("exp", "tanh", "neg"))
        return b.op("add", b.op("add", first, second), third)

    function = ready(function_of([tensor(4)], lambda b, x: gradient(b, x, make), hints=["x"]))
    text = print_function(function).splitlines()
    adds = [line.split(" = ")[1].split(" {")[0] for line in text if " = add(" in line]
    assert len(adds) == 4, "two of the program, two of the gradient; no zeros are added"
    negative = next(line.split(":")[0].strip() for line in text if " = neg(" in line and "neg(%x)" not in line)
    assert adds[2].startswith(f"add({negative},"), "the last user's contribution comes first"


def test_leaves_read_twice_add_up_in_the_order_of_their_uses() -> None:
    """It doesn't matter how often the program reads a leaf: contributions are those of uses."""
    line = ModelType("Line", "main", (), (Member("w", tensor(3)),))

    def shared(b: Builder, m: Value) -> Value:
        w = b.op("leaf", m, path="w")
        return b.op("add", b.op("add", b.op("exp", w), b.op("tanh", w)), b.op("sigmoid", w))

    def apart(b: Builder, m: Value) -> Value:
        one, two, three = (b.op("leaf", m, path="w") for _ in range(3))
        return b.op("add", b.op("add", b.op("exp", three), b.op("tanh", one)), b.op("sigmoid", two))

    w = np.array([0.3, -1.7, 2.9], np.float32)
    functions = [ready(function_of([line], lambda b, m, make=make: gradient(b, m, make))) for make in (shared, apart)]
    one, two = (Evaluator(function).run([flat_model(line, {"w": w})], RecordingHost())[1] for function in functions)
    assert one.tobytes() == two.tobytes()  # type: ignore[attr-defined]


def test_only_what_matters_gets_an_adjoint() -> None:
    x, data = tensor(4, 3), tensor(4, 3)

    def make(b: Builder, p: Value, q: Value) -> Value:
        b.op("exp", p)
        product = b.op("contraction", q, p, left=(0, 1), right=(2, 1), out=(0, 2))
        return b.op("mul", product, b.op("stop_gradient", b.op("tanh", product)))

    function = ready(function_of([x, data], lambda b, p, q: gradient(b, p, lambda c, inside: make(c, inside, q))))
    made = [op.name for op in walk(function.body)]
    assert made.count("contraction") == 2, "one of the program, one for p; none for q"
    assert made.count("mul") == 2 and made.count("exp") == 1


def test_the_loss_is_checked_before_the_gradient_is_computed() -> None:
    function = ready(function_of([tensor(4)], lambda b, x: gradient(b, x, lambda c, p: c.op("exp", p))))
    made = [op.name for op in walk(function.body)]
    assert made == ["exp", "sum", "check_finite", "constant", "broadcast", "mul"]
    (check,) = [op for op in walk(function.body) if op.name == "check_finite"]
    assert check.attributes == {"what": "loss"}


def test_adjoints_have_the_place_of_their_operation() -> None:
    def make(b: Builder, x: Value) -> Value:
        with b.at(at(5)):
            y = b.op("exp", x)
        with b.at(at(6)):
            return b.op("tanh", y)

    function = ready(function_of([tensor(4)], lambda b, x: gradient(b, x, make)))
    places = {op.name: op.span for op in reversed([*walk(function.body)])}
    spans = [op.span for op in walk(function.body)]
    assert places["exp"] == at(5) and places["tanh"] == at(6)
    assert spans.count(at(6)) > 2 and spans.count(at(5)) > 1 and None not in spans


def test_a_loss_that_does_not_depend_on_it_is_refused() -> None:
    with pytest.raises(CompileError) as caught:
        ready(function_of([tensor(4)], lambda b, x: gradient(b, x, lambda c, p: c.constant(2.0, Element.F32))))
    assert [d.code for d in caught.value.diagnostics] == ["E0803"]


@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("step", ["to_i64", "to_bool", "argmax", "gt"])
def test_what_goes_in_steps_gives_no_silent_zero(step: str, stopped: bool) -> None:
    """An int or bool that depends on it becomes a float again: refused, unless it is taken as a constant."""

    def make(b: Builder, x: Value) -> Value:
        kind = result_type(x)
        operands = (x, b.full(0.5, kind)) if step == "gt" else (x,)
        made = b.op(step, *operands, **({"positions": (0,)} if step == "argmax" else {}))
        number = b.convert(made, Element.F32)
        factor = b.op("stop_gradient", number) if stopped else number
        spread = factor if step != "argmax" else b.spread(factor, kind)
        return b.op("sum", b.op("mul", x, spread), positions=(0,))

    build = partial(function_of, [tensor(4)], lambda b, x: gradient(b, x, make))
    if not stopped:
        with pytest.raises(CompileError) as caught:
            ready(build())
        assert [d.code for d in caught.value.diagnostics] == ["E0801"]
        return
    x = np.array([0.25, 3.5, 0.75, -2.0], np.float32)
    taken = {"to_i64": np.trunc(x), "to_bool": np.ones(4), "argmax": np.ones(4), "gt": x > 0.5}[step]
    assert (Evaluator(ready(build())).run([x], RecordingHost())[1] == taken).all()


def test_the_value_itself_as_the_loss() -> None:
    x = np.asarray(3.0)
    assert Gradient(lambda b, p: p, x).at(x) == (3.0, 1.0)


def test_inactive_control_flow_stays() -> None:
    def make(b: Builder, x: Value, n: Value) -> Value:
        inner, i, h = Builder(SPAN), Value(INT, "i"), Value(INT, "h")
        (count,) = b.emit("for_range", n, n, n, regions=[inner.block([i, h], [inner.op("add", h, i)])])
        return b.op("mul", x, b.spread(b.convert(count, Element.F32), result_type(x)))

    function = ready(function_of([tensor(4), INT], lambda b, x, n: gradient(b, x, lambda c, p: make(c, p, n))))
    value, found = Evaluator(function).run([np.ones(4, np.float32), 3], RecordingHost())
    assert value == 12.0 and (found == np.full(4, 3)).all()


def test_gradients_inside_loops_and_branches() -> None:
    program = check_source("""
fn descend(x: [n], steps: int, careful: bool) -> [n]:
    mut at = x
    for i in 0..steps:
        if careful:
            l, g = value_and_grad(sum(at * at, over=n), wrt=at)
            at = at - 0.25 * g
    return at
""")
    assert program.module is not None, program.diagnostics
    function = compile_entry(program.module, program.functions["descend"][0].key, {}, verify=True)
    run = Evaluator(function).run
    x = np.array([1, -2, 4], np.float32)
    assert (run([x, 2, True], RecordingHost())[0] == x / 4).all() and (run([x, 2, False], RecordingHost())[0] == x).all()


# ---- what is refused


def errors(build: Callable[..., Sequence[Value]], *types: TensorType | ModelType) -> list[tuple[str, str]]:
    with pytest.raises(CompileError) as caught:
        differentiate(function_of(list(types), build, hints=["w"]))
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.span is not None
    return [(diagnostic.code, diagnostic.message)]


def test_operations_without_a_derivative_are_refused() -> None:
    def norm(b: Builder, m: Value) -> Value:
        return b.op("global_norm", m)

    ((code, message),) = errors(lambda b, m: gradient(b, m, norm), SMALL)
    assert code == "E0801" and "global_norm" in message and "`w`" in message


def test_an_operand_that_a_rule_gives_nothing_for_is_refused() -> None:
    def rate(b: Builder, x: Value) -> Value:
        kept_ = b.op("dropout", b.full(1.0, tensor(3)), x, b.constant(0, Element.I64), b.constant(0, Element.I64))
        return b.convert(total(b, kept_), Element.F64)

    ((code, message),) = errors(lambda b, x: gradient(b, x, rate), FLOAT)
    assert code == "E0801" and "dropout" in message


def test_a_branch_of_known_condition_is_no_control_flow() -> None:
    program = check_source("""
dim Depth = 3
fn f(x: [n]) -> [n]:
    mut h = x
    if Depth > 2:
        h = h * h
    return h
fn g(x: [n]) -> ([], [n]):
    l, d = value_and_grad(sum(f(x), over=n), wrt=x)
    return l, d
""")
    assert program.module is not None, program.diagnostics
    function = compile_entry(program.module, program.functions["g"][0].key, {}, verify=True)
    _, found = Evaluator(function).run([np.array([1, 2], np.float32)], RecordingHost())
    assert (found == np.array([2, 4])).all()
