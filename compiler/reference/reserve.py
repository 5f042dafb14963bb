"""Storage that is filled later. Here it holds what would show, were it read before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.reference.frame import Frame, handles
from shapescript.compiler.reference.layouts import DTYPES


@handles("reserve")
def _reserve(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    element = op.attributes["element"]
    filling = float("nan") if element.is_float else True
    return (np.full(frame.shape(op.attributes["axes"], op.span), filling, DTYPES[element]),)
