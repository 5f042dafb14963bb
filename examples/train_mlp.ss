import shapescript.std.nn as nn

dim In = 64
dim Hidden = 128
dim Classes = 10

data Digit:
    pixels: [In]
    label: int

model Mlp:
    hidden: nn.Linear[In, Hidden]
    output: nn.Linear[Hidden, Classes]

data StepLogs:
    step: int
    loss: float
    grad_norm: float

fn forward(m: Mlp, x: [b In], mode: Mode) -> [b Classes]:
    return x
        |> nn.linear(m.hidden)
        |> relu
        |> dropout(0.1, mode)
        |> nn.linear(m.output)

fn loss(m: Mlp, batch: Digit[b], mode: Mode) -> []:
    return forward(m, batch.pixels, mode) |> cross_entropy(batch.label)

fn train_step(mut m: Mlp, mut opt: AdamW[Mlp], batch: Digit[b], sink: LogSink, mode: Mode):
    l, mut g = value_and_grad(loss(m, batch, mode), wrt=m)
    norm = clip_norm(mut g, 1.0)
    update(mut m, mut opt, g, lr=3e-4)
    write(sink, StepLogs(step=opt.step, loss=l, grad_norm=norm))

fn run(mut m: Mlp, mut opt: AdamW[Mlp], train: Dataset[Digit], sink: LogSink, done: int, epochs: int, mode: Mode):
    for epoch in done..epochs:
        for batch in train |> shuffle(epoch) |> batches(64):
            train_step(mut m, mut opt, batch, sink, mode)
        flush(sink)
        save("ckpt.pt", m=m, opt=opt, epochs=epoch + 1, mode=mode, sink=sink, data=train)

fn fit(mut m: Mlp, train: Dataset[Digit], sink: LogSink, epochs: int, mode: Mode):
    mut opt = AdamW(m)
    run(mut m, mut opt, train, sink, 0, epochs, mode)

fn resume(train: Dataset[Digit], sink: LogSink, epochs: int, mode: Mode) -> Mlp:
    mut m, mut opt, done = load("ckpt.pt", m=Mlp, opt=AdamW[Mlp], epochs=int, mode=mode, sink=sink, data=train)
    run(mut m, mut opt, train, sink, done, epochs, mode)
    return m

fn main(epochs: int = 100, carry_on: bool = false):
    train = load_data[Digit]("digits_train.npz")
    test = load_data[Digit]("digits_test.npz")
    sink = jsonl("train_mlp.jsonl")
    mode = Train(seed=0)
    mut m = Mlp(seed=1234)
    if carry_on:
        m = resume(train, sink, epochs, mode)
    else:
        fit(mut m, train, sink, epochs, mode)
    print("test accuracy", accuracy(forward(m, test.all.pixels, Eval), test.all.label))
