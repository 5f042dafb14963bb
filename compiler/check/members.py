"""A model's members: parameters, buffers, sub-models and lists of them, and how their tensors begin."""

from __future__ import annotations

from shapescript.compiler.check import types
from shapescript.compiler.check.axes import AxisContext
from shapescript.compiler.check.constants import ConstantEvaluator, initialiser
from shapescript.compiler.check.report import Report
from shapescript.compiler.check.scope import ModuleScope
from shapescript.compiler.check.type_names import TypeReader
from shapescript.compiler.ir import types as ir
from shapescript.compiler.ir.starts import StartRule, constant_start
from shapescript.compiler.ir.types import Element
from shapescript.compiler.syntax import tree

EVERYWHERE = {"zeros": 0.0, "ones": 1.0}
LARGEST_WHOLE_START = 2**53  # up to it every whole number is an f64


class MemberReader:
    """Reads the members of one model; `context` holds its parameters."""

    def __init__(self, scope: ModuleScope, report: Report, reader: TypeReader, context: AxisContext) -> None:
        self.scope, self.report, self.reader, self.context = scope, report, reader, context

    def read(self, member: tree.Member | tree.Buffer) -> ir.Member:
        kind = self.reader.read(member.type)
        if isinstance(member, tree.Buffer):
            return self._buffer(member, kind)
        if isinstance(kind, types.Model):
            return self._submodel(member, kind.model)
        return self._parameter(member, kind)

    def _submodel(self, member: tree.Member, model: ir.ModelType) -> ir.Member:
        start = None
        match member.initialiser:
            case tree.Name(_, "zeros"):
                start = constant_start(0.0)
            case tree.Node(span):
                self.report.fail("E0301", "a sub-model has its own initialisers; it may also begin with `zeros` everywhere", span)
        if member.count is None:
            return ir.Member(member.name.text, model, start)
        return ir.Member(member.name.text, ir.ListType(model, self.context.axis(member.count).size), start)

    def _parameter(self, member: tree.Member, kind: types.Type) -> ir.Member:
        if isinstance(kind, types.Scalar):
            self.report.not_built("a hyperparameter of a model", member.span)
        if not isinstance(kind, types.Tensor) or not kind.element.is_float:
            hint = "what isn't trained is a buffer: write `buffer` before it" if isinstance(kind, types.Tensor) else None
            self.report.fail("E0301", f"a parameter is a tensor of floats or a sub-model, not {kind}", member.type.span, help=hint)
        if member.count is not None:
            self.report.not_built("a list of tensors", member.span)
        if member.initialiser is None:
            self.report.fail(
                "E0301",
                f"the parameter `{member.name}` needs an initialiser",
                member.span,
                help="for instance `= zeros` or `= uniform(-0.1, 0.1)`",
            )
        return ir.Member(member.name.text, _lowered(kind), self._start(member.initialiser, kind.element))

    def _buffer(self, member: tree.Buffer, kind: types.Type) -> ir.Member:
        if not isinstance(kind, types.Tensor):
            hint = f"a number of its own is a tensor without axes: `{kind if kind != types.FLOAT else ''}[]`"
            is_number = kind in (types.INT, types.FLOAT, types.BOOL)
            self.report.fail("E0301", f"a buffer is a tensor, not {kind}", member.type.span, help=hint if is_number else None)
        return ir.Member(member.name.text, _lowered(kind), self._start(member.initialiser, kind.element), is_buffer=True)

    # ---- starts

    def _start(self, node: tree.Expression, element: Element) -> StartRule:
        if element.is_float:
            return initialiser(node, self.scope, self.context, self.report)
        if isinstance(node, tree.Name) and node.name in EVERYWHERE:
            return constant_start(EVERYWHERE[node.name])
        value = None if isinstance(node, tree.Call) else ConstantEvaluator(self.scope, self.report).value(node)
        if element is Element.BOOL:
            if not isinstance(value, bool):
                self.report.fail("E0301", "bools begin with zeros, ones, `true` or `false`", node.span)
            return constant_start(float(value))
        if isinstance(value, bool) or not isinstance(value, int):
            self.report.fail("E0301", "whole numbers begin with zeros, ones or a whole number", node.span)
        if abs(value) > LARGEST_WHOLE_START:
            self.report.fail("E0503", f"whole numbers begin with at most 2**53, not {value}", node.span)
        return constant_start(float(value))


def _lowered(kind: types.Tensor) -> ir.TensorType:
    (lowered,) = types.lower(kind)
    assert isinstance(lowered, ir.TensorType)
    return lowered
