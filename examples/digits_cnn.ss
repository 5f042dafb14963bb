import shapescript.std.nn as nn
import shapescript.std.schedule as schedule

dim Channels = 1
dim Rows = 8
dim Columns = 8
dim Few = 32
dim Many = 64
dim Hidden = 128
dim Classes = 10

data Digit:
    pixels: [Channels*Rows*Columns]
    label: int

model Cnn:
    first: nn.Conv2d[Channels, Few, 3, Padding=1]
    second: nn.Conv2d[Few, Many, 3, Padding=1]
    hidden: nn.Linear[Many*(Rows//2)*(Columns//2), Hidden]
    output: nn.Linear[Hidden, Classes]

data StepLogs:
    step: int
    loss: float
    grad_norm: float

fn forward(m: Cnn, pixels: [b Channels*Rows*Columns], mode: Mode) -> [b Classes]:
    features = rearrange(pixels: b (Channels Rows Columns) -> b Channels Rows Columns)
        |> nn.conv2d(m.first)
        |> relu
        |> nn.conv2d(m.second)
        |> relu
        |> nn.max_pool2d[2]
    return rearrange(features: b Many rows columns -> b (Many rows columns))
        |> dropout(0.25, mode)
        |> nn.linear(m.hidden)
        |> relu
        |> dropout(0.5, mode)
        |> nn.linear(m.output)

fn loss(m: Cnn, batch: Digit[b], mode: Mode) -> []:
    return forward(m, batch.pixels, mode) |> cross_entropy(batch.label)

fn train_step(mut m: Cnn, mut opt: AdamW[Cnn], batch: Digit[b], rate: float, sink: LogSink, mode: Mode):
    l, mut g = value_and_grad(loss(m, batch, mode), wrt=m)
    norm = clip_norm(mut g, 1.0)
    update(mut m, mut opt, g, lr=rate)
    write(sink, StepLogs(step=opt.step, loss=l, grad_norm=norm))

fn main(epochs: int = 20):
    train = load_data[Digit]("digits_train.npz")
    test = load_data[Digit]("digits_test.npz")
    sink = jsonl("digits_cnn.jsonl")
    mode = Train(seed=0)
    mut m = Cnn(seed=1234)
    mut opt = AdamW(m)
    for epoch in 0..epochs:
        rate = schedule.cosine(epoch, 2e-3, epochs)
        for batch in train |> shuffle(epoch) |> batches(64):
            train_step(mut m, mut opt, batch, rate, sink, mode)
    print("test accuracy", accuracy(forward(m, test.all.pixels, Eval), test.all.label))
