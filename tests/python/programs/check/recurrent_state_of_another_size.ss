# A state of the inputs' size, not of the layer's own.
# expect: E0401 at 12:37
import shapescript.std.recurrent as recurrent

dim Input = 8
dim Hidden = 16

model Net:
    read: recurrent.GRU[Input, Hidden]

fn read(m: Net, x: [b n Input]) -> [b n Hidden]:
    y, h = recurrent.gru(x, m.read, zeros[b Input])
    return y
