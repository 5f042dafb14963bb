# The standard training loop. To change it, copy it beside your program (`shapescript std copy fit .`) and import it from there.

data StepLogs:
    step: int
    loss: float
    grad_norm: float

fn fit[M: model, E: data](mut m: M, train: Dataset[E], sink: LogSink, epochs: int, size: int, lr: float, mode: Mode)
    requires loss(m: M, batch: E[b], mode: Mode) -> []:
    mut opt = AdamW(m)
    run(mut m, mut opt, train, sink, 0, epochs, size, lr, mode)

fn resume[M: model, E: data](like: M, train: Dataset[E], sink: LogSink, epochs: int, size: int, mode: Mode) -> M
    requires loss(m: M, batch: E[b], mode: Mode) -> []:
    mut m, mut opt, done, lr = load("ckpt.pt", m=M, opt=AdamW[M], epochs=int, lr=float, size=size, mode=mode, sink=sink, data=train)
    run(mut m, mut opt, train, sink, done, epochs, size, lr, mode)
    return m

fn run[M: model, E: data](mut m: M, mut opt: AdamW[M], train: Dataset[E], sink: LogSink, done: int, epochs: int, size: int, lr: float, mode: Mode)
    requires loss(m: M, batch: E[b], mode: Mode) -> []:
    for epoch in done..epochs:
        for batch in train |> shuffle(epoch) |> batches(size):
            train_step(mut m, mut opt, batch, sink, lr, mode)
        flush(sink)
        save("ckpt.pt", m=m, opt=opt, epochs=epoch + 1, size=size, lr=lr, mode=mode, sink=sink, data=train)

fn train_step[M: model, E: data](mut m: M, mut opt: AdamW[M], batch: E[b], sink: LogSink, lr: float, mode: Mode)
    requires loss(m: M, batch: E[b], mode: Mode) -> []:
    l, mut g = value_and_grad(loss(m, batch, mode), wrt=m)
    norm = clip_norm(mut g, 1.0)
    update(mut m, mut opt, g, lr=lr)
    write(sink, StepLogs(step=opt.step, loss=l, grad_norm=norm))
