"""The checker on small programs: what it must accept, down to valid IR behind every pass; and sizes and names that would break it."""

from __future__ import annotations

from pathlib import Path

import pytest

from shapescript.compiler.check.checker import check_file, check_source
from shapescript.compiler.check.program import Program
from shapescript.compiler.diagnostics.model import CompileError
from shapescript.compiler.diagnostics.render import LONGEST_MESSAGE, render_json, render_text
from shapescript.compiler.ir.sizes import divide, fresh, number, of
from shapescript.compiler.ir.verifier import verify_function
from shapescript.compiler.ops.table import infer
from shapescript.compiler.passes.pipeline import compile_entry

MODEL = "model M:\n    w: [3] = zeros\n\n"

GOOD = {
    "a product is solved by a later argument": """
        fn k(x: [b n*m], y: [n]) -> [m]:
            return zeros[m]
        fn g(x: [b n*m], y: [n]) -> [m]:
            return k(x, y)
    """,
    "a quotient cancels against its denominator": """
        fn split[D, H](x: [b D], like: [H]) -> [b H D/H]:
            return rearrange(x: b (H D/H) -> b H D/H)
        fn merge[D, H](x: [b H D/H], y: [D]) -> [b D]:
            return rearrange(x: b H D/H -> b (H D/H)) + y
    """,
    "an axis of any size is opened by a given factor": """
        fn f(x: [b n]) -> [b]:
            return rearrange(x: b (h k) -> b k h, h=4) |> sum(over=(k, h))
    """,
    "a dim is opened by dims that multiply to it": """
        dim Width = 32
        dim Heads = 4
        dim Dh = 8
        fn f(x: [b Width]) -> [b Heads Dh]:
            return rearrange(x: b (Heads Dh) -> b Heads Dh)
    """,
    "numbers open a dim": """
        dim Width = 12
        fn f(x: [b Width]) -> [b 3 4]:
            return rearrange(x: b (3 4) -> b 3 4)
    """,
    "a group stands for the product of its parts": """
        dim H = 2
        dim W = 3
        fn f(x: [b H W]) -> [b H*W]:
            return rearrange(x: b H W -> b (H W))
        fn g(x: [b H*W], y: [b (H W)]) -> [b W H]:
            return rearrange(x + y: b (H W) -> b W H)
    """,
    "a dim parameter is a group and a product": """
        fn f[I](x: [..s I], y: [I]) -> [..s I]:
            return x + y
        fn g(x: [b (3 4)], y: [3*4]) -> [b (3 4)]:
            return x + zeros[b (3 4)]
    """,
    "a pattern's name is an axis and a number": """
        fn f(x: [b n]) -> [b]:
            y = rearrange(x: b k -> b k)
            return sum(y + zeros[b k] / sqrt(k), over=k)
    """,
    "leading axes hold a group": """
        fn f(x: [..s n], y: [n]) -> [..s n]:
            return x + y
        fn g(x: [(h w) n], y: [n]) -> [(h w) n]:
            return f(x, y)
        fn h(x: [n], y: [n]) -> [n]:
            return f(x, y)
    """,
    "a host number meets a tensor in maximum": """
        fn f(x: [b n], y: [n]) -> [b n]:
            return maximum(minimum(x, y), 0)
    """,
    "bound anew in its block, a variable stays mut": """
        fn f(n: int) -> int:
            mut s = 1
            s = s + 1
            for i in 0..n:
                s = s + i
                t = s
            return s
    """,
    "a mut parameter may be assigned and passed on": MODEL
    + """
        fn g(mut m: M):
            m = M(seed=2)
        fn f(mut m: M):
            m = M(seed=1)
            g(mut m)
    """,
    "a mut argument sees what a call beside it changed": MODEL
    + """
        fn g(mut m: M) -> int:
            m = M(seed=2)
            return 1
        fn h(mut m: M, x: int):
            print(x)
        fn f(mut m: M):
            h(mut m, g(mut m))
    """,
    "lists in lists": """
        import shapescript.std.nn as nn
        model Block[D]:
            inner: nn.Linear[D, D]
        model Group[L]:
            blocks: Block[4] * L
        model Tower:
            groups: Group[2] * 3
        fn f(m: Tower, x: [b 4]) -> [b 4]:
            mut h = x
            for group in m.groups:
                for block in group.blocks:
                    h = h |> nn.linear(block.inner)
            return h |> nn.linear(m.groups[0].blocks[1].inner)
    """,
    "generic functions that call generic functions": """
        import shapescript.std.nn as nn
        model Pair[A, B]:
            there: nn.Linear[A, B]
            back: nn.Linear[B, A]
        fn through[A, B](x: [..s A], m: Pair[A, B]) -> [..s A]:
            return x |> nn.linear(m.there) |> relu |> nn.linear(m.back)
        fn twice[A, B](x: [..s A], m: Pair[A, B]) -> [..s A]:
            return x |> through(m) |> through(m)
        fn f(x: [b n 4], m: Pair[4, 6]) -> [b n 4]:
            return twice(x, m)
    """,
    "gradients by several models": """
        model A:
            w: [3] = zeros
        model B:
            v: [3] = ones
        fn loss(a: A, b: B, x: [n 3]) -> []:
            return mean(x @ (a.w * b.v), over=n)
        fn f(a: A, b: B, x: [n 3]) -> ([], A, B, [n 3]):
            l, ga = value_and_grad(loss(a, b, x), wrt=a)
            k, gb = value_and_grad(loss(a, b, x), wrt=b)
            j, gx = value_and_grad(loss(a, b, x), wrt=x)
            return l + k + j, ga, gb, gx
    """,
    "constants fold as functions compute": """
        const A = 1.1 ** 5
        fn f() -> float:
            return A
    """,
}


def dedented(text: str) -> str:
    return "\n".join(line.removeprefix("        ") for line in text.split("\n"))


def compiled(program: Program) -> None:
    assert program.diagnostics == (), render_text(program.diagnostics)
    assert program.module is not None
    for function in program.module.functions.values():
        verify_function(function, infer)
    for signature in (signature for overloads in program.functions.values() for signature in overloads):
        if not signature.dims and signature.key in program.module.functions:  # a generic one has instances instead
            compile_entry(program.module, signature.key, {}, verify=True)


@pytest.mark.parametrize("name", GOOD)
def test_good_program(name: str) -> None:
    compiled(check_source(dedented(GOOD[name])))


def test_power_of_a_constant_is_the_repeated_product_of_functions() -> None:
    square = 1.1 * 1.1
    assert check_source("const A = 1.1 ** 5\n").constants["A"] == square * square * 1.1
    assert check_source("const A = 1.1 ** 0\nconst B = 2 ** 62\n").constants == {"A": 1.0, "B": 2**62}


def test_exact_quotients_cancel() -> None:
    n, k = of(fresh("n")), of(fresh("k"))
    assert number(4) * divide(n, number(4)) == n
    assert divide(n, number(4)) * number(8) == number(2) * n
    assert k * divide(n, k) * k == n * k
    assert number(2) * divide(n, number(4)) != n
    assert (n + number(1)) * divide(k, n + number(1)) != k  # a sum as denominator stays


# ---- programs that are too large ---------------------------------------------------------------------------------------------------------


def codes(text: str) -> list[str]:
    return [diagnostic.code for diagnostic in check_source(text).diagnostics]


@pytest.mark.parametrize("count", [90, 150, 1500])
def test_returns_in_a_row(count: int) -> None:
    guards = "".join(f"    if x == {number}:\n        return {number}\n" for number in range(count))
    assert codes(f"fn f(x: int) -> int:\n{guards}    return x\n") == ([] if count < 100 else ["E0112"])


@pytest.mark.parametrize("count", [90, 150, 1500])
def test_branches_of_one_if(count: int) -> None:
    branches = "".join(f"    elif x == {number}:\n        y = {number}\n" for number in range(count))
    text = f"fn f(x: int) -> int:\n    mut y = 0\n    if x < 0:\n        y = 1\n{branches}    return y\n"
    assert codes(text) == ([] if count < 100 else ["E0112"])


def test_dims_in_a_long_chain() -> None:
    chain = "".join(f"dim D{number} = D{number + 1} + 1\n" for number in range(2000))
    program = check_source(chain + "dim D2000 = 1\n")
    assert program.diagnostics == () and program.dims["D0"] == 2001


@pytest.mark.parametrize("inner_first", [False, True])
@pytest.mark.parametrize("count", [90, 1500])
def test_models_in_models(count: int, inner_first: bool) -> None:
    models = [f"model A{number}:\n    a: A{number + 1}\n" for number in range(count)]
    models.append(f"model A{count}:\n    w: [2] = zeros\n")
    found = codes("".join(reversed(models) if inner_first else models))
    assert set(found) == (set() if count < 100 else {"E0112"})


def test_models_that_double() -> None:
    models = "".join(f"model A{number}:\n    a: A{number + 1}\n    b: A{number + 1}\n" for number in range(60))
    assert codes(models + "model A60:\n    w: [2] = zeros\n") == ["E0503"]


def test_calls_that_double() -> None:
    calls = "".join(f"fn g{number}(x: int) -> int:\n    return g{number + 1}(x) + g{number + 1}(x)\n" for number in range(60))
    program = check_source(f"fn f(x: int) -> int:\n    return g0(x)\n{calls}fn g60(x: int) -> int:\n    return x\n")
    assert program.diagnostics == () and program.module is not None
    with pytest.raises(CompileError) as caught:
        compile_entry(program.module, program.functions["f"][0].key, {})
    assert [diagnostic.code for diagnostic in caught.value.diagnostics] == ["E0901"]


# ---- messages about long names and many axes ---------------------------------------------------------------------------------------------

LONG = "n" * 10_000
RANK_12 = " ".join(f"a{number}" for number in range(12))
WRONG = {
    "a long axis": f"fn f(x: [b {LONG}], y: [c]) -> [b]:\n    return x + y\n",
    "a long name": f"fn f(x: [b]) -> [b]:\n    return {LONG}(x)\n",
    "a long type": f"fn f(x: T{LONG}) -> int:\n    return 1\n",
    "a long attribute": f"{MODEL}fn f(m: M) -> [3]:\n    return m.{LONG}\n",
    "a long model": f"model A{LONG}:\n    w: [] = zeros\nfn f(m: A{LONG}) -> int:\n    return m\n",
    "rank 12": f"fn f(x: [{RANK_12}], y: [b]) -> [b]:\n    return x + y\n",
    "rank 12 in a pattern": f"fn f(x: [{RANK_12}]) -> [b]:\n    return rearrange(x: a b -> b a)\n",
    "rank 12 for a scalar": f"fn f(x: [{RANK_12}]) -> []:\n    return x\n",
    "a scalar for rank 12": f"fn f(x: []) -> [{RANK_12}]:\n    return x\n",
    "no axes": "fn f(x: []) -> []:\n    return sum(x, over=b)\n",
    "no axes in a pattern": "fn f(x: []) -> [b]:\n    return rearrange(x: b -> b)\n",
    "no functions": "fn f():\n    return g()\n",
    "not ASCII": 'fn f(x: [b]) -> [b]:\n    print("Größe 漢字 🙂") + x\n    return x\n',
}


@pytest.mark.parametrize("name", WRONG)
def test_message_stays_readable(name: str) -> None:
    found = check_source(WRONG[name]).diagnostics
    assert found
    text = render_text(found)
    assert max(len(line) for line in text.split("\n")) <= LONGEST_MESSAGE + 500
    assert [render_json(diagnostic)["code"] for diagnostic in found] == [diagnostic.code for diagnostic in found]


@pytest.mark.parametrize("factors", [16, 64, 200])
def test_sizes_that_multiply_out_without_end_are_refused(factors: int) -> None:
    axis = "*".join(f"(a{n}+b{n})" for n in range(factors))
    names = " ".join(f"a{n} b{n}" for n in range(factors))
    found = codes(f"fn f(x: [{names}], y: [{axis}]):\n    return\n")
    assert set(found) <= {"E0503", "E0112"} and found


def test_long_functions_are_checked_in_time_that_grows_with_their_length() -> None:
    lines = "".join(f"    x{n} = x + {n}.0\n" for n in range(6000))
    assert codes(f"fn f(x: [b]) -> [b]:\n{lines}    return x5999\n") == []


@pytest.mark.parametrize("name", ["a\0b", "folder"])
def test_what_is_no_file_is_told(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    program = check_file(tmp_path / name)
    assert [d.code for d in program.diagnostics] == ["E0204"] and program.module is None
