# A type parameter is a model or data.
# expect: E2302 at 4:9

fn f[M: modle](m: M) -> int:
    return 1
