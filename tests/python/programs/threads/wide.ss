fn wide(x: [a b], y: [b c]) -> [a c]:
    return tanh(einsum(x, y: a b, b c -> a c))
