"""What is written here instead of names that users bring along from Python, NumPy and PyTorch."""

from __future__ import annotations

SIZE = "an axis's name is its size as a number: `n`"
AXES = "axes are moved, opened and joined by a pattern: `rearrange(x: b n -> n b)`"
PRODUCT = "`x @ w`, or `einsum(x, w: b n, n m -> b m)`"
TRAINING = "`value_and_grad(loss(...), wrt=m)` gives the loss and the gradient, and `update(mut m, mut opt, g, lr=...)` does the step"
SCHEDULE = "a rate is a function of the step: `lr=schedule.cosine(opt.step, 1e-3, 1000)` with `import shapescript.std.schedule as schedule`"
LOSS = "`import shapescript.std.loss as loss` has it: `loss.{}`; or it is an expression: `mean((p - y) ** 2, over=b)`"
METRIC = "`import shapescript.std.metric as metric` has it: `metric.{}`"
LOSSES = {
    "mse(p, y)": ("mse", "mse_loss", "MSELoss"),
    "l1(p, y)": ("l1", "l1_loss", "L1Loss", "mae"),
    "huber(p, y, delta=1.0)": ("huber", "huber_loss", "HuberLoss"),
    "smooth_l1(p, y, beta=1.0)": ("smooth_l1", "smooth_l1_loss", "SmoothL1Loss"),
    "binary_cross_entropy(logits, y)": ("binary_cross_entropy", "binary_cross_entropy_with_logits", "BCEWithLogitsLoss", "BCELoss"),
    "kl_divergence(log_p, y)": ("kl_divergence", "kl_div", "KLDivLoss"),
    "ctc(log_p, target, inputs, labels)": ("ctc", "ctc_loss", "CTCLoss"),
}
METRICS = {
    "top_hits[5](logits, label)": ("top_k_accuracy", "topk_accuracy", "top_hits"),
    "perplexity(total, count)": ("perplexity",),
}

TEXT_SIZE = 'a size that a file decides is declared: `dim Vocabulary = characters("input.txt")`'

CONVOLUTION = "`convolve(x, weight, over=(h, w))`, or `nn.conv2d(x, layer)` with `import shapescript.std.nn as nn`"
POOLING = "`max_pool(x, over=(h, w), size=2)` and `average_pool(...)`, or `nn.max_pool2d[2]` with `import shapescript.std.nn as nn`"

INSTEAD: dict[str, str] = {
    **dict.fromkeys(("characters", "lines", "longest_line"), TEXT_SIZE),
    **dict.fromkeys(("randn", "randn_like"), "`random_normal[b n](mode)`, with the axes of the tensor"),
    **dict.fromkeys(("rand", "rand_like"), "`random_uniform[b n](mode)`, with the axes of the tensor"),
    **dict.fromkeys(("multinomial", "choice", "Categorical"), "`categorical(logits, mode, over=n)` draws an index by its probability"),
    "open": '`load_text[Window]("input.txt")` and `load_lines[Name]("names.txt")` read texts',
    "ord": "`encode_one(vocabulary, text)` gives a character's id",
    "chr": "`decode(vocabulary, ids)` gives the text of ids",
    **dict.fromkeys(("len", "shape", "size", "ndim"), SIZE),
    **dict.fromkeys(("reshape", "view", "transpose", "permute", "swapaxes", "flatten", "squeeze", "unsqueeze", "T"), AXES),
    **dict.fromkeys(("matmul", "mm", "bmm", "dot", "tensordot"), PRODUCT),
    **dict.fromkeys(("grad", "backward", "zero_grad", "jit", "value_and_gradient"), TRAINING),
    **{name: LOSS.format(call) for call, names in LOSSES.items() for name in names},
    **{name: METRIC.format(call) for call, names in METRICS.items() for name in names},
    **dict.fromkeys(("CrossEntropyLoss", "NLLLoss", "nll_loss"), "`cross_entropy(logits, label)`, or `nll(log_probability, label)`"),
    "range": "a range is written `0..n`",
    "item": "a `[]` is a number where a float is wanted",
    "parameters": "`AdamW(m)` and `value_and_grad(..., wrt=m)` take the model itself",
    "step": TRAINING,
    **dict.fromkeys(("SGD", "RMSprop", "Adagrad"), "`Sgd(m, momentum=0.9)`, `Adam(m)` and `AdamW(m)` make optimisers"),
    **dict.fromkeys(
        ("Lion", "EMA", "AveragedModel"), "`import shapescript.std.optim as optim` has it: `optim.lion(m)`, `optim.average(m)`"
    ),
    **dict.fromkeys(("StepLR", "CosineAnnealingLR", "OneCycleLR", "lr_scheduler"), SCHEDULE),
    "detach": "`stop_gradient(x)`",
    "no_grad": "only `value_and_grad` makes gradients; elsewhere there are none",
    "to": "`f32(x)`, `f64(x)` and `int(x)` convert",
    "astype": "`f32(x)`, `f64(x)` and `int(x)` convert",
    "float32": "`f32(x)` converts",
    "float64": "`f64(x)` converts",
    **dict.fromkeys(
        ("tensor", "array"), "a small tensor is written out, `[1.0, 2.0]`, and `zeros[b n]` makes one; data comes from `load_data`"
    ),
    **dict.fromkeys(("cat", "concatenate", "hstack", "vstack"), "`concat(x, y, over=n)`"),
    **dict.fromkeys(("narrow", "slice", "select"), "places are named: `x[n=0]`, `x[n=a..b]`"),
    **dict.fromkeys(
        ("take_along_axis", "take_along_dim"), "`take_along(x, index, over=n)`; `pick(x, label, over=n)` takes one of each row"
    ),
    **dict.fromkeys(("index_select", "embedding"), "`gather(x, index, over=n)`"),
    **dict.fromkeys(("index_add", "scatter", "segment_sum"), "`scatter_add(x, rows, index, over=n)`"),
    **dict.fromkeys(("top_k", "largest"), "`topk(x, over=n, count=K)`"),
    "cum_sum": "`cumsum(x, over=n)`",
    **dict.fromkeys(("conv", "conv1d", "conv2d", "conv3d", "Conv1d", "Conv2d", "convolution", "conv_transpose2d"), CONVOLUTION),
    **dict.fromkeys(("max_pool1d", "max_pool2d", "MaxPool2d", "avg_pool", "avg_pool2d", "AvgPool2d"), POOLING),
    **dict.fromkeys(("unfold", "im2col", "sliding_window_view"), "`windows(x, over=n, size=4)`"),
    **dict.fromkeys(("chunk", "unbind", "unstack"), "`p, q = split(x: b (2 n) -> b n)`"),
    **dict.fromkeys(("expand", "tile", "broadcast_to", "repeat_interleave"), "`repeat(x: b n -> b n r, r=3)`"),
    **dict.fromkeys(("diag", "diagonal"), "`einsum(x: n n -> n)`"),
    "trace": "`einsum(x: n n ->)`",
    **dict.fromkeys(("tril", "triu"), "`causal[n m]` says which places may be seen"),
    "full": "a number adapts to a tensor: `0.5 * ones[b n]`",
    "zeros_like": "`zeros[b n]`, with the axes of the tensor",
    "ones_like": "`ones[b n]`, with the axes of the tensor",
    "train": "a mode is an argument: `Train(seed=0)`",
    "eval": "a mode is an argument: `Eval`",
    "norm": "`sqrt(sum(x * x, over=n))`",
    "var": "`variance(x, over=n)`, with `correction=1` as PyTorch's default",
    "std": "`sqrt(variance(x, over=n))`, with `correction=1` as PyTorch's default",
    **dict.fromkeys(("clip", "hardtanh"), "`clamp(x, low, high)`"),
    **dict.fromkeys(("logsigmoid", "LogSigmoid"), "`log_sigmoid(x)`"),
    **dict.fromkeys(("GELU", "SiLU", "swish", "ELU", "LeakyReLU"), "a function of x: `gelu(x)`, `silu(x)`, `elu(x)`, `leaky_relu(x)`"),
    **dict.fromkeys(("isnan", "is_nan"), "NaN is the one number that isn't itself: `x != x`"),
    **dict.fromkeys(("power", "square"), "`x ** y`; `x ** 2` is a product"),
    **dict.fromkeys(("amax", "amin"), "`max(x, over=n)`, `min(x, over=n)`"),
    **dict.fromkeys(("logical_and", "logical_or", "logical_not"), "masks are joined by `&` and `|`, and turned by `!`"),
}
