"""The data of each row: the digits, or made-up numbers of its sizes, always the same."""

from __future__ import annotations

import numpy as np

from .rows import Row
from .task import ROOT, Arrays

DIGITS = ROOT / "examples" / "digits_train.npz"
DIGIT_INPUTS = 64
MADE_UP_EXAMPLES = 2048
TEXT_LENGTH = 100_000
SEED = 0


def fields_of(row: Row) -> Arrays:
    """Of classifiers `pixels` and `label`; of models of text `text`, whose windows are the examples."""
    if "Vocabulary" in row.dims:
        return {"text": _text(row.dims["Vocabulary"])}
    if row.dims.get("In", DIGIT_INPUTS) == DIGIT_INPUTS:
        with np.load(DIGITS) as file:
            return {"pixels": file["pixels"], "label": file["label"]}
    random = np.random.default_rng(SEED)
    pixels = random.random((MADE_UP_EXAMPLES, row.dims["In"]), dtype=np.float32)
    return {"pixels": pixels, "label": random.integers(0, row.dims["Classes"], MADE_UP_EXAMPLES)}


def span_of(row: Row) -> int:
    """How many characters a window of the text has: those that are seen, and the one behind them."""
    return row.dims["Context"] + 1


def _text(vocabulary: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Characters that mostly follow from the one before, so that there is something to learn."""
    random = np.random.default_rng(SEED)
    follows, known = random.integers(0, vocabulary, vocabulary), random.random(TEXT_LENGTH) < 0.7
    drawn = random.integers(0, vocabulary, TEXT_LENGTH)
    for place in range(1, TEXT_LENGTH):
        if known[place]:
            drawn[place] = follows[drawn[place - 1]]
    return drawn
