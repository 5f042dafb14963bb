"""Local rewriting of operations on models and modes: a part of what was just put together is that part; evaluation drops nothing out."""

from __future__ import annotations

from shapescript.compiler.ir.nodes import Op, Value
from shapescript.compiler.ir.types import sorted_leaves
from shapescript.compiler.ops.build import Builder
from shapescript.compiler.passes.fold import Definitions, known


def _part_of_part(op: Op, definitions: Definitions, b: Builder) -> Value | None:
    before = definitions.get(op.operands[0]) if op.name in ("leaf", "submodel") else None
    if before is None or before.name != "submodel":
        return None
    return b.op(op.name, before.operands[0], path=f"{before.attributes['path']}.{op.attributes['path']}")


def _packed_leaf(op: Op, definitions: Definitions, b: Builder) -> Value | None:
    before = definitions.get(op.operands[0]) if op.name == "leaf" else None
    if before is None or before.name != "pack":
        return None
    names = [leaf.name for leaf in sorted_leaves(before.attributes["model"])]
    return before.operands[names.index(op.attributes["path"])]


def _replaced_part(op: Op, definitions: Definitions, b: Builder) -> Value | None:
    before = definitions.get(op.operands[0]) if op.name in ("leaf", "submodel") else None
    if before is None or before.name != "replace_submodel":
        return None
    path, new = op.attributes["path"], before.attributes["path"]
    if path == new:
        return before.operands[1]
    if path.startswith(new + "."):
        return b.op(op.name, before.operands[1], path=path[len(new) + 1 :])
    return None if new.startswith(path + ".") else b.op(op.name, before.operands[0], path=path)


def _repacked(op: Op, definitions: Definitions, b: Builder) -> Value | None:
    """A model packed from all leaves of one model is that model."""
    if op.name != "pack" or not op.operands:
        return None
    sources = [definitions.get(operand) for operand in op.operands]
    first = sources[0]
    if first is None or first.name != "leaf" or first.operands[0].type != op.result.type:
        return None
    names = [leaf.name for leaf in sorted_leaves(op.attributes["model"])]
    whole = first.operands[0]
    same = all(
        source is not None and source.name == "leaf" and source.operands[0] is whole and source.attributes["path"] == name
        for source, name in zip(sources, names, strict=True)
    )
    return whole if same else None


def _nothing_dropped(op: Op, definitions: Definitions, b: Builder) -> Value | None:
    """A draw below 0 leaves all elements as they are."""
    draw = known(op.operands[3], definitions) if op.name == "dropout" else None
    return op.operands[0] if draw is not None and draw < 0 else None


RULES = (_nothing_dropped, _part_of_part, _packed_leaf, _replaced_part, _repacked)
