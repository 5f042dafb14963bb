import shapescript.std.nn as nn
import shapescript.std.recurrent as recurrent
import shapescript.std.schedule as schedule

const Names = "plant_names.txt"
const End = 0

dim Characters = characters(Names)
dim Longest = longest_line(Names) + 1
dim Width = 32
dim Hidden = 64
dim Samples = 10

data Name:
    ids: int[Longest]
    length: int

data StepLogs:
    step: int
    loss: float

model Speller:
    characters: nn.Embedding[Characters, Width]
    memory: recurrent.LSTM[Width, Hidden]
    output: nn.Linear[Hidden, Characters]

# Each character follows the ones before it; the first one and the line end, number 0 of the vocabulary, follow a line end.
fn loss(m: Speller, batch: Name[b], mode: Mode) -> []:
    before = pad(batch.ids, Longest=(1, 0), value=End)[Longest+1=..Longest]
    outputs, hidden, cell = before
        |> nn.embedding(m.characters)
        |> dropout(0.3, mode)
        |> recurrent.lstm(m.memory, batch.length + 1)
    there = repeat(arange[Longest]: Longest -> b Longest) <= batch.length
    return outputs
        |> dropout(0.3, mode)
        |> nn.linear(m.output)
        |> cross_entropy(batch.ids, mask=there)

fn train(mut m: Speller, names: Dataset[Name], epochs: int, sink: LogSink, mode: Mode):
    mut opt = AdamW(m, decay=0.1)
    for epoch in 0..epochs:
        for batch in names |> shuffle(epoch) |> batches(32):
            l, mut g = value_and_grad(loss(m, batch, mode), wrt=m)
            clip_norm(mut g, 1.0)
            update(mut m, mut opt, g, lr=schedule.cosine(epoch, 5e-3, epochs))
            write(sink, StepLogs(step=opt.step, loss=l))
        flush(sink)

fn spell(m: Speller, temperature: float, mode: Mode) -> int[Samples Longest]:
    mut hidden, mut cell = zeros[Samples Hidden], zeros[Samples Hidden]
    mut last = End * int(ones[Samples])
    mut is_ended = zeros[Samples] > 0.0
    mut spelt = End * int(ones[Samples Longest])
    for i in 0..Longest:
        hidden, cell = nn.embedding(last, m.characters) |> recurrent.lstm_cell(m.memory, hidden, cell)
        drawn = nn.linear(hidden, m.output) / temperature |> categorical(mode, over=Characters)
        is_ended = is_ended | (drawn == End)
        last = where(is_ended, End, drawn)
        spelt[Longest=i] = last
    return spelt

fn main(epochs: int = 60):
    names, letters = load_lines[Name](Names), vocabulary(Names)
    known = names.count * 9 // 10
    held_out = names |> skip(known)
    mut m = Speller(seed=0)
    train(mut m, names |> take(known), epochs, jsonl("names_lstm.jsonl"), Train(seed=0))
    print("held-out loss", loss(m, held_out.all, Eval))
    spelt = spell(m, 0.7, Train(seed=1))
    for i in 0..Samples:
        length = int(sum(int(spelt[Samples=i] != End), over=Longest))
        print(decode(letters, spelt[Samples=i, Longest=..length]))
