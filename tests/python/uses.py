"""A use of everything built in: one call each, in a program that declares what they need."""

from __future__ import annotations

PROGRAM = """dim D = 4
dim V = 9

data Row:
    x: [D]
    label: int

data Window:
    ids: int[D]

data Line:
    step: int
    loss: float

model Net:
    w: [D] = zeros
    v: f64[D] = zeros

model Other:
    w: [D] = zeros

fn loss(m: Net, z: [D]) -> []:
    return sum(m.w * z, over=D)

fn f(x: [b n], y: [n], z: [D], d: f64[b n], i: int[b n], j: int[b], e: bool[b n], k: int, r: float, t: str,
    mut m: Net, mut opt: Sgd[Net], mut g: Net, o: Other, mode: Mode, rows: Dataset[Row], words: Vocabulary, sink: LogSink, row: Row):
"""

# A valid call of each; where it has no result, a statement.
USES: dict[str, str] = {
    **{name: f"{name}(x)" for name in ("exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "sin", "cos", "tanh", "erf", "relu", "elu")},
    **{name: f"{name}(x)" for name in ("leaky_relu", "gelu", "gelu_tanh", "silu", "softplus", "sigmoid", "log_sigmoid", "floor", "ceil")},
    **{name: f"{name}(x)" for name in ("round", "abs", "sign", "f32", "f64", "bf16", "int", "stop_gradient", "zeros_like")},
    **{name: f"{name}(x, over=n)" for name in ("sum", "max", "min", "mean", "variance", "logsumexp", "argmax", "argmin")},
    **{name: f"{name}(x, over=n)" for name in ("softmax", "log_softmax", "cumsum", "sort", "argsort")},
    **{name: f"{name}(e, over=n)" for name in ("any", "all")},
    **{name: f"{name}(x, y)" for name in ("minimum", "maximum", "pow")},
    "float": "float(k)",
    "clamp": "clamp(x, 0.0, 1.0)",
    "where": "where(e, x, y)",
    "masked_fill": "masked_fill(x, e, 0.0)",
    "topk": "topk(z, over=D, count=2)",
    "gather": "gather(y, j, over=n)",
    "pick": "pick(x, j, over=n)",
    "take_along": "take_along(x, i, over=n)",
    "scatter_add": "scatter_add(z, f32(j), j, over=D)",
    "one_hot": "one_hot(j, over=V)",
    "concat": "concat(x, x, over=n)",
    "stack": "stack(x, x, over=2)",
    "pad": "pad(x, n=(1, 2))",
    "einsum": "einsum(x, y: b n, n -> b)",
    "rearrange": "rearrange(x: b n -> n b)",
    "repeat": "repeat(x: b n -> b n c, c=2)",
    "split": "split(z: (2 c) -> c)",
    "convolve": "convolve(x, zeros[3 b 2], over=n)",
    "convolve_transposed": "convolve_transposed(x, zeros[b 3 2], over=n)",
    "windows": "windows(x, over=n, size=2)",
    "max_pool": "max_pool(x, over=n, size=2)",
    "average_pool": "average_pool(x, over=n, size=2)",
    "cross_entropy": "cross_entropy(x, j)",
    "accuracy": "accuracy(x, j)",
    "nll": "nll(x, j)",
    "dropout": "dropout(x, 0.1, mode)",
    "categorical": "categorical(x, mode, over=n)",
    "random_normal": "random_normal[b n](mode)",
    "random_uniform": "random_uniform[b n](mode)",
    "value_and_grad": "value_and_grad(loss(m, z), wrt=m)",
    "checkpoint": "checkpoint(loss(m, z))",
    "check_finite": "check_finite(g)",
    "clip_norm": "clip_norm(mut g, 1.0)",
    "update": "update(mut m, mut opt, g, lr=0.1)",
    "Sgd": "Sgd(m, momentum=0.9)",
    "Adam": "Adam(m)",
    "AdamW": "AdamW(m)",
    "Train": "Train(seed=1)",
    "training": "training(mode)",
    "rates": "rates(m)",
    "decays": "decays(m)",
    "dot": "dot(m, g)",
    "groups": "groups(m)",
    "load_data": 'load_data[Row]("rows.npz")',
    "load_text": 'load_text[Window]("text.txt")',
    "load_bytes": 'load_bytes[Window]("text.txt")',
    "load_lines": 'load_lines[Window]("text.txt")',
    "vocabulary": 'vocabulary("text.txt")',
    "byte_vocabulary": "byte_vocabulary()",
    "encode": 'encode(words, "text")',
    "encode_one": 'encode_one(words, "t")',
    "decode": "decode(words, j)",
    "shuffle": "for batch in rows |> shuffle(0) |> batches(4):",
    "sample": "for batch in rows |> sample(8, 0) |> batches(4):",
    "batches": "for batch in rows |> batches(4):",
    "take": "rows |> take(4)",
    "skip": "rows |> skip(4)",
    "part": "rows |> part(0, 4)",
    "random_split": "random_split(rows, 0.9)",
    "filter": "rows |> filter(rows.all.label < 5)",
    "jsonl": 'jsonl("log.jsonl")',
    "csv": 'csv("log.csv", append=true)',
    "tensorboard": 'tensorboard("runs/a")',
    "memory": "memory()",
    "tee": "tee(sink, sink)",
    "write": "write(sink, Line(step=k, loss=r))",
    "flush": "flush(sink)",
    "save": 'save("net.pt", m=m)',
    "load": 'load("net.pt", m=Net)',
    "latest": 'latest("net.*.pt")',
    "print": "print(x)",
}
