"""Losses: of labels, built in, and those of shapescript.std.loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from comparisons.comparison import Array, Comparison, Make, Within, integers, normal, number, uniform

ORDER = "sums in two orders"
CLASSES = 7
IGNORED = 3
NEAR = Within(32, ORDER, absolute=32, gradient=(64, 8))
ELEMENTS = Within(8, "functions within 2 units on each side, and a few operations", absolute=8)
IMPORT = "import shapescript.std.loss as loss\n\n"


# ---- of labels


def of_labels(
    function: Callable[..., Tensor],
    weight: bool = False,
    mask: bool = False,
    ignore: bool = False,
    smoothing: float = 0.0,
    reduction: str = "mean",
) -> Callable[..., Tensor]:
    """PyTorch's loss; where no row counts 0, and rows that don't count are cut off before anything is computed of them."""

    def twin(x: Tensor, label: Tensor, *more: Tensor) -> Tensor:
        rest = list(more)
        weights = rest.pop(0) if weight else None
        counted = torch.ones_like(label, dtype=torch.bool)
        counted &= rest.pop(0) if mask else counted
        counted &= label != IGNORED if ignore else counted
        rows = torch.where(counted[..., None], x, torch.zeros_like(x)).reshape(-1, CLASSES)
        labels = torch.where(counted, label, torch.full_like(label, -100)).reshape(-1)
        options: dict[str, Any] = {"label_smoothing": smoothing} if smoothing else {}
        if not counted.any() and reduction == "mean":
            return rows.sum() * 0.0
        found = function(rows, labels, weights, reduction=reduction, **options)
        return found.reshape(label.shape) if reduction == "none" else found

    return twin


def labelled(name: str, function: Callable[..., Tensor], **options: Any) -> Comparison:
    """`mask` hides labels that are none."""
    given = [("weight", "weight: T[C]", "weight=weight"), ("mask", "mask: bool[b n]", "mask=mask"), ("ignore", "", f"ignore={IGNORED}")]
    used = [(parameter, argument) for option, parameter, argument in given if options.get(option)]
    arguments = [argument for _, argument in used]
    arguments += [f"smoothing={options['smoothing']}"] if "smoothing" in options else []
    reduction = options.get("reduction", "mean")
    arguments += [f'reduction="{reduction}"'] if reduction != "mean" else []
    parameters = ["x: T[b n C]", "label: int[b n]", *(parameter for parameter, _ in used if parameter)]
    result = "T[b n]" if reduction == "none" else "T[]"
    label = f"where(mask, label, label - {2 * CLASSES})" if options.get("mask") else "label"
    text = f"dim C = {CLASSES}\n\nfn f({', '.join(parameters)}) -> {result}:\n    return {name}({', '.join(['x', label, *arguments])})\n"
    inputs: dict[str, Make] = {"label": integers(0, CLASSES), "weight": uniform(0.2, 2.0)}
    is_counted = options.get("mask") or options.get("ignore")
    said = [key if value is True else f"{key} {value}" for key, value in options.items()]
    return Comparison(
        " ".join([name, "with" if said else "", *said]).replace("  ", " ").strip(),
        ("check_index", "pick", *(("log_softmax",) if name == "cross_entropy" else ())),
        text,
        of_labels(function, **options),
        NEAR,
        inputs=inputs,
        wrt=("x",),
        nonempty=() if is_counted or reduction != "mean" else ("b", "n"),
    )


def by_weights(x: Tensor, label: Tensor, weight: Tensor) -> Tensor:
    """PyTorch has no gradient by the weights."""
    logarithms, weights = x.log_softmax(1), weight[label]
    losses = -0.9 * weights * logarithms.gather(1, label[:, None])[:, 0] - 0.1 * (logarithms * weight).mean(1)
    return losses.sum() / weights.sum()


def log_likelihood(rows: Tensor, labels: Tensor, weights: Tensor | None, reduction: str) -> Tensor:
    return functional.nll_loss(rows, labels, weights, reduction=reduction)


CROSS_ENTROPIES = (
    {"reduction": "sum"},
    {"reduction": "none"},
    {"weight": True},
    {"smoothing": 0.1},
    {"mask": True},
    {"ignore": True},
    {"weight": True, "smoothing": 0.1},
    {"weight": True, "mask": True, "smoothing": 0.3},
    {"weight": True, "ignore": True, "reduction": "none"},
    {"mask": True, "ignore": True, "smoothing": 1.0, "reduction": "sum"},
    {"weight": True, "mask": True, "ignore": True, "smoothing": 0.1, "reduction": "none"},
)
LIKELIHOODS = ({}, {"weight": True, "mask": True}, {"ignore": True, "reduction": "sum"}, {"weight": True, "reduction": "none"})


# ---- of numbers


def masked(twin: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The mean of the elements, or rows, where the mask is true: 0 where it is nowhere."""

    def found(x: Tensor, y: Tensor, mask: Tensor, *more: Any) -> Tensor:
        if not mask.any():
            return (x[:0].sum() + y[:0].sum()) * 0.0
        return twin(x[mask], y[mask], *more).mean()

    return found


def of_numbers(
    name: str, twin: Callable[..., Tensor], extra: str = "", said: str = "", axes: str = "b n", left: str = "b n", **common: Any
) -> list[Comparison]:
    """The mean, each element's own, and the mean where a mask is true. `twin` gives each element's; `said` is part of the names."""
    dims = f"dim C = {CLASSES}\n\n" if "C" in axes else ""
    behind = f", {extra.partition(':')[0]}" if extra else ""
    extra = f", {extra}" if extra else ""
    start = f"{IMPORT}{dims}fn f(x: T[{axes}], y: T[{axes}]"
    return [
        Comparison(
            f"{name}{said}",
            ("mean",),
            f"{start}{extra}) -> T[]:\n    return loss.{name}(x, y{behind})\n",
            lambda *given: twin(*given).mean(),
            NEAR,
            nonempty=("b", "n"),
            **common,
        ),
        Comparison(
            f"{name} of each{said}",
            (),
            f"{start}{extra}) -> T[{left}]:\n    return loss.{name}_each(x, y{behind})\n",
            twin,
            NEAR if axes != left else ELEMENTS,
            elementwise=axes == left,
            **common,
        ),
        Comparison(
            f"{name} with a mask{said}",
            ("select",),
            f"{start}, mask: bool[{left}]{extra}) -> T[]:\n    return loss.{name}(x, y, mask{behind})\n",
            masked(twin),
            NEAR,
            **common,
        ),
    ]


def huber(x: Tensor, y: Tensor, delta: float) -> Tensor:
    return functional.huber_loss(x, y, reduction="none", delta=delta)


def smooth_l1(x: Tensor, y: Tensor, beta: float) -> Tensor:
    return functional.smooth_l1_loss(x, y, reduction="none", beta=beta)


def softplus(x: Tensor) -> Tensor:
    return torch.logaddexp(x, torch.zeros_like(x))


def binary(x: Tensor, y: Tensor, positive: Any) -> Tensor:
    """PyTorch's own adds x to softplus(-x), where digits cancel: compared by `binary_of_pytorch`."""
    return y * softplus(-x) * positive + (1 - y) * softplus(x)


def binary_of_pytorch(x: Tensor, y: Tensor, positive: Any) -> Tensor:
    return functional.binary_cross_entropy_with_logits(x, y, reduction="none", pos_weight=positive)


def distances(x: Tensor, y: Tensor, log_target: bool = False) -> Tensor:
    """Of each row; 0 where nothing is likely, whatever stands opposite."""
    is_none = torch.exp(y) == 0 if log_target else y == 0
    x, y = torch.where(is_none, torch.zeros_like(x), x), torch.where(is_none, torch.ones_like(y), y)
    found = functional.kl_div(x, y, reduction="none", log_target=log_target)
    return torch.where(is_none, torch.zeros_like(x), found).sum(-1)


def some_zeros(rng: Any, shape: tuple[int, ...], dtype: Any) -> Array:
    """Probabilities, some of them 0."""
    found = rng.uniform(0.1, 1.0, shape) * (rng.random(shape) < 0.8)
    return (found / CLASSES).astype(dtype)


TRUE = {"log_target": number(True)}
POSITIVE = {"positive": number(2.5), "x": normal(3.0), "y": uniform(0.0, 1.0)}

# ---- of sequences


def sequences(reduction: str, zero: bool) -> Callable[..., Tensor]:
    """Of an alignment that there isn't PyTorch's loss is infinite, and its gradient NaN; the twin's is 0."""

    def twin(x: Tensor, target: Tensor, cut: Tensor, short: Tensor) -> Tensor:
        inputs, labels = (x.shape[1] - cut).clamp(min=1), (target.shape[1] - short).clamp(min=0)
        given = (x.log_softmax(2).transpose(0, 1), target, inputs, labels)
        each = functional.ctc_loss(*given, reduction="none", zero_infinity=True)
        if not zero:
            is_infinite = torch.isinf(functional.ctc_loss(*given, reduction="none").detach())
            each = torch.where(is_infinite, torch.inf, each)
        if reduction == "none":
            return each
        if reduction == "sum":
            return each.sum()
        return (each / labels.clamp(min=1)).mean()

    return twin


SEQUENCES = """dim C = 5

fn f(x: T[b n C], target: int[b k], cut: int[b], short: int[b]) -> {}:
    return loss.{}(log_softmax(x, over=C), target, maximum(n - cut, 1), maximum(k - short, 0){}){}
"""

ENTRIES = (
    *(labelled("cross_entropy", functional.cross_entropy, **options) for options in CROSS_ENTROPIES),
    *(labelled("nll", log_likelihood, **options) for options in LIKELIHOODS),
    Comparison(
        "cross_entropy of classes in the middle",
        ("transpose", "gather"),
        "fn f(x: T[b c n], label: int[n b], weight: T[c]) -> T[n b]:\n"
        '    return cross_entropy(x, label % c, weight=weight, reduction="none")\n',
        lambda x, label, weight: functional.cross_entropy(x, (label % x.shape[1]).T, weight, reduction="none").T,
        NEAR,
        inputs={"label": integers(0, 100), "weight": uniform(0.2, 2.0)},
        nonempty=("c",),
        wrt=("x",),
        extremes=(),
    ),
    Comparison(
        "cross_entropy by its weights",
        ("gather", "pick"),
        "dim C = 7\n\nfn f(x: T[b C], label: int[b], weight: T[C]) -> T[]:\n"
        "    return cross_entropy(x, label, weight=weight, smoothing=0.1)\n",
        by_weights,
        NEAR,
        inputs={"label": integers(0, 7), "weight": uniform(0.2, 2.0)},
        nonempty=("b",),
        extremes=(),
    ),
    Comparison(
        "accuracy with a mask",
        ("argmax", "check"),
        "dim C = 4\n\nfn f(x: T[b C], label: int[b], mask: bool[b]) -> float:\n    return accuracy(x, label - 9 * int(!mask), mask=mask)\n",
        lambda x, label, mask: (x.argmax(1) == label)[mask].double().mean(),
        Within(1, "one division"),
        inputs={"label": integers(0, 4), "mask": lambda rng, shape, dtype: rng.permutation(shape[0]) % 3 == 0},
        nonempty=("b",),
        extremes=(),
    ),
    *of_numbers("mse", lambda x, y: functional.mse_loss(x, y, reduction="none")),
    *of_numbers("l1", lambda x, y: functional.l1_loss(x, y, reduction="none")),
    *of_numbers("huber", huber, "delta: float", inputs={"delta": number(0.7)}),
    *of_numbers("smooth_l1", smooth_l1, "beta: float", inputs={"beta": number(0.3)}),
    *of_numbers("smooth_l1", smooth_l1, "beta: float", " with a beta of 0", inputs={"beta": number(0.0)})[1:2],
    *of_numbers("binary_cross_entropy", binary, "positive: float", inputs=POSITIVE),
    Comparison(
        "binary_cross_entropy beside PyTorch's own",
        ("softplus",),
        IMPORT + "fn f(x: T[b n], y: T[b n], positive: T[n]) -> T[b n]:\n    return loss.binary_cross_entropy_each(x, y, positive)\n",
        binary_of_pytorch,
        Within(8, "PyTorch's sum of x and softplus(-x) loses digits of x", absolute=32, gradient=(32, 64)),
        inputs={"y": uniform(0.0, 1.0), "positive": uniform(0.3, 3.0)},
        wrt=("x", "y"),
        extremes=(1e4, -1e4, 0.0, 88.0, -88.0),
    ),
    Comparison(
        "binary_cross_entropy with a weight for each of the last axis",
        ("mean",),
        IMPORT + "fn f(x: T[b n], y: T[b n], positive: T[n]) -> T[]:\n    return loss.binary_cross_entropy(x, y, positive)\n",
        lambda x, y, positive: binary(x, y, positive).mean(),
        NEAR,
        inputs={"y": uniform(0.0, 1.0), "positive": uniform(0.3, 3.0)},
        nonempty=("b", "n"),
        extremes=(),
    ),
    *of_numbers("kl_divergence", distances, axes="b n C", left="b n", inputs={"y": some_zeros}, wrt=("x",), extremes=()),
    *of_numbers("kl_divergence", distances, "", " by both", axes="b n C", left="b n", inputs={"y": uniform(0.1, 1.0)}, extremes=())[1:2],
    *of_numbers("kl_divergence", distances, "log_target: bool", " of logarithms", axes="b n C", left="b n", inputs=TRUE, extremes=())[1:2],
    *(
        Comparison(
            f"ctc {reduction} {'without infinities' if zero else 'with infinities'}",
            ("for_range", "logsumexp", "take_along", "put"),
            IMPORT + SEQUENCES.format(result, name, ", zero_infinity=true" if zero else "", behind),
            sequences(reduction, zero),
            Within(64, "a chain of logarithms of sums over all inputs", absolute=64, gradient=(256, 64)),
            inputs={"target": integers(1, 5), "cut": integers(0, 4), "short": integers(0, 3)},
            nonempty=("b", "n"),
            extremes=(),
            twice=False,
        )
        for reduction, zero, name, result, behind in (
            ("none", False, "ctc_each", "T[b]", ""),
            ("none", True, "ctc_each", "T[b]", ""),
            ("sum", True, "ctc_each", "T[]", " |> sum(over=b)"),
            ("mean", True, "ctc", "T[]", ""),
        )
    ),
)
