"""Attention and recurrent layers: state_dicts of PyTorch, starts, steps of generation, and what a mask hides."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from both_engines import Both

import shapescript

PROGRAM = """
import shapescript.std.attention as attention
import shapescript.std.nn as nn
import shapescript.std.recurrent as recurrent

dim V = 11
dim D = 8
dim Heads = 2
dim H = 6
dim Longest = 20

model Attention:
    layer: attention.MultiheadAttention[D, Heads]

model Encoder:
    layer: attention.TransformerEncoderLayer[D, Heads, 12]

model Rnn:
    layer: recurrent.RNN[D, H]

model Gru:
    layer: recurrent.GRU[D, H]

model BothGru:
    layer: recurrent.BidirectionalGRU[D, H]

model Lstm:
    layer: recurrent.LSTM[D, H]

model BothLstm:
    layer: recurrent.BidirectionalLSTM[D, H]

model Stack:
    first: recurrent.LSTM[D, H]
    others: recurrent.LSTM[H, H] * 2

model Gpt:
    tokens: nn.Embedding[V, D]
    places: [Longest D] = normal(0, 1)
    blocks: attention.TransformerEncoderLayer[D, Heads] * 2
    norm: nn.LayerNorm[D]

# ---- Generation

fn logits(m: Gpt, tokens: int[b n], mode: Mode) -> [b n V]:
    mut x = nn.embedding(tokens, m.tokens) + m.places[Longest=..n] |> dropout(0.1, mode)
    for block in m.blocks:
        x = attention.encoder_layer(x, block, mode, norm_first=true, is_causal=true, with_gelu=true)
    return einsum(x |> nn.layer_norm(m.norm), m.tokens.weight: b n D, V D -> b n V)

fn loss(m: Gpt, tokens: int[b n], label: int[b n], mode: Mode) -> []:
    return cross_entropy(logits(m, tokens, mode), label)

fn train(mut m: Gpt, mut opt: AdamW[Gpt], tokens: int[b n], label: int[b n], mode: Mode) -> []:
    l, g = value_and_grad(loss(m, tokens, label, mode), wrt=m)
    update(mut m, mut opt, g, lr=1e-2)
    return l

fn further(m: Gpt, tokens: int[b n], mut keys: [b 2*Heads Longest D/Heads], mut values: [b 2*Heads Longest D/Heads], start: int) -> [b n V]:
    mut x = nn.embedding(tokens, m.tokens) + m.places[Longest=start..start+n]
    mut first = 0
    for block in m.blocks:
        mut k = keys[2*Heads=first..first+Heads]
        mut v = values[2*Heads=first..first+Heads]
        x = attention.encoder_layer(x, block, mut k, mut v, start, norm_first=true, with_gelu=true)
        keys[2*Heads=first..first+Heads] = k
        values[2*Heads=first..first+Heads] = v
        first = first + Heads
    return einsum(x |> nn.layer_norm(m.norm), m.tokens.weight: b n D, V D -> b n V)

fn in_parts(m: Gpt, tokens: int[b n], cut: int) -> [b n V]:
    mut keys = zeros[b 2*Heads Longest D/Heads]
    mut values = zeros[b 2*Heads Longest D/Heads]
    mut found = zeros[b n V]
    found[n=..cut] = further(m, tokens[n=..cut], mut keys, mut values, 0)
    for t in cut..n:
        found[n=t..t+1] = further(m, tokens[n=t..t+1], mut keys, mut values, t)
    return found

fn greedy(m: Gpt, prompt: int[b n]) -> int[b Longest]:
    mut said = int(zeros[b Longest])
    said[Longest=..n] = prompt
    for t in n..Longest:
        seen = rearrange(logits(m, said, Eval): b Longest V -> b Longest V)
        said[Longest=t] = argmax(seen[Longest=t-1], over=V)
    return said

fn greedy_with_cache(m: Gpt, prompt: int[b n]) -> int[b Longest]:
    mut keys = zeros[b 2*Heads Longest D/Heads]
    mut values = zeros[b 2*Heads Longest D/Heads]
    mut said = int(zeros[b Longest])
    said[Longest=..n] = prompt
    mut last = further(m, prompt, mut keys, mut values, 0)[n=n-1]
    for t in n..Longest:
        next = argmax(last, over=V)
        said[Longest=t] = next
        last = rearrange(further(m, repeat(next: b -> b 1), mut keys, mut values, t): b 1 V -> b V)
    return said

# ---- Attention

fn causal_attention(m: Attention, x: [b n D]) -> [b n D]:
    return attention.self_attention(x, m.layer, is_causal=true)

fn step(m: Attention, x: [b n D], mut keys: [b Heads Longest D/Heads], mut values: [b Heads Longest D/Heads], start: int) -> [b n D]:
    return attention.self_attention(x, m.layer, mut keys, mut values, start)

fn masked(m: Attention, x: [b n D], mask: bool[b n]) -> [b n D]:
    return attention.self_attention(x, m.layer, mask)

fn masked_gradient(m: Attention, x: [b n D], mask: bool[b n]) -> ([b n D], Attention):
    k, by_x = value_and_grad(sum(masked(m, x, mask), over=(b, n, D)), wrt=x)
    l, by_m = value_and_grad(sum(masked(m, x, mask), over=(b, n, D)), wrt=m)
    return by_x, by_m

fn trained(m: Attention, x: [b n D], mode: Mode) -> [b n D]:
    return attention.self_attention(x, m.layer, mode, 0.5)

# ---- Recurrence

fn run(m: Lstm, x: [b n D]) -> ([b n H], [b H], [b H]):
    y, h, c = recurrent.lstm(x, m.layer)
    return y, h, c

fn run(m: Gru, x: [b n D]) -> ([b n H], [b H]):
    y, h = recurrent.gru(x, m.layer)
    return y, h

fn run(m: Rnn, x: [b n D]) -> ([b n H], [b H]):
    y, h = recurrent.rnn(x, m.layer)
    return y, h

fn run(m: BothGru, x: [b n D]) -> ([b n 2*H], [2 b H]):
    y, h = recurrent.gru(x, m.layer)
    return y, h

fn run(m: BothLstm, x: [b n D]) -> ([b n 2*H], [2 b H], [2 b H]):
    y, h, c = recurrent.lstm(x, m.layer)
    return y, h, c

fn by_cells(m: Lstm, x: [b n D]) -> ([b n H], [b H], [b H]):
    mut h, mut c, mut y = zeros[b H], zeros[b H], zeros[b n H]
    for t in 0..n:
        h, c = recurrent.lstm_cell(x[n=t], m.layer, h, c)
        y[n=t] = h
    return y, h, c

fn by_cells(m: Gru, x: [b n D]) -> ([b n H], [b H]):
    mut h, mut y = zeros[b H], zeros[b n H]
    for t in 0..n:
        h = recurrent.gru_cell(x[n=t], m.layer, h)
        y[n=t] = h
    return y, h

fn by_cells(m: Rnn, x: [b n D]) -> ([b n H], [b H]):
    mut h, mut y = zeros[b H], zeros[b n H]
    for t in 0..n:
        h = recurrent.rnn_cell(x[n=t], m.layer, h)
        y[n=t] = h
    return y, h

fn stacked(m: Stack, x: [b n D], lengths: int[b]) -> [b n H]:
    first, h, c = recurrent.lstm(x, m.first, lengths)
    mut y = first
    for layer in m.others:
        z, k, d = recurrent.lstm(y, layer, lengths)
        y = z
    return y
"""

MODULES = {
    "Attention": lambda: torch.nn.MultiheadAttention(8, 2, batch_first=True),
    "Encoder": lambda: torch.nn.TransformerEncoderLayer(8, 2, 12, batch_first=True),
    "Rnn": lambda: torch.nn.RNN(8, 6, batch_first=True),
    "Gru": lambda: torch.nn.GRU(8, 6, batch_first=True),
    "BothGru": lambda: torch.nn.GRU(8, 6, batch_first=True, bidirectional=True),
    "Lstm": lambda: torch.nn.LSTM(8, 6, batch_first=True),
    "BothLstm": lambda: torch.nn.LSTM(8, 6, batch_first=True, bidirectional=True),
}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    return Both(tmp_path_factory.mktemp("layers"), PROGRAM)


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def tokens(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 11, shape)


# ---- Parameters


@pytest.mark.parametrize("name", MODULES)
def test_state_dicts_go_both_ways_by_name(both: Both, name: str) -> None:
    module, m = MODULES[name](), getattr(both.native, name)(seed=1)
    m.load_state_dict({f"layer.{key}": value for key, value in module.state_dict().items()})
    back = {key.removeprefix("layer."): torch.from_numpy(np.array(value)) for key, value in m.state_dict().items()}
    assert all(torch.equal(back[key], value) for key, value in module.state_dict().items())
    MODULES[name]().load_state_dict(back, strict=True)


@pytest.mark.parametrize("name", MODULES)
def test_starts_have_pytorchs_spread(both: Both, name: str) -> None:
    """Each parameter by the largest number that it may have: PyTorch's, of many starts, comes close to it."""
    m, states = getattr(both.native, name)(seed=1), [MODULES[name]().state_dict() for _ in range(40)]
    for key in states[0]:
        largest = max(state[key].abs().max().item() for state in states)
        ours = max(np.abs(getattr(both.native, name)(seed=seed)[f"layer.{key}"]).max() for seed in range(40))
        assert ours == pytest.approx(largest, rel=0.1), key
        assert m[f"layer.{key}"].shape == tuple(states[0][key].shape)


# ---- Attention


@pytest.mark.parametrize("cuts", [(1, 2, 3, 4, 5, 6, 7), (3, 7), (6, 7), (1, 7)])
def test_attention_in_steps_has_the_bits_of_the_whole(both: Both, cuts: tuple[int, ...]) -> None:
    m, x = both.native.Attention(seed=1), numbers(2, 7, 8)
    whole = both.call("causal_attention", m, x)
    keys, values = (np.zeros((2, 2, 20, 4), np.float32) for _ in range(2))
    start = 0
    for stop in cuts:
        found = both.call("step", m, x[:, start:stop].copy(), keys, values, start)
        assert found.tobytes() == whole[:, start:stop].tobytes()
        start = stop


@pytest.mark.parametrize(("b", "n", "cut"), [(2, 20, 5), (1, 1, 1), (3, 17, 17), (2, 9, 1)])
def test_logits_with_a_cache_have_the_bits_of_those_without(both: Both, b: int, n: int, cut: int) -> None:
    m, given = both.native.Gpt(seed=1), tokens(b, n)
    assert both.call("in_parts", m, given, cut).tobytes() == both.call("logits", m, given, shapescript.Eval).tobytes()


def test_greedy_generation_says_the_same_with_a_cache(both: Both) -> None:
    m, prompt = both.native.Gpt(seed=2), tokens(3, 4)
    said = both.call("greedy", m, prompt)
    assert both.call("greedy_with_cache", m, prompt).tolist() == said.tolist()
    assert len(set(said[:, 4:].ravel().tolist())) > 1


def test_a_cache_that_is_full_is_an_error_of_the_run(both: Both) -> None:
    m, keys, values = both.native.Attention(seed=1), *(np.zeros((1, 2, 20, 4), np.float32) for _ in range(2))
    with pytest.raises(shapescript.ShapeScriptError, match="R1107"):
        both.native.step(m, numbers(1, 2, 8), keys, values, 19)
    assert not keys.any() and not values.any()


def test_rows_that_see_nothing_get_the_bias_and_finite_gradients(both: Both) -> None:
    m, x = both.native.Attention(seed=1), numbers(2, 3, 8)
    m["layer.out_proj.bias"] = numbers(8, seed=1)
    mask = np.array([[False, False, False], [True, False, True]])
    found = both.call("masked", m, x, mask)
    assert (found[0] == m["layer.out_proj.bias"]).all() and np.isfinite(found).all()
    by_x, by_m = both.call("masked_gradient", m, x, mask)
    assert not by_x[0].any() and by_x[1].any()
    assert all(np.isfinite(value).all() for value in by_m.state_dict().values())


def test_what_a_mask_hides_reaches_nothing(both: Both) -> None:
    m, x, mask = both.native.Attention(seed=1), numbers(1, 4, 8), np.array([[True, True, False, True]])
    other = x.copy()
    other[0, 2] = 1e6
    seen = [0, 1, 3]
    assert both.call("masked", m, x, mask)[0, seen].tobytes() == both.call("masked", m, other, mask)[0, seen].tobytes()


def test_training_drops_shares_and_evaluation_none(both: Both) -> None:
    m, x = both.native.Attention(seed=1), numbers(2, 5, 8)
    still = both.call("trained", m, x, shapescript.Eval)
    assert still.tobytes() == both.call("masked", m, x, np.ones((2, 5), bool)).tobytes()
    mode = shapescript.Train(seed=1)
    first, second = (both.call("trained", m, x, mode) for _ in range(2))
    assert (first != second).any() and (first != still).any()


def test_blocks_with_residuals_dropout_and_a_tied_matrix_learn(both: Both) -> None:
    m, mode = both.native.Gpt(seed=1), shapescript.Train(seed=1)
    opt = shapescript.AdamW(m)
    given = tokens(4, 12)
    losses = [both.native.train(m, opt, given, np.roll(given, -1, axis=1), mode) for _ in range(120)]
    assert losses[-1] < 0.3 * losses[0]


# ---- Recurrence


@pytest.mark.parametrize("name", ["Rnn", "Gru", "Lstm"])
@pytest.mark.parametrize("shape", [(3, 5, 8), (1, 1, 8), (0, 2, 8), (2, 0, 8)])
def test_cells_one_after_the_other_have_the_bits_of_the_layer(both: Both, name: str, shape: tuple[int, ...]) -> None:
    m, x = getattr(both.native, name)(seed=1), numbers(*shape)
    whole, cells = both.call("run", m, x), both.call("by_cells", m, x)
    assert [part.tobytes() for part in whole] == [part.tobytes() for part in cells]


@pytest.mark.parametrize("name", ["Rnn", "Gru", "BothGru", "Lstm", "BothLstm"])
def test_a_state_dict_of_pytorch_gives_its_numbers(both: Both, name: str) -> None:
    module, m, x = MODULES[name](), getattr(both.native, name)(seed=1), numbers(3, 5, 8)
    m.load_state_dict({f"layer.{key}": value for key, value in module.state_dict().items()})
    y, last = module(torch.from_numpy(x))
    states = last if isinstance(last, tuple) else (last,)
    found = both.call("run", m, x)
    for ours, theirs in zip(found, (y, *states), strict=True):
        np.testing.assert_allclose(ours, theirs.detach().numpy().reshape(ours.shape), rtol=1e-5, atol=1e-6)


def test_layers_on_layers_are_pytorchs_by_a_mapping_of_names(both: Both) -> None:
    module, m, x, lengths = torch.nn.LSTM(8, 6, 3, batch_first=True), both.native.Stack(seed=1), numbers(3, 5, 8), np.array([5, 2, 3])
    parts = {"l0": "first", "l1": "others.0", "l2": "others.1"}
    names = {key: f"{parts[key.rpartition('_')[2]]}.{key.rpartition('_')[0]}_l0" for key in module.state_dict()}
    m.load_state_dict({names[key]: value for key, value in module.state_dict().items()})
    packed = torch.nn.utils.rnn.pack_padded_sequence(torch.from_numpy(x), torch.from_numpy(lengths), True, False)
    theirs = torch.nn.utils.rnn.pad_packed_sequence(module(packed)[0], batch_first=True)[0]
    np.testing.assert_allclose(both.call("stacked", m, x, lengths), theirs.detach().numpy(), rtol=1e-5, atol=1e-6)
