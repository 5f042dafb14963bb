"""Numbers known while checking: dims, consts, initialisers, defaults of parameters.

Floats follow IEEE f64 with the operators of Python, which are the same; dims are exact (E0501 for a remainder).
"""

from __future__ import annotations

import math

from shapescript.compiler.check.axes import AxisContext
from shapescript.compiler.check.report import Report, Reported, did_you_mean
from shapescript.compiler.check.scope import BrokenEntity, ConstEntity, DimEntity, ModuleEntity, ModuleScope
from shapescript.compiler.check.text_sizes import SIZES, WHAT, size_of
from shapescript.compiler.ir.starts import HostNumber, StartRule, constant_start
from shapescript.compiler.syntax import tree

Constant = int | float | bool | str


class ConstantEvaluator:
    """Evaluates expressions of literals, consts, dims, arithmetic and `sqrt`."""

    def __init__(self, scope: ModuleScope, report: Report, exact: bool = False) -> None:
        self.scope, self.report, self.exact = scope, report, exact

    def value(self, node: tree.Expression) -> Constant:
        match node:
            case tree.IntLiteral(_, value) | tree.FloatLiteral(_, value) | tree.BoolLiteral(_, value) | tree.StringLiteral(_, value):
                return value
            case tree.Name(_, name):
                return self._named(self.scope, name, node)
            case tree.Attribute(_, tree.Name(_, module), name):
                entity = self.scope.entities.get(module)
                if isinstance(entity, ModuleEntity):
                    return self._named(entity.scope, name.text, node)
            case tree.Unary(_, "-", operand):
                return -self._number(operand)
            case tree.Binary(_, operator, left, right):
                return self._arithmetic(operator, self._number(left), self._number(right), node)
            case tree.Call(_, tree.Name(_, "sqrt"), (tree.Argument(_, None, argument, False),), None) if not self.exact:
                number = self._number(argument)
                if number < 0:
                    self.report.fail("E0502", f"the square root of {number}", node.span)
                return math.sqrt(number)
            case tree.Call(_, tree.Name(_, name), arguments, None) if name in SIZES and name not in self.scope.entities:
                return self._text_size(name, arguments, node)
        what = (
            "a dim is made of whole numbers and other dims" if self.exact else "a constant is made of literals, consts, dims and arithmetic"
        )
        self.report.fail("E0502", what, node.span)

    def _text_size(self, name: str, arguments: tuple[tree.Argument, ...], node: tree.Expression) -> int:
        match arguments:
            case (tree.Argument(_, None, argument, False),):
                path = self.value(argument)
            case _:
                self.report.fail("E0302", f'`{name}` takes the path of a text: {name}("input.txt")', node.span)
        if not isinstance(path, str):
            self.report.fail("E0301", f"`{name}` takes the path of a text, a string", argument.span)
        try:
            return size_of(name, path, self.scope.data_folder)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            self.report.fail("E0506", f"can't count the {WHAT[name]} of {path}: {reason}", argument.span)

    def _named(self, scope: ModuleScope, name: str, node: tree.Expression) -> Constant:
        entity = scope.seen_from(self.scope, name)
        if isinstance(entity, DimEntity):
            assert entity.symbol.value is not None
            return entity.symbol.value
        if isinstance(entity, ConstEntity):
            return entity.value
        if isinstance(entity, BrokenEntity):
            raise Reported
        if entity is None:
            self.report.fail("E0201", f"`{name}` is not declared", node.span, help=did_you_mean(name, scope.entities))
        self.report.fail("E0502", f"`{name}` is no constant", node.span)

    def _number(self, node: tree.Expression) -> int | float:
        value = self.value(node)
        if isinstance(value, str | bool):
            self.report.fail("E0301", f"a number is wanted here, found a {'str' if isinstance(value, str) else 'bool'}", node.span)
        return value

    def _arithmetic(self, operator: str, left: int | float, right: int | float, node: tree.Binary) -> int | float:
        result = self._combined(operator, left, right, node)
        if isinstance(result, int) and not -(2**63) <= result < 2**63:
            self.report.fail("E0503", f"{node.span.text} is {result}, and a whole number has 64 bits", node.span)
        return result

    def _combined(self, operator: str, left: int | float, right: int | float, node: tree.Binary) -> int | float:
        try:
            match operator:
                case "+":
                    return left + right
                case "-":
                    return left - right
                case "*":
                    return left * right
                case "/" if self.exact:
                    return self._exact_quotient(left, right, node)
                case "/":
                    return left / right
                case "//":
                    return left // right
                case "%":
                    return left % right
                case "**" if isinstance(right, int) and 0 <= right < 64:
                    return _power(left, right)
        except ZeroDivisionError:
            self.report.fail("E0501", "a division by zero", node.span)
        except OverflowError:
            self.report.fail("E0503", "the number is too large", node.span)
        self.report.fail("E0502", f"constants have no `{operator}` of {left} and {right}", node.span)

    def _exact_quotient(self, left: int | float, right: int | float, node: tree.Binary) -> int:
        if isinstance(left, float) or isinstance(right, float):
            self.report.fail("E0502", "a dim is made of whole numbers and other dims", node.span)
        if left % right:
            self.report.fail(
                "E0501",
                f"{node.left.span.text} / {node.right.span.text} leaves a remainder: {left} is not a multiple of {right}",
                node.span,
            )
        return left // right


def _power(base: int | float, count: int) -> int | float:
    """The repeated product that `**` is in functions too: by the binary digits of the exponent, the highest first."""
    if count == 0:
        return type(base)(1)
    result = base
    for digit in f"{count:b}"[1:]:
        result = result * result * base if digit == "1" else result * result
    return result


def initialiser(node: tree.Expression, scope: ModuleScope, context: AxisContext, report: Report) -> StartRule:
    """`zeros`, `ones`, a number, `uniform(a, b)`, `normal(mean, deviation)`; the numbers may use the model's dims."""
    match node:
        case tree.Name(_, "zeros"):
            return constant_start(0.0)
        case tree.Name(_, "ones"):
            return constant_start(1.0)
        case tree.Call(_, tree.Name(_, ("uniform" | "normal") as kind), arguments, None):
            if len(arguments) != 2 or any(argument.name or argument.is_mut for argument in arguments):
                report.fail("E0302", f"{kind} takes two numbers", node.span)
            return StartRule(kind, tuple(_host_number(argument.value, scope, context, report) for argument in arguments))
        case tree.Name(_, name) if name not in context.names and name not in scope.entities:
            pass
        case tree.IntLiteral() | tree.FloatLiteral() | tree.Unary() | tree.Binary() | tree.Name() | tree.Attribute():
            return StartRule("constant", (_host_number(node, scope, context, report),))
    report.fail("E0301", "an initialiser is zeros, ones, a number, uniform(low, high) or normal(mean, deviation)", node.span)


def _host_number(node: tree.Expression, scope: ModuleScope, context: AxisContext, report: Report) -> HostNumber:
    match node:
        case tree.Name(_, name) if name in context.names:
            return HostNumber("size", (), 0.0, context.names[name].size)
        case tree.Unary(_, "-", operand):
            return HostNumber("neg", (_host_number(operand, scope, context, report),))
        case tree.Binary(_, ("+" | "-" | "*" | "/") as operator, left, right):
            return HostNumber(operator, (_host_number(left, scope, context, report), _host_number(right, scope, context, report)))
        case tree.Call(_, tree.Name(_, "sqrt"), (tree.Argument(_, None, argument, False),), None):
            return HostNumber("sqrt", (_host_number(argument, scope, context, report),))
    value = ConstantEvaluator(scope, report).value(node)
    if isinstance(value, str | bool):
        report.fail("E0301", "a number is wanted here", node.span)
    return HostNumber("number", (), float(value))
