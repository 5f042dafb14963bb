"""What `shapescript check` tells beyond the checker's own diagnostics: mistakes that only inlining and differentiation see."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import shapescript
from shapescript import gradient_checks
from shapescript.compiler.ir.nodes import Function, Module
from shapescript.compiler.ir.sizes import Size, Symbol
from shapescript.compiler.passes.specialise import specialise


def test_a_function_that_comes_to_too_much_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its callers come to too much too: they are neither told nor inlined, which would take seconds each."""
    chain = [f"fn f{i}(x: [b]) -> [b]:\n    return f{i + 1}(f{i + 1}(x))\n" for i in range(40)]
    inlined: list[str] = []

    def counted(module: Module, key: str, sizes: Mapping[Symbol, Size]) -> Function:
        inlined.append(key.rpartition(":")[2])
        return specialise(module, key, sizes)

    monkeypatch.setattr(gradient_checks, "specialise", counted)
    monkeypatch.setattr(sys.modules[specialise.__module__], "MAX_OPERATIONS", 100)
    chain.append("fn f40(x: [b]) -> [b]:\n    return x + 1.0\n")
    (tmp_path / "chain.ss").write_text("\n".join(chain))
    (found,) = shapescript.check(tmp_path / "chain.ss")
    assert found.code == "E0901" and found.span is not None
    assert len(inlined) < 10 and found.span.text.startswith(f"fn {inlined[-1].partition('#')[0]}(")
