import shapescript.std.nn as nn
import shapescript.std.schedule as schedule

dim Rows = 8
dim Columns = 8
dim Pixels = Rows * Columns
dim Hidden = 128
dim Code = 8

const Noise = 0.1

data Picture:
    pixels: [Pixels]

data StepLogs:
    step: int
    loss: float

model Encoder:
    enter: nn.Linear[Pixels, Hidden]
    centre: nn.Linear[Hidden, Code]
    log_variance: nn.Linear[Hidden, Code]

model Decoder:
    enter: nn.Linear[Code, Hidden]
    leave: nn.Linear[Hidden, Pixels]

model Autoencoder:
    encoder: Encoder
    decoder: Decoder

fn encode(m: Encoder, pixels: [b Pixels]) -> ([b Code], [b Code]):
    hidden = pixels |> nn.linear(m.enter) |> gelu
    return nn.linear(hidden, m.centre), nn.linear(hidden, m.log_variance)

fn decode(m: Decoder, code: [b Code]) -> [b Pixels]:
    return code |> nn.linear(m.enter) |> gelu |> nn.linear(m.leave) |> sigmoid

fn error(m: Autoencoder, pixels: [b Pixels]) -> []:
    centre, log_variance = encode(m.encoder, pixels)
    return mean((decode(m.decoder, centre) - pixels) ** 2, over=(b, Pixels))

# The negative evidence lower bound of a variational autoencoder whose pixels have noise of a known deviation, without its constants.
fn loss(m: Autoencoder, batch: Picture[b], mode: Mode) -> []:
    centre, log_variance = encode(m.encoder, batch.pixels)
    code = centre + exp(0.5 * log_variance) * random_normal[b Code](mode)
    misfit = sum(((decode(m.decoder, code) - batch.pixels) / Noise) ** 2, over=(b, Pixels))
    divergence = sum(centre ** 2 + exp(log_variance) - log_variance - 1.0, over=(b, Code))
    return 0.5 * (misfit + divergence) / b

fn train(mut m: Autoencoder, pictures: Dataset[Picture], epochs: int, sink: LogSink, mode: Mode):
    mut opt = AdamW(m)
    for epoch in 0..epochs:
        for batch in pictures |> shuffle(epoch) |> batches(64):
            l, g = value_and_grad(loss(m, batch, mode), wrt=m)
            update(mut m, mut opt, g, lr=schedule.cosine(epoch, 3e-3, epochs))
            write(sink, StepLogs(step=opt.step, loss=l))
        flush(sink)

fn main(epochs: int = 200):
    pictures = load_data[Picture]("digits_train.npz")
    test = load_data[Picture]("digits_test.npz")
    mode = Train(seed=0)
    mut m = Autoencoder(seed=0)
    train(mut m, pictures, epochs, jsonl("autoencoder.jsonl"), mode)
    print("reconstruction error", error(m, test.all.pixels))
    drawn = decode(m.decoder, random_normal[1 Code](mode))
    print(int(round(9.0 * rearrange(drawn: 1 (Rows Columns) -> Rows Columns))))
