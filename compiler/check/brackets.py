"""What stands in brackets behind a model's or function's name, by parameter: in order, then by name; the rest are defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shapescript.compiler.check.report import Report, did_you_mean
from shapescript.compiler.check.written_sizes import as_axis
from shapescript.compiler.diagnostics.model import Label, Span
from shapescript.compiler.records.dataclass import dataclass
from shapescript.compiler.syntax import tree


@dataclass(frozen=True)
class Bracketed:
    """A declaration that takes brackets: its parameters in order, those that have a default, and how it is called in a message."""

    what: str
    parameters: Sequence[str]
    optional: frozenset[str]
    span: Span

    def __str__(self) -> str:
        return f"[{', '.join(f'{name}=...' if name in self.optional else name for name in self.parameters)}]"

    def given(self, items: tuple[tree.Item, ...] | None, span: Span, report: Report) -> Mapping[str, tree.Axis]:
        """What each parameter is given: a size, or a model. E2302 for another number and for one given twice, E0311 for an unknown name."""
        found: dict[str, tree.Axis] = {}
        label = [Label(self.span, "declared here")]
        for place, item in enumerate(items or ()):
            name = item.axis.span.text if isinstance(item, tree.At) else self.parameters[place] if place < len(self.parameters) else None
            if name is None:
                report.fail("E2302", f"{self._takes()}, found {len(items or ())}", span, label)
            if isinstance(item, tree.At) and name not in self.parameters:
                hint = did_you_mean(name, self.parameters)
                report.fail("E0311", f"{self.what} has no parameter `{name}` in brackets", item.axis.span, label, hint)
            if place and not isinstance(item, tree.At) and isinstance((items or ())[place - 1], tree.At):
                report.fail("E2302", f"{self.what}: what is given by name stands behind what is given in order", item.span, label)
            if name in found:
                report.fail("E2302", f"{self.what}: `{name}` is given twice", item.span, label)
            found[name] = self._value(item, report)
        missing = [name for name in self.parameters if name not in found and name not in self.optional]
        if missing:
            report.fail("E2302", f"{self._takes()}, found {len(items or ())}: nothing is given for {', '.join(missing)}", span, label)
        return found

    def _takes(self) -> str:
        count = len(self.parameters)
        return f"{self.what} takes {count} parameter{'' if count == 1 else 's'} {self}" if count else f"{self.what} takes no dims"

    def _value(self, item: tree.Item, report: Report) -> tree.Axis:
        match item:
            case tree.AxisList(_, (axis,)):
                return axis
            case tree.At(span, _, position):
                written = as_axis(position)
                if written is not None:
                    return written
                report.fail("E0502", "a size is written with numbers, dims and `+ - * / //`", span)
        report.fail("E0301", "a model's dims are separated by commas", item.span)
