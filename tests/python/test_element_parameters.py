"""Functions for tensors of any floats, `[F: float]`: each type of elements its own function, from programs and from Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from both_engines import Both

import shapescript
from shapescript.compiler.check.checker import check_source
from shapescript.compiler.ir.verifier import verify_function
from shapescript.compiler.ops.table import infer

PROGRAM = """
fn spread[F: float](x: F[..s n], shift: float = 0.5) -> (F[..s], F[n]):
    mut total = F(zeros[n])
    total = total + F(arange[n]) * shift
    return mean(x ** 2 + F(shift), over=n), total

fn both(x: [b n], y: f64[b n], z: [n]) -> ([b], f64[b], f64[n], [], f32[n]):
    s, t = spread(x)
    u, v = spread(y, shift=0.1)
    p, q = spread(z)
    r, last = spread(bf16(z))
    return s, u, v, p, f32(last)

fn mixed[F: float, G: float](x: F[b], y: G[b]) -> (F[b], G[b]):
    return x + F(y), G(x) + y

fn named[K, F: float](x: F[b]) -> F[b K]:
    return repeat(x: b -> b K)

fn three(x: f64[b]) -> f64[b 3]:
    return named[3](x)

data Point:
    x: [3]

model Scale:
    w: [3] = ones

fn apply(m: Scale, x: [b 3]) -> [b 3]:
    return x * m.w

fn twice[M: model, F: float](m: M, x: F[b 3]) -> F[b 3]
    requires apply(m: M, x: F[b 3]) -> F[b 3]:
    return apply(m, apply(m, x))

fn apply(m: Scale, x: f64[b 3]) -> f64[b 3]:
    return x * f64(m.w) / 2.0

fn doubled(m: Scale, x: [b 3]) -> [b 3]:
    return twice(m, x)

fn wide(m: Scale, x: f64[b 3]) -> f64[b 3]:
    return twice(m, x)

fn slope[F: float](x: F[b]) -> F[b]:
    l, g = value_and_grad(sum(x ** 3, over=b), wrt=x)
    return g
"""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    return Both(tmp_path_factory.mktemp("elements"), PROGRAM)


def test_one_text_for_all_floats(both: Both) -> None:
    rng = np.random.default_rng(1)
    x, y, z = rng.standard_normal((2, 3)), rng.standard_normal((2, 3)), rng.standard_normal(3)
    s, u, v, p, last = both.call("both", x.astype(np.float32), y, z.astype(np.float32))
    assert s.dtype == np.float32 and u.dtype == v.dtype == np.float64
    np.testing.assert_allclose(s, (x**2).mean(1) + 0.5, rtol=1e-6)
    np.testing.assert_allclose(u, (y**2).mean(1) + 0.1, rtol=1e-14)
    np.testing.assert_allclose(v, np.arange(3) * 0.1, rtol=1e-15)
    assert p == pytest.approx((z**2).mean() + 0.5, rel=1e-6)
    assert last.tolist() == [0.0, 0.5, 1.0]


def test_python_chooses_by_the_array(both: Both) -> None:
    x = np.array([1.0, 2.0])
    assert both.call("slope", x).dtype == np.float64
    assert both.call("slope", x.astype(np.float32)).tolist() == [3.0, 12.0]
    one, other = both.call("mixed", x.astype(np.float32), x)
    assert (one.dtype, other.dtype) == (np.float32, np.float64)
    with pytest.raises(shapescript.ArgumentError) as caught:
        both.native.slope(np.array([1, 2]))
    assert caught.value.code == "R1004"
    assert "f64[b]" in both.native.slope.__doc__ and "bf16[b]" in both.native.slope.__doc__


def test_with_dims_and_requirements(both: Both) -> None:
    assert both.call("three", np.array([1.0, 2.0])).shape == (2, 3)
    m = both.native.Scale(seed=0)
    m["w"] = np.array([2, 3, 4], np.float32)
    x = np.ones((2, 3), np.float32)
    assert both.native.doubled(m, x).tolist() == [[4, 9, 16]] * 2
    assert both.native.wide(m, x.astype(np.float64)).tolist() == [[1, 2.25, 4]] * 2


def test_each_body_is_valid_ir() -> None:
    module = check_source(PROGRAM).module
    assert module is not None
    for function in module.functions.values():
        verify_function(function, infer)
    assert sum(key.partition("#")[0].endswith(":mixed") for key in module.functions) == 9


def test_a_signature_is_read_once_for_all_floats() -> None:
    """What type of elements a function is for changes neither its dims nor its axis variables, and costs no second reading of them."""
    text = """
model Layer[D, F: float = f32]:
    w: F[D] = ones

fn f[D, F: float](m: Layer[D, F], x: F[..s b D], n: int = 3) -> (F[b], [D], int[b]):
    return x
"""
    one, two, three = check_source(text).functions["f"]
    assert [[*(str(parameter.type) for parameter in read.parameters), str(read.result)] for read in (one, two, three)] == [
        ["Layer[D]", "[..s b D]", "int", "([b], [D], int[b])"],
        ["Layer[D, F=f64]", "f64[..s b D]", "int", "(f64[b], [D], int[b])"],
        ["Layer[D, F=bf16]", "bf16[..s b D]", "int", "(bf16[b], [D], int[b])"],
    ]
    assert one.dims == two.dims == three.dims and one.axes == two.axes == three.axes and len(one.axes) == 2


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("f(x, y)", None),
        ("f(x, f64(y))", "E0310"),
        ("f(int(x), y)", "E0310"),
        ("f(x)", "E0302"),
        ("f(x, z)", "E0401"),
        ("f(1.0, y)", "E0301"),
        ("f[F=f64](x, y)", "E0311"),
    ],
)
def test_one_message_of_the_element_that_fits_best(call: str, code: str | None) -> None:
    text = f"fn f[F: float](x: F[b], y: F[b]) -> F[b]:\n    return x + y\n\nfn g(x: [b], y: [b], z: [n]) -> [b]:\n    return {call}\n"
    found = check_source(text).diagnostics
    assert [diagnostic.code for diagnostic in found] == ([code] if code else [])


def test_a_mistake_in_a_body_is_one_message(tmp_path: Path) -> None:
    found: Any = check_source("fn f[F: float](x: F[b n]) -> F[b]:\n    return sum(x, over=m)\n").diagnostics
    assert [diagnostic.code for diagnostic in found] == ["E0402"]
