"""What compiled code depends on, as hashes: the checked program, the compiler, and the machine.

The program is the checked functions that an entry reaches, with the sizes of its dims: all that sources, imported modules and sizes counted
in data files contribute is in them, and nothing of functions that it doesn't reach.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import astuple

import numpy as np

from shapescript.code_digest import code_at_first, compiler_code
from shapescript.compiler.codegen.target import Target, llvm_version
from shapescript.compiler.ir.data import Encoder
from shapescript.compiler.ir.nodes import Module, walk
from shapescript.compiler.ir.sizes import Size, Symbol
from shapescript.compiler.records.dataclass import dataclass


@dataclass(frozen=True)
class Key:
    """Digests. `who` names the function, the same whatever its code has become; the others are what its machine code depends on."""

    who: bytes
    program: bytes
    compiler: bytes
    machine: bytes


def key_of(module: Module, name: str, sizes: Mapping[Symbol, Size], flags: tuple[str, ...], target: Target) -> tuple[Key, Encoder] | None:
    """Also what has encoded the program. None where the compiler's files aren't those that this process runs.

    Raises Unencodable for a program that has no form as data.
    """
    compiler = _with_versions(code_at_first())
    if compiler is None:
        return None
    reached = _reached(module, name)
    encoder = Encoder({callee: number for number, callee in enumerate(reached)})
    functions = [encoder.function(module.functions[callee]) for callee in reached]
    dims = [(encoder.value(symbol), encoder.value(size)) for symbol, size in sizes.items()]
    program = _digest(json.dumps([encoder.nodes, functions, dims, flags], separators=(",", ":")))
    who = _digest(repr((name, [size.constant() for size in sizes.values()], flags)))
    return Key(who, program, compiler, _digest(repr(astuple(target)))), encoder


def key_of_part(part: str, target: Target) -> Key | None:
    """Of code that is the same for all programs. None where the compiler's files aren't those that this process runs."""
    compiler, name = _with_versions(code_at_first()), _digest(part)
    return None if compiler is None else Key(name, name, compiler, _digest(repr(astuple(target))))


def _reached(module: Module, name: str) -> Sequence[str]:
    """The function itself, then those that it calls, directly or not, in the order of the calls."""
    found = {name: None}
    waiting = [name]
    while waiting:
        calls = (op.attributes["callee"] for op in walk(module.functions[waiting.pop()].body) if op.name == "call")
        new = [callee for callee in dict.fromkeys(calls) if callee not in found]
        found.update(dict.fromkeys(new))
        waiting += reversed(new)
    return list(found)


def compiler_digest() -> bytes | None:
    """Of all that makes code of a checked program, as its files are now; None where one has changed since this process began."""
    return _with_versions(compiler_code())


def _with_versions(code: bytes | None) -> bytes | None:
    return None if code is None else _digest(repr((code, llvm_version(), np.__version__, sys.version)))


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
