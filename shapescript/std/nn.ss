# Layers, with PyTorch's parameter names, layouts and starts.

model Linear[I, O, F: float = f32]:
    weight: F[O I] = uniform(-1/sqrt(I), 1/sqrt(I))
    bias: F[O] = uniform(-1/sqrt(I), 1/sqrt(I))

fn linear[I, O, F: float](x: F[..s I], layer: Linear[I, O, F]) -> F[..s O]:
    return einsum(x, layer.weight: ..s I, O I -> ..s O) + layer.bias

# The row of each token: V of them, D numbers each.
model Embedding[V, D, F: float = f32]:
    weight: F[V D] = normal(0, 1)

fn embedding[V, D, F: float](tokens: int[..s], layer: Embedding[V, D, F]) -> F[..s D]:
    return gather(layer.weight, tokens, over=V)

# Each row to mean 0 and variance 1 over its last axis, then scaled and moved.
model LayerNorm[D, F: float = f32]:
    weight: F[D] = ones
    bias: F[D] = zeros

fn layer_norm[D, F: float](x: F[..s D], norm: LayerNorm[D, F], eps: float = 1e-5) -> F[..s D]:
    centred = x - mean(x, over=D)
    return centred / sqrt(mean(centred ** 2, over=D) + eps) * norm.weight + norm.bias

# Each row to a mean square of 1 over its last axis, then scaled.
model RMSNorm[D, F: float = f32]:
    weight: F[D] = ones

fn rms_norm[D, F: float](x: F[..s D], norm: RMSNorm[D, F], eps: float = 1e-5) -> F[..s D]:
    return x / sqrt(mean(x ** 2, over=D) + eps) * norm.weight

# Each of G groups of channels to mean 0 and variance 1, in each example by itself, then scaled and moved channel by channel.
model GroupNorm[G, C, F: float = f32]:
    weight: F[C] = ones
    bias: F[C] = zeros

fn group_norm[G, C, F: float](x: F[b C n], norm: GroupNorm[G, C, F], eps: float = 1e-5) -> F[b C n]:
    groups = rearrange(x: b (G C/G) n -> b G C/G n)
    centred = groups - mean(groups, over=(C/G, n))
    normal = centred / sqrt(mean(centred ** 2, over=(C/G, n)) + eps)
    return rearrange(normal: b G C/G n -> b (G C/G) n) * norm.weight + norm.bias

fn group_norm[G, C, F: float](x: F[b C h w], norm: GroupNorm[G, C, F], eps: float = 1e-5) -> F[b C h w]:
    places = rearrange(x: b C h w -> b C (h w))
    return rearrange(group_norm(places, norm, eps): b C (h w) -> b C h w)

# Each channel of each example to mean 0 and variance 1, with nothing learned.
fn instance_norm[F: float](x: F[b c n], eps: float = 1e-5) -> F[b c n]:
    centred = x - mean(x, over=n)
    return centred / sqrt(mean(centred ** 2, over=n) + eps)

fn instance_norm[F: float](x: F[b c h w], eps: float = 1e-5) -> F[b c h w]:
    centred = x - mean(x, over=(h, w))
    return centred / sqrt(mean(centred ** 2, over=(h, w)) + eps)

# Each channel to mean 0 and variance 1 over everything else, then scaled and moved: in Train by the batch's own mean and variance, by which
# the running ones move; in Eval by the running ones.
model BatchNorm[C, F: float = f32]:
    weight: F[C] = ones
    bias: F[C] = zeros
    buffer running_mean: F[C] = zeros
    buffer running_var: F[C] = ones
    buffer num_batches_tracked: int[] = zeros

fn batch_norm[C, F: float](x: F[b C], mut norm: BatchNorm[C, F], mode: Mode, momentum: float = 0.1, eps: float = 1e-5) -> F[b C]:
    if training(mode):
        centred = x - mean(x, over=b)
        variance = mean(centred ** 2, over=b)
        track(mut norm, mean(x, over=b), variance, b, momentum)
        return centred / sqrt(variance + eps) * norm.weight + norm.bias
    return batch_norm(x, norm, eps)

fn batch_norm[C, F: float](x: F[b C n], mut norm: BatchNorm[C, F], mode: Mode, momentum: float = 0.1, eps: float = 1e-5) -> F[b C n]:
    if training(mode):
        centred = x - mean(x, over=(b, n))
        variance = mean(centred ** 2, over=(b, n))
        track(mut norm, mean(x, over=(b, n)), variance, b * n, momentum)
        return centred / sqrt(variance + eps) * norm.weight + norm.bias
    return batch_norm(x, norm, eps)

fn batch_norm[C, F: float](x: F[b C h w], mut norm: BatchNorm[C, F], mode: Mode, momentum: float = 0.1, eps: float = 1e-5) -> F[b C h w]:
    if training(mode):
        centred = x - mean(x, over=(b, h, w))
        variance = mean(centred ** 2, over=(b, h, w))
        track(mut norm, mean(x, over=(b, h, w)), variance, b * h * w, momentum)
        return centred / sqrt(variance + eps) * norm.weight + norm.bias
    return batch_norm(x, norm, eps)

# By the running mean and variance alone, as in Eval.
fn batch_norm[C, F: float](x: F[b C], norm: BatchNorm[C, F], eps: float = 1e-5) -> F[b C]:
    return (x - norm.running_mean) / sqrt(norm.running_var + eps) * norm.weight + norm.bias

fn batch_norm[C, F: float](x: F[b C n], norm: BatchNorm[C, F], eps: float = 1e-5) -> F[b C n]:
    return (x - norm.running_mean) / sqrt(norm.running_var + eps) * norm.weight + norm.bias

fn batch_norm[C, F: float](x: F[b C h w], norm: BatchNorm[C, F], eps: float = 1e-5) -> F[b C h w]:
    return (x - norm.running_mean) / sqrt(norm.running_var + eps) * norm.weight + norm.bias

# The running numbers move toward those of a batch with `count` values for each channel; of one value there is no variance to learn from.
fn track[C, F: float](mut norm: BatchNorm[C, F], centre: F[C], variance: F[C], count: int, momentum: float):
    norm.running_mean = (1.0 - momentum) * norm.running_mean + momentum * centre
    if count > 1:
        norm.running_var = (1.0 - momentum) * norm.running_var + momentum * (count / (count - 1)) * variance
    norm.num_batches_tracked = norm.num_batches_tracked + 1

# Windows of K places slide over the last axis of x, `Stride` places further each time, `Padding` zeros at both ends; the places of a window
# are `Dilation` apart. The channels of one of `Groups` groups see each other alone.
model Conv1d[I, O, K, Stride = 1, Padding = 0, Dilation = 1, Groups = 1, F: float = f32]:
    weight: F[O I/Groups K] = uniform(-1/sqrt(I/Groups*K), 1/sqrt(I/Groups*K))
    bias: F[O] = uniform(-1/sqrt(I/Groups*K), 1/sqrt(I/Groups*K))

fn conv1d[I, O, K, Stride, Padding, Dilation, Groups, F: float](x: F[..s I n], layer: Conv1d[I, O, K, Stride, Padding, Dilation, Groups, F]) -> F[..s O (n+2*Padding-Dilation*(K-1)-1)//Stride+1]:
    return convolve(x, layer.weight, over=n, stride=Stride, padding=Padding, dilation=Dilation, groups=Groups) + layer.bias

# The same over the last two axes, with windows of K by K places.
model Conv2d[I, O, K, Stride = 1, Padding = 0, Dilation = 1, Groups = 1, F: float = f32]:
    weight: F[O I/Groups K K] = uniform(-1/sqrt(I/Groups*K*K), 1/sqrt(I/Groups*K*K))
    bias: F[O] = uniform(-1/sqrt(I/Groups*K*K), 1/sqrt(I/Groups*K*K))

fn conv2d[I, O, K, Stride, Padding, Dilation, Groups, F: float](x: F[..s I h w], layer: Conv2d[I, O, K, Stride, Padding, Dilation, Groups, F]) -> F[..s O (h+2*Padding-Dilation*(K-1)-1)//Stride+1 (w+2*Padding-Dilation*(K-1)-1)//Stride+1]:
    return convolve(x, layer.weight, over=(h, w), stride=Stride, padding=Padding, dilation=Dilation, groups=Groups) + layer.bias

# The adjoint of Conv1d and Conv2d by their x, as layers: they make an axis longer where those make it shorter, by `OutputPadding` more.
model ConvTranspose1d[I, O, K, Stride = 1, Padding = 0, OutputPadding = 0, Dilation = 1, Groups = 1, F: float = f32]:
    weight: F[I O/Groups K] = uniform(-1/sqrt(O/Groups*K), 1/sqrt(O/Groups*K))
    bias: F[O] = uniform(-1/sqrt(O/Groups*K), 1/sqrt(O/Groups*K))

fn conv_transpose1d[I, O, K, Stride, Padding, OutputPadding, Dilation, Groups, F: float](x: F[..s I n], layer: ConvTranspose1d[I, O, K, Stride, Padding, OutputPadding, Dilation, Groups, F]) -> F[..s O (n-1)*Stride-2*Padding+Dilation*(K-1)+1+OutputPadding]:
    return convolve_transposed(x, layer.weight, over=n, stride=Stride, padding=Padding, dilation=Dilation, groups=Groups, output_padding=OutputPadding) + layer.bias

model ConvTranspose2d[I, O, K, Stride = 1, Padding = 0, OutputPadding = 0, Dilation = 1, Groups = 1, F: float = f32]:
    weight: F[I O/Groups K K] = uniform(-1/sqrt(O/Groups*K*K), 1/sqrt(O/Groups*K*K))
    bias: F[O] = uniform(-1/sqrt(O/Groups*K*K), 1/sqrt(O/Groups*K*K))

fn conv_transpose2d[I, O, K, Stride, Padding, OutputPadding, Dilation, Groups, F: float](x: F[..s I h w], layer: ConvTranspose2d[I, O, K, Stride, Padding, OutputPadding, Dilation, Groups, F]) -> F[..s O (h-1)*Stride-2*Padding+Dilation*(K-1)+1+OutputPadding (w-1)*Stride-2*Padding+Dilation*(K-1)+1+OutputPadding]:
    return convolve_transposed(x, layer.weight, over=(h, w), stride=Stride, padding=Padding, dilation=Dilation, groups=Groups, output_padding=OutputPadding) + layer.bias

# The largest, or the mean, of each window of K places, or K by K: `x |> nn.max_pool2d[2]`. The mean counts the padding's zeros.
fn max_pool1d[K, Stride = K, Padding = 0, Dilation = 1, F: float](x: F[..s n]) -> F[..s (n+2*Padding-Dilation*(K-1)-1)//Stride+1]:
    return max_pool(x, over=n, size=K, stride=Stride, padding=Padding, dilation=Dilation)

fn max_pool2d[K, Stride = K, Padding = 0, Dilation = 1, F: float](x: F[..s h w]) -> F[..s (h+2*Padding-Dilation*(K-1)-1)//Stride+1 (w+2*Padding-Dilation*(K-1)-1)//Stride+1]:
    return max_pool(x, over=(h, w), size=K, stride=Stride, padding=Padding, dilation=Dilation)

fn avg_pool1d[K, Stride = K, Padding = 0, F: float](x: F[..s n]) -> F[..s (n+2*Padding-K)//Stride+1]:
    return average_pool(x, over=n, size=K, stride=Stride, padding=Padding)

fn avg_pool2d[K, Stride = K, Padding = 0, F: float](x: F[..s h w]) -> F[..s (h+2*Padding-K)//Stride+1 (w+2*Padding-K)//Stride+1]:
    return average_pool(x, over=(h, w), size=K, stride=Stride, padding=Padding)
