# The size of a dim is known when a function is compiled, that of a slice needn't be.
# expect: E0502 at 10:12

dim D = 8

fn whole[K](x: [K]) -> []:
    return sum(x, over=K)

fn f(x: [D], i: int, j: int) -> []:
    return whole(x[D=i..j])
