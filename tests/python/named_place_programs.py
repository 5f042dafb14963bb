"""A program that takes and puts places of axes by name."""

from __future__ import annotations

from typing import Any

import numpy as np

PROGRAM = """
dim D = 4
dim Context = 3
dim Span = Context + 1

fn at(x: [b n D], i: int) -> [b D]:
    return x[n=i]

fn corner(x: [b n], i: int, j: int) -> []:
    return x[n=j, b=i]

fn from_one(x: [b n]) -> [b n-1]:
    return x[n=1..]

fn half(x: int[b n]) -> int[b n/2]:
    return x[n=0..n/2]

fn half_down(x: bool[n b]) -> bool[n//2 b]:
    return x[n=n-n//2..]

fn windows(x: f64[b n], i: int) -> f64[b Context]:
    return x[n=i..i+Context]

fn doubled_windows(x: [b n], i: int) -> [b 2]:
    return x[n=2*i+1..2*(i+1)+1]

fn between(x: [b n], i: int, j: int) -> [b]:
    return sum(x[n=i..j] * x[n=i..j], over=n)

fn shifted(x: [b n], i: int, j: int) -> [b]:
    y = x[n=i..j] - x[n=i+1..j+1]
    return sum(y, over=n)

fn of_a_slice(x: [b n], i: int, j: int) -> [b]:
    y = rearrange(x[n=i..j]: b k -> k b)
    return sum(y[k=0..k-1], over=k-1) + k

fn of_a_slice_of_a_run(x: [b n], i: int, j: int, k: int) -> []:
    y = x[n=i..j]
    return sum(y[n=k..], over=(b, n))

fn whole(x: [b n]) -> [b n]:
    return x[n=0..n, b=0..]

fn tokens(x: int[b Span]) -> (int[b Context], int[b Context]):
    return x[Span=..Context], x[Span=1..Context+1]

fn joined(x: [b n], y: [b n]) -> [b n]:
    return concat(x, y, over=n)[2*n=n..2*n] + stack(x, y, over=2)[2=1]

fn any_axis(x: [2*D b n+1], y: [2 (D Context)]) -> ([b], []):
    return x[D*2=7, 1+n=n], y[(D Context)=5, 2=1]

fn total(x: [b k]) -> [b]:
    return sum(x, over=k)

fn sums(x: [b n], i: int, j: int) -> [b]:
    return total(x[n=i..j])

fn pieces(x: [b n], size: int) -> [b]:
    mut found = zeros[b]
    mut i = 0
    while i < n:
        mut j = i + size
        if j > n:
            j = n
        piece = rearrange(x[n=i..j]: b k -> b k)
        found = found + sum(piece, over=k) * k
        i = j
    return found

fn decayed(x: [b n]) -> [b]:
    mut state = zeros[b]
    for t in 0..n:
        state = 0.5 * state + x[n=t]
    return state

fn running(x: int[b n]) -> int[b n]:
    mut y = x
    for t in 1..n:
        y[n=t] = y[n=t] + y[n=t-1]
    return y

fn transposed(x: [a b]) -> [b a]:
    mut y = zeros[b a]
    for i in 0..a:
        for j in 0..b:
            y[b=j, a=i] = x[a=i, b=j]
    return y

fn put(x: [b n], v: [b], i: int) -> [b n]:
    mut y = x
    y[n=i] = v
    return y + x

fn put_window(x: [a n b], v: [Context b], i: int) -> [a n b]:
    mut y = x
    y[n=i..i+Context] = v
    return y

fn put_box(x: [a b n], v: [n-1], i: int, j: int) -> [a b n]:
    mut y = x
    y[n=1..n, b=i..j, a=0] = v
    return y

fn put_doubled(x: [b n], i: int, j: int) -> [b n]:
    mut y = x
    y[n=i..j] = y[n=i..j] * 2
    return y

fn put_numbers(x: int[n], k: bool[n], f: f64[n], i: int) -> (int[n], bool[n], f64[n]):
    mut a = x
    mut b = k
    mut c = f
    a[n=i] = -i
    b[n=i] = i > 0
    c[n=i] = i
    c[n=0], other = 0.1, 3
    return a, b, c

fn fill(mut x: [b n], v: [n]):
    for i in 0..b:
        x[b=i] = v * i

fn scale(mut x: [..s n], v: [n]) -> [..s n]:
    x = x * v
    return x

fn unchanged(mut x: [b]) -> []:
    return sum(x, over=b)

fn set(mut s: [], v: float):
    s = f32(v)

fn inner_calls(x: [b n], v: [n]) -> ([b n], [b n], []):
    mut y = x
    mut s = f32(0.5)
    before = y
    fill(mut y, v)
    z = scale(mut y, v)
    set(mut s, 3.0)
    return y + z, before, s

fn masks(mut k: bool[b], mut i: int[b], n: int):
    k[b=0] = true
    i[b=1..] = n

model M:
    w: [D Context] = zeros

fn set_places(mut m: M, v: [Context]):
    m.w[D=1] = v
    fill(mut m.w, v)
    m.w[D=0, Context=1..3] = 9.0

fn swapped(mut x: [b], mut y: [b]):
    z = x
    x = y
    y = z

fn growing(x: [b], n: int) -> [b]:
    mut factor = 1
    mut y = x
    for i in 0..n:
        y = y * factor
        factor = factor + 1
    return y
"""


def normal(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


same = np.testing.assert_array_equal
