import shapescript.std.loss as losses
import shapescript.std.nn as nn
import shapescript.std.schedule as schedule

dim Rows = 8
dim Columns = 8
dim Pixels = Rows * Columns
dim Shortest = 3
dim Longest = 5
dim Gaps = 3
dim Times = Longest * (Columns + Gaps - 1) / 2
dim Few = 16
dim Many = 32
dim Hidden = 128
dim Symbols = 11
dim Batch = 32
dim Tested = 500

const Blank = 10

data Digit:
    pixels: [Pixels]
    label: int

data StepLogs:
    step: int
    loss: float

model Reader:
    first: nn.Conv2d[1, Few, 3, Padding=1]
    second: nn.Conv2d[Few, Many, 3, Padding=1]
    across: nn.Conv1d[Many*(Rows//2), Hidden, 5, Padding=2]
    output: nn.Linear[Hidden, Symbols]

# Lines of digits drawn at random, with gaps between them, and what stands in each: so many labels, and blanks behind them.
fn lines[B](digits: Dataset[Digit], mode: Mode) -> ([B Rows 2*Times], int[B Longest], int[B]):
    chosen = int(floor(digits.count * random_uniform[B Longest](mode)))
    length = Shortest + int(floor((Longest - Shortest + 1) * random_uniform[B](mode)))
    gaps = int(floor(Gaps * random_uniform[B Longest](mode)))
    there = repeat(arange[Longest]: Longest -> B Longest) < length
    pixels = gather(digits.all.pixels, chosen, over=rows) * f32(there)
    start = cumsum(gaps, over=Longest) + Columns * arange[Longest]
    place = repeat(start: B Longest -> B Longest Columns) + arange[Columns]
    picture = einsum(
        rearrange(pixels: B Longest (Rows Columns) -> B Longest Rows Columns),
        one_hot(place, over=2*Times): B Longest Rows Columns, B Longest Columns 2*Times -> B Rows 2*Times
    )
    return picture, where(there, gather(digits.all.label, chosen, over=rows), Blank), length

fn forward(m: Reader, picture: [b Rows 2*Times], mode: Mode) -> [b Times Symbols]:
    features = repeat(picture: b Rows 2*Times -> b 1 Rows 2*Times)
        |> nn.conv2d(m.first)
        |> relu
        |> nn.conv2d(m.second)
        |> relu
        |> nn.max_pool2d[2]
    hidden = rearrange(features: b Many rows Times -> b (Many rows) Times)
        |> nn.conv1d(m.across)
        |> relu
        |> dropout(0.25, mode)
    return rearrange(hidden: b Hidden Times -> b Times Hidden) |> nn.linear(m.output)

fn loss(m: Reader, picture: [b Rows 2*Times], label: int[b Longest], length: int[b], mode: Mode) -> []:
    log_probability = forward(m, picture, mode) |> log_softmax(over=Symbols)
    return losses.ctc(log_probability, label, Times * int(ones[b]), length, blank=Blank)

# The likeliest symbol at each time, without repetitions and blanks, which stand at the end instead.
fn read(m: Reader, picture: [b Rows 2*Times]) -> int[b Times]:
    likeliest = argmax(forward(m, picture, Eval), over=Symbols)
    before = pad(likeliest, Times=(1, 0), value=Blank)[Times+1=..Times]
    is_said = (likeliest != Blank) & (likeliest != before)
    return take_along(where(is_said, likeliest, Blank), argsort(int(!is_said), over=Times), over=Times)

fn right(m: Reader, picture: [b Rows 2*Times], label: int[b Longest]) -> float:
    wanted = pad(label, Longest=(0, Times-Longest), value=Blank)
    return float(sum(int(all(read(m, picture) == wanted, over=Times)), over=b)) / b

fn train(mut m: Reader, digits: Dataset[Digit], steps: int, sink: LogSink, mode: Mode):
    mut opt = AdamW(m)
    for step in 0..steps:
        picture, label, length = lines[Batch](digits, mode)
        l, mut g = value_and_grad(loss(m, picture, label, length, mode), wrt=m)
        clip_norm(mut g, 1.0)
        update(mut m, mut opt, g, lr=schedule.one_cycle(step, 3e-3, steps))
        write(sink, StepLogs(step=opt.step, loss=l))

fn main(steps: int = 1000):
    mut m = Reader(seed=0)
    train(mut m, load_data[Digit]("digits_train.npz"), steps, jsonl("ctc_digits.jsonl"), Train(seed=0))
    picture, label, length = lines[Tested](load_data[Digit]("digits_test.npz"), Train(seed=1))
    print("lines read right", right(m, picture, label))
