"""What is written here instead of names that users bring along from Python, NumPy and PyTorch."""

from __future__ import annotations

SIZE = "an axis's name is its size as a number: `n`"
AXES = "axes are moved, opened and joined by a pattern: `rearrange(x: b n -> n b)`"
PRODUCT = "`x @ w`, or `einsum(x, w: b n, n m -> b m)`"
TRAINING = "`value_and_grad(loss(...), wrt=m)` gives the loss and the gradient, and `update(mut m, mut opt, g, lr=...)` does the step"
LOSS = "a loss is an expression: `mean((p - y) ** 2, over=b)`"

INSTEAD: dict[str, str] = {
    **dict.fromkeys(("len", "shape", "size", "ndim"), SIZE),
    **dict.fromkeys(("reshape", "view", "transpose", "permute", "swapaxes", "flatten", "squeeze", "unsqueeze", "T"), AXES),
    **dict.fromkeys(("matmul", "mm", "bmm", "dot", "tensordot"), PRODUCT),
    **dict.fromkeys(("grad", "backward", "zero_grad", "jit", "value_and_gradient"), TRAINING),
    **dict.fromkeys(("mse_loss", "l1_loss", "MSELoss", "CrossEntropyLoss", "mse"), LOSS),
    "range": "a range is written `0..n`",
    "item": "a `[]` is a number where a float is wanted",
    "parameters": "`AdamW(m)` and `value_and_grad(..., wrt=m)` take the model itself",
    "step": TRAINING,
    "detach": "`stop_gradient(x)`",
    "no_grad": "only `value_and_grad` makes gradients; elsewhere there are none",
    "to": "`f32(x)`, `f64(x)` and `int(x)` convert",
    "astype": "`f32(x)`, `f64(x)` and `int(x)` convert",
    "float32": "`f32(x)` converts",
    "float64": "`f64(x)` converts",
    "tensor": "`zeros[b n]` and `ones[b n]` make tensors; data comes from `load_data`",
    "array": "`zeros[b n]` and `ones[b n]` make tensors; data comes from `load_data`",
    "full": "a number adapts to a tensor: `0.5 * ones[b n]`",
    "zeros_like": "`zeros[b n]`, with the axes of the tensor",
    "ones_like": "`ones[b n]`, with the axes of the tensor",
    "train": "a mode is an argument: `Train(seed=0)`",
    "eval": "a mode is an argument: `Eval`",
    "norm": "`sqrt(sum(x * x, over=n))`",
}
