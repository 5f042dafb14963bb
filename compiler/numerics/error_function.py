"""erf: x + x E(x^2) below a cut, above it 1 - e^(-x G(x)) where x G(x) is -log(erfc(x))."""

from shapescript.compiler.numerics.exponentials import exp_in_range
from shapescript.compiler.numerics.formats import polynomial, with_sign_of
from shapescript.compiler.numerics.scalar import F32, F64, Expr, Kind, fma, select

# Minimax, highest power first (bench/fit_polynomials.py); errors 2^-25 and 2^-56 relative to erf.
NEAR: dict[Kind, tuple[float, ...]] = {
    F32: (
        8.267139492090791e-05,
        -0.0008117996621876955,
        0.005198822822421789,
        -0.02685849368572235,
        0.11283678561449051,
        -0.37612631916999817,
        0.12837916612625122,
    ),
    F64: (
        5.945008292448827e-11,
        -1.1365520389582423e-09,
        1.4657843330211415e-08,
        -1.6350019971967716e-07,
        1.6460972339133864e-06,
        -1.4925593478219737e-05,
        0.00012055331035754473,
        -0.0008548326978712152,
        0.0052239776247803675,
        -0.026866170645072848,
        0.11283791670954857,
        -0.3761263890318375,
        0.1283791670955126,
    ),
}
# Minimax with weight erfc(x): absolute errors of erf 2^-26 and 2^-57.
FAR: dict[Kind, tuple[float, ...]] = {
    F32: (
        1.0763678801595233e-05,
        -0.0003180641506332904,
        0.003622934687882662,
        -0.023720214143395424,
        0.10618764162063599,
        0.6351814866065979,
        1.1286410093307495,
    ),
    F64: (
        -1.5074275785304062e-12,
        6.699496980744462e-11,
        -1.3941034987680636e-09,
        1.8036573970359092e-08,
        -1.6228849535262998e-07,
        1.0739234636321791e-06,
        -5.3670209251041554e-06,
        2.0290235967578766e-05,
        -5.587786347461152e-05,
        9.515382541358945e-05,
        -4.3191297724253e-07,
        -0.0005753528395703948,
        0.0016932948482946443,
        -0.00021255167444771974,
        -0.0191246817370468,
        0.10277071987564824,
        0.6366202777065376,
        1.1283791081469021,
    ),
}
CUT: dict[Kind, float] = {F32: 0.9375, F64: 1.0}
GREATEST: dict[Kind, float] = {F32: 4.0, F64: 6.0}  # erf is 1 from here on


def erf(x: Expr) -> Expr:
    """The error function, 2/sqrt(pi) times the integral of e^(-t^2) from 0 to x; erf(-0) = -0, erf(±inf) = ±1."""
    size, greatest = abs(x), GREATEST[x.kind]
    near = fma(x, polynomial(x * x, NEAR[x.kind]), x)
    bounded = select(size > greatest, greatest, size)
    far = 1.0 - exp_in_range(-(bounded * polynomial(bounded, FAR[x.kind])))
    return select(size < CUT[x.kind], near, with_sign_of(far, x))
