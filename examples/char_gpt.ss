import shapescript.std.nn as nn
import shapescript.std.schedule as schedule

const Text = "python:pydoc_data/topics.py"

dim Vocabulary = characters(Text)
dim Context = 64
dim Span = Context + 1
dim Width = 128
dim Inner = 4 * Width
dim Heads = 4
dim Part = Width / Heads
dim Depth = 4
dim Samples = 3
dim Length = 500

data Window:
    ids: int[Span]

data StepLogs:
    step: int
    loss: float
    held_out: float

model Block:
    attention_norm: nn.LayerNorm[Width]
    query: [Heads Part Width] = normal(0, 0.02)
    key: [Heads Part Width] = normal(0, 0.02)
    value: [Heads Part Width] = normal(0, 0.02)
    join: [Heads Part Width] = normal(0, 0.02/sqrt(2*Depth))
    inner_norm: nn.LayerNorm[Width]
    widen: [Width Inner] = normal(0, 0.02)
    narrow: [Inner Width] = normal(0, 0.02/sqrt(2*Depth))

model Gpt:
    characters: [Vocabulary Width] = normal(0, 0.02)
    places: [Context Width] = normal(0, 0.02)
    blocks: Block * Depth
    last_norm: nn.LayerNorm[Width]
    group "*_norm.*": decay=false

fn attend(x: [b t Width], block: Block) -> [b t Width]:
    query = einsum(x, block.query: b t Width, Heads Part Width -> b Heads t Part)
    key = einsum(x, block.key: b s Width, Heads Part Width -> b Heads s Part)
    value = einsum(x, block.value: b s Width, Heads Part Width -> b Heads s Part)
    scores = einsum(query, key: b Heads t Part, b Heads s Part -> b Heads t s) / sqrt(Part)
    shares = scores |> masked_fill(!causal[t s], -1e30) |> softmax(over=s)
    mixed = einsum(shares, value: b Heads t s, b Heads s Part -> b Heads t Part)
    return einsum(mixed, block.join: b Heads t Part, Heads Part Width -> b t Width)

fn forward(m: Gpt, ids: int[b t]) -> [b t Vocabulary]:
    mut x = gather(m.characters, ids, over=Vocabulary) + m.places[Context=..t]
    for block in m.blocks:
        x = x + (x |> nn.layer_norm(block.attention_norm) |> attend(block))
        x = x + gelu(nn.layer_norm(x, block.inner_norm) @ block.widen) @ block.narrow
    return einsum(x |> nn.layer_norm(m.last_norm), m.characters: b t Width, Vocabulary Width -> b t Vocabulary)

fn loss(m: Gpt, batch: Window[b]) -> []:
    return forward(m, batch.ids[Span=..Span-1]) |> cross_entropy(batch.ids[Span=1..])

fn mean_loss(m: Gpt, text: Dataset[Window]) -> float:
    mut total = 0.0
    for batch in text |> sample(240, 0) |> batches(12):
        total = total + 12 * float(loss(m, batch))
    return total / 240

fn train(mut m: Gpt, text: Dataset[Window], held_out: Dataset[Window], steps: int, sink: LogSink):
    mut opt = AdamW(m, beta2=0.99, decay=0.1)
    for batch in text |> sample(12 * steps, 0) |> batches(12):
        l, mut g = value_and_grad(loss(m, batch), wrt=m)
        clip_norm(mut g, 1.0)
        update(mut m, mut opt, g, lr=schedule.warm_up_cosine(opt.step, 1e-3, 100, steps, lowest=1e-4))
        if opt.step % 100 == 0:
            write(sink, StepLogs(step=opt.step, loss=l, held_out=mean_loss(m, held_out)))

fn speak(m: Gpt, characters: Vocabulary, temperature: float, mode: Mode):
    mut seen = encode_one(characters, "\n") * int(ones[Samples Context])
    mut said = int(zeros[Samples Length])
    for i in 0..Length:
        next = forward(m, seen)[Context=Context-1] / temperature |> categorical(mode, over=Vocabulary)
        seen[Context=..Context-1] = seen[Context=1..]
        seen[Context=Context-1] = next
        said[Length=i] = next
    for i in 0..Samples:
        print("----")
        print(decode(characters, said[Samples=i]))

fn main(text: str = Text, steps: int = 2000):
    windows = load_text[Window](text)
    learned = windows |> take(windows.count * 9 // 10)
    held_out = windows |> skip(windows.count * 9 // 10)
    mut m = Gpt(seed=1337)
    train(mut m, learned, held_out, steps, jsonl("char_gpt.jsonl"))
    print("held-out loss", mean_loss(m, held_out))
    speak(m, vocabulary(text), 0.8, Train(seed=0))
