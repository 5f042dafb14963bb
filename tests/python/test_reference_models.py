"""Models, gradients, optimisers and whole training steps in the reference evaluator, beside PyTorch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from evaluating import RecordingHost, axis, flat_model, fresh_state, function_of, linear, mlp, tensor, tensors_of

from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ir.sizes import number
from shapescript.compiler.ir.types import FLOAT, Element, ListType, Member, ModelType, OptimiserType, sorted_leaves
from shapescript.compiler.ops.build import Builder
from shapescript.compiler.ops.protocol import ExecutionError, OptimiserState
from shapescript.compiler.ops.table import NoDerivative, entry
from shapescript.compiler.passes.expand import expand
from shapescript.compiler.reference.engine import Evaluator
from shapescript.compiler.reference.layouts import Layout

HOST = RecordingHost()
SMALL = mlp(3, 5, 2)
F32_SCALAR = tensor()


def random_tensors(model: ModelType, seed: int = 0) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {name: generator.standard_normal(place.shape).astype(np.float32) for name, place in Layout(model).places.items()}


def random_model(model: ModelType, seed: int = 0) -> np.ndarray:
    return flat_model(model, random_tensors(model, seed))


def assert_is(model: ModelType, buffer: np.ndarray, tensors: dict[str, np.ndarray]) -> None:
    """The bytes of these tensors, and zeros between them."""
    assert buffer.tobytes() == flat_model(model, tensors).tobytes() and buffer.ctypes.data % 64 == 0


# ---- parts of models


def test_leaves_and_submodels() -> None:
    tensors = random_tensors(SMALL)

    def parts(b: Builder, m: Value) -> list[Value]:
        output = b.op("submodel", m, path="output")
        return [b.op("leaf", m, path="hidden.weight"), output, b.op("leaf", output, path="bias")]

    weight, output, bias = Evaluator(function_of([SMALL], parts)).run([flat_model(SMALL, tensors)], HOST)
    np.testing.assert_array_equal(weight, tensors["hidden.weight"])
    np.testing.assert_array_equal(bias, tensors["output.bias"])
    assert_is(linear(number(5), number(2)), output, {"weight": tensors["output.weight"], "bias": tensors["output.bias"]})


def test_lists_of_submodels_lie_by_name() -> None:
    block = linear(number(2), number(2))
    stack = ModelType("Stack", "main", (), (Member("blocks", ListType(block, number(11))), Member("scale", tensor())))
    tensors = random_tensors(stack)

    def parts(b: Builder, m: Value) -> list[Value]:
        return [b.op("submodel", m, path="blocks.10"), b.op("leaf", m, path="blocks.2.bias"), b.op("leaf", m, path="scale")]

    tenth, bias, scale = Evaluator(function_of([stack], parts)).run([flat_model(stack, tensors)], HOST)
    assert_is(block, tenth, {"weight": tensors["blocks.10.weight"], "bias": tensors["blocks.10.bias"]})
    np.testing.assert_array_equal(bias, tensors["blocks.2.bias"])
    assert scale == float(tensors["scale"])


def test_pack_puts_tensors_in_the_order_of_their_names() -> None:
    tensors = random_tensors(SMALL)
    function = function_of([leaf.type for leaf in sorted_leaves(SMALL)], lambda b, *leaves: b.op("pack", *leaves, model=SMALL))
    (packed,) = Evaluator(function).run([tensors[name] for name in sorted(tensors)], HOST)
    assert_is(SMALL, packed, tensors)


def test_replacing_a_part_leaves_the_old_model() -> None:
    old, new = random_tensors(SMALL), random_tensors(SMALL, seed=1)

    def replaced(b: Builder, m: Value, n: Value) -> list[Value]:
        first = b.op("replace_submodel", m, b.op("submodel", n, path="output"), path="output")
        return [b.op("replace_submodel", first, b.op("leaf", n, path="hidden.bias"), path="hidden.bias"), m]

    changed, unchanged = Evaluator(function_of([SMALL, SMALL], replaced)).run([flat_model(SMALL, old), flat_model(SMALL, new)], HOST)
    assert_is(SMALL, changed, {**new, "hidden.weight": old["hidden.weight"]})
    assert_is(SMALL, unchanged, old)


# ---- gradients


def norm_in_order(tensors: dict[str, np.ndarray]) -> float:
    """Rule 5 for tensors of at most 16 elements, where a reduction is the lane tree alone."""
    sums = []
    for name in sorted(tensors, key=str.encode):
        lanes = [-0.0] * 16
        for place, value in enumerate(tensors[name].reshape(-1).tolist()):
            lanes[place] += value * value
        for half in (8, 4, 2, 1):
            lanes = [lanes[lane] + lanes[lane + half] for lane in range(half)]
        sums.append(lanes[0])
    return float(np.sqrt((sums[0] + sums[1]) + (sums[2] + sums[3])))


def test_global_norm() -> None:
    tensors = random_tensors(SMALL)
    norm = Evaluator(function_of([SMALL], lambda b, g: b.op("global_norm", g))).run([flat_model(SMALL, tensors)], HOST)
    assert norm == [norm_in_order(tensors)]
    large = mlp(100, 120, 3)
    (norm,) = Evaluator(function_of([large], lambda b, g: b.op("global_norm", g))).run([random_model(large)], HOST)
    flat = np.concatenate([value.reshape(-1) for value in random_tensors(large).values()]).astype(np.float64)
    assert norm == pytest.approx(np.linalg.norm(flat), rel=1e-13)


def test_scaling_keeps_the_padding_zero() -> None:
    tensors = random_tensors(SMALL)
    function = function_of([SMALL, F32_SCALAR], lambda b, g, s: b.op("scale_model", g, s))
    for factor in (0.3, float("inf")):
        (scaled,) = Evaluator(function).run([flat_model(SMALL, tensors), factor], HOST)
        assert_is(SMALL, scaled, {name: value * np.float32(factor) for name, value in tensors.items()})


# ---- checks before an update


def guarded(b: Builder, m: Value, opt: Value, g: Value, loss: Value) -> list[Value]:
    b.emit("check_finite", loss, what="loss")
    b.emit("check_finite", g, b.op("global_norm", g), what="gradient")
    return [b.op("optimiser_step", opt), *b.emit("update", m, opt, g, b.float_constant(0.1), b.constant(1.0, Element.F32), kind="AdamW")]


@pytest.mark.parametrize(
    ("loss", "bad", "code", "message"),
    [
        (float("nan"), (), "R1104", "the loss is nan at step 5"),
        (float("-inf"), (), "R1104", "the loss is -inf at step 5"),
        (1.0, ("output.bias", "hidden.weight"), "R1105", "the gradient of hidden.weight is not finite at step 5"),
    ],
)
def test_what_is_not_finite_stops_before_the_update(loss: float, bad: Sequence[str], code: str, message: str) -> None:
    gradient = random_model(SMALL, 2)
    for name in bad:
        tensors_of(SMALL, gradient)[name].reshape(-1)[1] = np.inf
    model, state = random_model(SMALL), fresh_state(SMALL)
    state.block[0] = 4
    before = [array.copy() for array in (model, state.block, *state.slots[:2])]
    function = function_of([SMALL, OptimiserType("AdamW", SMALL), SMALL, F32_SCALAR], guarded, mutable=(0, 1))
    with pytest.raises(ExecutionError, match=message) as caught:
        Evaluator(function).run([model, state, gradient, loss], HOST)
    assert caught.value.code == code and caught.value.span.text == "line"
    for array, copy in zip((model, state.block, *state.slots[:2]), before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_a_check_without_an_update_names_no_step() -> None:
    function = function_of([tensor(3)], lambda b, x: b.emit("check_finite", x, what="gradient"), hints=["speed"])
    with pytest.raises(ExecutionError, match=r"the gradient of speed is not finite \(the norm is nan\); nothing"):
        Evaluator(function).run([np.float32([1, np.nan, 2])], HOST)
    assert Evaluator(function).run([np.float32([1, 2, 3])], HOST) == []


# ---- AdamW


def test_a_fresh_optimiser() -> None:
    def build(b: Builder, m: Value) -> list[Value]:
        state = b.op("optimiser", m, *(b.float_constant(value) for value in (0.8, 0.95, 1e-6, 0.1, 0.0)), kind="AdamW")
        return [state, b.op("optimiser_step", state)]

    state, step = Evaluator(function_of([SMALL], build)).run([random_model(SMALL)], HOST)
    assert isinstance(state, OptimiserState) and step == 0 and not any(slot.any() for slot in state.slots[:2])
    assert state.block[8:13].view(np.float64).tolist() == [0.8, 0.95, 1e-6, 0.1, 0.0]
    assert state.block[:4].tolist() == [0, *(slot.ctypes.data for slot in state.slots[:2]), 0] and state.slots[2] is None


@pytest.mark.parametrize("constants", [((0.9, 0.999), 1e-8, 0.01), ((0.5, 0.9), 1e-3, 0.3), ((0.0, 0.99), 1e-8, 0.0)])
def test_adamw_is_torchs(constants: tuple[tuple[float, float], float, float]) -> None:
    betas, eps, decay = constants
    tensors = random_tensors(SMALL)
    theirs = {name: torch.nn.Parameter(torch.from_numpy(value.copy())) for name, value in tensors.items()}
    optimiser = torch.optim.AdamW(theirs.values(), lr=0.01, betas=betas, eps=eps, weight_decay=decay)

    def build(b: Builder, *operands: Value) -> list[Value]:
        return list(b.emit("update", *operands, kind="AdamW"))

    update = Evaluator(function_of([SMALL, OptimiserType("AdamW", SMALL), SMALL, FLOAT, F32_SCALAR], build, mutable=(0, 1)))
    model, state = flat_model(SMALL, tensors), fresh_state(SMALL, betas, eps, decay)
    for step in range(20):
        gradient = random_tensors(SMALL, step)
        assert update.run([model, state, flat_model(SMALL, gradient), 0.01, 0.5], HOST) == []
        for name, parameter in theirs.items():
            parameter.grad = torch.from_numpy(gradient[name]) * 0.5
        optimiser.step()
    assert state.block[0] == 20
    for name, parameter in theirs.items():
        np.testing.assert_allclose(tensors_of(SMALL, model)[name], parameter.detach().numpy(), rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(tensors_of(SMALL, state.slots[1])[name], optimiser.state[parameter]["exp_avg_sq"].numpy(), rtol=1e-5)


def test_tiny_first_moments_become_zero() -> None:
    def build(b: Builder, m: Value, opt: Value, g: Value) -> list[Value]:
        return list(b.emit("update", m, opt, g, b.float_constant(0.1), b.constant(1.0, Element.F32), kind="AdamW"))

    update = Evaluator(function_of([SMALL, OptimiserType("AdamW", SMALL), SMALL], build, mutable=(0, 1)))
    gradient = {name: np.zeros_like(value) for name, value in random_tensors(SMALL).items()}
    gradient["hidden.bias"][:] = [2.0**-96, -(2.0**-96), 2.0**-97, -(2.0**-97), 1.0]
    state = fresh_state(SMALL)
    update.run([random_model(SMALL), state, flat_model(SMALL, gradient)], HOST)
    weight = np.float32(1 - 0.9)
    expected = np.float32([2.0**-96, -(2.0**-96), 0, 0, 1]) * weight
    assert tensors_of(SMALL, state.slots[0])["hidden.bias"].tobytes() == expected.tobytes()


# ---- training


def gradients(b: Builder, loss: Value, wanted: Sequence[Value]) -> list[Value]:
    """By the table's derivatives, straight through the operations collected so far."""
    flow = {loss: b.constant(1.0, Element.F32)}
    for op in reversed(b.ops[:-1]):
        rule, given = entry(op.name).derivative, [flow.get(result) for result in op.results]
        if isinstance(rule, NoDerivative) or given == [None] * len(given):
            continue
        for operand, gradient in zip(op.operands, rule(b, op, given), strict=True):
            if gradient is not None:
                flow[operand] = b.op("add", flow[operand], gradient) if operand in flow else gradient
    return [flow[value] for value in wanted]


def classifier(b: Builder, model: ModelType, m: Value, x: Value, labels: Value) -> tuple[Value, list[Value]]:
    """The loss of a two-layer ReLU classifier, and its parameters in the order of their names."""
    leaves = {leaf.name: b.op("leaf", m, path=leaf.name) for leaf in sorted_leaves(model)}

    def layer(name: str, value: Value) -> Value:
        product = b.op("contraction", value, leaves[f"{name}.weight"], left=(0, 1), right=(2, 1), out=(0, 2))
        return b.op("add", product, b.broadcast(leaves[f"{name}.bias"], product.type.axes, (1,)))

    loss, _ = b.emit("cross_entropy", layer("output", b.op("relu", layer("hidden", x))), labels)
    return loss, list(leaves.values())


def training_step(model: ModelType, rate: float, limit: float) -> Evaluator:
    """(mut model, mut optimiser, x, labels) to the loss and the norm before clipping."""

    def build(b: Builder, m: Value, opt: Value, x: Value, labels: Value) -> list[Value]:
        loss, leaves = classifier(b, model, m, x, labels)
        gradient = b.op("pack", *gradients(b, loss, leaves), model=model)
        b.emit("check_finite", loss, what="loss")
        norm = b.op("global_norm", gradient)
        ratio = b.op("div", b.float_constant(limit), b.op("add", norm, b.float_constant(1e-6)))
        factor = b.convert(b.op("minimum", ratio, b.float_constant(1.0)), Element.F32)
        return [loss, norm, *b.emit("update", m, opt, gradient, b.float_constant(rate), factor, kind="AdamW")]

    rows, inputs = axis("b"), next(leaf for leaf in sorted_leaves(model) if leaf.name == "hidden.weight").type.axes[1]
    types = [model, OptimiserType("AdamW", model), tensor(rows, inputs), tensor(rows, element=Element.I64)]
    return Evaluator(expand(function_of(types, build, mutable=(0, 1))))


@pytest.mark.parametrize("limit", [0.05, 100.0])
def test_training_is_torchs(limit: float) -> None:
    model_type = mlp(12, 16, 4)
    tensors = random_tensors(model_type)
    net = torch.nn.Sequential(torch.nn.Linear(12, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    twins = {"hidden.weight": net[0].weight, "hidden.bias": net[0].bias, "output.weight": net[2].weight, "output.bias": net[2].bias}
    for name, parameter in twins.items():
        parameter.data = torch.from_numpy(tensors[name].copy())
    optimiser = torch.optim.AdamW(net.parameters(), lr=1e-3)
    step, model, state = training_step(model_type, 1e-3, limit), flat_model(model_type, tensors), fresh_state(model_type)
    generator = np.random.default_rng(5)
    for turn in range(20):
        rows = 7 if turn % 3 else 1
        x, labels = generator.standard_normal((rows, 12)).astype(np.float32), generator.integers(0, 4, rows)
        loss, norm = step.run([model, state, x, labels], HOST)
        optimiser.zero_grad()
        expected = torch.nn.functional.cross_entropy(net(torch.from_numpy(x)), torch.from_numpy(labels))
        expected.backward()
        before = torch.nn.utils.clip_grad_norm_(net.parameters(), limit)
        optimiser.step()
        assert loss == pytest.approx(expected.item(), rel=1e-5)
        assert norm == pytest.approx(before.item(), rel=1e-5)
    for name, parameter in twins.items():
        np.testing.assert_allclose(tensors_of(model_type, model)[name], parameter.detach().numpy(), rtol=1e-6, atol=1e-6)
