# Recurrent layers along the axis n of x, with PyTorch's parameter names, layouts and starts. Each gives the outputs of all times and the last
# state; the first state is 0 where none is given. With `lengths` each row has so many times: behind them its outputs are 0, and its state
# stays. A layer of both directions has their outputs side by side, and their states along a first axis. A `cell` is one time of a layer.

model RNN[I, H, F: float = f32]:
    weight_ih_l0: F[H I] = uniform(-1/sqrt(H), 1/sqrt(H))
    weight_hh_l0: F[H H] = uniform(-1/sqrt(H), 1/sqrt(H))
    bias_ih_l0: F[H] = uniform(-1/sqrt(H), 1/sqrt(H))
    bias_hh_l0: F[H] = uniform(-1/sqrt(H), 1/sqrt(H))

fn rnn[I, H, F: float](x: F[b n I], layer: RNN[I, H, F]) -> (F[b n H], F[b H]):
    return rnn(x, layer, F(zeros[b H]), int(zeros[b]) + n)

fn rnn[I, H, F: float](x: F[b n I], layer: RNN[I, H, F], lengths: int[b]) -> (F[b n H], F[b H]):
    return rnn(x, layer, F(zeros[b H]), lengths)

fn rnn[I, H, F: float](x: F[b n I], layer: RNN[I, H, F], hidden: F[b H]) -> (F[b n H], F[b H]):
    return rnn(x, layer, hidden, int(zeros[b]) + n)

fn rnn[I, H, F: float](x: F[b n I], layer: RNN[I, H, F], hidden: F[b H], lengths: int[b]) -> (F[b n H], F[b H]):
    inputs = einsum(x, layer.weight_ih_l0: b n I, H I -> n b H) + layer.bias_ih_l0
    return rnn_over(inputs, layer.weight_hh_l0, layer.bias_hh_l0, hidden, lengths, false)

fn rnn_cell[I, H, F: float](x: F[b I], layer: RNN[I, H, F], hidden: F[b H]) -> F[b H]:
    return rnn_step(einsum(x, layer.weight_ih_l0: b I, H I -> b H) + layer.bias_ih_l0, layer.weight_hh_l0, layer.bias_hh_l0, hidden)

fn rnn_over[H, F: float](inputs: F[n b H], weight: F[H H], bias: F[H], hidden: F[b H], lengths: int[b], backwards: bool) -> (F[b n H], F[b H]):
    mut h = hidden
    mut outputs = F(zeros[b n H])
    for step in 0..n:
        mut t = step
        if backwards:
            t = n - 1 - step
        next = rnn_step(inputs[n=t], weight, bias, h)
        h = where(t < lengths, next, h)
        outputs[n=t] = where(t < lengths, next, 0.0)
    return outputs, h

fn rnn_step[H, F: float](inputs: F[b H], weight: F[H H], bias: F[H], h: F[b H]) -> F[b H]:
    return tanh(inputs + (einsum(h, weight: b i, H i -> b H) + bias))

# Of the three blocks of H rows, the first is the reset's, the second the update's, the third the new state's.
model GRU[I, H, F: float = f32]:
    weight_ih_l0: F[3*H I] = uniform(-1/sqrt(H), 1/sqrt(H))
    weight_hh_l0: F[3*H H] = uniform(-1/sqrt(H), 1/sqrt(H))
    bias_ih_l0: F[3*H] = uniform(-1/sqrt(H), 1/sqrt(H))
    bias_hh_l0: F[3*H] = uniform(-1/sqrt(H), 1/sqrt(H))

model BidirectionalGRU[I, H, F: float = f32]:
    weight_ih_l0: F[3*H I] = uniform(-1/sqrt(H), 1/sqrt(H))
    weight_hh_l0: F[3*H H] = uniform(-1/sqrt(H), 1/sqrt(H))
    bias_ih_l0: F[3*H] = uniform(-1/sqrt(H), 1/sqrt(H))
    bias_hh_l0: F[3*H] = uniform(-1/sqrt(H), 1/sqrt(H))
    weight_ih_l0_reverse: F[3*H I] = uniform(-1/sqrt(H), 1/sqrt(H))
    weight_hh_l0_reverse: F[3*H H] = uniform(-1/sqrt(H), 1/sqrt(H))
    bias_ih_l0_reverse: F[3*H] = uniform(-1/sqrt(H), 1/sqrt(H))
    bias_hh_l0_reverse: F[3*H] = uniform(-1/sqrt(H), 1/sqrt(H))

fn gru[I, H, F: float](x: F[b n I], layer: GRU[I, H, F]) -> (F[b n H], F[b H]):
    return gru(x, layer, F(zeros[b H]), int(zeros[b]) + n)

fn gru[I, H, F: float](x: F[b n I], layer: GRU[I, H, F], lengths: int[b]) -> (F[b n H], F[b H]):
    return gru(x, layer, F(zeros[b H]), lengths)

fn gru[I, H, F: float](x: F[b n I], layer: GRU[I, H, F], hidden: F[b H]) -> (F[b n H], F[b H]):
    return gru(x, layer, hidden, int(zeros[b]) + n)

fn gru[I, H, F: float](x: F[b n I], layer: GRU[I, H, F], hidden: F[b H], lengths: int[b]) -> (F[b n H], F[b H]):
    inputs = einsum(x, layer.weight_ih_l0: b n I, 3*H I -> n b 3*H) + layer.bias_ih_l0
    return gru_over(inputs, layer.weight_hh_l0, layer.bias_hh_l0, hidden, lengths, false)

fn gru[I, H, F: float](x: F[b n I], layer: BidirectionalGRU[I, H, F]) -> (F[b n 2*H], F[2 b H]):
    return gru(x, layer, F(zeros[2 b H]), int(zeros[b]) + n)

fn gru[I, H, F: float](x: F[b n I], layer: BidirectionalGRU[I, H, F], lengths: int[b]) -> (F[b n 2*H], F[2 b H]):
    return gru(x, layer, F(zeros[2 b H]), lengths)

fn gru[I, H, F: float](x: F[b n I], layer: BidirectionalGRU[I, H, F], hidden: F[2 b H]) -> (F[b n 2*H], F[2 b H]):
    return gru(x, layer, hidden, int(zeros[b]) + n)

fn gru[I, H, F: float](x: F[b n I], layer: BidirectionalGRU[I, H, F], hidden: F[2 b H], lengths: int[b]) -> (F[b n 2*H], F[2 b H]):
    inputs = einsum(x, layer.weight_ih_l0: b n I, 3*H I -> n b 3*H) + layer.bias_ih_l0
    outputs, h = gru_over(inputs, layer.weight_hh_l0, layer.bias_hh_l0, hidden[2=0], lengths, false)
    reverse_inputs = einsum(x, layer.weight_ih_l0_reverse: b n I, 3*H I -> n b 3*H) + layer.bias_ih_l0_reverse
    reverse_outputs, reverse_h = gru_over(reverse_inputs, layer.weight_hh_l0_reverse, layer.bias_hh_l0_reverse, hidden[2=1], lengths, true)
    return concat(outputs, reverse_outputs, over=H), stack(h, reverse_h, over=2)

fn gru_cell[I, H, F: float](x: F[b I], layer: GRU[I, H, F], hidden: F[b H]) -> F[b H]:
    return gru_step(einsum(x, layer.weight_ih_l0: b I, 3*H I -> b 3*H) + layer.bias_ih_l0, layer.weight_hh_l0, layer.bias_hh_l0, hidden)

fn gru_over[H, F: float](inputs: F[n b 3*H], weight: F[3*H H], bias: F[3*H], hidden: F[b H], lengths: int[b], backwards: bool) -> (F[b n H], F[b H]):
    mut h = hidden
    mut outputs = F(zeros[b n H])
    for step in 0..n:
        mut t = step
        if backwards:
            t = n - 1 - step
        next = gru_step(inputs[n=t], weight, bias, h)
        h = where(t < lengths, next, h)
        outputs[n=t] = where(t < lengths, next, 0.0)
    return outputs, h

# The bias of the new state's product stands inside of the reset, so the two biases aren't one.
fn gru_step[H, F: float](inputs: F[b 3*H], weight: F[3*H H], bias: F[3*H], h: F[b H]) -> F[b H]:
    reset_in, keep_in, new_in = split(inputs: b (3 H) -> b H)
    reset, keep, new = split(einsum(h, weight: b H, 3*H H -> b 3*H) + bias: b (3 H) -> b H)
    share = sigmoid(keep_in + keep)
    return (1.0 - share) * tanh(new_in + sigmoid(reset_in + reset) * new) + share * h

# Of the four blocks of H rows: what enters the cell, what it keeps, what is new, what leaves it.
model LSTM[I, H, F: float = f32]:
    weight_ih_l0: F[4*H I] = uniform(-1/sqrt(H), 1/sqrt(H))
    weight_hh_l0: F[4*H H] = uniform(-1/sqrt(H), 1/sqrt(H))
    bias_ih_l0: F[4*H] = uniform(-1/sqrt(H), 1/sqrt(H))
    bias_hh_l0: F[4*H] = uniform(-1/sqrt(H), 1/sqrt(H))

model BidirectionalLSTM[I, H, F: float = f32]:
    weight_ih_l0: F[4*H I] = uniform(-1/sqrt(H), 1/sqrt(H))
    weight_hh_l0: F[4*H H] = uniform(-1/sqrt(H), 1/sqrt(H))
    bias_ih_l0: F[4*H] = uniform(-1/sqrt(H), 1/sqrt(H))
    bias_hh_l0: F[4*H] = uniform(-1/sqrt(H), 1/sqrt(H))
    weight_ih_l0_reverse: F[4*H I] = uniform(-1/sqrt(H), 1/sqrt(H))
    weight_hh_l0_reverse: F[4*H H] = uniform(-1/sqrt(H), 1/sqrt(H))
    bias_ih_l0_reverse: F[4*H] = uniform(-1/sqrt(H), 1/sqrt(H))
    bias_hh_l0_reverse: F[4*H] = uniform(-1/sqrt(H), 1/sqrt(H))

fn lstm[I, H, F: float](x: F[b n I], layer: LSTM[I, H, F]) -> (F[b n H], F[b H], F[b H]):
    return lstm(x, layer, F(zeros[b H]), F(zeros[b H]), int(zeros[b]) + n)

fn lstm[I, H, F: float](x: F[b n I], layer: LSTM[I, H, F], lengths: int[b]) -> (F[b n H], F[b H], F[b H]):
    return lstm(x, layer, F(zeros[b H]), F(zeros[b H]), lengths)

fn lstm[I, H, F: float](x: F[b n I], layer: LSTM[I, H, F], hidden: F[b H], cell: F[b H]) -> (F[b n H], F[b H], F[b H]):
    return lstm(x, layer, hidden, cell, int(zeros[b]) + n)

fn lstm[I, H, F: float](x: F[b n I], layer: LSTM[I, H, F], hidden: F[b H], cell: F[b H], lengths: int[b]) -> (F[b n H], F[b H], F[b H]):
    inputs = einsum(x, layer.weight_ih_l0: b n I, 4*H I -> n b 4*H) + layer.bias_ih_l0
    return lstm_over(inputs, layer.weight_hh_l0, layer.bias_hh_l0, hidden, cell, lengths, false)

fn lstm[I, H, F: float](x: F[b n I], layer: BidirectionalLSTM[I, H, F]) -> (F[b n 2*H], F[2 b H], F[2 b H]):
    return lstm(x, layer, F(zeros[2 b H]), F(zeros[2 b H]), int(zeros[b]) + n)

fn lstm[I, H, F: float](x: F[b n I], layer: BidirectionalLSTM[I, H, F], lengths: int[b]) -> (F[b n 2*H], F[2 b H], F[2 b H]):
    return lstm(x, layer, F(zeros[2 b H]), F(zeros[2 b H]), lengths)

fn lstm[I, H, F: float](x: F[b n I], layer: BidirectionalLSTM[I, H, F], hidden: F[2 b H], cell: F[2 b H]) -> (F[b n 2*H], F[2 b H], F[2 b H]):
    return lstm(x, layer, hidden, cell, int(zeros[b]) + n)

fn lstm[I, H, F: float](x: F[b n I], layer: BidirectionalLSTM[I, H, F], hidden: F[2 b H], cell: F[2 b H], lengths: int[b]) -> (F[b n 2*H], F[2 b H], F[2 b H]):
    inputs = einsum(x, layer.weight_ih_l0: b n I, 4*H I -> n b 4*H) + layer.bias_ih_l0
    outputs, h, c = lstm_over(inputs, layer.weight_hh_l0, layer.bias_hh_l0, hidden[2=0], cell[2=0], lengths, false)
    reverse_inputs = einsum(x, layer.weight_ih_l0_reverse: b n I, 4*H I -> n b 4*H) + layer.bias_ih_l0_reverse
    reverse_outputs, reverse_h, reverse_c = lstm_over(reverse_inputs, layer.weight_hh_l0_reverse, layer.bias_hh_l0_reverse, hidden[2=1], cell[2=1], lengths, true)
    return concat(outputs, reverse_outputs, over=H), stack(h, reverse_h, over=2), stack(c, reverse_c, over=2)

fn lstm_cell[I, H, F: float](x: F[b I], layer: LSTM[I, H, F], hidden: F[b H], cell: F[b H]) -> (F[b H], F[b H]):
    inputs = einsum(x, layer.weight_ih_l0: b I, 4*H I -> b 4*H) + layer.bias_ih_l0
    return lstm_step(inputs, layer.weight_hh_l0, layer.bias_hh_l0, hidden, cell)

fn lstm_over[H, F: float](inputs: F[n b 4*H], weight: F[4*H H], bias: F[4*H], hidden: F[b H], cell: F[b H], lengths: int[b], backwards: bool) -> (F[b n H], F[b H], F[b H]):
    mut h = hidden
    mut c = cell
    mut outputs = F(zeros[b n H])
    for step in 0..n:
        mut t = step
        if backwards:
            t = n - 1 - step
        next, next_c = lstm_step(inputs[n=t], weight, bias, h, c)
        h = where(t < lengths, next, h)
        c = where(t < lengths, next_c, c)
        outputs[n=t] = where(t < lengths, next, 0.0)
    return outputs, h, c

fn lstm_step[H, F: float](inputs: F[b 4*H], weight: F[4*H H], bias: F[4*H], h: F[b H], c: F[b H]) -> (F[b H], F[b H]):
    gates = inputs + (einsum(h, weight: b H, 4*H H -> b 4*H) + bias)
    enter, keep, new, leave = split(gates: b (4 H) -> b H)
    next = sigmoid(keep) * c + sigmoid(enter) * tanh(new)
    return sigmoid(leave) * tanh(next), next
