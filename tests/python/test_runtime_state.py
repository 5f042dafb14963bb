"""AdamW's state and modes: what native code reads and writes in place, and what Python sees of it."""

from __future__ import annotations

import copy
import pickle
import struct

import numpy as np
import pytest
from runtime_samples import encoder_layout, filled, mlp_layout

from shapescript.runtime.errors import ArgumentError
from shapescript.runtime.mode import Eval, EvalMode, Mode, Train
from shapescript.runtime.optimiser import AdamW


def bits(number: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", number))[0])


def test_adamw_has_pytorchs_defaults() -> None:
    state = AdamW(filled(mlp_layout()))
    assert (state.step, state.betas, state.eps, state.decay) == (0, (0.9, 0.999), 1e-8, 0.01)


def test_the_block_holds_step_addresses_and_the_bits_of_the_constants() -> None:
    state = AdamW(filled(mlp_layout()), betas=(0.8, 0.95), eps=1e-6, decay=0.0)
    addresses = [state.slot(name).ctypes.data for name in ("first", "second")]
    assert state.block.dtype == np.int64
    assert state.block.tolist() == [0, *addresses, *[0] * 5, bits(0.8), bits(0.95), bits(1e-6), bits(0.0), *[0] * 4]
    state.block[0] = 41
    assert state.step == 41
    assert all(address % 64 == 0 for address in addresses)


def test_moments_lie_as_the_parameters_do_and_are_zero() -> None:
    model = filled(encoder_layout())
    state = AdamW(model)
    assert state.slot("first").nbytes == state.slot("second").nbytes == model.layout.nbytes and state.layout == model.layout
    model.layout.view(state.slot("second"), "scale")[...] = 3
    assert state.moment("second", "scale") == 3 and not state.slot("first").any()
    assert not state.moment("first", "scale").flags.writeable


WRONG_BETAS = [{"betas": (0.9, 1.0)}, {"betas": (-0.1, 0.9)}, {"betas": 0.9}, {"betas": (0.9,)}]


@pytest.mark.parametrize("wrong", [*WRONG_BETAS, {"eps": 0.0}, {"decay": float("nan")}, {"decay": "0"}, {"eps": True}])
def test_constants_out_of_their_range_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ArgumentError) as raised:
        AdamW(filled(mlp_layout()), **wrong)  # type: ignore[arg-type]
    assert raised.value.code == "R1004" and next(iter(wrong)) in raised.value.message


def test_adamw_of_what_is_no_model_is_refused() -> None:
    with pytest.raises(ArgumentError, match="R1004: AdamW: expected a model, got dict"):
        AdamW({})  # type: ignore[arg-type]


def test_a_copy_of_a_state_has_its_own_memory() -> None:
    state = AdamW(filled(mlp_layout()), betas=(0.5, 0.6))
    state.step = 5
    state.slot("first")[:] = 1
    for twin in (state.copy(), copy.deepcopy(state)):
        assert (twin.step, twin.betas) == (5, (0.5, 0.6)) and twin.slot("first").tobytes() == state.slot("first").tobytes()
        assert twin.block[1] == twin.slot("first").ctypes.data != state.block[1]
        twin.step = 9
    assert state.step == 5
    with pytest.raises(TypeError, match="save_checkpoint"):
        pickle.dumps(state)
    assert "AdamW of Mlp, step 5" in repr(state)


def test_eval_is_one_value() -> None:
    assert isinstance(Eval, EvalMode) and isinstance(Eval, Mode) and repr(Eval) == "Eval"
    assert copy.deepcopy(Eval) is Eval and pickle.loads(pickle.dumps(Eval)) is Eval
    assert Eval.block.tolist() == [0, 0, 0, 0] and not Eval.block.flags.writeable


def test_train_counts_draws_in_its_block() -> None:
    mode = Train(seed=2**63 - 1)
    assert mode.block.tolist() == [1, 2**63 - 1, 0, 0] and isinstance(mode, Mode)
    mode.block[2] = 12
    assert (mode.seed, mode.draws, repr(mode)) == (2**63 - 1, 12, "Train(seed=9223372036854775807, draws=12)")
    twin = copy.deepcopy(mode)
    twin.block[2] = 0
    assert mode.draws == 12 and Train(seed=np.int64(3)).seed == 3  # type: ignore[arg-type]


WRONG_SEEDS = [(-1, ValueError), (2**63, ValueError), (1.0, TypeError), (True, TypeError), ("1", TypeError)]


@pytest.mark.parametrize(("seed", "python_type"), WRONG_SEEDS)
def test_a_seed_is_an_int_from_0_to_2_to_the_63(seed: object, python_type: type[Exception]) -> None:
    with pytest.raises(ArgumentError, match="R1004: seed: expected an int") as raised:
        Train(seed=seed)  # type: ignore[arg-type]
    assert isinstance(raised.value, python_type)
