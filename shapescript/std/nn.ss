# Layers, with PyTorch's parameter names, layouts and starts.

model Linear[I, O]:
    weight: [O I] = uniform(-1/sqrt(I), 1/sqrt(I))
    bias: [O] = uniform(-1/sqrt(I), 1/sqrt(I))

fn linear[I, O](x: [..s I], layer: Linear[I, O]) -> [..s O]:
    return einsum(x, layer.weight: ..s I, O I -> ..s O) + layer.bias
