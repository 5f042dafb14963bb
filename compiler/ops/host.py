"""Operations on handles, data, logs and files. Those lowered as Host are done by the host in Python, the same for both engines."""

from __future__ import annotations

from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.types import (
    BOOL,
    INT,
    MODE,
    SINK,
    STRING,
    DatasetType,
    ModelType,
    OrderedType,
    TensorType,
    Type,
)
from shapescript.compiler.ops.table import Host, Kernel, NoDerivative, OpEntry, attribute, register, require


def _takes(op: Op, *types: Type) -> None:
    require([operand.type for operand in op.operands] == list(types), op, f"takes ({', '.join(map(str, types))})")


def _infer_string(op: Op) -> tuple[Type, ...]:
    attribute(op, "value")
    return (STRING,)


def _infer_eval(op: Op) -> tuple[Type, ...]:
    _takes(op)
    return (MODE,)


def _infer_train(op: Op) -> tuple[Type, ...]:
    _takes(op, INT)
    return (MODE,)


def _infer_draw(op: Op) -> tuple[Type, ...]:
    _takes(op, MODE)
    return INT, INT


register(OpEntry("string", _infer_string, NoDerivative.ZERO, Host("string")))
register(OpEntry("mode_eval", _infer_eval, NoDerivative.ZERO, Host("mode_eval")))
register(OpEntry("mode_train", _infer_train, NoDerivative.ZERO, Host("mode_train"), ordered=True))
# mode_draw(mode) -> seed, draw: the stream's next draw, or -1 in Eval, where nothing moves.
register(OpEntry("mode_draw", _infer_draw, NoDerivative.ZERO, Kernel("mode_draw"), ordered=True))


def _infer_is_train(op: Op) -> tuple[Type, ...]:
    _takes(op, MODE)
    return (BOOL,)


# mode_is_train(mode): whether it is a Train; no stream moves.
register(OpEntry("mode_is_train", _infer_is_train, NoDerivative.ZERO, Kernel("mode_is_train")))


# ---- data -------------------------------------------------------------------------------------------------------------------------------


def _infer_load_data(op: Op) -> tuple[Type, ...]:
    _takes(op, STRING)
    return (attribute(op, "dataset"),)


def dataset_of(kind: Type) -> DatasetType | None:
    if isinstance(kind, OrderedType):
        return kind.dataset
    return kind if isinstance(kind, DatasetType) else None


def field_types(dataset: DatasetType) -> tuple[TensorType, ...]:
    """The fields of all examples: the record's types with the dataset's axis in front."""
    return tuple(TensorType(kind.element, (dataset.rows, *kind.axes)) for _, kind in dataset.record.fields)


def _infer_all(op: Op) -> tuple[Type, ...]:
    kind = op.operands[0].type
    require(len(op.operands) == 1 and isinstance(kind, DatasetType), op, "takes a dataset")
    assert isinstance(kind, DatasetType)
    return field_types(kind)


def _infer_order(op: Op) -> tuple[Type, ...]:
    kind = op.operands[0].type
    require(len(op.operands) == 3 and isinstance(kind, DatasetType), op, "takes a dataset, the number of the order and the seed")
    require([operand.type for operand in op.operands[1:]] == [INT, INT], op, "takes two host ints")
    assert isinstance(kind, DatasetType)
    return (OrderedType(kind),)


# load_data(path) {dataset}: R1201, R1202. The dataset's rows symbol gets its size here.
register(OpEntry("load_data", _infer_load_data, NoDerivative.ZERO, Host("load_data"), ordered=True))
# dataset_all(data): each field of all examples, in the record's order.
register(OpEntry("dataset_all", _infer_all, NoDerivative.ZERO, Kernel("dataset_all")))
# order(data, k, seed): the permutation of numerics/random.py, by index.
register(OpEntry("order", _infer_order, NoDerivative.ZERO, Kernel("order")))


# ---- logs, files, prints ----------------------------------------------------------------------------------------------------------------


def _infer_sink(op: Op) -> tuple[Type, ...]:
    _takes(op, STRING)
    attribute(op, "kind")
    return (SINK,)


def _infer_write(op: Op) -> tuple[Type, ...]:
    require(bool(op.operands) and op.operands[0].type == SINK, op, "takes a sink")
    require(len(attribute(op, "fields")) == len(op.operands) - 1, op, "one operand for each field")
    attribute(op, "record")
    require(
        all((isinstance(o.type, TensorType) and not o.type.axes) or o.type == STRING for o in op.operands[1:]), op, "fields are host values"
    )
    return ()


def _infer_flush(op: Op) -> tuple[Type, ...]:
    _takes(op, SINK)
    return ()


def _infer_save(op: Op) -> tuple[Type, ...]:
    require(bool(op.operands) and op.operands[0].type == STRING, op, "takes a path")
    require(len(attribute(op, "names")) == len(op.operands) - 1, op, "one operand for each name")
    return ()


def _infer_load(op: Op) -> tuple[Type, ...]:
    require(bool(op.operands) and op.operands[0].type == STRING, op, "takes a path")
    asked = attribute(op, "asked")
    require(
        len(asked) == len(attribute(op, "names")) and sum(kind is None for kind in asked) == len(op.operands) - 1, op, "requests don't fit"
    )
    return tuple(kind for kind in asked if kind is not None)


def _infer_print(op: Op) -> tuple[Type, ...]:
    require(
        all(isinstance(operand.type, TensorType) or operand.type == STRING for operand in op.operands), op, "prints numbers and strings"
    )
    return ()


register(OpEntry("sink_open", _infer_sink, NoDerivative.ZERO, Host("sink_open"), ordered=True))
# write(sink, value...) {record, fields}: one record.
register(OpEntry("write", _infer_write, NoDerivative.ZERO, Host("write"), ordered=True))
register(OpEntry("flush", _infer_flush, NoDerivative.ZERO, Host("flush"), ordered=True))
# save(path, value...) {names}.
register(OpEntry("save", _infer_save, NoDerivative.ZERO, Host("save"), ordered=True))
# load(path, value...) {names, asked}: asked[i] is the type wanted at names[i] (a result), or None where the next operand stands there: a
# handle, restored or compared, or a value that must be equal.
register(OpEntry("load", _infer_load, NoDerivative.ZERO, Host("load"), ordered=True))
register(OpEntry("print", _infer_print, NoDerivative.ZERO, Host("print"), ordered=True))


def _infer_groups(op: Op) -> tuple[Type, ...]:
    require(len(op.operands) == 1 and isinstance(op.operands[0].type, ModelType), op, "takes a model")
    return (STRING,)


# groups(m): how optimisers treat each of the model's parameters, as a table. The model gives the type only.
register(OpEntry("groups", _infer_groups, NoDerivative.ZERO, Host("groups")))
