"""Fits the minimax polynomials of compiler/numerics, by Remez's exchange in 60 digits, and prints them beside their errors.

    python bench/fit_polynomials.py

A polynomial in t is fitted to `target` with error weighted by `weight`; coefficients are then rounded to the kind and the error is
measured again. Needs mpmath.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath as mp

Function = Callable[[Any], Any]
GRID = 600
NEAR_ZERO = mp.mpf("1e-9")  # targets divide by t: the fit begins beside 0


@dataclass(frozen=True)
class Fit:
    """A polynomial wanted: what it stands for, its target, weight and interval, how many coefficients, and of which kind."""

    name: str
    target: Function
    weight: Function
    low: Any
    high: Any
    count: int
    kind: str


def minimax(fit: Fit) -> tuple[list[Any], Any]:
    """Coefficients from the lowest power up, and the largest weighted error."""
    low, high, n = mp.mpf(fit.low), mp.mpf(fit.high), fit.count
    middle, half = (low + high) / 2, (high - low) / 2
    points = [middle - half * mp.cos(mp.pi * (2 * i + 1) / (2 * (n + 1))) for i in range(n + 1)]
    grid = [middle - half * mp.cos(mp.pi * i / GRID) for i in range(GRID + 1)]
    known = [(fit.target(t), fit.weight(t)) for t in grid]
    coefficients: list[Any] = []
    largest = mp.inf
    for _ in range(12):
        matrix, right = mp.matrix(n + 1, n + 1), mp.matrix(n + 1, 1)
        for i, t in enumerate(points):
            for power in range(n):
                matrix[i, power] = t**power
            matrix[i, n] = (-1) ** i / fit.weight(t)
            right[i] = fit.target(t)
        solution = mp.lu_solve(matrix, right)
        coefficients = [solution[power] for power in range(n)]
        errors = [weight * (mp.polyval(coefficients[::-1], t) - target) for t, (target, weight) in zip(grid, known, strict=True)]
        extremes: list[int] = []
        for i, error in enumerate(errors):
            if not extremes or (error > 0) != (errors[extremes[-1]] > 0):
                extremes.append(i)
            elif abs(error) > abs(errors[extremes[-1]]):
                extremes[-1] = i
        while len(extremes) > n + 1:
            extremes.pop(0 if abs(errors[extremes[0]]) < abs(errors[extremes[-1]]) else -1)
        largest = max(abs(error) for error in errors)
        if len(extremes) < n + 1 or largest < abs(solution[n]) * mp.mpf("1.01"):
            break
        points = [grid[i] for i in extremes]
    return coefficients, largest


def rounded(value: Any, kind: str) -> float:
    number = float(value)
    return float(struct.unpack("f", struct.pack("f", number))[0]) if kind == "f32" else number


def error_of(fit: Fit, coefficients: list[float]) -> Any:
    low, high = mp.mpf(fit.low), mp.mpf(fit.high)
    points = [low + (high - low) * i / 2000 for i in range(2001)]
    descending = [mp.mpf(coefficient) for coefficient in coefficients[::-1]]
    return max(abs(fit.weight(t) * (mp.polyval(descending, t) - fit.target(t))) for t in points)


def of_root(function: Function) -> Function:
    """A function of t through its square root: for the polynomials in x^2."""
    return lambda t: function(mp.sqrt(t))


def fits() -> list[Fit]:
    half_log = mp.log(2) / 2 * mp.mpf("1.0001")
    ratio = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2 * mp.mpf("1.0001")
    eighth, tanh_end = (mp.pi / 4) ** 2 * mp.mpf("1.0002"), mp.mpf("0.625") ** 2 * mp.mpf("1.0002")

    def log_series(t: Any) -> Any:
        s = mp.sqrt(t)
        return (mp.log((1 + s) / (1 - s)) - 2 * s) / (s * t)

    def erf_near(x: Any) -> Any:
        return mp.erf(x) / x

    def normal_near(x: Any) -> Any:
        """(P(X < x) - 1/2) / x of the normal distribution."""
        return mp.erf(x / mp.sqrt(2)) / 2 / x

    def normal_tail(kind: str, middle: str, begin: str, end: str, count: int) -> Fit:
        """Of P(X > a), with t = (a - middle) / (a + middle)."""
        m, low, high = mp.mpf(middle), mp.mpf(begin), mp.mpf(end)

        def target(t: Any) -> Any:
            a = m * (1 + t) / (1 - t)
            return mp.erfc(a / mp.sqrt(2)) / 2 * mp.exp(a * a / 2) * (a + m)

        return Fit(f"normal tail {kind}", target, lambda t: 1 / target(t), (low - m) / (low + m), (high - m) / (high + m), count, kind)

    wanted = [
        Fit("exp", lambda r: (mp.expm1(r) - r) / r**2, lambda r: abs(r) + mp.mpf("1e-3"), -half_log, half_log + NEAR_ZERO, 11, "f64"),
        Fit("log", log_series, lambda t: t / 2, NEAR_ZERO, ratio, 7, "f64"),
        Fit("log for pow", lambda t: (log_series(t) - mp.mpf(2) / 3) / t, lambda t: t * t / 2, NEAR_ZERO, ratio, 7, "f64"),
    ]
    for kind, tanh, sine, cosine in (("f32", 5, 4, 3), ("f64", 12, 6, 6)):
        trigonometric = "f64"  # both kinds' sine and cosine are computed in f64
        wanted += [
            Fit(f"tanh {kind}", of_root(lambda x: (mp.tanh(x) / x - 1) / x**2), lambda t: t, NEAR_ZERO, tanh_end, tanh, kind),
            Fit(f"sin {kind}", of_root(lambda x: (mp.sin(x) / x - 1) / x**2), lambda t: t, NEAR_ZERO, eighth, sine, trigonometric),
            Fit(f"cos {kind}", lambda t: (mp.cos(mp.sqrt(t)) - 1 + t / 2) / t**2, lambda t: t**2, NEAR_ZERO, eighth, cosine, trigonometric),
        ]
    for kind, cut, near, greatest, far in (("f32", "0.9375", 7, 4, 7), ("f64", "1", 13, 6, 18)):
        end = mp.mpf(cut) ** 2 * mp.mpf("1.0001")
        begin = mp.mpf("0.9") if kind == "f32" else mp.mpf(1)
        wanted += [
            Fit(f"erf near {kind}", of_root(lambda x: erf_near(x) - 1), of_root(lambda x: 1 / erf_near(x)), NEAR_ZERO, end, near, kind),
            Fit(f"erf far {kind}", lambda x: -mp.log(mp.erfc(x)) / x, lambda x: mp.erfc(x) * x, begin, greatest, far, kind),
        ]
    small = mp.mpf("0.75") ** 2 * mp.mpf("1.0001")
    for kind, count in (("f32", 5), ("f64", 10)):
        weight = of_root(lambda x: x / (mp.mpf("0.5") - x * normal_near(x)))
        wanted.append(Fit(f"normal near {kind}", of_root(normal_near), weight, NEAR_ZERO, small, count, kind))
    wanted += [normal_tail("f32", "2.75", "0.6", "14.6", 9), normal_tail("f64", "4", "0.7", "39", 22)]
    return wanted


def main() -> None:
    with mp.workdps(60):
        for fit in fits():
            ideal, error = minimax(fit)
            coefficients = [rounded(coefficient, fit.kind) for coefficient in ideal]
            logs = [mp.nstr(mp.log(value, 2), 4) for value in (error, error_of(fit, coefficients))]
            print(f"{fit.name}: error 2^{logs[0]}, of the rounded coefficients 2^{logs[1]}")
            print("  " + ", ".join(repr(coefficient) for coefficient in coefficients[::-1]))


if __name__ == "__main__":
    main()
