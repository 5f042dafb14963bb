# Attention with PyTorch's parameter names, layouts and starts: H heads, each with D/H of the D numbers. A mask is true at the keys that may be
# seen. A place that may see none gets nothing of the values, and the last bias alone. With a mode the shares of the keys are dropped out too.
import shapescript.std.nn as nn

model MultiheadAttention[D, H, F: float = f32]:
    in_proj_weight: F[3*D D] = uniform(-sqrt(1.5/D), sqrt(1.5/D))
    in_proj_bias: F[3*D] = zeros
    out_proj: Output[D, F]

# A Linear whose bias begins at 0.
model Output[D, F: float = f32]:
    weight: F[D D] = uniform(-1/sqrt(D), 1/sqrt(D))
    bias: F[D] = zeros

fn self_attention[D, H, F: float](x: F[b n D], layer: MultiheadAttention[D, H, F], is_causal: bool = false) -> F[b n D]:
    return self_attention(x, layer, Eval, 0.0, is_causal)

fn self_attention[D, H, F: float](x: F[b n D], layer: MultiheadAttention[D, H, F], mask: bool[b n], is_causal: bool = false) -> F[b n D]:
    return self_attention(x, layer, mask, Eval, 0.0, is_causal)

fn self_attention[D, H, F: float](x: F[b n D], layer: MultiheadAttention[D, H, F], mode: Mode, rate: float = 0.1, is_causal: bool = false) -> F[b n D]:
    query, key, value = projected(x, layer)
    return shares(query, key, is_causal) |> dropout(rate, mode) |> mixed(value) |> joined(layer)

fn self_attention[D, H, F: float](x: F[b n D], layer: MultiheadAttention[D, H, F], mask: bool[b n], mode: Mode, rate: float = 0.1, is_causal: bool = false) -> F[b n D]:
    query, key, value = projected(x, layer)
    return shares(query, key, mask, is_causal) |> dropout(rate, mode) |> mixed(value) |> joined(layer)

# From each place of x to those of a memory, such as what an encoder gives.
fn cross_attention[D, H, F: float](x: F[b n D], memory: F[b m D], layer: MultiheadAttention[D, H, F]) -> F[b n D]:
    return cross_attention(x, memory, layer, Eval, 0.0)

fn cross_attention[D, H, F: float](x: F[b n D], memory: F[b m D], layer: MultiheadAttention[D, H, F], mask: bool[b m]) -> F[b n D]:
    return cross_attention(x, memory, layer, mask, Eval, 0.0)

fn cross_attention[D, H, F: float](x: F[b n D], memory: F[b m D], layer: MultiheadAttention[D, H, F], mode: Mode, rate: float = 0.1) -> F[b n D]:
    return shares(queries(x, layer), keys(memory, layer)) |> dropout(rate, mode) |> mixed(values(memory, layer)) |> joined(layer)

fn cross_attention[D, H, F: float](x: F[b n D], memory: F[b m D], layer: MultiheadAttention[D, H, F], mask: bool[b m], mode: Mode, rate: float = 0.1) -> F[b n D]:
    return shares(queries(x, layer), keys(memory, layer), mask) |> dropout(rate, mode) |> mixed(values(memory, layer)) |> joined(layer)

# Causal attention of the n places that begin at `start`, to themselves and to all before them, whose keys and values are kept: for generation,
# where places come one after the other. It gives what causal attention of all places at once gives there.
fn self_attention[D, H, F: float](x: F[b n D], layer: MultiheadAttention[D, H, F], mut kept_keys: F[b H m D/H], mut kept_values: F[b H m D/H], start: int) -> F[b n D]:
    query, key, value = projected(x, layer)
    kept_keys[m=start..start+n] = key
    kept_values[m=start..start+n] = value
    return shares(query, kept_keys[m=..start+n], true) |> mixed(kept_values[m=..start+n]) |> joined(layer)

# ---- Their parts

fn projected[D, H, F: float](x: F[b n D], layer: MultiheadAttention[D, H, F]) -> (F[b H n D/H], F[b H n D/H], F[b H n D/H]):
    projections = einsum(x, layer.in_proj_weight: b n D, 3*D D -> b n 3*D) + layer.in_proj_bias
    query, key, value = split(projections: b n (3 H D/H) -> b H n D/H)
    return query, key, value

fn queries[D, H, F: float](x: F[b n D], layer: MultiheadAttention[D, H, F]) -> F[b H n D/H]:
    return heads[D, H](x, layer.in_proj_weight[3*D=..D], layer.in_proj_bias[3*D=..D])

fn keys[D, H, F: float](x: F[b n D], layer: MultiheadAttention[D, H, F]) -> F[b H n D/H]:
    return heads[D, H](x, layer.in_proj_weight[3*D=D..2*D], layer.in_proj_bias[3*D=D..2*D])

fn values[D, H, F: float](x: F[b n D], layer: MultiheadAttention[D, H, F]) -> F[b H n D/H]:
    return heads[D, H](x, layer.in_proj_weight[3*D=2*D..], layer.in_proj_bias[3*D=2*D..])

fn heads[D, H, F: float](x: F[b n D], weight: F[D D], bias: F[D]) -> F[b H n D/H]:
    return rearrange(einsum(x, weight: b n i, D i -> b n D) + bias: b n (H D/H) -> b H n D/H)

# How much each of the n places takes of each key: all that it may see come to 1. Where it is causal, the last of the n sees all keys.
fn shares[F: float](query: F[b h n d], key: F[b h m d], is_causal: bool = false) -> F[b h n m]:
    return scores(query, key, is_causal) |> softmax(over=m)

fn shares[F: float](query: F[b h n d], key: F[b h m d], mask: bool[b m], is_causal: bool = false) -> F[b h n m]:
    return scores(query, key, is_causal) |> masked_fill(!mask, log(0.0)) |> softmax(over=m)

fn scores[F: float](query: F[b h n d], key: F[b h m d], is_causal: bool) -> F[b h n m]:
    found = einsum(query, key: b h n d, b h m d -> b h n m) / sqrt(d)
    if is_causal:
        return found |> masked_fill(!causal[n m], log(0.0))
    return found

fn mixed[F: float](share: F[b h n m], value: F[b h m d]) -> F[b h n d]:
    return einsum(share, value: b h n m, b h m d -> b h n d)

fn joined[D, H, F: float](mixed: F[b H n D/H], layer: MultiheadAttention[D, H, F]) -> F[b n D]:
    return einsum(rearrange(mixed: b H n D/H -> b n (H D/H)), layer.out_proj.weight: b n i, D i -> b n D) + layer.out_proj.bias

# ---- Layers of a transformer

# PyTorch's layer of that name: attention, then two products with a relu between them, each added to what it is taken of. Rows are normalised
# behind each of them, or with `norm_first` before. `with_gelu` puts a gelu in the place of the relu.
model TransformerEncoderLayer[D, H, F = 4*D, E: float = f32]:
    self_attn: MultiheadAttention[D, H, E]
    linear1: nn.Linear[D, F, E]
    linear2: nn.Linear[F, D, E]
    norm1: nn.LayerNorm[D, E]
    norm2: nn.LayerNorm[D, E]

fn encoder_layer[D, H, F, E: float](x: E[b n D], layer: TransformerEncoderLayer[D, H, F, E], mode: Mode, rate: float = 0.1, norm_first: bool = false, is_causal: bool = false, with_gelu: bool = false) -> E[b n D]:
    if norm_first:
        y = x + (nn.layer_norm(x, layer.norm1) |> self_attention(layer.self_attn, mode, rate, is_causal) |> dropout(rate, mode))
        return y + (nn.layer_norm(y, layer.norm2) |> feed_forward(layer, mode, rate, with_gelu))
    y = x + (self_attention(x, layer.self_attn, mode, rate, is_causal) |> dropout(rate, mode)) |> nn.layer_norm(layer.norm1)
    return y + feed_forward(y, layer, mode, rate, with_gelu) |> nn.layer_norm(layer.norm2)

fn encoder_layer[D, H, F, E: float](x: E[b n D], layer: TransformerEncoderLayer[D, H, F, E], mask: bool[b n], mode: Mode, rate: float = 0.1, norm_first: bool = false, is_causal: bool = false, with_gelu: bool = false) -> E[b n D]:
    if norm_first:
        y = x + (nn.layer_norm(x, layer.norm1) |> self_attention(layer.self_attn, mask, mode, rate, is_causal) |> dropout(rate, mode))
        return y + (nn.layer_norm(y, layer.norm2) |> feed_forward(layer, mode, rate, with_gelu))
    y = x + (self_attention(x, layer.self_attn, mask, mode, rate, is_causal) |> dropout(rate, mode)) |> nn.layer_norm(layer.norm1)
    return y + feed_forward(y, layer, mode, rate, with_gelu) |> nn.layer_norm(layer.norm2)

# The places from `start` on, after those whose keys and values are kept.
fn encoder_layer[D, H, F, E: float](x: E[b n D], layer: TransformerEncoderLayer[D, H, F, E], mut kept_keys: E[b H m D/H], mut kept_values: E[b H m D/H], start: int, norm_first: bool = false, with_gelu: bool = false) -> E[b n D]:
    if norm_first:
        y = x + self_attention(nn.layer_norm(x, layer.norm1), layer.self_attn, mut kept_keys, mut kept_values, start)
        return y + (nn.layer_norm(y, layer.norm2) |> feed_forward(layer, Eval, 0.0, with_gelu))
    y = x + self_attention(x, layer.self_attn, mut kept_keys, mut kept_values, start) |> nn.layer_norm(layer.norm1)
    return y + feed_forward(y, layer, Eval, 0.0, with_gelu) |> nn.layer_norm(layer.norm2)

fn feed_forward[D, H, F, E: float](x: E[b n D], layer: TransformerEncoderLayer[D, H, F, E], mode: Mode, rate: float, with_gelu: bool) -> E[b n D]:
    inner = x |> nn.linear(layer.linear1)
    if with_gelu:
        return gelu(inner) |> dropout(rate, mode) |> nn.linear(layer.linear2) |> dropout(rate, mode)
    return relu(inner) |> dropout(rate, mode) |> nn.linear(layer.linear2) |> dropout(rate, mode)
