"""What the tests of gradients through control flow share: a program in both engines, and what is in a compiled function."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from both_engines import Both

from shapescript.compiler.check.checker import check_source
from shapescript.compiler.ir.nodes import Block, Function, Op, walk
from shapescript.compiler.passes.pipeline import compile_entry


def compiled(source: str, name: str, stop_after: str | None = None) -> Function:
    program = check_source(source)
    assert program.module is not None, program.diagnostics
    return compile_entry(program.module, program.functions[name][0].key, {}, stop_after, verify=True)


class Program(Both):
    """A program in both engines. A model is given as its type's name and a seed; results come as a tuple."""

    def run(self, name: str, *arguments: Any) -> tuple[Any, ...]:
        given = [getattr(self.native, a[0])(seed=a[1]) if isinstance(a, tuple) else a for a in arguments]
        found = self.call(name, *given)
        return found if isinstance(found, tuple) else (found,)


def random(*shape: int, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    return (np.random.default_rng(seed).normal(0, scale, shape)).astype(np.float32)


def named(function: Function, name: str) -> list[Op]:
    return [op for op in walk(function.body) if op.name == name]


def in_loops(block: Block, inside: bool = False) -> Iterator[Op]:
    """The operations that are executed in turns."""
    for op in block.ops:
        if inside:
            yield op
        for region in op.regions:
            yield from in_loops(region, inside or op.name in ("for_range", "while"))
