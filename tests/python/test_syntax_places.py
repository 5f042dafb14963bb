"""The place of every node: the characters that it was written with, no more and no fewer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from fixtures import EXAMPLES, ROOT

from shapescript.compiler.diagnostics.model import Source
from shapescript.compiler.syntax import tree
from shapescript.compiler.syntax.parse import parse

VALID_PROGRAMS = [EXAMPLES / "train_mlp.ss", *sorted((ROOT / "tests" / "programs").glob("*.ss"))]

PLACED = """\
import std.nn as nn  # layers
from std.fit import fit, resume
dim Half = (In + 1) / 2

data Digit:
    pixels: [Rows*Cols]

model M[D, E: data]:
    blocks: nn.Linear[D, 2*D] * (L-1)
    buffer mean: f64[] = zeros # here

fn fit[M: model](mut m: M, x: [..s (h w)] = 1) -> ([b], M)
    requires loss(m: M) -> []
    requires other():
    y = ( x )
        |> nn.f(mut m.w, lr=-1)  # stage

        |> g(b (h w) -> )
    if not a < "b":  # why

        return x[n=1..], (a + b) * c
    elif true or z:
        h(q, k: b n, n -> b)
    else:
        for i in 0..n:
            while c: # yes
                return
        # done

# end
"""  # fmt: skip

PLACES: dict[type[tree.Node], list[str]] = {
    tree.ImportModule: ["import std.nn as nn"],
    tree.ImportNames: ["from std.fit import fit, resume"],
    tree.DimDeclaration: ["dim Half = (In + 1) / 2"],
    tree.RecordDeclaration: ["data Digit:\n    pixels: [Rows*Cols]"],
    tree.Field: ["pixels: [Rows*Cols]"],
    tree.Member: ["blocks: nn.Linear[D, 2*D] * (L-1)"],
    tree.Buffer: ["buffer mean: f64[] = zeros"],
    tree.Generic: ["D", "E: data", "M: model"],
    tree.Parameter: ["mut m: M", "x: [..s (h w)] = 1", "m: M"],
    tree.Requirement: ["requires loss(m: M) -> []", "requires other()"],
    tree.TensorType: ["[Rows*Cols]", "[..s (h w)]", "[b]", "[]"],
    tree.TupleType: ["([b], M)"],
    tree.Applied: ["nn.Linear[D, 2*D]", "f64[]", "M", "M", "M"],
    tree.AxisArithmetic: ["Rows*Cols", "2*D", "L-1"],
    tree.AxisGroup: ["(h w)", "(h w)"],
    tree.LeadingAxes: ["..s"],
    tree.AxisList: ["D", "2*D", "b (h w)", "", "b n", "n", "b"],
    tree.Pattern: ["b (h w) ->", "b n, n -> b"],
    tree.Pipe: ["( x )\n        |> nn.f(mut m.w, lr=-1)", "( x )\n        |> nn.f(mut m.w, lr=-1)  # stage\n\n        |> g(b (h w) -> )"],
    tree.Stage: ["nn.f(mut m.w, lr=-1)", "g(b (h w) -> )"],
    tree.Argument: ["mut m.w", "lr=-1", "q", "k"],
    tree.Attribute: ["nn.f", "m.w"],
    tree.Binary: ["In + 1", "(In + 1) / 2", "a + b", "(a + b) * c"],
    tree.Unary: ["-1", 'not a < "b"'],
    tree.Comparison: ['a < "b"'],
    tree.Logical: ["true or z"],
    tree.Bracket: ["x[n=1..]"],
    tree.At: ["n=1.."],
    tree.Range: ["1..", "0..n"],
    tree.Tuple: ["x[n=1..], (a + b) * c"],
    tree.Call: ["h(q, k: b n, n -> b)"],
    tree.StringLiteral: ['"b"'],
    tree.BoolLiteral: ["true"],
    tree.Target: ["y"],
    tree.Return: ["return x[n=1..], (a + b) * c", "return"],
    tree.Evaluate: ["h(q, k: b n, n -> b)"],
    tree.While: ["while c: # yes\n                return"],
    tree.For: ["for i in 0..n:\n            while c: # yes\n                return"],
    tree.Branch: [
        'if not a < "b":  # why\n\n        return x[n=1..], (a + b) * c',
        "elif true or z:\n        h(q, k: b n, n -> b)",
    ],
    tree.QualifiedName: ["std.nn", "std.fit", "nn.Linear", "f64", "M", "M", "M"],
}


def parsed(text: str) -> tree.Module:
    module, diagnostics = parse(Source("test.ss", text))
    assert module is not None, diagnostics
    return module


def walk(node: Any) -> Iterator[tree.Node]:
    """Every node of a tree, those within before those around."""
    if isinstance(node, tuple):
        for element in node:
            yield from walk(element)
    elif isinstance(node, tree.Node):
        assert is_dataclass(node)
        for part in fields(node):
            yield from walk(getattr(node, part.name))
        yield node


@pytest.mark.parametrize("kind", PLACES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("line_break", ["\n", "\r\n"], ids=["LF", "CRLF"])
def test_places(kind: type[tree.Node], line_break: str) -> None:
    module = parsed(PLACED.replace("\n", line_break))
    found = [node.span.text.replace("\r\n", "\n") for node in walk(module) if type(node) is kind]
    assert sorted(found) == sorted(PLACES[kind])


def test_place_of_a_function_and_its_header() -> None:
    function = parsed(PLACED).declarations[-1]
    assert isinstance(function, tree.FunctionDeclaration)
    assert function.header.text == "fn fit[M: model](mut m: M, x: [..s (h w)] = 1) -> ([b], M)"
    assert function.span.text.startswith(function.header.text)
    assert function.span.text.endswith("while c: # yes\n                return")


@pytest.mark.parametrize("path", VALID_PROGRAMS, ids=lambda path: path.name)
def test_places_lie_within_each_other_and_begin_and_end_with_words(path: Path) -> None:
    for node in walk(parsed(path.read_text("utf-8")).declarations):
        assert node.span.text == node.span.text.strip() != ""
        if isinstance(node, (tree.Name, tree.AxisName)):
            assert node.span.text == node.name
        for part in fields(node):
            for inner in walk(getattr(node, part.name)):
                assert node.span.start <= inner.span.start <= inner.span.end <= node.span.end
