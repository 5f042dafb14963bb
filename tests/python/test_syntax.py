"""Text to untyped tree: what the grammar takes, the trees that it gives, and the place of every node."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from pathlib import Path

import pytest
from fixtures import EXAMPLES, ROOT
from lark import Lark

from shapescript.compiler.diagnostics.model import Source
from shapescript.compiler.diagnostics.render import render_text
from shapescript.compiler.syntax import tree
from shapescript.compiler.syntax.parse import parse
from shapescript.compiler.syntax.printer import print_tree

VALID_PROGRAMS = [EXAMPLES / "train_mlp.ss", *sorted((ROOT / "tests" / "programs").glob("*.ss"))]

TAKEN = {
    "nothing": "",
    "a comment alone": "# nothing",
    "blank lines alone": "\n  \n\t\n",
    "a last line that is a comment": "dim A = 1\n# end",
    "no line break at the end": "fn f():\n    return",
    "CRLF": "dim A = 1\r\nfn f():\r\n    return A\r\n",
    "a byte order mark": "\ufeffdim A = 1\n",
    "letters of all alphabets in strings and comments": 'const A = "漢 é \U0001f600"  # ä\n',
    "comments and blank lines between pipes": "fn f(x: [b]):\n    return x  # c\n        # more\n\n  |> relu\n# left\n      |> g(1)\n",
    "a comment at the margin within a block": "fn f():\n    x = 1\n# here\n    return x\n",
    "lines within brackets at any indentation": "fn f(\n  x: int,\ny: int,\n\t\tz: int):\n    return g(x,\n y)\n",
    "names that are keywords elsewhere": "fn f(data: int, model: int, over: int):\n    dim = f(data=data, over=over)\n"
    "    requires(model)\n",
    "members with such names": "model M:\n    model: Block[D] * L\n    buffer: [A] = zeros\n    buffer mean: [A] = zeros\n"
    "    rate: float = 0.1\n",
    "indices": "fn f(x: [b n]):\n    y = x[n=0] + x[n=1..] + x[n=..k] + x[n=i+1..k-1, b=0] + x[n=-1]\n"
    "    z = causal[n m] + zeros[b (H Dh)] + m.blocks[i+1].gain\n",
    "patterns": "fn f(x: [b (h w)]):\n    q, k, v = x |> split(b n (3 H Dh) -> b H n Dh)\n"
    "    s = einsum(q, k: b H n Dh, b H m Dh -> b H n m) / sqrt(Dh)\n"
    "    t = rearrange(rearrange(x: b (h w) -> b h w): b h w -> w h b) |> repeat(b D -> b n D, n=4)\n"
    "    u = einsum(g(a, b), f(x)[n=0]: ..s I, O I -> ..s O) + einsum(x, x: b, b -> )\n",
    "functions named like patterns": "fn split(x: int):\n    return reduce(x, 3)\n",
    "shapes": "fn f(a: [n+1], b: [D 3*D], c: [(n+1)/2 m], d: [b (H 2*Dh) n], e: [..s I], g: f64[b n], h: [])"
    " -> int[..s (H Dh)]:\n    return a\n",
    "scalars of an element type": "fn f(a: f64[], b: bool[]) -> int[]:\n    return load(\"x\", a=f32[], b=f32[D])\n",
    "several results": "fn f(x: [b D]) -> ([b D], float):\n    return x, 1.0\n",
    "several bindings of several values": "fn f(x: int):\n    a, mut b = x, 2\n    b, a = (a, b)\n",
    "types as values": "fn f(o: AdamW[nn.Linear[In, Hidden]], d: Dataset[pkg.Digit]):\n"
    "    m, e = load(\"x\", m=nn.Linear[In, Hidden], e=int)\n",
    "precedence": "fn f(x: int):\n    y = -x ** 2 + 2 ** -1 * 3 // 4 % 5 @ z\n    ok = not a == b and c < d or !m & n | o == p\n",
    "requirements": "fn fit[M: model, E: data, D](mut m: M) -> M\n"
    "    requires loss(m: M, batch: E[b]) -> []\n    requires other(m: M):\n    return m\n",
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
def test_programs_parse(path: Path) -> None:
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
    'fn f():\n    g(rename={\n        "a": "b",\n        C: d.e,\n    }, n={})\n': """
Module
  declarations: FunctionDeclaration name=f
    body: Evaluate
      value: Call
        callee: Name name='g'
        arguments: Argument name=rename
          value: Dict
            pairs: Pair
              key: StringLiteral value='a'
              value: StringLiteral value='b'
            pairs: Pair
              key: Name name='C'
              value: Attribute name=e
                base: Name name='d'
        arguments: Argument name=n
          value: Dict
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
            items: At
              axis: AxisName name='n'
              position: Range
                start: IntLiteral value=1
            items: At
              axis: AxisName name='b'
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
