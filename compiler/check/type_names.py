"""Types as they are written, turned into the checker's types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn, Protocol

from shapescript.compiler.check import types
from shapescript.compiler.check.axes import AxisContext, axis_variables
from shapescript.compiler.check.brackets import Bracketed
from shapescript.compiler.check.element_parameters import BY_NAME, element_named
from shapescript.compiler.check.program import ElementParameter
from shapescript.compiler.check.report import Report, Reported, did_you_mean
from shapescript.compiler.check.scope import BrokenEntity, DimEntity, Entity, ModelEntity, ModuleEntity, RecordEntity
from shapescript.compiler.diagnostics.model import Label, Span
from shapescript.compiler.ir import types as ir
from shapescript.compiler.ir.sizes import LARGEST, ONE, InexactDivision, Size, Symbol, fresh, of, product
from shapescript.compiler.ir.types import Element
from shapescript.compiler.numerics.optimisers import KINDS
from shapescript.compiler.syntax import tree

MOST_NESTED_MODELS = 100
MOST_TENSORS = 4096  # of a model: loops over lists of sub-models are unrolled, and each tensor is code of its own
ELEMENTS = {"f32": Element.F32, "f64": Element.F64, "bf16": Element.BF16, "int": Element.I64, "bool": Element.BOOL}
SCALARS = {"int": types.INT, "float": types.FLOAT, "bool": types.BOOL, "str": types.STR}
HANDLES = {"Mode": types.MODE, "LogSink": types.SINK, "Vocabulary": types.VOCABULARY}
BUILT_IN = (*ELEMENTS, *SCALARS, *HANDLES, *KINDS, "Dataset")
FOREIGN = {
    **dict.fromkeys(("f16", "float16", "float32", "Tensor", "tensor", "ndarray", "array"), "a tensor of f32 is written `[b n]`"),
    "bfloat16": "a tensor of bf16 is written `bf16[b n]`",
    **dict.fromkeys(("float64", "double"), "a tensor of f64 is written `f64[b n]`"),
    **dict.fromkeys(("i32", "i64", "int32", "int64", "long"), "a tensor of whole numbers is written `int[b n]`, and has 64 bits"),
    "string": "a string is a `str`",
    "boolean": "a truth value is a `bool`",
}


class Models(Protocol):
    def model(self, name: str) -> None:
        """Declare a model of the module that isn't declared yet."""


class TypeReader:
    """Reads types in one place: a signature, a record, a model, a `load`."""

    def __init__(self, context: AxisContext, report: Report, models: Models | None = None) -> None:
        self.context, self.report, self.models = context, report, models

    def read(self, node: tree.Type) -> types.Type:
        match node:
            case tree.TensorType(_, axes):
                return self._tensor(Element.F32, axes, node.span)
            case tree.TupleType(_, elements):
                return types.Tuple(tuple(self.read(element) for element in elements))
            case tree.Applied(_, name, items):
                return self.applied(name, items, node.span)

    def for_elements(self, node: tree.Type, kind: types.Type) -> types.Type:
        """A type that was read before, where element parameters stand for others now: what they can't change is not read anew."""
        match node, kind:
            case tree.TupleType(_, nodes), types.Tuple(kinds):
                return types.Tuple(tuple(map(self.for_elements, nodes, kinds)))
            case tree.Applied(_, name, _), types.Tensor(_, axes):
                parameter = self.context.types.get(str(name))
                return types.Tensor(parameter.element, axes) if isinstance(parameter, types.Tensor) else kind
            case _, types.Model() | types.Optimiser():
                return self.read(node)
        return kind

    def applied(self, name: tree.QualifiedName, items: tuple[tree.Item, ...] | None, span: Span) -> types.Type:
        text = str(name)
        if text in self.context.types:
            return self._parameter(text, items, span)
        entity = self._entity(name)
        if entity is None or isinstance(entity, DimEntity):  # a dim is no type, and its name may be one: `dim Vocabulary`
            if items is None and text in SCALARS:
                return SCALARS[text]
            if items is None and text in HANDLES:
                return HANDLES[text]
            if items is not None and text in ELEMENTS:
                return self._tensor(ELEMENTS[text], self._one_list(items, span), span)
            if text == "Dataset":
                return self._dataset(items, span)
            if text in KINDS:
                return types.Optimiser(text, self._model_argument(text, items, span).model)
        return self._declared(name, items, span)

    def _tensor(self, element: Element, axes: tuple[tree.Axis, ...], span: Span) -> types.Tensor:
        found = self.context.axes(axes)
        if sum(axis.leading for axis in found) > 1 or any(axis.leading for axis in found[1:]):
            self.report.fail("E0407", "leading axes `..s` stand first, and once", span)
        count = product(axis.size for axis in found).constant()
        if count is not None and count > LARGEST:
            self.report.fail("E0503", f"a tensor of {count} elements: it has at most 2**48", span)
        return types.Tensor(element, found)

    def _one_list(self, items: tuple[tree.Item, ...], span: Span) -> tuple[tree.Axis, ...]:
        match items:
            case ():
                return ()
            case (tree.AxisList(_, axes),):
                return axes
        self.report.fail("E0301", "axes are separated by spaces", span)

    def _entity(self, name: tree.QualifiedName) -> Entity | None:
        scope = self.context.scope
        for part in name.parts[:-1]:
            entity = scope.seen_from(self.context.scope, part.text)
            if not isinstance(entity, ModuleEntity):
                return None
            scope = entity.scope
        last = name.parts[-1].text
        if scope is not self.context.scope:
            return scope.exported(last)
        if self.models is not None and last not in scope.entities:
            self.models.model(last)
        return scope.entities.get(last)

    def _declared(self, name: tree.QualifiedName, items: tuple[tree.Item, ...] | None, span: Span) -> types.Type:
        entity = self._entity(name)
        match entity:
            case BrokenEntity():
                raise Reported
            case ModelEntity():
                return types.Model(self.model_type(entity, items, span))
            case RecordEntity(record):
                return self._record(record, items, span)
            case ModuleEntity():
                self.report.fail("E0308", f"`{name}` is a module, not a type", span)
        if entity is not None:
            self.report.fail("E0308", f"`{name}` is no type", span)
        if len(name.parts) > 1:
            self._not_in_module(name)
        if str(name) in ELEMENTS and items is None:
            self.report.fail("E0308", f"`{name}` is the elements' type of a tensor: its axes follow in brackets, `{name}[...]`", span)
        if str(name) in (*SCALARS, *HANDLES):
            self.report.fail("E0308", f"`{name}` takes no brackets", span)
        if str(name) in FOREIGN:
            self.report.fail("E0308", f"no type `{name}`", span, help=FOREIGN[str(name)])
        known = [*BUILT_IN, *(n for n, e in self.context.scope.entities.items() if isinstance(e, ModelEntity | RecordEntity))]
        self.report.fail("E0308", f"no type `{name}`", span, help=did_you_mean(str(name), known))

    def _record(self, record: types.Record, items: tuple[tree.Item, ...] | None, span: Span) -> types.Record | types.Batch:
        if items is None:
            return record
        axes = self.context.axes(self._one_list(items, span))
        if len(axes) != 1:
            self.report.fail("E0301", f"a batch has one axis: `{record}[b]`", span)
        self._batchable(record, span)
        return types.Batch(record, axes[0])

    def _parameter(self, name: str, items: tuple[tree.Item, ...] | None, span: Span) -> types.Type:
        """A type parameter, or what stands for it in an instance."""
        kind = self.context.types[name]
        if isinstance(kind, types.Record):
            return self._record(kind, items, span)
        if isinstance(kind, types.Tensor) and items is not None:
            return self._tensor(kind.element, self._one_list(items, span), span)
        if isinstance(kind, types.Tensor):
            self.report.fail("E0308", f"`{name}` is the elements' type of a tensor: its axes follow in brackets, `{name}[...]`", span)
        if items is not None:
            self.report.fail("E0308", f"`{name}` takes no brackets: it is a type parameter, a whole model", span)
        return kind

    def model_type(self, entity: ModelEntity, items: tuple[tree.Item, ...] | None, span: Span) -> ir.ModelType:
        """The declared model with its parameters filled in."""
        declaration = entity.declaration
        names = [parameter.name for parameter in declaration.parameters]
        given = Bracketed(f"the model `{declaration.name}`", names, declaration.optional, declaration.span).given(items, span, self.report)
        sizes: dict[Symbol, Size] = {}
        models: dict[ir.ModelType, ir.ModelType] = {}
        elements: dict[str, Element] = {}
        try:
            for parameter in declaration.parameters:
                if isinstance(parameter, ElementParameter):
                    elements[parameter.name] = self._element(parameter, given.get(parameter.name), declaration.name)
                elif isinstance(parameter, ir.ModelType):
                    models[parameter] = self._type_argument(given[parameter.name], declaration.name)
                elif parameter.name in given:
                    sizes[parameter] = self.size_argument(given[parameter.name])
                else:
                    sizes[parameter] = default_size(declaration.defaults[parameter], parameter, sizes, span, self.report)
            model = ir.replace_models(ir.substitute_model(declaration.made_of(elements), sizes), models)
        except (InexactDivision, ZeroDivisionError) as error:
            reason = str(error) if isinstance(error, InexactDivision) else "a size is divided by 0"
            label = [Label(declaration.span, "declared here")]
            self.report.fail("E0501", f"a size of the model `{declaration.name}` is no whole number here: {reason}", span, label)
        check_extent(model, span, self.report)
        return model

    def _batchable(self, record: types.Record, span: Span) -> None:
        for name, kind in record.fields:
            if kind == types.STR:
                self.report.not_built(f"a batch or dataset of {record}, whose field `{name}` is a string,", span)

    def _not_in_module(self, name: tree.QualifiedName) -> NoReturn:
        scope = self.context.scope
        for part in name.parts[:-1]:
            entity = scope.seen_from(self.context.scope, part.text)
            if isinstance(entity, BrokenEntity):
                raise Reported
            if not isinstance(entity, ModuleEntity):
                self.report.fail("E0201", f"no module `{part}` is imported", part.span, help=did_you_mean(part.text, scope.entities))
            scope = entity.scope
        last = name.parts[-1]
        own = [known for known in scope.entities if known not in scope.imported]
        self.report.fail("E0205", f"the module `{name.parts[-2]}` declares no `{last}`", last.span, help=did_you_mean(last.text, own))

    def size_argument(self, node: tree.Axis) -> Size:
        """A dim in brackets."""
        if isinstance(node, tree.AxisName) and (node.name in self.context.types or node.name in BY_NAME):
            text = f"a size stands here, and `{node.name}` is a type"
            self.report.fail(
                "E2305", text, node.span, help=f"behind sizes that have a default, elements are given by name: `F={node.name}`"
            )
        size = self.context.axis(node).size
        for symbol in axis_variables(size):
            text = f"dims are known when the program is compiled, and `{symbol}` is an axis variable, of any size"
            name = symbol.name.title()
            self.report.fail("E0502", text, node.span, help=f"declare a dim parameter after the function's name: `[{name}]`")
        return size

    def _element(self, parameter: ElementParameter, given: tree.Axis | None, model: str) -> Element:
        if given is not None:
            return element_named(given, self.context.types, f"`{parameter.name}` of the model `{model}`", self.report)
        assert parameter.default is not None
        return parameter.default

    def _type_argument(self, node: tree.Axis, name: str) -> ir.ModelType:
        if isinstance(node, tree.AxisName | tree.Applied):
            found = self._type_of_axis(node)
            if isinstance(found, types.Model):
                return found.model
        self.report.fail("E2305", f"the model `{name}` is made for a model here", node.span)

    def _dataset(self, items: tuple[tree.Item, ...] | None, span: Span) -> types.Dataset:
        match items:
            case (tree.AxisList(_, (tree.AxisName() | tree.Applied() as node,)),):
                record = self._type_of_axis(node)
                if isinstance(record, types.Record):
                    self._batchable(record, span)
                    return types.Dataset(record, types.Axis("rows", of(fresh("rows"))))
        self.report.fail("E0301", "a dataset is of a record: `Dataset[Digit]`", span)

    def _model_argument(self, what: str, items: tuple[tree.Item, ...] | None, span: Span) -> types.Model:
        match items:
            case (tree.AxisList(_, (tree.AxisName() | tree.Applied() as node,)),):
                model = self._type_of_axis(node)
                if isinstance(model, types.Model):
                    return model
        self.report.fail("E0301", f"{what} is of a model: `{what}[Mlp]`", span)

    def _type_of_axis(self, node: tree.AxisName | tree.Applied) -> types.Type:
        if isinstance(node, tree.AxisName):
            name = tree.QualifiedName(node.span, (tree.Identifier(node.span, node.name),))
            return self.applied(name, None, node.span)
        return self.applied(node.name, node.items, node.span)


def default_size(default: Size, dim: Symbol, sizes: Mapping[Symbol, Size], span: Span, report: Report) -> Size:
    """A dim's default by the dims before. E0503 where it comes out below 0."""
    size = default.substitute(sizes)
    value = size.constant()
    if value is not None and value < 0:
        report.fail("E0503", f"{dim} would be {value} by its default {default}: a size is from 0 to 2**48", span)
    return size


def check_extent(model: ir.ModelType, span: Span, report: Report) -> None:
    """E0503 for a model of more tensors than can be compiled, as far as its lists' lengths are known; E0112 for one nested too deeply."""
    tensors, depth = _extent(model)
    if depth > MOST_NESTED_MODELS:
        report.fail("E0112", f"models are nested more than {MOST_NESTED_MODELS} levels deep here", span)
    found = tensors.constant()
    if found is not None and found > MOST_TENSORS:
        report.fail("E0503", f"the model `{model}` has {found} tensors, and a model has at most {MOST_TENSORS}", span)


def _extent(model: ir.ModelType) -> tuple[Size, int]:
    """How many tensors, and how many models inside each other."""
    tensors, depth = Size(), 0
    for member in model.members:
        match member.type:
            case ir.ModelType() | ir.ListType() as inner:
                element, count = (inner.element, inner.count) if isinstance(inner, ir.ListType) else (inner, ONE)
                own, below = _extent(element)
                tensors, depth = tensors + own * count, max(depth, below)
            case _:
                tensors = tensors + ONE
    return tensors, depth + 1
