"""Measures the f32 elementary functions' errors over all 2^32 inputs, in units of the last place, against NumPy in f64.

    python bench/elementary_accuracy.py [--every N] [NAME ...]

Without names all are measured; `--every N` takes each N-th input. A function takes some twenty minutes of one core for all inputs.
"""

import argparse
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shapescript.compiler.numerics import elementary
from shapescript.compiler.numerics.evaluation import evaluate
from shapescript.compiler.numerics.scalar import F32, Argument, Constant

Array = NDArray[Any]
CHUNK = 1 << 16  # inputs at a time, so that intermediates stay in cache
FAR = 1e4  # gelu and its tanh form are their limits from here on, in f64 too


def sigmoid(x: Array) -> Array:
    return np.where(x < 0, np.exp(np.minimum(x, 0.0)), 1.0) / (1 + np.exp(-np.abs(x)))


def gelu(x: Array) -> Array:
    return x * 0.5 * np.array([math.erfc(value) for value in (-x / math.sqrt(2)).tolist()])


def gelu_tanh(x: Array) -> Array:
    return x * sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


def softplus(x: Array) -> Array:
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


def with_limits(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """The function between its limits, -0 on the left and x on the right."""
    return lambda x: np.where(np.abs(x) < FAR, function(np.clip(x, -FAR, FAR)), np.where(x < 0, -0.0, x))


IN_F64: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp,
    "log": np.log,
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "expm1": np.expm1,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "erf": lambda x: np.array([math.erf(value) for value in x.tolist()]),
    "gelu": with_limits(gelu),
    "gelu_tanh": with_limits(gelu_tanh),
    "silu": with_limits(lambda x: x * sigmoid(x)),
    "softplus": softplus,
    "log_sigmoid": lambda x: -softplus(-x),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0.0))),
    "rsqrt": lambda x: 1 / np.sqrt(x),
}


def worst_error(name: str, every: int) -> tuple[float, float]:
    """The largest error in units of the last place, and the input that has it."""
    argument = Argument(0, F32)
    function = elementary.elu(argument, Constant(1.0, F32)) if name == "elu" else getattr(elementary, name)(argument)
    worst, where = 0.0, math.nan
    for start in range(0, 2**32, CHUNK * every):
        x = np.arange(start, min(start + CHUNK * every, 2**32), every, dtype=np.uint64).astype(np.uint32).view(np.float32)
        with np.errstate(all="ignore"):
            found = evaluate(function, [x])
            exact = IN_F64[name](x.astype(np.float64))
            nearest = exact.astype(np.float32)
            unit = np.spacing(np.maximum(np.abs(nearest), np.float32(2.0**-126))).astype(np.float64)
            off = np.abs(found.astype(np.float64) - exact) / unit
        limits = ~np.isfinite(nearest)
        same = (found == nearest) | (np.isnan(found) & np.isnan(nearest))
        off = np.where(limits, np.where(same, 0.0, math.inf), off)
        i = int(np.argmax(off))
        if not off[i] <= worst:
            worst, where = float(off[i]), float(x[i])
    return worst, where


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(IN_F64)}")
    options = parser.parse_args()
    for name in options.names or IN_F64:
        begin = time.perf_counter()
        worst, where = worst_error(name, options.every)
        print(f"{name:11s} {worst:.3f} ulp at {where!r} ({time.perf_counter() - begin:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
