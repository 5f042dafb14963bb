"""Loop nests over dense tensors: axes with the stride that each tensor has along them, and as few of them as the strides allow."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.emit import I64, Builder, Value
from shapescript.compiler.codegen.sizes import SizeValues
from shapescript.compiler.ir.sizes import ONE, ZERO, Size, Symbol, number, of, product
from shapescript.compiler.records.dataclass import dataclass


@dataclass(frozen=True)
class Axis:
    """`strides`: for each tensor, how many elements one step along the axis moves; 0 where the tensor doesn't have it."""

    size: Size
    strides: tuple[Size, ...]


def dense_strides(axes: Sequence[Size]) -> list[Size]:
    """Of a tensor with these axes in row-major order."""
    return [product(axes[place + 1 :]) for place in range(len(axes))]


def placed_strides(axes: Sequence[Size], positions: Sequence[int], rank: int) -> list[Size]:
    """Strides along `rank` axes of a dense tensor whose own axis j is number positions[j] of them."""
    found = [ZERO] * rank
    for stride, place in zip(dense_strides(axes), positions, strict=True):
        found[place] = stride
    return found


def merged(axes: Sequence[Axis]) -> list[Axis]:
    """The same places in the same order by fewer axes: those of one element are dropped, and neighbours that every tensor walks through
    in one stride become one."""
    done: list[Axis] = []
    for axis in axes:
        if axis.size == ONE:
            continue
        last = done[-1] if done else None
        if last and all(outer == inner * axis.size for outer, inner in zip(last.strides, axis.strides, strict=True)):
            done[-1] = Axis(last.size * axis.size, axis.strides)
        else:
            done.append(axis)
    return done


def axes_of(space: Sequence[Size], strides: Sequence[Sequence[Size]]) -> list[Axis]:
    """`strides[t]` are tensor t's along the axes of the space."""
    return merged([Axis(size, tuple(tensor[place] for tensor in strides)) for place, size in enumerate(space)])


Offsets = tuple[emit.Size, ...]


def emit_loops(
    b: Builder,
    sizes: SizeValues,
    axes: Sequence[Axis],
    offsets: Offsets,
    body: Callable[[Offsets], None],
    outermost: tuple[emit.Size, emit.Size] | None = None,
) -> None:
    """One loop for each axis, outermost first; the body gets each tensor's offset in elements. `outermost`: the part of the first axis that
    is gone through, all of it by default."""
    if not axes:
        body(offsets)
        return
    axis, inner = axes[0], axes[1:]

    def turn(i: Value, _: Sequence[Value]) -> None:
        moved = tuple(step(b, offset, i, sizes.of(b, stride)) for offset, stride in zip(offsets, axis.strides, strict=True))
        emit_loops(b, sizes, inner, moved, body)

    low, high = outermost or (0, sizes.of(b, axis.size))
    emit.loop(b, low, high, 1, turn)


def where_any(b: Builder, axes: Sequence[emit.Size], emit_body: Callable[[], object]) -> None:
    """Emit what walks through these axes; nothing runs where there are no elements: one of them may be large beside one of 0."""
    count = _elements(b, axes)
    if isinstance(count, int):
        if count:
            emit_body()
        return
    with b.if_then(b.icmp_signed("!=", count, I64(0))):
        emit_body()


def unless_empty(b: Builder, axes: Sequence[emit.Size], count: emit.Size) -> emit.Size:
    """The count, but 0 where there are no elements: of one long axis it may be more than there is memory for, or than a size holds."""
    elements = _elements(b, axes)
    if isinstance(elements, int):
        return count if elements else 0
    return b.select(b.icmp_signed("==", elements, I64(0)), I64(0), emit.size(count))


def _elements(b: Builder, axes: Sequence[emit.Size]) -> emit.Size:
    found: emit.Size = 1
    for axis in axes:
        found = extents.times(b, found, axis)
    return found


def step(b: Builder, offset: emit.Size, i: Value, stride: emit.Size) -> emit.Size:
    """offset + i * stride."""
    if isinstance(stride, int) and stride == 0:
        return offset
    moved = extents.times(b, i, stride)
    return moved if isinstance(offset, int) and offset == 0 else extents.plus(b, offset, moved)


class SizeArguments:
    """Sizes of a kernel that several calls share: known ones as they are, each other one as a symbol that stands for an argument."""

    def __init__(self) -> None:
        self._names: dict[Size, Size] = {}

    def name(self, size: Size) -> Size:
        constant = size.constant()
        if constant is not None:
            return number(constant)
        if size not in self._names:
            place = len(self._names)
            self._names[size] = of(_argument(place))
        return self._names[size]

    def names(self, sizes: Sequence[Size]) -> tuple[Size, ...]:
        return tuple(self.name(size) for size in sizes)

    @property
    def run_time(self) -> list[Size]:
        """The sizes to pass, in the order of the symbols."""
        return list(self._names)

    def original(self, size: Size) -> Size:
        """What a size of the kernel is where it is called."""
        return size.substitute({_argument(place): own for place, own in enumerate(self._names)})

    def values(self, arguments: Sequence[Value]) -> SizeValues:
        """Inside the kernel, whose last arguments are these sizes' values."""
        count = len(self._names)
        own = arguments[len(arguments) - count :]
        return SizeValues({_argument(place): value for place, value in enumerate(own)})


def _argument(place: int) -> Symbol:
    return Symbol(f"n{place}", -1 - place)
