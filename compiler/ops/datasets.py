"""Datasets, their orders and what is made of them. The host makes them; engines go by their blocks (ops/protocol.py)."""

from __future__ import annotations

from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.types import INT, STRING, DatasetType, Element, OrderedType, TensorType, Type
from shapescript.compiler.ops.table import Host, Kernel, NoDerivative, OpEntry, attribute, register, require

WEIGHTS = (Element.F32, Element.F64)


def dataset_of(kind: Type) -> DatasetType | None:
    """The dataset that a value is, or that it is an order of."""
    if isinstance(kind, OrderedType):
        return kind.dataset
    return kind if isinstance(kind, DatasetType) else None


def field_types(dataset: DatasetType) -> tuple[TensorType, ...]:
    """The fields of all examples: the record's types with the dataset's axis in front."""
    return tuple(TensorType(kind.element, (dataset.rows, *kind.axes)) for _, kind in dataset.record.fields)


def _kinds(op: Op) -> list[Type]:
    return [operand.type for operand in op.operands]


def _numbers(op: Op, count: int) -> DatasetType:
    """The dataset of an operation that takes one, or an order of one, and so many host ints behind it."""
    dataset = dataset_of(op.operands[0].type) if op.operands else None
    numbers = _kinds(op)[1 : count + 1]
    require(dataset is not None and numbers == [INT] * count, op, f"takes a dataset and {count} host ints")
    assert dataset is not None
    return dataset


def _over_rows(op: Op, tensor: Type, dataset: DatasetType, elements: tuple[Element, ...]) -> None:
    fits = isinstance(tensor, TensorType) and tensor.element in elements and tensor.axes == (dataset.rows,)
    require(fits, op, f"takes a tensor of {' or '.join(element.value for element in elements)} over the dataset's rows")


def _infer_load_data(op: Op) -> tuple[Type, ...]:
    count = len(op.attributes.get("fields", ("all",)))
    require(_kinds(op) == [STRING] * count, op, "takes a path, or one for each field")
    return (attribute(op, "dataset"),)


def _infer_all(op: Op) -> tuple[Type, ...]:
    (kind,) = _kinds(op)
    require(isinstance(kind, DatasetType), op, "takes a dataset")
    assert isinstance(kind, DatasetType)
    return field_types(kind)


def _infer_part(op: Op) -> tuple[Type, ...]:
    require(isinstance(op.operands[0].type, DatasetType) and _kinds(op)[1:] == [INT, INT], op, "takes a dataset, start and stop")
    return (attribute(op, "dataset"),)


def _infer_concat(op: Op) -> tuple[Type, ...]:
    kinds = _kinds(op)
    require(bool(kinds) and all(isinstance(kind, DatasetType) for kind in kinds), op, "takes datasets")
    return (attribute(op, "dataset"),)


def _infer_split(op: Op) -> tuple[Type, ...]:
    kinds = _kinds(op)
    fits = isinstance(kinds[0], DatasetType) and kinds[1:] == [TensorType(Element.F64), INT]
    require(fits and len(attribute(op, "dataset")) == 2, op, "takes a dataset, a fraction and the seed, and gives two datasets")
    return tuple(attribute(op, "dataset"))


def _infer_filter(op: Op) -> tuple[Type, ...]:
    dataset, keep = _kinds(op)
    require(isinstance(dataset, DatasetType), op, "takes a dataset")
    assert isinstance(dataset, DatasetType)
    _over_rows(op, keep, dataset, (Element.BOOL,))
    return (attribute(op, "dataset"),)


def _infer_order(op: Op) -> tuple[Type, ...]:
    dataset, kind = _numbers(op, 2), op.operands[0].type
    require(len(op.operands) == 3, op, "takes a dataset, the number of the order and the seed")
    return (OrderedType(dataset, repeats=isinstance(kind, OrderedType) and kind.repeats),)


def _infer_sample(op: Op) -> tuple[Type, ...]:
    dataset, weights = _numbers(op, 3), _kinds(op)[4:]
    require(len(weights) <= 1, op, "takes a dataset, a count, the sample's number and the seed, and may take weights")
    for kind in weights:
        _over_rows(op, kind, dataset, WEIGHTS)
    return (OrderedType(dataset, repeats=True),)


def _infer_order_part(op: Op) -> tuple[Type, ...]:
    _numbers(op, 2)
    require(len(op.operands) == 3 and isinstance(op.operands[0].type, OrderedType), op, "takes an ordered dataset, start and stop")
    return (op.operands[0].type,)


def _infer_order_size(op: Op) -> tuple[Type, ...]:
    require(len(op.operands) == 1 and isinstance(op.operands[0].type, OrderedType), op, "takes an ordered dataset")
    return (INT,)


# ---- datasets: each that is made binds the symbol of its rows, from the attribute `dataset` ---------------------------------------------

# load_data(path...) {dataset[, fields]}: one file, or one for each of the fields. R1201, R1202, R1204, R1502.
register(OpEntry("load_data", _infer_load_data, NoDerivative.ZERO, Host("load_data"), ordered=True))
# dataset_all(data): each field of all examples, in the record's order.
register(OpEntry("dataset_all", _infer_all, NoDerivative.ZERO, Kernel("dataset_all")))
# dataset_part(data, start, stop) {dataset}: the examples start to stop - 1. R1107.
register(OpEntry("dataset_part", _infer_part, NoDerivative.ZERO, Host("dataset_part"), ordered=True))
# dataset_concat(data...) {dataset}: the examples of one behind those of the other.
register(OpEntry("dataset_concat", _infer_concat, NoDerivative.ZERO, Host("dataset_concat"), ordered=True))
# dataset_split(data, fraction, seed) {dataset: two}: a part drawn at random, and the rest. R1109.
register(OpEntry("dataset_split", _infer_split, NoDerivative.ZERO, Host("dataset_split"), ordered=True))
# dataset_filter(data, keep) {dataset}: the examples whose row is true.
register(OpEntry("dataset_filter", _infer_filter, NoDerivative.ZERO, Host("dataset_filter"), ordered=True))

# ---- orders: of a dataset, or of what is an order of one --------------------------------------------------------------------------------

# order(data, k, seed): all of its places in a permuted order. R1004 for a seed below 0.
register(OpEntry("order", _infer_order, NoDerivative.ZERO, Host("order"), ordered=True))
# sample_order(data, count, k, seed[, weights]): places drawn from all, the weights those of the dataset's examples. R1102, R1113; R1004.
register(OpEntry("sample_order", _infer_sample, NoDerivative.ZERO, Host("sample_order"), ordered=True))
# order_part(order, start, stop): its places start to stop - 1. R1107.
register(OpEntry("order_part", _infer_order_part, NoDerivative.ZERO, Host("order_part"), ordered=True))
# order_size(order): how many places it has.
register(OpEntry("order_size", _infer_order_size, NoDerivative.ZERO, Kernel("order_size")))
