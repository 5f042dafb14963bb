# The outputs, the hidden state and the cell.
# expect: E0301 at 9:12
import shapescript.std.recurrent as recurrent

model Net:
    read: recurrent.LSTM[8, 16]

fn read(m: Net, x: [b n 8]) -> [b n 16]:
    return recurrent.lstm(x, m.read)
