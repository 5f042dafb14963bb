"""Expressions: names, members, operators; calls go to calls.py."""

from __future__ import annotations

from shapescript.compiler.check import operators, types, vectors
from shapescript.compiler.check.body import Body
from shapescript.compiler.check.builtins import BUILTINS, NAMES_AS_VALUES
from shapescript.compiler.check.builtins_data import count_of
from shapescript.compiler.check.builtins_making import bracket_value
from shapescript.compiler.check.calls import NOT_CALLED, call, known_functions
from shapescript.compiler.check.changes import mut_names
from shapescript.compiler.check.foreign import INSTEAD
from shapescript.compiler.check.indexing import taken
from shapescript.compiler.check.literals import literal
from shapescript.compiler.check.places import list_index
from shapescript.compiler.check.powers import power
from shapescript.compiler.check.report import did_you_mean
from shapescript.compiler.check.scope import FunctionEntity, ModelEntity, RecordEntity
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.check.types import Tensor
from shapescript.compiler.ir import types as ir
from shapescript.compiler.ir.nodes import walk
from shapescript.compiler.ops.table import entry
from shapescript.compiler.syntax import tree


def attach(body: Body) -> None:
    body.evaluate = lambda node: expression(body, node)
    body.built_in = BUILTINS


def expression(body: Body, node: tree.Expression) -> Typed:
    with body.builder.at(node.span):
        match node:
            case tree.IntLiteral(_, value) | tree.FloatLiteral(_, value) | tree.BoolLiteral(_, value) | tree.StringLiteral(_, value):
                return body.constant(value)
            case tree.Name(_, name):
                return _name(body, node, name)
            case tree.Attribute():
                return _attribute(body, node)
            case tree.Unary(_, "-", operand):
                found = expression(body, operand)
                return vectors.negative(body, node, found) if vectors.is_model(found) else operators.negative(body, node, found)
            case tree.Unary(_, "!", operand):
                return operators.mask_not(body, node, expression(body, operand))
            case tree.Unary(_, _, operand):
                return Typed(types.BOOL, (body.builder.op("not", condition(body, operand).value),))
            case tree.Binary():
                return _binary(body, node)
            case tree.Comparison(_, _, left, right):
                return operators.comparison(body, node, expression(body, left), expression(body, right))
            case tree.Logical():
                return _logical(body, node)
            case tree.Tuple(_, elements):
                parts = [expression(body, element) for element in elements]
                for part, element in zip(parts, elements, strict=True):
                    if isinstance(part.type, types.ModelList | types.Batches):
                        body.report.not_built(f"a tuple with {part.type}", element.span)
                return Typed(types.Tuple(tuple(part.type for part in parts)), tuple(value for part in parts for value in part.values))
            case tree.List():
                return literal(body, node)
            case tree.Dict():
                body.report.fail("E0301", "braces stand only where a call takes names for names: `rename=` of `load`", node.span)
            case tree.Bracket():
                return _bracket(body, node)
            case tree.Call():
                return call(body, node)
            case tree.Pipe(_, operand, stage):
                first = tree.Argument(operand.span, None, operand)
                return call(body, tree.Call(node.span, stage.callee, (first, *stage.arguments), stage.pattern))


def no_mut(body: Body, node: tree.Expression, where: str) -> None:
    """E0701 for a `mut` argument in an expression that may be evaluated any number of times."""
    for name in mut_names(node):
        body.report.fail(
            "E0701", f"`mut` {where}", name.span, help="make the call in a statement of its own, and bind what it gives to a name"
        )


def condition(body: Body, node: tree.Expression) -> Typed:
    return body.convert(expression(body, node), types.BOOL, node.span, lambda: "a condition")


def _name(body: Body, node: tree.Name, name: str) -> Typed:
    variable = body.variable(name)
    if variable is not None:
        return variable.typed
    entity = body.entity(node)
    if isinstance(entity, FunctionEntity):
        body.report.fail("E0301", f"`{name}` is a function: call it", node.span)
    if isinstance(entity, ModelEntity | RecordEntity):
        body.report.fail("E0301", f"`{name}` is a type, not a value", node.span)
    if entity is not None:
        return body.entity_value(entity, node.span)
    if name in NAMES_AS_VALUES:
        return NAMES_AS_VALUES[name](body)
    axis = body.context.known(name)
    if axis is not None:
        return Typed(types.INT, (body.builder.size(axis.size),), axis.size.constant())
    if name in NOT_CALLED:
        body.report.fail("E0301", f"`{name}` is no value by itself", node.span, help=NOT_CALLED[name])
    if name in known_functions(body):
        body.report.fail("E0301", f"`{name}` is a function: call it", node.span)
    known = [*body.environment, *body.scope.entities, *body.context.names, *body.context.aliases, *known_functions(body)]
    body.report.fail("E0201", f"`{name}` is not declared", node.span, help=did_you_mean(name, known))


def _attribute(body: Body, node: tree.Attribute) -> Typed:
    entity = body.entity(node)
    if entity is not None:
        return body.entity_value(entity, node.span)
    base, name = expression(body, node.base), node.name.text
    match base.type:
        case types.Model(model):
            return member(body, base, model, name, node)
        case types.Batch(record, axis) if name == "count" and base.type.field(name) is None:
            return Typed(types.INT, (body.builder.size(axis.size),))
        case types.Batch(record):
            return _field(body, base, [(field, types.batched(kind, base.type.axis)) for field, kind in record.fields], node)
        case types.Record(_, _, fields):
            return _field(body, base, list(fields), node)
        case types.Dataset() if name == "all" and not base.type.ordered:
            return Typed(types.Batch(base.type.record, base.type.rows), body.builder.emit("dataset_all", base.value))
        case types.Dataset() if name == "count":
            return Typed(types.INT, (count_of(body, base, base.type),))
        case types.Optimiser() if name == "step":
            return Typed(types.INT, (body.builder.op("optimiser_step", base.value),))
    own = {types.Dataset: ["all", "count"], types.Optimiser: ["step"]}.get(type(base.type), [])
    hint = (did_you_mean(name, own) or INSTEAD.get(name)) if name not in own else "it belongs to the dataset itself, not to an order of it"
    body.report.fail("E0303", f"{base.type} has no attribute `{name}`", node.name.span, help=hint)


def member(body: Body, base: Typed, model: ir.ModelType, name: str, node: tree.Attribute) -> Typed:
    found = next((m.type for m in model.members if m.name == name), None)
    match found:
        case ir.TensorType(element, axes):
            kind = Tensor(element, tuple(types.single(axis) for axis in axes))
            return Typed(kind, (body.builder.op("leaf", base.value, path=name),))
        case ir.ModelType():
            return Typed(types.Model(found), (body.builder.op("submodel", base.value, path=name),))
        case ir.ListType():
            return Typed(types.ModelList(found), base.values, None, name)
    body.report.fail(
        "E0303", f"the model {model} has no member `{name}`", node.name.span, help=did_you_mean(name, [m.name for m in model.members])
    )


def _field(
    body: Body, base: Typed, fields: list[tuple[str, Tensor]] | list[tuple[str, Tensor | types.Scalar]], node: tree.Attribute
) -> Typed:
    for (name, kind), value in zip(fields, base.values, strict=True):
        if name == node.name.text:
            return Typed(kind, (value,))
    body.report.fail(
        "E0303",
        f"the record {base.type} has no field `{node.name}`",
        node.name.span,
        help=did_you_mean(node.name.text, [name for name, _ in fields]),
    )


def _binary(body: Body, node: tree.Binary) -> Typed:
    left, right = expression(body, node.left), expression(body, node.right)
    if vectors.is_model(left) or vectors.is_model(right):
        return vectors.arithmetic(body, node, left, right)
    if node.operator == "**":
        return power(body, node, left, right)
    if node.operator == "@":
        return operators.matrix_product(body, node, left, right)
    if node.operator in ("&", "|"):
        return operators.masks(body, node, left, right)
    return operators.arithmetic(body, node, left, right)


def _logical(body: Body, node: tree.Logical) -> Typed:
    """The right side is evaluated only where it decides: as a branch where that could be noticed."""
    no_mut(body, node.right, f"on the right of `{node.operator}`, which is evaluated only where it decides")
    left = condition(body, node.left)
    with body.region() as inner:
        right = condition(body, node.right)
        block = inner.block((), right.values)
    if not any(entry(op.name).ordered for op in walk(block)):
        body.builder.ops.extend(block.ops)
        return Typed(types.BOOL, (body.builder.op(node.operator, left.value, right.value),))
    with body.region() as other:
        constant = other.constant(node.operator == "or", ir.Element.BOOL)
        known = other.block((), (constant,))
    regions = (block, known) if node.operator == "and" else (known, block)
    return Typed(types.BOOL, body.builder.emit("if", left.value, regions=regions))


def _bracket(body: Body, node: tree.Bracket) -> Typed:
    if isinstance(node.base, tree.Name) and node.base.name not in body.environment and body.entity(node.base) is None:
        found = bracket_value(body, node.base.name, node)
        if found is not None:
            return found
    base = expression(body, node.base)
    if isinstance(base.type, types.ModelList):
        return _list_item(body, base, base.type, node)
    if isinstance(base.type, Tensor):
        return taken(body, base, base.type, node)
    body.report.fail("E0301", f"{base.type} can't be indexed", node.span)


def _list_item(body: Body, base: Typed, kind: types.ModelList, node: tree.Bracket) -> Typed:
    index = list_index(body, kind, node)
    return Typed(types.Model(kind.list.element), (body.builder.op("submodel", base.value, path=f"{base.path}.{index}"),))
