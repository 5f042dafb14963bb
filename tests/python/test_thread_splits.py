"""Each kernel that threads share out gives the reference evaluator's bytes with any number of them, however its range is cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from both_engines import Both
from evaluating import function_of, mlp, tensor
from native_harness import NotingHost, finished, natives, outcome
from native_samples import MIXED, contraction, model_of

from shapescript.compiler.codegen import memory, workers
from shapescript.compiler.codegen.pool_block import Place
from shapescript.compiler.codegen.target import host
from shapescript.compiler.codegen.thread_count import asked_for
from shapescript.compiler.ir.nodes import Function, Value
from shapescript.compiler.ir.sizes import Size, fresh, number, of
from shapescript.compiler.ir.types import FLOAT, Element, Type
from shapescript.compiler.ops.build import Builder, result_type
from shapescript.compiler.reference.engine import Evaluator

F32, F64, I64 = Element.F32, Element.F64, Element.I64
DTYPES: dict[Element, Any] = {F32: np.float32, F64: np.float64, I64: np.int64}
COUNTS = (1, 2, 3, 8)

Sizes = dict[str, int]
LARGE: Sizes = {"a": 3, "n": 47, "c": 70, "m": 90}
SIZES: list[Sizes] = [
    {"a": 1, "n": 1, "c": 1, "m": 1},
    {"a": 0, "n": 5, "c": 3, "m": 4},
    {"a": 7, "n": 2, "c": 0, "m": 3},
    {"a": 2, "n": 1, "c": 33, "m": 0},
    {name: int(size) for name, size in zip("ancm", np.random.default_rng(5).integers(2, 40, 4), strict=True)},
    LARGE,
]


@dataclass(frozen=True)
class Numbers:
    """An operand with these axes; an index with numbers below the size `below`; `seen` changes what is drawn."""

    axes: str
    element: Element = F32
    below: str = ""
    seen: Callable[[Any], Any] = lambda x: x

    def type(self, sizes: dict[str, Size]) -> Type:
        return tensor(*(sizes[name] for name in self.axes), element=self.element)

    def value(self, sizes: Sizes, seed: int) -> Any:
        rng, shape = np.random.default_rng(seed), tuple(sizes[name] for name in self.axes)
        if self.below:
            return rng.integers(0, max(sizes[self.below], 1), shape)
        return self.seen(rng.standard_normal(shape).astype(DTYPES[self.element]))


Build = Callable[..., Value | Sequence[Value]]  # of a builder, the sizes by their names, and the operands


EACH_SIZE = tuple(map(Numbers, "ancm"))  # further operands, for sizes that none of a case's own has


@dataclass(frozen=True)
class Case:
    operands: tuple[Numbers, ...]
    build: Build
    fused: bool = False

    def function(self, sizes: dict[str, Size]) -> Function:
        types = [operand.type(sizes) for operand in (*self.operands, *EACH_SIZE)]
        count = len(self.operands)
        return finished(function_of(types, lambda b, *values: self.build(b, sizes, *values[:count])), self.fused)

    def call(self, sizes: Sizes) -> list[Any]:
        return [operand.value(sizes, seed) for seed, operand in enumerate((*self.operands, *EACH_SIZE))]


def op(name: str, **attributes: Any) -> Build:
    """One operation; an attribute that is the name of a size is that size."""

    def build(b: Builder, sizes: dict[str, Size], *values: Value) -> Value:
        known = {key: sizes.get(value, value) if isinstance(value, str) else value for key, value in attributes.items()}
        return b.op(name, *values, **known)

    return build


def drawn(name: str) -> Build:
    def build(b: Builder, sizes: dict[str, Size], *_: Value) -> Sequence[Value]:
        seed, axes = b.constant(11, I64), tuple(sizes[axis] for axis in "anc")
        return [b.op(name, seed, b.constant(draw, I64), axes=axes) for draw in (-1, 5)]

    return build


def chosen(b: Builder, sizes: dict[str, Size], logits: Value) -> Sequence[Value]:
    return [b.op("categorical", logits, b.constant(11, I64), b.constant(draw, I64)) for draw in (-1, 5)]


def with_bad_rows(logits: Any) -> Any:
    """Two rows that have no distribution: the first is the one that is reported, whoever finds it."""
    logits[len(logits) // 3 :: max(len(logits) // 3, 1)] = np.inf
    return logits


def moved(positions: tuple[int, ...], stride: int, is_fold: bool) -> Build:
    """Windows of 3 places, 2 apart, with a place of padding before; or what lies in such windows added up."""
    many = len(positions)
    steps = {"strides": (number(stride),) * many, "dilations": (number(2),) * many, "before": (number(1),) * many}

    def build(b: Builder, sizes: dict[str, Size], x: Value) -> Value:
        own = tuple(sizes["anc"[place]] for place in positions)
        if is_fold:
            spread = b.broadcast(x, (*result_type(x).axes, *own), tuple(range(result_type(x).rank)))
            return b.op("fold", b.op("exp", spread), positions=positions, sizes=own, room=(), **steps)
        return b.op("windows", x, positions=positions, lengths=(number(3),) * many, counts=own, fill=0.5, room=(), **steps)

    return build


def fold_operand(positions: tuple[int, ...]) -> Numbers:
    return Numbers("".join("w" if place in positions else axis for place, axis in enumerate("anc")))


def places(b: Builder, sizes: dict[str, Size], x: Value, part: Value, position: int) -> Sequence[Value]:
    start = b.constant(1, I64)
    return [
        b.op("slice", x, start, position=position, length=result_type(part).axes[position]),
        b.op("put", x, part, start, position=position),
        b.op("add_slice", x, part, start, position=position),
        b.op("concat", x, part, x, position=position),
    ]


def totals(*names: str) -> Build:
    return lambda b, sizes, x: [b.op(name, x, positions=tuple(range(result_type(x).rank))) for name in names]


def fused_totals(b: Builder, sizes: dict[str, Size], x: Value, y: Value) -> Sequence[Value]:
    """Sums of what is stored, too, and of what only the sum needs."""
    kind = result_type(x)
    everywhere = tuple(range(kind.rank))
    product = b.op("mul", x, y)
    total = b.op("sum", product, positions=everywhere)
    mean = b.op("mean", b.op("exp", b.op("neg", b.op("mul", x, x))), positions=everywhere)
    return [product, b.op("tanh", total), mean, b.op("max", y, positions=everywhere)]


def centred(b: Builder, sizes: dict[str, Size], x: Value) -> Sequence[Value]:
    """Two walks along all elements."""
    kind = result_type(x)
    everywhere = tuple(range(kind.rank))
    gaps = b.op("sub", x, b.broadcast(b.op("mean", x, positions=everywhere), kind.axes, ()))
    return [gaps, b.op("sum", b.op("mul", gaps, gaps), positions=everywhere)]


def product(spec: str, is_long: bool = False) -> Build:
    def build(b: Builder, sizes: dict[str, Size], x: Value, y: Value) -> Value:
        found = contraction(b, spec, x, y)
        return b.op("tanh", b.op("exp", found)) if is_long else found

    return build


def index(axes: str, below: str) -> Numbers:
    return Numbers(axes, I64, below)


X = Numbers("anc")
CASES: dict[str, Case] = {
    "gather": Case((Numbers("nc"), index("m", "n")), op("gather")),
    "gather numbers": Case((Numbers("n"), index("mc", "n")), op("gather")),
    "scatter": Case((Numbers("mc"), index("m", "n")), op("scatter_rows", size="n")),
    "scatter numbers": Case((Numbers("mc", F64), index("mc", "n")), op("scatter_rows", size="n")),
    "add_rows": Case((Numbers("nc"), Numbers("mc"), index("m", "n")), op("add_rows")),
    "add_rows of numbers": Case((Numbers("n"), Numbers("mc"), index("mc", "n")), op("add_rows")),
    "cumsum": Case((X,), op("cumsum", position=1, reverse=False)),
    "cumsum of columns": Case((X,), op("cumsum", position=0, reverse=True)),
    "cumsum of rows": Case((Numbers("anc", I64, "m"),), op("cumsum", position=2, reverse=False)),
    "take_along": Case((X, index("amc", "n")), op("take_along", position=1)),
    "take_along columns": Case((Numbers("nc"), index("mc", "n")), op("take_along", position=0)),
    "put_along": Case((X, index("anc", "m")), op("put_along", position=1, size="m")),
    "put_along columns": Case((Numbers("mc"), index("mc", "n")), op("put_along", position=0, size="n")),
    "argsort": Case((X,), lambda b, sizes, x: b.op("argsort", x, b.constant(True, Element.BOOL), position=1)),
    "argsort of columns": Case((Numbers("nc", F64),), lambda b, sizes, x: b.op("argsort", x, b.constant(False, Element.BOOL), position=0)),
    "places": Case((X, Numbers("amc")), lambda b, sizes, x, part: places(b, sizes, x, part, 1)),
    "places of one run": Case((Numbers("nc"), Numbers("mc")), lambda b, sizes, x, part: places(b, sizes, x, part, 0)),
    "short places of one run": Case((Numbers("mc"), Numbers("nc")), lambda b, sizes, x, part: places(b, sizes, x, part, 0)),
    "random_uniform": Case((X,), drawn("random_uniform")),
    "random_normal": Case((X,), drawn("random_normal")),
    "categorical": Case((Numbers("mn"),), chosen),
    "categorical with bad rows": Case((Numbers("mn", F64, seen=with_bad_rows),), chosen),
    "totals": Case((X,), totals("sum", "mean")),
    "extremes": Case((Numbers("anc", F64),), totals("max", "min")),
    "total of whole numbers": Case((Numbers("anc", I64, "m"),), totals("sum")),
    "fused totals": Case((X, X), fused_totals, fused=True),
    "centred": Case((X,), centred, fused=True),
    "check_finite": Case((X,), lambda b, sizes, x: [x, *b.emit("check_finite", x, what="gradient")]),
    "check_finite of what isn't": Case(
        (Numbers("mc", seen=lambda x: np.where(x > 2.5, np.inf, x)),), lambda b, sizes, x: [x, *b.emit("check_finite", x, what="gradient")]
    ),
    "product": Case((Numbers("nc"), Numbers("cm")), product("nc,cm->nm")),
    "product of panels": Case((Numbers("nc"), Numbers("mc")), product("nc,mc->nm")),
    "products": Case((X, Numbers("amc")), product("anc,amc->anm")),
    "product with a long epilogue": Case((Numbers("nc"), Numbers("mc")), product("nc,mc->nm", is_long=True), fused=True),
    "copy": Case((X,), lambda b, sizes, x: [b.op("copy", x), x]),
    **{f"windows {at}": Case((X,), moved(at, 1, False)) for at in ((1,), (2,), (0, 1, 2))},
    **{f"windows {at} with steps": Case((X,), moved(at, 2, False)) for at in ((0,), (1, 2))},
    **{f"fold {at}": Case((fold_operand(at),), moved(at, 1, True)) for at in ((1,), (0,), (1, 2), (0, 2))},
    **{f"fold {at} with steps": Case((fold_operand(at),), moved(at, 2, True)) for at in ((2,), (0, 1), (1,))},
    "fold (1, 2) with long steps": Case((fold_operand((1, 2)),), moved((1, 2), 3, True)),
}


FENCE_BYTES, FENCE = 4096, 0xA5


class FencedChunk(memory.Chunk):
    """One whose end is followed by bytes that must stay."""

    def __init__(self, count: int) -> None:
        super().__init__(count + FENCE_BYTES)
        self.bytes, self.end = count, self.end - FENCE_BYTES
        self.header[1] = self.end
        self.memory[-FENCE_BYTES:] = FENCE


class FencedArenas(memory.ArenaPool):
    """Each call has a new arena, in which what doesn't fit gets a chunk of its own size: no more room than was asked for."""

    def give_back(self, arena: memory.Arena) -> None:
        assert all((chunk.memory[-FENCE_BYTES:] == FENCE).all() for chunk in arena.chunks), "a kernel has more scratch than it asked for"


@pytest.fixture(autouse=True)
def no_room_to_spare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "Chunk", FencedChunk)
    monkeypatch.setattr(memory, "FIRST_CHUNK_BYTES", 0)
    monkeypatch.setattr(memory, "MOST_IN_ADVANCE", 0)


def forks() -> int:
    """Jobs that the process's pool has had; each adds two."""
    pool = workers.PROCESS.started(host(), 3)
    return int(pool.block[Place.EPOCH])


def assert_same_with_any_number(function: Function, calls: Sequence[Sequence[Any]]) -> bool:
    """Whether there was something to share out."""
    before = forks()
    with asked_for(3, grain=1):
        (native,) = natives(function, [host()])
    native.arenas = FencedArenas()
    evaluator = Evaluator(function)
    for arguments in calls:
        expected = outcome(evaluator.run, arguments, NotingHost())
        for count in COUNTS:
            with asked_for(count, grain=1):
                assert outcome(native.run, arguments, NotingHost()) == expected, (count, [np.shape(argument) for argument in arguments])
    return forks() > before


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_sizes_of_a_run(case: Case) -> None:
    names = {**{name: of(fresh(name)) for name in "ancm"}, "w": number(3)}
    assert assert_same_with_any_number(case.function(names), [case.call({**sizes, "w": 3}) for sizes in SIZES])


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_known_sizes(case: Case) -> None:
    sizes = {**LARGE, "w": 3}
    function = case.function({name: number(size) for name, size in sizes.items()})
    assert assert_same_with_any_number(function, [case.call(sizes)])


@pytest.mark.parametrize("kind", [MIXED, mlp(70, 130, 9)], ids=["mixed", "large"])
def test_models(kind: Any) -> None:
    def build(b: Builder, m: Value, g: Value, factor: Value) -> Sequence[Value]:
        finite = b.convert(b.op("all_finite", g), I64)
        b.emit("check_finite", m, what="gradient")
        return [b.op("scale_model", g, factor), b.op("copy", m), finite, g]

    calls: list[list[Any]] = [[model_of(kind), model_of(kind, 1), factor] for factor in (0.3, 1e-50)]
    broken = model_of(kind, 2)
    broken[-64:-60] = np.frombuffer(np.float32(np.nan).tobytes(), np.uint8)
    is_shared = assert_same_with_any_number(
        finished(function_of([kind, kind, FLOAT], build)), [*calls, [model_of(kind), broken, 1.0], [broken, model_of(kind), 1.0]]
    )
    assert is_shared == (kind is not MIXED)


PROGRAM = """
dim Places = 9

data Row:
    id: int
    place: [Places]

fn weight(ids: int[b], places: [b Places]) -> float:
    return float(sum(ids * (arange[b] + 1), over=b)) + float(sum(places, over=(b, Places)))

fn seen(data: Dataset[Row], k: int) -> float:
    mut total = 0.0
    for batch in data |> shuffle(k) |> batches(40):
        total = total * 0.75 + weight(batch.id, batch.place)
    for batch in data |> batches(40):
        total = total * 0.75 + weight(batch.id, batch.place)
    return total
"""


@pytest.mark.parametrize("apart", [1, 2])
def test_batches(tmp_path: Path, apart: int) -> None:
    """Of rows that follow each other, and of some that must be copied even in their own order."""
    both = Both(tmp_path, PROGRAM)
    places = np.random.default_rng(0).standard_normal((130 * apart, 9)).astype(np.float32)[::apart]
    data = both.native.Row.dataset(id=np.arange(130), place=places)
    with asked_for(1):
        wanted = both.call("seen", data, 4)
    before = forks()
    for count in COUNTS:
        with asked_for(count, grain=1):
            assert both.native.seen(data, 4) == wanted, count
    assert forks() > before
