"""The norm of a gradient and the factor that clips it, as numbers: docs/exactness.md, "Optimisers"."""

from __future__ import annotations

CLIP_EPSILON = 1e-6

# Squares of float64 numbers whose sum is outside of these bounds may have overflowed, or lost bits that count. Then the elements are
# multiplied by SMALLER or LARGER, powers of two, before they are squared, and the root by the inverse. Squares of smaller types fit.
SMALLEST_SQUARES, LARGEST_SQUARES = 2.0**-900, 2.0**1000
SMALLER, LARGER = 2.0**-600, 2.0**600
LARGEST_NORM = float.fromhex("0x1.fffffffffffffp+1023")  # stands for one beyond it, of elements that are all finite

# A factor is rounded to float32. One below the normal numbers of that would lose bits, though an element times it may be one of them. Then
# the element is multiplied by FIRST_FACTOR, and by the factor times SECOND_FACTOR, rounded to the tensor's type.
SMALLEST_FACTOR = 2.0**-126
FIRST_FACTOR, SECOND_FACTOR = 2.0**-100, 2.0**100
