# A recurrent net that says of each character of a window which one follows. The benchmark puts the loop over training steps behind it.

import shapescript.std.nn as nn
import shapescript.std.recurrent as recurrent

dim Vocabulary = 65
dim Context = 32
dim Span = Context + 1
dim Width = 64
dim Hidden = 128

data Window:
    ids: int[Span]

model Speller:
    characters: nn.Embedding[Vocabulary, Width]
    memory: recurrent.LSTM[Width, Hidden]
    output: nn.Linear[Hidden, Vocabulary]

fn loss(m: Speller, batch: Window[b]) -> []:
    outputs, hidden, cell = batch.ids[Span=..Span-1] |> nn.embedding(m.characters) |> recurrent.lstm(m.memory)
    return outputs |> nn.linear(m.output) |> cross_entropy(batch.ids[Span=1..])
