"""Text to untyped tree: what the grammar takes, the trees that it gives, and the place of every node."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from importlib.resources import files
from typing import Any

import pytest
from fixtures import EXAMPLES, PROGRAMS
from lark import Lark

from shapescript.compiler.diagnostics.model import Source
from shapescript.compiler.diagnostics.render import render_text
from shapescript.compiler.syntax import tree
from shapescript.compiler.syntax.parse import parse
from shapescript.compiler.syntax.printer import print_tree

VALID_PROGRAMS = [EXAMPLES / "train_mlp.ss", *sorted(PROGRAMS.glob("*.ss"))]

TAKEN = {
    "nothing": "",
    "a comment alone": "# nothing",
    "blank lines alone": "\n  \n\t\n",
    "a last line that is a comment": "dim A = 1\n# end",
    "no line break at the end": "fn f():\n    return",
    "CRLF": "dim A = 1\r\nfn f():\r\n    return A\r\n",
    "a byte order mark": "\ufeffdim A = 1\n",
    "letters of all alphabets in strings and comments": 'const Ä = 1 # ä\n'.replace("Ä", "A") + 'const B = "漢 é \U0001f600"\n',
    "comments and blank lines between pipes": "fn f(x: [b]):\n    return x  # c\n        # more\n\n  |> relu\n# left\n      |> g(1)\n",
    "a comment at the margin within a block": "fn f():\n    x = 1\n# here\n    return x\n",
    "lines within brackets at any indentation": "fn f(\n  x: int,\ny: int,\n\t\tz: int):\n    return g(x,\n y)\n",
    "names that are keywords elsewhere": "fn f(data: int, model: int, over: int):\n    dim = f(data=data, over=over)\n    requires(model)\n",
    "members with such names": "model M:\n    model: Block[D] * L\n    buffer: [A] = zeros\n    buffer mean: [A] = zeros\n    rate: float = 0.1\n",
    "indices": "fn f(x: [b n]):\n    y = x[n=0] + x[n=1..] + x[n=..k] + x[n=i+1..k-1, b=0] + x[n=-1]\n"
    "    z = causal[n m] + zeros[b (H Dh)] + m.blocks[i+1].gain\n",
    "patterns": "fn f(x: [b (h w)]):\n    q, k, v = x |> split(b n (3 H Dh) -> b H n Dh)\n"
    "    s = einsum(q, k: b H n Dh, b H m Dh -> b H n m) / sqrt(Dh)\n"
    "    t = rearrange(rearrange(x: b (h w) -> b h w): b h w -> w h b) |> repeat(b D -> b n D, n=4)\n"
    "    u = einsum(g(a, b), f(x)[n=0]: ..s I, O I -> ..s O) + einsum(x, x: b, b -> )\n",
    "functions named like patterns": "fn split(x: int):\n    return reduce(x, 3)\n",
    "shapes": "fn f(a: [n+1], b: [D 3*D], c: [(n+1)/2 m], d: [b (H 2*Dh) n], e: [..s I], g: f64[b n], h: []) -> int[..s (H Dh)]:\n    return a\n",
    "scalars of an element type": "fn f(a: f64[], b: bool[]) -> int[]:\n    return load(\"x\", a=f32[], b=f32[D])\n",
    "several results": "fn f(x: [b D]) -> ([b D], float):\n    return x, 1.0\n",
    "several bindings of several values": "fn f(x: int):\n    a, mut b = x, 2\n    b, a = (a, b)\n",
    "types as values": "fn f(o: AdamW[nn.Linear[In, Hidden]], d: Dataset[pkg.Digit]):\n    m, e = load(\"x\", m=nn.Linear[In, Hidden], e=int)\n",
    "precedence": "fn f(x: int):\n    y = -x ** 2 + 2 ** -1 * 3 // 4 % 5 @ z\n    ok = not a == b and c < d or !m & n | o == p\n",
    "requirements": "fn fit[M: model, E: data, D](mut m: M) -> M\n    requires loss(m: M, batch: E[b]) -> []\n    requires other(m: M):\n    return m\n",
    "imports": "import a.b as c\nimport fit\nfrom a.b import c, d\n",
    "commas at the end": "fn f[A, B,](x: int, y: int,):\n    return g(x, y,)\n",
    "a generic call": 'fn main():\n    train = load_data[Digit]("digits.npz")\n',
    "a hundred levels": "const A = " + "f(" * 100 + "1" + ")" * 100 + "\n",
    "the largest number": "const A = 9223372036854775807\n",
}  # fmt: skip


def parsed(text: str) -> tree.Module:
    module, diagnostics = parse(Source("test.ss", text))
    assert module is not None, render_text(diagnostics)
    assert not diagnostics
    return module


@pytest.mark.parametrize("text", TAKEN.values(), ids=TAKEN.keys())
def test_grammar_takes(text: str) -> None:
    parsed(text)


@pytest.mark.parametrize("path", VALID_PROGRAMS, ids=lambda path: path.name)
def test_programs_parse(path: Any) -> None:
    assert parsed(path.read_text("utf-8")).declarations


def test_example_is_the_program_of_the_design() -> None:
    digest = hashlib.sha256((EXAMPLES / "train_mlp.ss").read_bytes()).hexdigest()
    assert digest == "8ad83405b3c55a3db4d747218b384a6709cca2e9010763bd5982f2feb40c11b2"


def test_grammar_has_no_conflicts() -> None:
    grammar = files("shapescript.compiler.syntax").joinpath("grammar.lark").read_text("utf-8")
    Lark(grammar, parser="lalr", lexer="basic", strict=True, propagate_positions=True, maybe_placeholders=True)


# ---- trees ------------------------------------------------------------------------------------------------------------------

GOLDEN = {
    "import a.b as c\nfrom a import d, e\n": """
Module
  declarations: ImportModule module=a.b alias=c
  declarations: ImportNames module=a names=d,e
""",
    "dim Half = (In + 1) / 2\n": """
Module
  declarations: DimDeclaration name=Half
    value: Binary operator='/'
      left: Binary operator='+'
        left: Name name='In'
        right: IntLiteral value=1
      right: IntLiteral value=2
""",
    "data Digit:\n    pixels: [Rows*Cols]\n    label: int\n": """
Module
  declarations: RecordDeclaration name=Digit
    fields: Field name=pixels
      type: TensorType
        axes: AxisArithmetic operator='*'
          left: AxisName name='Rows'
          right: AxisName name='Cols'
    fields: Field name=label
      type: Applied name=int
""",
    "model M[D, E: data]:\n    blocks: Block[D] * (L-1)\n    buffer mean: [] = zeros\n": """
Module
  declarations: ModelDeclaration name=M
    generics: Generic name=D
    generics: Generic name=E kind=data
    members: Member name=blocks
      type: Applied name=Block
        items: AxisList
          axes: AxisName name='D'
      count: AxisArithmetic operator='-'
        left: AxisName name='L'
        right: AxisInt value=1
    members: Buffer name=mean
      type: TensorType
      initialiser: Name name='zeros'
""",
    "fn fit[M: model](mut m: M, x: [..s I] = 1) -> ([b], M)\n    requires loss(m: M) -> []:\n    return\n": """
Module
  declarations: FunctionDeclaration name=fit
    generics: Generic name=M kind=model
    parameters: Parameter name=m is_mut=True
      type: Applied name=M
    parameters: Parameter name=x
      type: TensorType
        axes: LeadingAxes name=s
        axes: AxisName name='I'
      default: IntLiteral value=1
    result: TupleType
      elements: TensorType
        axes: AxisName name='b'
      elements: Applied name=M
    requirements: Requirement name=loss
      parameters: Parameter name=m
        type: Applied name=M
      result: TensorType
    body: Return
""",
    "fn f():\n    l, mut g = x |> nn.split[3](mut m.w: b (3 D) -> b D) |> g\n": """
Module
  declarations: FunctionDeclaration name=f
    body: Assign
      targets: Target name=l
      targets: Target name=g is_mut=True
      value: Pipe
        operand: Pipe
          operand: Name name='x'
          stage: Stage is_called=True
            callee: Bracket
              base: Attribute name=split
                base: Name name='nn'
              items: AxisList
                axes: AxisInt value=3
            arguments: Argument is_mut=True
              value: Attribute name=w
                base: Name name='m'
            pattern: Pattern
              inputs: AxisList
                axes: AxisName name='b'
                axes: AxisGroup
                  axes: AxisInt value=3
                  axes: AxisName name='D'
              output: AxisList
                axes: AxisName name='b'
                axes: AxisName name='D'
        stage: Stage
          callee: Name name='g'
""",
    "fn f():\n    -a ** 2 @ b\n    not a == b and !c | d & e or false\n": """
Module
  declarations: FunctionDeclaration name=f
    body: Evaluate
      value: Binary operator='@'
        left: Unary operator='-'
          operand: Binary operator='**'
            left: Name name='a'
            right: IntLiteral value=2
        right: Name name='b'
    body: Evaluate
      value: Logical operator='or'
        left: Logical operator='and'
          left: Unary operator='not'
            operand: Comparison operator='=='
              left: Name name='a'
              right: Name name='b'
          right: Binary operator='|'
            left: Unary operator='!'
              operand: Name name='c'
            right: Binary operator='&'
              left: Name name='d'
              right: Name name='e'
        right: BoolLiteral value=False
""",
    "fn f():\n    if a:\n        return x[n=1.., b=..k]\n    elif b:\n        g(a, lr=1e-3)\n    else:\n        for i in 0..n:\n"
    "            while c:\n                return (a, \"b\\n\")\n": """
Module
  declarations: FunctionDeclaration name=f
    body: If
      branches: Branch
        condition: Name name='a'
        body: Return
          value: Bracket
            base: Name name='x'
            items: At axis=n
              position: Range
                start: IntLiteral value=1
            items: At axis=b
              position: Range
                stop: Name name='k'
      branches: Branch
        condition: Name name='b'
        body: Evaluate
          value: Call
            callee: Name name='g'
            arguments: Argument
              value: Name name='a'
            arguments: Argument name=lr
              value: FloatLiteral value=0.001
      otherwise: For variable=i
        iterable: Range
          start: IntLiteral value=0
          stop: Name name='n'
        body: While
          condition: Name name='c'
          body: Return
            value: Tuple
              elements: Name name='a'
              elements: StringLiteral value='b\\n'
""",
}  # fmt: skip


@pytest.mark.parametrize("text", GOLDEN)
def test_trees(text: str) -> None:
    assert print_tree(parsed(text)) == GOLDEN[text].lstrip("\n")


def test_escapes() -> None:
    declaration = parsed('const A = "\\n\\t\\r\\0\\\\\\"\\u00e9 é"\n').declarations[0]
    assert isinstance(declaration, tree.ConstDeclaration)
    assert declaration.value == tree.StringLiteral(declaration.value.span, '\n\t\r\0\\"é é')


def test_nodes_compare_without_their_places() -> None:
    assert parsed("dim A = 1+2\n").declarations == parsed("# moved\n\ndim  A = (1 + 2)\n").declarations


# ---- places -----------------------------------------------------------------------------------------------------------------

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
def test_places_lie_within_each_other_and_begin_and_end_with_words(path: Any) -> None:
    for node in walk(parsed(path.read_text("utf-8")).declarations):
        assert node.span.text == node.span.text.strip() != ""
        if isinstance(node, (tree.Name, tree.AxisName)):
            assert node.span.text == node.name
        for part in fields(node):
            for inner in walk(getattr(node, part.name)):
                assert node.span.start <= inner.span.start <= inner.span.end <= node.span.end
