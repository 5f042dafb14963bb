"""Operations on handles, logs and files. Those lowered as Host are done by the host in Python, the same for both engines."""

from __future__ import annotations

from shapescript.compiler.ir.nodes import Op, Value
from shapescript.compiler.ir.types import (
    BOOL,
    INT,
    MODE,
    SINK,
    STRING,
    ModelType,
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


# ---- logs, files, prints ----------------------------------------------------------------------------------------------------------------


FILE_SINKS = ("jsonl", "csv", "tensorboard")


def _infer_sink(op: Op) -> tuple[Type, ...]:
    kind, found = attribute(op, "kind"), [operand.type for operand in op.operands]
    if kind == "tee":
        require(bool(found) and all(given == SINK for given in found), op, "takes sinks")
    elif kind == "memory":
        _takes(op)
    else:
        require(kind in FILE_SINKS and found in ([STRING], [STRING, BOOL]), op, "takes a path, and whether to go on in what is there")
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
    values = _behind_option(op, "keep", INT)
    require(len(attribute(op, "names")) == len(values), op, "one operand for each name")
    return ()


def _behind_option(op: Op, option: str, kind: Type) -> tuple[Value, ...]:
    """The operands behind the path and, where the attribute says that it is given, the option."""
    if not op.attributes.get(option, False):
        return op.operands[1:]
    require(len(op.operands) > 1 and op.operands[1].type == kind, op, f"takes {option} behind the path")
    return op.operands[2:]


def _infer_latest(op: Op) -> tuple[Type, ...]:
    _takes(op, STRING)
    return (STRING,)


def _infer_load(op: Op) -> tuple[Type, ...]:
    require(bool(op.operands) and op.operands[0].type == STRING, op, "takes a path")
    asked = attribute(op, "asked")
    values, starts = _behind_option(op, "force", BOOL), op.attributes.get("starts", ())
    given = sum(kind is None for kind in asked) + len(starts)
    require(len(asked) == len(attribute(op, "names")) and given == len(values), op, "requests don't fit")
    return tuple(kind for kind in asked if kind is not None)


def _infer_print(op: Op) -> tuple[Type, ...]:
    require(
        all(isinstance(operand.type, TensorType) or operand.type == STRING for operand in op.operands), op, "prints numbers and strings"
    )
    return ()


# sink_open(path[, append]), sink_open(), sink_open(sink...) {kind}: nothing is opened before the first write.
register(OpEntry("sink_open", _infer_sink, NoDerivative.ZERO, Host("sink_open"), ordered=True))
# write(sink, value...) {record, fields}: one record.
register(OpEntry("write", _infer_write, NoDerivative.ZERO, Host("write"), ordered=True))
register(OpEntry("flush", _infer_flush, NoDerivative.ZERO, Host("flush"), ordered=True))
# save(path[, keep], value...) {names[, keep]}: keep is an operand where the attribute is true.
register(OpEntry("save", _infer_save, NoDerivative.ZERO, Host("save"), ordered=True))
# load(path[, force], value...) {names, asked[, starts, rename, force]}: asked[i] is the type wanted at names[i] (a result), or None where
# the next operand stands there: a handle, restored or compared, or a value that must be equal. At the names in `starts` both: the operand
# is what the result starts from. rename: pairs of names. force is an operand where the attribute is true.
register(OpEntry("load", _infer_load, NoDerivative.ZERO, Host("load"), ordered=True))
# latest(pattern): the path of the newest checkpoint that is valid.
register(OpEntry("latest", _infer_latest, NoDerivative.ZERO, Host("latest"), ordered=True))
register(OpEntry("print", _infer_print, NoDerivative.ZERO, Host("print"), ordered=True))


def _infer_groups(op: Op) -> tuple[Type, ...]:
    require(len(op.operands) == 1 and isinstance(op.operands[0].type, ModelType), op, "takes a model")
    return (STRING,)


# groups(m): how optimisers treat each of the model's parameters, as a table. The model gives the type only.
register(OpEntry("groups", _infer_groups, NoDerivative.ZERO, Host("groups")))
