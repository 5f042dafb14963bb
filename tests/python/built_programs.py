"""Checked modules built by hand: what the checker makes of `examples/train_mlp.ss` and smaller programs."""

from __future__ import annotations

from collections.abc import Sequence

from shapescript.compiler.diagnostics.model import Source, Span
from shapescript.compiler.ir.nodes import Function, Module, Value
from shapescript.compiler.ir.sizes import Size, Symbol, dim, fresh, of
from shapescript.compiler.ir.starts import constant_start
from shapescript.compiler.ir.types import (
    INT,
    MODE,
    SINK,
    DatasetType,
    Element,
    ListType,
    Member,
    ModelType,
    OptimiserType,
    RecordType,
    TensorType,
    Type,
)
from shapescript.compiler.ops.build import Builder

SOURCE = Source("built.ss", "".join(f"line {number}\n" for number in range(1, 60)))
IN, HIDDEN, CLASSES = (of(dim(name, value)) for name, value in (("In", 64), ("Hidden", 128), ("Classes", 10)))
ZEROS = constant_start(0.0)


def at(line: int) -> Span:
    """A place in the made-up source."""
    start = SOURCE.line_start(line)
    return Span(SOURCE, start, start + 4)


def f32(*axes: Size) -> TensorType:
    return TensorType(Element.F32, axes)


def i64(*axes: Size) -> TensorType:
    return TensorType(Element.I64, axes)


def linear_type(inputs: Size, outputs: Size) -> ModelType:
    members = (Member("weight", f32(outputs, inputs), ZEROS), Member("bias", f32(outputs), ZEROS))
    return ModelType("Linear", "nn", (inputs, outputs), members)


MLP = ModelType("Mlp", "main", (), (Member("hidden", linear_type(IN, HIDDEN)), Member("output", linear_type(HIDDEN, CLASSES))))
ADAMW = OptimiserType("AdamW", MLP)
DIGIT = RecordType("Digit", (("pixels", f32(IN)), ("label", i64())))


def stack_type(width: Size, depth: Size) -> ModelType:
    return ModelType("Stack", "main", (width, depth), (Member("blocks", ListType(linear_type(width, width), depth)),))


def function(
    name: str,
    parameters: Sequence[Value],
    builder: Builder,
    results: Sequence[Value],
    changed: Sequence[Value] = (),
    mutable: Sequence[Value] = (),
    dims: Sequence[Symbol] = (),
) -> Function:
    """`changed` are the last values of the `mutable` parameters."""
    flags = tuple(value in mutable for value in parameters)
    return Function(name, tuple(dims), builder.block(parameters, [*results, *changed]), flags, len(results), at(1))


def call(
    b: Builder, callee: str, operands: Sequence[Value], types: Sequence[Type], sizes: Sequence[tuple[Symbol, Size]] = ()
) -> tuple[Value, ...]:
    return b.emit("call", *operands, callee=callee, sizes=tuple(sizes), types=tuple(types))


def linear() -> tuple[Function, tuple[Symbol, Symbol, Symbol]]:
    """fn linear[I, O](layer: Linear[I, O], x: [b I]) -> [b O]; with its symbols I, O, b."""
    symbols = (fresh("I"), fresh("O"), fresh("b"))
    inputs, outputs, rows = map(of, symbols)
    layer, x = Value(linear_type(inputs, outputs), "layer"), Value(f32(rows, inputs), "x")
    b = Builder(at(40))
    product = b.op("contraction", x, b.op("leaf", layer, path="weight"), left=(0, 1), right=(2, 1), out=(0, 2))
    bias = b.broadcast(b.op("leaf", layer, path="bias"), (rows, outputs), (1,))
    return function("linear", [layer, x], b, [b.op("add", product, bias)], dims=symbols[:2]), symbols


def forward(symbols: tuple[Symbol, Symbol, Symbol]) -> Function:
    inputs, outputs, batch = symbols
    rows = of(fresh("b"))
    m, x, mode = Value(MLP, "m"), Value(f32(rows, IN), "x"), Value(MODE, "mode")
    b = Builder(at(2))
    first = b.op("submodel", m, path="hidden")
    (h,) = call(b, "linear", [first, x], [f32(rows, HIDDEN)], [(inputs, IN), (outputs, HIDDEN), (batch, rows)])
    with b.at(at(3)):
        h = b.op("relu", h, hint="h")
    with b.at(at(4)):
        seed, draw = b.emit("mode_draw", mode)
        h = b.op("dropout", h, b.float_constant(0.1), seed, draw)
    second = b.op("submodel", m, path="output")
    (y,) = call(b, "linear", [second, h], [f32(rows, CLASSES)], [(inputs, HIDDEN), (outputs, CLASSES), (batch, rows)])
    return function("forward", [m, x, mode], b, [y])


def rows_of(function_: Function, index: int) -> Symbol:
    """The axis variable that is the first axis of a parameter."""
    type_ = function_.body.parameters[index].type
    assert isinstance(type_, TensorType)
    (symbol,) = type_.axes[0].symbols()
    return symbol


def loss(forward_: Function) -> Function:
    rows = of(fresh("b"))
    m, pixels, label, mode = Value(MLP, "m"), Value(f32(rows, IN), "pixels"), Value(i64(rows), "label"), Value(MODE, "mode")
    b = Builder(at(6))
    (logits,) = call(b, "forward", [m, pixels, mode], [f32(rows, CLASSES)], [(rows_of(forward_, 1), rows)])
    value, _ = b.emit("cross_entropy", logits, label)
    return function("loss", [m, pixels, label, mode], b, [value])


def train_step(loss_: Function) -> Function:
    rows = of(fresh("b"))
    m, opt = Value(MLP, "m"), Value(ADAMW, "opt")
    pixels, label, sink, mode = Value(f32(rows, IN), "pixels"), Value(i64(rows), "label"), Value(SINK, "sink"), Value(MODE, "mode")
    inner, inside = Builder(at(8)), Value(MLP, "m")
    region = inner.block([inside], call(inner, "loss", [inside, pixels, label, mode], [f32()], [(rows_of(loss_, 1), rows)]))
    b = Builder(at(8))
    value, gradient = b.emit("value_and_grad", m, regions=[region], hints=["l", "g"])
    b.span = at(9)
    norm = b.op("global_norm", gradient, hint="norm")
    one, most = b.float_constant(1.0), b.float_constant(1.0)
    wanted = b.op("div", most, b.op("add", norm, b.float_constant(1e-6)))
    factor = b.convert(b.op("minimum", wanted, one), Element.F32)
    clipped = b.op("scale_model", gradient, factor, hint="g")
    b.span = at(10)
    rate, factor = b.float_constant(3e-4), b.constant(1.0, Element.F32)
    changed, state = b.emit("update", m, opt, clipped, rate, factor, kind="AdamW", hints=["m", "opt"])
    b.span = at(11)
    step = b.op("optimiser_step", state, hint="step")
    b.emit("write", sink, step, b.convert(value, Element.F64), norm, record="StepLogs", fields=("step", "loss", "grad_norm"))
    return function("train_step", [m, opt, pixels, label, sink, mode], b, [], [changed, state], [m, opt])


def run(step: Function) -> Function:
    """fn run(mut m, mut opt, train: Dataset[Digit], sink, done, epochs, mode)"""
    rows, batch = of(fresh("rows")), fresh("b")
    m, opt, train = Value(MLP, "m"), Value(ADAMW, "opt"), Value(DatasetType(DIGIT, rows), "train")
    sink, done, epochs, mode = Value(SINK, "sink"), Value(INT, "done"), Value(INT, "epochs"), Value(MODE, "mode")
    b, middle, inner = Builder(at(13)), Builder(at(14)), Builder(at(15))
    pixels, label = Value(f32(of(batch), IN), "pixels"), Value(i64(of(batch)), "label")
    carried = [Value(MLP, "m"), Value(ADAMW, "opt")]
    again = call(inner, "train_step", [*carried, pixels, label, sink, mode], [MLP, ADAMW], [(rows_of(step, 2), of(batch))])
    body = inner.block([pixels, label, *carried], again, [batch])
    epoch, outer = Value(INT, "epoch"), [Value(MLP, "m"), Value(ADAMW, "opt")]
    order = middle.op("order", train, epoch, middle.constant(0, Element.I64))
    size, drop = middle.constant(64, Element.I64), middle.constant(False, Element.BOOL)
    start, ahead = middle.constant(0, Element.I64), middle.constant(-1, Element.I64)
    trained = middle.emit("for_batches", order, size, drop, start, ahead, *outer, regions=[body])
    middle.emit("flush", sink)
    path = middle.op("string", value="ckpt.pt")
    middle.emit("save", path, *trained, middle.op("add", epoch, middle.constant(1, Element.I64)), names=("m", "opt", "epochs"))
    loop = middle.block([epoch, *outer], trained)
    results = b.emit("for_range", done, epochs, m, opt, regions=[loop], name="epoch")
    return function("run", [m, opt, train, sink, done, epochs, mode], b, [], results, [m, opt])


def fit(run_: Function) -> Function:
    """fn fit(mut m, train, sink, epochs, mode): makes its own optimiser."""
    rows = of(fresh("rows"))
    m, train = Value(MLP, "m"), Value(DatasetType(DIGIT, rows), "train")
    sink, epochs, mode = Value(SINK, "sink"), Value(INT, "epochs"), Value(MODE, "mode")
    b = Builder(at(17))
    opt = b.op("optimiser", m, *(b.float_constant(value) for value in (0.9, 0.999, 1e-8, 0.01, 0.0)), kind="AdamW", hint="opt")
    dataset = run_.body.parameters[2].type
    assert isinstance(dataset, DatasetType)
    (symbol,) = dataset.rows.symbols()
    changed, _ = call(b, "run", [m, opt, train, sink, b.constant(0, Element.I64), epochs, mode], [MLP, ADAMW], [(symbol, rows)])
    return function("fit", [m, train, sink, epochs, mode], b, [], [changed], [m])


def train_mlp() -> Module:
    linear_, symbols = linear()
    forward_ = forward(symbols)
    loss_ = loss(forward_)
    step = train_step(loss_)
    run_ = run(step)
    return Module({f.name: f for f in (linear_, forward_, loss_, step, run_, fit(run_))})


def stack() -> tuple[Module, Symbol]:
    """fn deep[N](m: Stack[Hidden, N], x: [b Hidden]) -> [b Hidden]: tanh of each layer, one after the other; with its dim N."""
    linear_, (inputs, outputs, batch) = linear()
    depth, rows = fresh("N"), of(fresh("b"))
    m, x = Value(stack_type(HIDDEN, of(depth)), "m"), Value(f32(rows, HIDDEN), "x")
    layer, h, inner = Value(linear_type(HIDDEN, HIDDEN), "layer"), Value(x.type, "h"), Builder(at(21))
    (y,) = call(inner, "linear", [layer, h], [x.type], [(inputs, HIDDEN), (outputs, HIDDEN), (batch, rows)])
    body = inner.block([layer, h], [inner.op("tanh", y)])
    b = Builder(at(20))
    results = b.emit("for_list", m, x, regions=[body], path="blocks")
    deep = function("deep", [m, x], b, results, dims=[depth])
    return Module({"linear": linear_, "deep": deep}), depth
