# The axis of time stands behind that of the rows.
# expect: E0401 at 9:43
import shapescript.std.recurrent as recurrent

model Net:
    read: recurrent.LSTM[8, 16]

fn read(m: Net, x: [time rows 8], h: [rows 16], c: [rows 16]) -> [rows 16]:
    y, h2, c2 = recurrent.lstm(x, m.read, h, c)
    return h2
