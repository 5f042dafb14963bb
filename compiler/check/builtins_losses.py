"""Losses of labels, and accuracy: cross entropy and the likelihood of log-probabilities, with rows that don't count, weights, reductions.

The mean of all rows' cross entropy is an operation of its own; everything else is made of log_softmax, sums and selections.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from shapescript.compiler.check import types
from shapescript.compiler.check.axes import agree, shown
from shapescript.compiler.check.operators import lie_along
from shapescript.compiler.check.site import Handler, Site, chosen, host_float, in_range
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.check.types import Axis, Tensor
from shapescript.compiler.check.wording import ELEMENT_NAMES
from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ir.sizes import Size, product
from shapescript.compiler.ir.types import Element, TensorType
from shapescript.compiler.ops.build import result_type
from shapescript.compiler.records.dataclass import dataclass
from shapescript.compiler.syntax import tree

REDUCTIONS = ("mean", "sum", "none")

Arguments = Mapping[str, tree.Argument]


@dataclass(frozen=True)
class Rows:
    """Scores with the class axis last and the other axes in the labels' order. `counted` says which rows count, None where all do."""

    scores: Value
    labels: Value
    axes: tuple[Axis, ...]
    class_axis: Axis
    counted: Value | None = None

    @property
    def kind(self) -> TensorType:
        return result_type(self.scores)

    @property
    def sizes(self) -> tuple[Size, ...]:
        return tuple(axis.size for axis in self.axes)

    @property
    def of_rows(self) -> TensorType:
        return TensorType(self.kind.element, self.sizes)

    @property
    def everywhere(self) -> tuple[int, ...]:
        return tuple(range(len(self.axes)))


def _rows(site: Site, found: Arguments, scores_name: str) -> Rows:
    """The class axis is the one that the labels lack."""
    scores, kind = site.tensor(found[scores_name])
    labels, what = site.evaluate(found["label"]), scores_name.replace("_", " ")
    if not isinstance(labels.type, Tensor) or labels.type.element is not Element.I64:
        site.fail("E0301", f"`{site.name}` takes labels of type int[...], found {labels.type}", found["label"].value.span)
    places: list[int] = []
    for axis in labels.type.axes:
        at = [place for place, other in enumerate(kind.axes) if agree(axis, other) and place not in places]
        if len(at) != 1:
            site.fail(
                "E0402" if not at else "E0403",
                f"axis {axis} of the labels {labels.type} is {'not' if not at else 'twice'} in the {what} {kind}",
                found["label"].value.span,
            )
        places.append(at[0])
    missing = [place for place in range(len(kind.axes)) if place not in places]
    if len(missing) != 1:
        listed = ", ".join(kind.axes[place].name for place in missing) or "none"
        site.fail("E0406", f"the class axis is the one of the {what} {kind} that the labels {labels.type} lack; they lack {listed}")
    permutation = (*places, missing[0])
    value = scores.value
    if permutation != tuple(range(len(permutation))):
        value = site.body.builder.op("transpose", value, permutation=permutation)
    return Rows(value, labels.value, labels.type.axes, kind.axes[missing[0]])


# ---- rows that don't count --------------------------------------------------------------------------------------------------------------


def _counted(site: Site, found: Arguments, rows: Rows) -> Value | None:
    """Rows where the mask is true and the label isn't the ignored one; None where neither is given."""
    b, counted = site.body.builder, None
    if "mask" in found:
        mask, span = site.evaluate(found["mask"]), found["mask"].value.span
        if mask.type == types.BOOL:
            mask = Typed(Tensor(Element.BOOL), mask.values)
        if not isinstance(mask.type, Tensor) or mask.type.element is not Element.BOOL:
            code = "E0310" if isinstance(mask.type, Tensor) else "E0301"
            site.fail(code, f"`{site.name}` takes a mask of bools, found {mask.type}", span, "compare it, for instance with `> 0`")
        _, positions = lie_along(site.body, mask.type.axes, rows.axes, site.span, (span, found["label"].value.span))
        counted = b.broadcast(mask.value, rows.sizes, positions)
    if "ignore" in found:
        ignored = site.value(found["ignore"], types.INT)
        kept = b.op("ne", rows.labels, b.spread(ignored.value, result_type(rows.labels)))
        counted = kept if counted is None else b.op("and", counted, kept)
    return counted


def _without_ignored(site: Site, rows: Rows) -> Rows:
    """Scores of 0 and the label 0 where a row doesn't count: whatever stands there reaches neither values nor gradients nor checks."""
    if rows.counted is None:
        return rows
    b, labels = site.body.builder, result_type(rows.labels)
    scores = b.op("select", b.broadcast(rows.counted, rows.kind.axes, rows.everywhere), rows.scores, b.full(0.0, rows.kind))
    return replace(rows, scores=scores, labels=b.op("select", rows.counted, rows.labels, b.full(0, labels)))


def _zero_where_ignored(site: Site, rows: Rows, value: Value) -> Value:
    b = site.body.builder
    return value if rows.counted is None else b.op("select", rows.counted, value, b.full(0.0, rows.of_rows))


def _total(site: Site, rows: Rows, value: Value) -> Value:
    return site.body.builder.op("sum", value, positions=rows.everywhere) if rows.axes else value


def _count(site: Site, rows: Rows) -> Value:
    """How many rows count, as an int."""
    assert rows.counted is not None
    return _total(site, rows, site.body.builder.convert(rows.counted, Element.I64))


# ---- losses -----------------------------------------------------------------------------------------------------------------------------


def _cross_entropy(site: Site) -> Typed:
    found = site.arguments(("logits", "label"), ("weight", "mask", "ignore", "smoothing", "reduction"))
    rows, reduction = _rows(site, found, "logits"), _reduction(site, found)
    smoothing = host_float(site, found.get("smoothing"), 0.0)
    in_range(site, "smoothing", smoothing, found["smoothing"].value.span if "smoothing" in found else site.span)
    is_plain = reduction == "mean" and smoothing.constant == 0.0 and not found.keys() & {"weight", "mask", "ignore"}
    if is_plain:
        loss, _ = site.body.builder.emit("cross_entropy", rows.scores, rows.labels, hints=("loss", "probabilities"))
        return Typed(Tensor(rows.kind.element), (loss,))
    rows = _without_ignored(site, replace(rows, counted=_counted(site, found, rows)))
    logs = site.body.builder.op("log_softmax", rows.scores, positions=(len(rows.axes),))
    return _likelihood(site, found, replace(rows, scores=logs), smoothing, reduction)


def _nll(site: Site) -> Typed:
    found = site.arguments(("log_probability", "label"), ("weight", "mask", "ignore", "reduction"))
    rows, reduction = _rows(site, found, "log_probability"), _reduction(site, found)
    rows = _without_ignored(site, replace(rows, counted=_counted(site, found, rows)))
    return _likelihood(site, found, rows, site.body.constant(0.0), reduction)


def _likelihood(site: Site, found: Arguments, rows: Rows, smoothing: Typed, reduction: str) -> Typed:
    """Of rows of log-probabilities: minus what stands at the label, times the label's weight; and a share of the mean over all classes."""
    b, kind, last = site.body.builder, rows.kind, len(rows.axes)
    b.emit("check_index", rows.labels, size=rows.class_axis.size, called=site.name)
    losses, weights = b.op("neg", b.op("pick", rows.scores, rows.labels, position=last)), None
    weighted = rows.scores
    if "weight" in found:
        weight = _class_weight(site, found["weight"], rows)
        weights = b.op("gather", weight, rows.labels, called=site.name)
        losses = b.op("mul", losses, weights)
        weighted = b.op("mul", rows.scores, b.broadcast(weight, kind.axes, (last,)))
    if smoothing.constant != 0.0:
        rest = b.op("sub", b.float_constant(1.0), smoothing.value)
        keep, share = (b.spread(b.convert(part, kind.element), rows.of_rows) for part in (rest, smoothing.value))
        uniform = b.op("neg", b.op("mean", weighted, positions=(last,)))
        losses = b.op("add", b.op("mul", losses, keep), b.op("mul", uniform, share))
    losses = _zero_where_ignored(site, rows, losses)
    if reduction == "none":
        return Typed(Tensor(kind.element, rows.axes), (losses,))
    total = _total(site, rows, losses)
    if reduction == "mean":
        total = b.op("div", total, _divisor(site, rows, None if weights is None else _zero_where_ignored(site, rows, weights)))
    return Typed(Tensor(kind.element), (total,))


def _divisor(site: Site, rows: Rows, weights: Value | None) -> Value:
    """What the sum is divided by: the weights' sum or the number of rows, and 1 where that is 0 since no row counts."""
    b, element = site.body.builder, rows.kind.element
    if rows.counted is None:
        number = b.size(product(rows.sizes))
        b.emit("check", b.op("gt", number, b.constant(0, Element.I64)), failure="mean of rows")
        if weights is None:
            return b.convert(number, element)
    divisor = b.convert(_count(site, rows), element) if weights is None else _total(site, rows, weights)
    is_nothing = b.op("eq", divisor, b.constant(0.0, element))
    return b.op("select", is_nothing, b.constant(1.0, element), divisor)


def _class_weight(site: Site, argument: tree.Argument, rows: Rows) -> Value:
    weight, kind = site.tensor(argument)
    wanted = Tensor(rows.kind.element, (rows.class_axis,))
    if kind.element is not wanted.element:
        help_ = f"convert it: {ELEMENT_NAMES[wanted.element]}(...)"
        site.fail("E0310", f"the weights have elements of the scores' type, {wanted}, found {kind}", argument.value.span, help_)
    if len(kind.axes) != 1 or not agree(kind.axes[0], rows.class_axis):
        code = "E0401" if len(kind.axes) == 1 else "E0405"
        site.fail(code, f"`weight` is a number for each class, {shown(wanted.axes)}, found {kind}", argument.value.span)
    return weight.value


def _reduction(site: Site, found: Arguments) -> str:
    return chosen(site, found, "reduction", REDUCTIONS, "it decides the result's type")


# ---- accuracy ---------------------------------------------------------------------------------------------------------------------------


def _accuracy(site: Site) -> Typed:
    """The share of the rows that count whose largest logit (the first, where several are) is at the label: a host float."""
    found = site.arguments(("logits", "label"), ("mask", "ignore"))
    rows = _rows(site, found, "logits")
    rows = replace(rows, counted=_counted(site, found, rows))
    b = site.body.builder
    labels = _without_ignored(site, rows).labels
    b.emit("check_index", labels, size=rows.class_axis.size, called=site.name)  # one that is no class is an error, not a miss
    chosen = b.op("argmax", rows.scores, positions=(len(rows.axes),))
    hits = b.convert(b.op("eq", chosen, labels), Element.F64)
    if rows.counted is None:
        return Typed(types.FLOAT, (b.op("mean", hits, positions=rows.everywhere) if rows.axes else hits,))
    hits = b.op("select", rows.counted, hits, b.full(0.0, TensorType(Element.F64, rows.sizes)))
    count = _count(site, rows)
    b.emit("check", b.op("gt", count, b.constant(0, Element.I64)), failure="mean of rows")
    return Typed(types.FLOAT, (b.op("div", _total(site, rows, hits), b.convert(count, Element.F64)),))


HANDLERS: dict[str, Handler] = {"cross_entropy": _cross_entropy, "nll": _nll, "accuracy": _accuracy}
