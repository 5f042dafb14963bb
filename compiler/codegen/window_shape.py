"""What a kernel of windows knows of two tensors: the whole one, and that of its windows (ops/windows.py)."""

from __future__ import annotations

from itertools import groupby

from shapescript.compiler.codegen.block import refuse_above
from shapescript.compiler.codegen.emit import ElementType
from shapescript.compiler.codegen.lowering import MEMORY_TYPES, Lowering
from shapescript.compiler.codegen.nests import SizeArguments, dense_strides
from shapescript.compiler.ir import nodes
from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.sizes import LARGEST, Size, product
from shapescript.compiler.ops.build import result_type
from shapescript.compiler.ops.windows import STEPS
from shapescript.compiler.records.dataclass import dataclass


@dataclass(frozen=True)
class Along:
    """Windows along one axis of the whole tensor: its size and the step from one place to the next there, the steps between the places of a
    window and between windows in theirs, then as ops/windows.py says."""

    size: Size
    step: Size
    place_step: Size
    number_step: Size
    length: Size
    count: Size
    stride: Size
    dilation: Size
    before: Size


@dataclass(frozen=True)
class Plain:
    """Neighbouring axes that windows don't move along, as one: its size, and the step in the whole tensor and in that of windows."""

    size: Size
    step: Size
    windows_step: Size


@dataclass(frozen=True)
class Shape:
    """`axes` are the whole tensor's, in order."""

    element: ElementType
    axes: tuple[Along | Plain, ...]

    @property
    def windowed(self) -> list[Along]:
        return [axis for axis in self.axes if isinstance(axis, Along)]


def refuse_far_steps(low: Lowering, op: Op) -> None:
    """Leave (R1111) where windows are so far apart that places could wrap."""
    refuse_above(low, LARGEST, (size for name in STEPS for size in op.attributes[name]))


def shape_of(op: Op, whole: nodes.Value, windows: nodes.Value, names: SizeArguments) -> Shape:
    kind, positions, inner = result_type(whole), op.attributes["positions"], result_type(windows).axes
    steps, inner_steps = dense_strides(kind.axes), dense_strides(inner)
    axes: list[Along | Plain] = []
    for is_windowed, run in groupby(range(kind.rank), lambda place: place in positions):
        places = tuple(run)
        if not is_windowed:
            last = places[-1]
            axes.append(Plain(*names.names((product(kind.axes[place] for place in places), steps[last], inner_steps[last]))))
            continue
        for place in places:
            number = kind.rank + positions.index(place)
            own = (op.attributes[name][positions.index(place)] for name in ("strides", "dilations", "before"))
            between = (steps[place], inner_steps[place], inner_steps[number])
            axes.append(Along(*names.names((kind.axes[place], *between, inner[place], inner[number], *own))))
    return Shape(MEMORY_TYPES[kind.element], tuple(axes))
