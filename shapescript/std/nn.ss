# Layers, with PyTorch's parameter names, layouts and starts.

model Linear[I, O]:
    weight: [O I] = uniform(-1/sqrt(I), 1/sqrt(I))
    bias: [O] = uniform(-1/sqrt(I), 1/sqrt(I))

fn linear[I, O](x: [..s I], layer: Linear[I, O]) -> [..s O]:
    return einsum(x, layer.weight: ..s I, O I -> ..s O) + layer.bias

# The row of each token: V of them, D numbers each.
model Embedding[V, D]:
    weight: [V D] = normal(0, 1)

fn embedding[V, D](tokens: int[..s], layer: Embedding[V, D]) -> [..s D]:
    return gather(layer.weight, tokens, over=V)

# Each row to mean 0 and variance 1 over its last axis, then scaled and moved.
model LayerNorm[D]:
    weight: [D] = ones
    bias: [D] = zeros

fn layer_norm[D](x: [..s D], norm: LayerNorm[D], eps: float = 1e-5) -> [..s D]:
    centred = x - mean(x, over=D)
    return centred / sqrt(mean(centred ** 2, over=D) + eps) * norm.weight + norm.bias

# Each row to a mean square of 1 over its last axis, then scaled.
model RMSNorm[D]:
    weight: [D] = ones

fn rms_norm[D](x: [..s D], norm: RMSNorm[D], eps: float = 1e-5) -> [..s D]:
    return x / sqrt(mean(x ** 2, over=D) + eps) * norm.weight
