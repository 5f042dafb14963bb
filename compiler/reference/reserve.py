"""Storage that is filled later. Here it holds what would show, were it read before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.reference.elementwise import known_number
from shapescript.compiler.reference.frame import Frame, handles


@handles("reserve")
def _reserve(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    element = op.attributes["element"]
    filling = known_number(float("nan") if element.is_float else True, element)
    return (np.full(frame.shape(op.attributes["axes"], op.span), filling),)
