"""What is read after a point of the program: by later operations of the block, of the blocks around it, or by the next turn of a loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from shapescript.compiler.ir.nodes import Block, Op, Value, free_values
from shapescript.compiler.ops.storage import Place, Places
from shapescript.compiler.records.dataclass import dataclass

ALWAYS = 1 << 62  # the position of a read that never lies behind


@dataclass(frozen=True)
class _Read:
    """`except_path`: a part that isn't read, the one that `replace_submodel` puts in anew; `only_path`: the part that a view shows."""

    position: int
    except_path: str | None = None
    only_path: str | None = None


@dataclass
class _Frame:
    reads: dict[Value, list[_Read]]
    position: int = -1


class Needs:
    """A stack of blocks, each with the position reached in it."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.frames: list[_Frame] = []

    @contextmanager
    def block(self, block: Block, renamed: Callable[[Value], Value]) -> Iterator[None]:
        self.frames.append(_Frame(_reads_of(block, renamed)))
        yield
        self.frames.pop()

    @contextmanager
    def throughout(self, values: Iterable[Value]) -> Iterator[None]:
        """Inside, these values are needed at every point."""
        self.frames.append(_Frame({value: [_Read(ALWAYS)] for value in values}))
        yield
        self.frames.pop()

    def at(self, position: int) -> None:
        self.frames[-1].position = position

    def later(self, place: Place) -> Iterator[Value]:
        """The values that share elements with the place and are read after this point."""
        return (value for value in self.places.overlapping(place) if any(self._reads_later(frame, value, place) for frame in self.frames))

    def only_in_this_block(self, value: Value) -> bool:
        place = self.places.of[value]
        return not any(self._reads_later(frame, value, place) for frame in self.frames[:-1])

    def hand_over(self, value: Value, other: Value) -> None:
        """From here on this block reads `other` in the place of `value`."""
        frame = self.frames[-1]
        reads = frame.reads.get(value, [])
        frame.reads[other] = [read for read in reads if read.position > frame.position]
        frame.reads[value] = [read for read in reads if read.position <= frame.position]

    def _reads_later(self, frame: _Frame, value: Value, place: Place) -> bool:
        for read in frame.reads.get(value, ()):
            if read.position > frame.position:
                whole = self.places.of[value]
                replaced = read.except_path is not None and whole.inner(read.except_path).covers(place)
                apart = read.only_path is not None and not whole.inner(read.only_path).overlaps(place)
                if not replaced and not apart:
                    return True
        return False


def _reads_of(block: Block, renamed: Callable[[Value], Value]) -> dict[Value, list[_Read]]:
    found: dict[Value, list[_Read]] = {}
    for position, op in enumerate(block.ops):
        for value, read in _reads(op, position):
            found.setdefault(renamed(value), []).append(read)
    for value in block.yields:
        found.setdefault(renamed(value), []).append(_Read(len(block.ops)))
    return found


def _reads(op: Op, position: int) -> Iterator[tuple[Value, _Read]]:
    for index, operand in enumerate(op.operands):
        hole = op.attributes["path"] if op.name == "replace_submodel" and index == 0 else None
        yield operand, _Read(position, hole, op.attributes["path"] if op.name in ("leaf", "submodel") else None)
    for region in op.regions:
        for value in free_values(region):
            yield value, _Read(position)
