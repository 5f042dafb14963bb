"""Calls: of functions, by overload; of records and models, which make one; of what is built in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NoReturn

from shapescript.compiler.check import types, vectors
from shapescript.compiler.check.axes import axis_variables
from shapescript.compiler.check.binding import Binding
from shapescript.compiler.check.body import Body
from shapescript.compiler.check.brackets import Bracketed
from shapescript.compiler.check.builtins import BUILTINS
from shapescript.compiler.check.changes import mut_names
from shapescript.compiler.check.element_parameters import converted
from shapescript.compiler.check.foreign import INSTEAD
from shapescript.compiler.check.generics import infer
from shapescript.compiler.check.overloads import Argument, explain, laid_out, takes_argument
from shapescript.compiler.check.places import assign, check_aliasing, mut_place
from shapescript.compiler.check.program import Signature, SignatureParameter
from shapescript.compiler.check.report import Reported, did_you_mean
from shapescript.compiler.check.requirements import Resolver
from shapescript.compiler.check.scope import BrokenEntity, FunctionEntity, FunctionInfo, ModelEntity, RecordEntity
from shapescript.compiler.check.site import Site
from shapescript.compiler.check.type_names import TypeReader
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.diagnostics.model import Label, Span
from shapescript.compiler.ir import types as ir
from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ir.sizes import InexactDivision
from shapescript.compiler.syntax import tree

NOT_CALLED = {
    "Eval": "it is a mode as it stands: `Eval`",
    "bool": "a number is compared: `x != 0`",
    "zeros": "its axes stand in brackets: `zeros[b n]`",
    "ones": "its axes stand in brackets: `ones[b n]`",
    "arange": "its axis stands in brackets: `arange[n]`",
    "eye": "its axes stand in brackets: `eye[D]`",
    "causal": "its axes stand in brackets: `causal[n m]`",
}


def known_functions(body: Body) -> Iterable[str]:
    return BUILTINS


def call(body: Body, node: tree.Call) -> Typed:
    callee: tree.Expression = node.callee
    items: tuple[tree.Item, ...] | None = None
    if isinstance(node.callee, tree.Bracket):
        callee, items = node.callee.base, node.callee.items
    entity = body.entity(callee)
    match entity:
        case FunctionEntity(overloads) if node.pattern is None:
            return _function(body, overloads, node, items)
        case FunctionEntity():
            body.report.fail("E0306", f"`{callee.span.text}` takes no pattern", node.span)
        case RecordEntity(record) if items is None:
            return _record(body, record, node)
        case ModelEntity():
            kind = TypeReader(body.context, body.report).model_type(entity, items, callee.span)
            return _start(body, kind, node)
        case BrokenEntity():
            raise Reported
    if entity is not None:
        body.report.fail("E0306", f"`{callee.span.text}` can't be called", callee.span, [Label(entity.span, "declared here")])
    if not isinstance(callee, tree.Name) or callee.name in body.environment:
        _not_callable(body, callee)
    parameter = body.context.types.get(callee.name)
    if isinstance(parameter, types.Tensor):
        return converted(Site(body, callee.name, node, items), parameter.element)
    if callee.name in NOT_CALLED:
        body.report.fail("E0306", f"`{callee.name}` isn't called", callee.span, help=NOT_CALLED[callee.name])
    if callee.name not in BUILTINS:
        known = [*body.scope.entities, *known_functions(body)]
        hint = INSTEAD.get(callee.name) or did_you_mean(callee.name, known)
        body.report.fail("E0201", f"no function `{callee.name}`", callee.span, help=hint)
    site = Site(body, callee.name, node, items)
    return vectors.applied(site) or BUILTINS[callee.name](site)


def _not_callable(body: Body, callee: tree.Expression) -> NoReturn:
    """A variable, or something with a point: a method of another language, or a module under a name that isn't bound."""
    hint = None
    if isinstance(callee, tree.Attribute):
        base, name = body.evaluate(root_of(callee)) and body.evaluate(callee.base), callee.name.text
        hint = INSTEAD.get(name)
        if isinstance(base.type, types.Model) and any(member.name == name for member in base.type.model.members):
            hint = f"a model isn't called, but given to a function: `nn.linear(x, {callee.span.text})`"
        elif name in (*body.scope.entities, *BUILTINS):
            hint = f"there are no methods: write `{callee.base.span.text} |> {name}(...)`"
    body.report.fail("E0306", f"`{callee.span.text}` can't be called: it is no function", callee.span, help=hint)


def root_of(node: tree.Expression) -> tree.Expression:
    while isinstance(node, tree.Attribute):
        node = node.base
    return node


# ---- functions of the program -----------------------------------------------------------------------------------------------------------


def _function(body: Body, overloads: tuple[FunctionInfo, ...], node: tree.Call, items: tuple[tree.Item, ...] | None) -> Typed:
    arguments = [_evaluated(body, argument) for argument in node.arguments]
    if any(next(mut_names(argument.node.value), None) for argument in arguments):  # a call among the arguments may have changed them
        arguments = [replace(a, typed=body.evaluate(a.node.value)) if a.place else a for a in arguments]
    matches = [(info, matched) for info in overloads if (matched := laid_out(info.signature, arguments)) is not None]
    fitting = [
        (info, matched)
        for info, matched in matches
        if all(
            argument is None or takes_argument(info.signature, parameter, argument)
            for parameter, argument in zip(info.signature.parameters, matched, strict=True)
        )
    ]
    if len(fitting) != 1:
        explain(body, overloads, fitting, arguments, node)
    info, matched = fitting[0]
    check_aliasing(body, [(a.node, a.place) for a in arguments])
    instance = _instance(body, info, matched, node) if info.signature.types else info
    reached = info if body.info.signature.types else instance  # a generic body, checked by itself, calls the generic function as such
    body.calls.append((reached.signature.key, node.span))
    return _emit(body, instance.signature, matched, node, items)


def _instance(body: Body, info: FunctionInfo, matched: list[Argument | None], node: tree.Call) -> FunctionInfo:
    """The generic function with the types that this call's arguments have."""
    pairs = zip(info.signature.parameters, matched, strict=True)
    arguments = [(parameter, a.typed.type, a.node.value.span) for parameter, a in pairs if a is not None]
    given = infer(info.signature, arguments, node.span, body.report)
    required = Resolver(body.instances, body.info, node.span, body.report).resolve(info, given)
    return body.instances.instance(info, given, required)


def _evaluated(body: Body, argument: tree.Argument) -> Argument:
    if argument.is_mut:
        place, typed = mut_place(body, argument)
        return Argument(argument, typed, place)
    return Argument(argument, body.evaluate(argument.value), None)


def _emit(body: Body, signature: Signature, matched: list[Argument | None], node: tree.Call, items: tuple[tree.Item, ...] | None) -> Typed:
    try:
        return _bound(body, signature, matched, node, items)
    except (InexactDivision, ZeroDivisionError) as error:
        reason = str(error) if isinstance(error, InexactDivision) else "a size is divided by 0"
        body.report.fail(
            "E0501", f"a size in `{signature.name}` is no whole number here: {reason}", node.span, [Label(signature.span, "declared here")]
        )


def _bound(body: Body, signature: Signature, matched: list[Argument | None], node: tree.Call, items: tuple[tree.Item, ...] | None) -> Typed:
    binding = Binding(signature, body.report, node.span)
    if items is not None:
        _give_dims(body, binding, items)
    for parameter, argument in zip(signature.parameters, matched, strict=True):
        if argument is not None:
            _check_mut(body, signature, parameter, argument)
            binding.parameter(parameter, argument.typed.type, argument.node.value.span)
    binding.finish()
    for symbol in signature.dims:
        if symbol not in binding.axes:
            body.report.fail(
                "E2301",
                f"the dim {symbol} of `{signature.name}` is bound by no argument",
                node.span,
                [Label(signature.span, "declared here")],
                help=f"give it in brackets: `{signature.name}[{symbol}=...](...)`",
            )
        for variable in axis_variables(binding.axes[symbol].size):
            body.report.fail(
                "E0502",
                f"the dim {symbol} of `{signature.name}` would be {binding.axes[symbol]} here: `{variable}` is an axis variable, of any "
                "size, and a dim's size is known when the function is compiled",
                node.span,
                [Label(signature.span, "declared here")],
            )
    sizes = binding.sizes
    operands: list[Value] = []
    for parameter, argument in zip(signature.parameters, matched, strict=True):
        operands += _operands(body, parameter, argument, binding)
    results = [ir.substitute(kind, sizes) for kind in types.lower(signature.result)]
    changed = [(p, a) for p, a in zip(signature.parameters, matched, strict=True) if p.mutable and a is not None]
    kinds = results + [ir.substitute(kind, sizes) for p, _ in changed for kind in types.lower(p.type)]
    values = body.builder.emit("call", *operands, callee=signature.key, sizes=tuple(sizes.items()), types=tuple(kinds))
    for (_, argument), value in zip(changed, values[len(results) :], strict=True):
        assert argument.place is not None
        (own,) = types.lower(argument.typed.type)
        assign(body, argument.place, Typed(argument.typed.type, (body.reshaped(value, own),)))
    result = binding.result(signature.result)
    shaped = tuple(body.reshaped(value, kind) for value, kind in zip(values[: len(results)], types.lower(result), strict=True))
    return Typed(result, shaped)


def _give_dims(body: Body, binding: Binding, items: tuple[tree.Item, ...]) -> None:
    """What stands in brackets behind the function's name: dims, which arguments then agree with."""
    signature = binding.signature
    names = [symbol.name for symbol in signature.dims]
    given = Bracketed(f"`{signature.name}`", names, frozenset(names), signature.span).given(items, binding.span, body.report)
    reader = TypeReader(body.context, body.report)
    for symbol in signature.dims:
        if symbol.name in given:
            binding.give(symbol, types.single(reader.size_argument(given[symbol.name])))


def _check_mut(body: Body, signature: Signature, parameter: SignatureParameter, argument: Argument) -> None:
    label = [Label(parameter.span, "declared here")]
    if parameter.mutable and argument.place is None:
        body.report.fail(
            "E0601",
            f"`{signature.name}` may change its `{parameter.name}`: say so at the call with `mut`",
            argument.node.span,
            label,
            help=f"mut {argument.node.value.span.text}",
        )
    if not parameter.mutable and argument.place is not None:
        body.report.fail(
            "E0604", f"`{signature.name}` doesn't change `{parameter.name}`: `mut` doesn't stand here", argument.node.span, label
        )
    if parameter.mutable and isinstance(parameter.type, types.Tensor) and not isinstance(argument.typed.type, types.Tensor):
        text = f"`{signature.name}` changes its `{parameter.name}: {parameter.type}`, and a {argument.typed.type} isn't one"
        body.report.fail("E0301", text, argument.node.span, label, help="bind a tensor: `mut x = f32(...)`")


def _operands(body: Body, parameter: SignatureParameter, argument: Argument | None, binding: Binding) -> list[Value]:
    if argument is None:
        assert parameter.default is not None
        return list(body.constant(parameter.default).values)
    wanted = types.map_axes(parameter.type, binding.axis, binding.sizes)
    typed = argument.typed
    bound = isinstance(typed.type, types.Tensor) and isinstance(wanted, types.Tensor) and wanted.axes  # compared when they were bound
    if isinstance(wanted, types.Scalar | types.Tensor) and not bound:
        typed = body.convert(typed, wanted, argument.node.value.span, lambda: f"argument `{parameter.name}`")
    kinds = [ir.substitute(kind, binding.sizes) for kind in types.lower(parameter.type)]
    return [body.reshaped(value, kind) for value, kind in zip(typed.values, kinds, strict=True)]


# ---- records and models -----------------------------------------------------------------------------------------------------------------


def _record(body: Body, record: types.Record, node: tree.Call) -> Typed:
    """`StepLogs(step=1, loss=l)`: every field, by name or in order."""
    given: dict[str, tree.Argument] = {}
    names = [name for name, _ in record.fields]
    for place, argument in enumerate(node.arguments):
        if argument.is_mut:
            body.report.fail("E0604", "a record is made of values: `mut` doesn't stand here", argument.span)
        name = argument.name.text if argument.name else names[place] if place < len(names) else ""
        if name not in names:
            if argument.name is None:
                body.report.fail("E0302", f"the record {record} takes ({', '.join(names)}), and here is one value more", argument.span)
            body.report.fail("E0311", f"the record {record} has no field `{name}`", argument.span, help=did_you_mean(name, names))
        if name in given:
            body.report.fail("E0302", f"the field `{name}` is given twice", argument.span)
        given[name] = argument
    missing = [name for name in names if name not in given]
    if missing:
        body.report.fail("E0302", f"the record {record} lacks {', '.join(missing)}", node.span)
    values: dict[str, tuple[Value, ...]] = {}
    for name, argument in given.items():
        kind = dict(record.fields)[name]
        typed = body.convert(body.evaluate(argument.value), kind, argument.value.span, lambda name=name: f"the field `{name}`")  # type: ignore[misc]
        values[name] = typed.values
    return Typed(record, tuple(value for name in names for value in values[name]))


def _start(body: Body, kind: ir.ModelType, node: tree.Call) -> Typed:
    """`Mlp(seed=1234)`."""
    if len(node.arguments) != 1 or node.arguments[0].is_mut or (node.arguments[0].name and node.arguments[0].name.text != "seed"):
        body.report.fail("E0302", f"a model is made of a seed: `{kind}(seed=0)`", node.span)
    seed: Span = node.arguments[0].value.span
    typed = body.convert(body.evaluate(node.arguments[0].value), types.INT, seed, lambda: "a seed")
    return Typed(types.Model(kind), body.builder.emit("model_start", typed.value, model=kind))
