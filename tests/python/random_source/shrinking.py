"""A program that fails, made as short as it can be by leaving things out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from random_source.program import Function, Program

MOST_TRIES = 60  # each compiles a program


def shrunk(program: Program, is_wrong: Callable[[Program], bool]) -> Program:
    """Leaves out functions, then results and statements, as long as the rest is wrong. A program that isn't valid is not wrong."""
    for function in program.functions:
        alone = replace(program, functions=[function])
        if is_wrong(alone):
            return _shorter(alone, is_wrong)
    return program


def _shorter(program: Program, is_wrong: Callable[[Program], bool]) -> Program:
    found, tries = True, 0
    while found:
        found = False
        for function in _smaller(program.functions[0]):
            tries += 1
            candidate = replace(program, functions=[function])
            if tries < MOST_TRIES and is_wrong(candidate):
                program, found = candidate, True
                break
    return program


def _smaller(function: Function) -> Iterator[Function]:
    """The function with one thing less."""
    for result in function.results:
        if len(function.results) > 1:
            yield replace(function, results=(result,))
    for start in reversed(range(len(function.ours))):
        end = start + 1
        while end < len(function.ours) and _depth(function.ours[end]) > _depth(function.ours[start]):
            end += 1
        kept = (*range(start), *range(end, len(function.ours)))
        yield replace(function, ours=tuple(function.ours[i] for i in kept), theirs=tuple(function.theirs[i] for i in kept))
    for place, loss in enumerate(function.losses):
        for smaller in _smaller(loss):
            yield replace(function, losses=(*function.losses[:place], smaller, *function.losses[place + 1 :]))


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())
