"""Of an optimiser's moments: what docs/exactness.md defines beside the update itself."""

# A first moment smaller than this becomes 0: otherwise moments of parameters that get no gradient end as subnormals, and those slow each
# later update by half.
SMALLEST_MOMENT = 2.0**-100
