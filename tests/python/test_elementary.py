"""The elementary functions: errors in units of the last place against f64 and mpmath, special cases, and their exact bits."""

import math
import zlib
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from shapescript.compiler.numerics import elementary
from shapescript.compiler.numerics.evaluation import evaluate
from shapescript.compiler.numerics.exponentials import EXP_RANGE, reduced
from shapescript.compiler.numerics.formats import power_of_two
from shapescript.compiler.numerics.scalar import F32, F64, I32, I64, U32, Argument, Expr, Kind, KindError, floor

Array = NDArray[Any]
NAN, INF = math.nan, math.inf

OF_ONE: dict[str, Callable[[Expr], Expr]] = {
    name: getattr(elementary, name) for name in ("exp", "expm1", "log", "log1p", "sigmoid", "tanh", "sin", "cos", "erf")
}
# NumPy in f64: right to far less than a unit in f32's last place.
IN_F64: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sigmoid": lambda x: np.where(x < 0, np.exp(x), 1.0) / (1 + np.exp(-np.abs(x))),
    "tanh": np.tanh,
    "sin": np.sin,
    "cos": np.cos,
    "erf": lambda x: np.array([math.erf(value) for value in x.tolist()]),
}
IN_MPMATH: dict[str, Callable[[Any], Any]] = {name: getattr(mpmath, name) for name in OF_ONE if name != "sigmoid"}
IN_MPMATH["sigmoid"] = lambda x: 1 / (1 + mpmath.exp(-x))
DTYPES = {F32: np.float32, F64: np.float64}
WORST = 1.5  # what is documented for every function is 2


def of_one(name: str, kind: Kind, x: Array) -> Array:
    return evaluate(OF_ONE[name](Argument(0, kind)), [x.astype(DTYPES[kind])])


def single(name: str, kind: Kind, x: float) -> float:
    return float(of_one(name, kind, np.array([x]))[0])


def same(a: float, b: float) -> bool:
    return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))


@pytest.mark.parametrize("name", sorted(OF_ONE))
def test_f32_errors_over_the_whole_range(name: str) -> None:
    step = 4099 if name not in ("erf", "sin", "cos") else 16411
    x = np.arange(0, 2**32, step, dtype=np.uint32).view(np.float32)
    found = of_one(name, F32, x)
    with np.errstate(all="ignore"):
        exact = IN_F64[name](x.astype(np.float64))
        nearest = exact.astype(np.float32)
        unit = np.spacing(np.maximum(np.abs(nearest), np.float32(2.0**-126))).astype(np.float64)
        finite = np.isfinite(nearest) & np.isfinite(found)
        errors = np.abs(found.astype(np.float64) - exact)[finite] / unit[finite]
    assert errors.max() < WORST
    assert (np.isnan(found) == np.isnan(nearest)).all()
    limits = ~finite & ~np.isnan(nearest)
    assert (found[limits] == nearest[limits]).all()
    assert (np.signbit(found) == np.signbit(nearest))[~np.isnan(nearest)].all()


def units_off(found: float, exact: Any, kind: Kind) -> float:
    digits, lowest = (24, -149) if kind is F32 else (53, -1074)
    exponent = max(mpmath.frexp(exact)[1] - digits, lowest)
    return float(abs(mpmath.mpf(found) - exact) * mpmath.ldexp(1, -exponent))


def samples_f64(name: str) -> Array:
    rng = np.random.default_rng(7)
    spread = np.exp(rng.uniform(-40, 6, 200)) * rng.choice([-1.0, 1.0], 200)
    x = np.concatenate([rng.uniform(-1, 1, 200), rng.uniform(-20, 20, 200), spread])
    if name in ("exp", "expm1", "sigmoid"):
        x = np.concatenate([x, rng.uniform(-744, 709, 200)])
    if name == "log":
        huge = rng.integers(1, 0x7FE << 52, 200, dtype=np.uint64).view(np.float64)
        x = np.abs(np.concatenate([x, rng.uniform(0.6, 1.6, 200), huge, [5e-324, 1e-310]]))
    if name == "log1p":
        x = np.concatenate([x[x > -1], [1e300, -1 + 2.0**-53, 1e17]])
    if name in ("sin", "cos"):
        huge = rng.integers(0, 0x7FE << 52, 200, dtype=np.uint64).view(np.float64)
        # the last is the f64 that is nearest to a multiple of pi/2 for its size (Kahan)
        x = np.concatenate([x, huge, rng.integers(0, 2**45, 100) * (np.pi / 2), [6381956970095103.0 * 2.0**797]])
    return x


@pytest.mark.parametrize("name", sorted(OF_ONE))
def test_f64_errors_on_samples(name: str) -> None:
    x = samples_f64(name)
    found = of_one(name, F64, x)
    with mpmath.workprec(1300 if name in ("sin", "cos") else 200):
        errors = [units_off(y, IN_MPMATH[name](mpmath.mpf(v)), F64) for v, y in zip(x.tolist(), found.tolist(), strict=True)]
    assert max(errors) < WORST


@pytest.mark.parametrize(("kind", "most"), [(F32, 87.0), (F64, 708.0)])
def test_pow_errors_on_samples(kind: Kind, most: float) -> None:
    rng = np.random.default_rng(11)
    x = np.concatenate([np.exp(rng.uniform(-5, 5, 300)), np.exp(rng.uniform(-80, 80, 300)), rng.uniform(0.99, 1.01, 300)])
    x = x.astype(DTYPES[kind])
    y = (rng.uniform(-1.04, 1.02, len(x)) * most / np.log(x.astype(np.float64))).astype(DTYPES[kind])
    found = evaluate(elementary.pow(Argument(0, kind), Argument(1, kind)), [x, y])
    finite = np.isfinite(found)
    assert finite.sum() > 800
    with mpmath.workprec(200):
        triples = zip(x[finite].tolist(), y[finite].tolist(), found[finite].tolist(), strict=True)
        assert max(units_off(z, mpmath.power(mpmath.mpf(a), mpmath.mpf(b)), kind) for a, b, z in triples) < 1.0


SPECIAL = {
    "exp": [(0.0, 1.0), (-0.0, 1.0), (-INF, 0.0), (INF, INF), (1e30, INF), (-1e30, 0.0), (NAN, NAN)],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (-INF, -1.0), (INF, INF), (-1e30, -1.0), (NAN, NAN)],
    "log": [(1.0, 0.0), (0.0, -INF), (-0.0, -INF), (-1.0, NAN), (-INF, NAN), (INF, INF), (NAN, NAN)],
    "log1p": [(0.0, 0.0), (-0.0, -0.0), (-1.0, -INF), (-2.0, NAN), (-INF, NAN), (INF, INF), (NAN, NAN)],
    "sigmoid": [(0.0, 0.5), (-0.0, 0.5), (-INF, 0.0), (INF, 1.0), (NAN, NAN)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (-INF, -1.0), (INF, 1.0), (NAN, NAN)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "cos": [(0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (NAN, NAN)],
}


@pytest.mark.parametrize("kind", [F32, F64])
@pytest.mark.parametrize("name", sorted(SPECIAL))
def test_special_cases(name: str, kind: Kind) -> None:
    for x, expected in SPECIAL[name]:
        assert same(single(name, kind, x), expected), x


@pytest.mark.parametrize("kind", [F32, F64])
def test_nothing_underflows_where_a_mask_takes_a_number_out_of_softmax(kind: Kind) -> None:
    """Many CPUs take a hundred times as long where something does: there, both factors that scale the result are 0."""
    n = reduced(Argument(0, kind)).n
    half = floor(n * 0.5)
    lowest = np.array([EXP_RANGE[kind][0]], DTYPES[kind])
    assert [evaluate(power_of_two(part), [lowest]).tolist() for part in (half, n - half)] == [[0.0], [0.0]]


@pytest.mark.parametrize(("kind", "tiny"), [(F32, 2.0**-149), (F64, 2.0**-1074)])
@pytest.mark.parametrize("name", ["expm1", "log1p", "tanh", "sin"])
def test_the_smallest_number_is_its_own_image(name: str, kind: Kind, tiny: float) -> None:
    assert single(name, kind, tiny) == tiny and single(name, kind, -tiny) == -tiny


@pytest.mark.parametrize("name", ["tanh", "sin", "erf"])
@pytest.mark.parametrize("kind", [F32, F64])
def test_odd_functions_are_odd_to_the_bit(name: str, kind: Kind) -> None:
    x = np.random.default_rng(5).standard_normal(1000) * 3
    assert of_one(name, kind, -x).tobytes() == (-of_one(name, kind, x)).tobytes()


@pytest.mark.parametrize("kind", [F32, F64])
def test_pow_has_ieee_special_cases(kind: Kind) -> None:
    values = [NAN, -INF, -3.0, -2.5, -2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, 2.5, 3.0, INF]
    x, y = (np.array(column, DTYPES[kind]) for column in zip(*[(a, b) for a in values for b in values], strict=True))
    found = evaluate(elementary.pow(Argument(0, kind), Argument(1, kind)), [x, y])
    with np.errstate(all="ignore"):
        expected = np.power(x, y)  # the C library's special cases are IEEE's
    for a, b, p, q in zip(x.tolist(), y.tolist(), found.tolist(), expected.tolist(), strict=True):
        assert same(p, q) or (math.isfinite(q) and q not in (0.0, 1.0) and abs(p / q - 1) < 1e-6), (a, b, p, q)


@pytest.mark.parametrize("kind", [F32, F64])
def test_minimum_maximum_and_relu_pin_zeros_and_nan(kind: Kind) -> None:
    a, b = Argument(0, kind), Argument(1, kind)

    def of(expression: Expr, x: float, y: float = 0.0) -> float:
        return float(evaluate(expression, [np.array([x], DTYPES[kind]), np.array([y], DTYPES[kind])])[0])

    values = [-INF, -2.0, -0.0, 0.0, 1.0, INF]  # in order: -0 counts as less than +0
    for i, x in enumerate(values):
        for j, y in enumerate(values):
            assert same(of(elementary.maximum(a, b), x, y), values[max(i, j)])
            assert same(of(elementary.minimum(a, b), x, y), values[min(i, j)])
        for function in (elementary.maximum, elementary.minimum):
            assert math.isnan(of(function(a, b), x, NAN)) and math.isnan(of(function(a, b), NAN, x))
    for x, expected in [(-0.0, 0.0), (0.0, 0.0), (-1.0, 0.0), (-INF, 0.0), (2.0, 2.0), (INF, INF), (NAN, NAN)]:
        assert same(of(elementary.relu(a), x), expected)


@given(st.integers(-(2**63), 2**63 - 1), st.one_of(st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1)))
def test_integer_division_is_pythons(a: int, b: int) -> None:
    x, y = Argument(0, I64), Argument(1, I64)
    operands = [np.array([a], np.int64), np.array([b], np.int64)]
    fails = b == 0 or (a == -(2**63) and b == -1)
    assert bool(evaluate(elementary.division_fails(x, y), operands)[0]) == fails
    quotient, remainder = (evaluate(build(x, y), operands)[0] for build in (elementary.floor_divide, elementary.modulo))
    if not fails:
        assert (int(quotient), int(remainder)) == divmod(a, b)


def test_unsigned_division() -> None:
    x, y = Argument(0, U32), Argument(1, U32)
    operands = [np.array([2**32 - 1, 7], np.uint32), np.array([2, 9], np.uint32)]
    assert evaluate(elementary.floor_divide(x, y), operands).tolist() == [2**31 - 1, 0]
    assert evaluate(elementary.modulo(x, y), operands).tolist() == [1, 7]
    assert not evaluate(elementary.division_fails(x, y), operands).any()


@pytest.mark.parametrize("kind", [F32, F64])
@pytest.mark.parametrize("integer", [I32, I64])
def test_floats_to_integers_saturate(kind: Kind, integer: Kind) -> None:
    top = 2 ** (integer.bits - 1)
    x = np.array([0.0, -0.9, 0.9, 3.7, -3.7, NAN, INF, -INF, 1e30, -1e30, top, -top, 2.0**20], DTYPES[kind])
    found = evaluate(elementary.to_integer(Argument(0, kind), integer), [x])
    assert found.tolist() == [0, 0, 0, 3, -3, 0, top - 1, -top, top - 1, -top, top - 1, -top, 2**20]


def test_integer_powers_are_repeated_products_in_the_written_order() -> None:
    x = np.array([1.1, -0.7, 3.3, 0.0, NAN], np.float32)
    power = {n: evaluate(elementary.integer_power(Argument(0, F32), n), [x]) for n in (-2, -1, 0, 1, 2, 3, 5, 6)}
    assert power[0].tolist() == [1.0] * 5 and power[1].tobytes() == x.tobytes()
    assert power[2].tobytes() == (x * x).tobytes()
    assert power[3].tobytes() == ((x * x) * x).tobytes()
    assert power[5].tobytes() == (((x * x) * (x * x)) * x).tobytes()
    assert power[6].tobytes() == (((x * x) * x) * ((x * x) * x)).tobytes()
    with np.errstate(divide="ignore"):
        assert power[-1].tobytes() == (np.float32(1) / x).tobytes()
        assert power[-2].tobytes() == (np.float32(1) / (x * x)).tobytes()
    assert evaluate(elementary.integer_power(Argument(0, I64), 5), [np.array([-3], np.int64)]).tolist() == [-243]
    with pytest.raises(ValueError, match="negative power"):
        elementary.integer_power(Argument(0, I64), -1)


@given(st.floats(0.5, 1.0), st.integers(0, 10**6))
def test_powers_of_a_step_are_the_loop_and_near_the_truth(base: float, t: int) -> None:
    turn = elementary.power_loop_turn(Argument(0, F64), Argument(1, F64), Argument(2, I64))
    state: list[Any] = [np.float64(1.0), np.float64(base), np.int64(t)]
    while state[2]:
        state = [evaluate(value, state)[()] for value in (turn.result, turn.base, turn.remaining)]
    found = elementary.power_of_step(base, t)
    assert found == float(state[0])
    with mpmath.workprec(200):
        exact = mpmath.mpf(base) ** t
        assert abs(found - exact) <= (t + 2) * 2.0**-53 * exact + 2.0**-1070


def test_step_counts_are_not_negative() -> None:
    with pytest.raises(ValueError, match="not negative"):
        elementary.power_of_step(0.9, -1)


def test_only_floats_have_elementary_functions() -> None:
    with pytest.raises((KindError, KeyError)):
        elementary.exp(Argument(0, I64))


# Golden bits: a change here changes every trained model, so it is a breaking change of the language.
GOLDEN = {
    ("cos", "f32"): "e1af2e9e",
    ("cos", "f64"): "51e460d1",
    ("erf", "f32"): "5c3b0e4f",
    ("erf", "f64"): "fe85b61e",
    ("exp", "f32"): "e481a41e",
    ("exp", "f64"): "dec18081",
    ("expm1", "f32"): "9dc9457a",
    ("expm1", "f64"): "20d085ec",
    ("log", "f32"): "734f8135",
    ("log", "f64"): "2e57dc81",
    ("log1p", "f32"): "e62fdf07",
    ("log1p", "f64"): "254ba41b",
    ("sigmoid", "f32"): "63826a9e",
    ("sigmoid", "f64"): "ca52fa2c",
    ("sin", "f32"): "3a757677",
    ("sin", "f64"): "a1611a54",
    ("tanh", "f32"): "043fd232",
    ("tanh", "f64"): "dd8da69b",
    ("pow", "f32"): "a66568db",
    ("pow", "f64"): "d4f373f5",
}


def golden(name: str, kind: Kind) -> str:
    word, step = (np.uint32, 2**32 // 5003) if kind is F32 else (np.uint64, 2**64 // 5003)
    x = (np.arange(5003, dtype=np.uint64) * np.uint64(step)).astype(word).view(DTYPES[kind])
    x = np.concatenate([x, np.linspace(-9, 9, 5000).astype(DTYPES[kind])])
    function = elementary.pow(Argument(0, kind), Argument(1, kind)) if name == "pow" else OF_ONE[name](Argument(0, kind))
    found = evaluate(function, [x, x[::-1].copy()])
    found[np.isnan(found)] = NAN
    return f"{zlib.crc32(found.tobytes()):08x}"


@pytest.mark.parametrize("kind", [F32, F64])
@pytest.mark.parametrize("name", [*sorted(OF_ONE), "pow"])
def test_bits_never_change(name: str, kind: Kind) -> None:
    assert golden(name, kind) == GOLDEN[name, kind.value]
