"""Control flow of host numbers against Python's: random functions with loops, branches, early returns and `mut` variables."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

import shapescript

PROGRAMS = 80
ARGUMENTS = ((0, 0), (1, 2), (-3, 5), (7, -2))
DEEPEST = 4


class Writer:
    """Writes one function twice: in ShapeScript and in Python. Names bound in inner blocks are never used after these."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.python: list[str] = []
        self.names = self.loops = 0
        self._emit(0, "fn f(a: int, b: int) -> int:", "def f(a, b):")
        self._emit(1, "mut z = 0", "z = 0")
        self._block(1, ["a", "b", "z"], ["z"], may_return=True)
        self._emit(1, "return z")

    def _emit(self, depth: int, line: str, python: str | None = None) -> None:
        self.lines.append("    " * depth + line)
        self.python.append("    " * depth + (python or line))

    def _number(self, names: list[str], depth: int = 0) -> str:
        choose = self.random
        if depth > 2 or choose.random() < 0.3:
            return choose.choice(names) if choose.random() < 0.6 else str(choose.randint(-4, 9))
        left, right = self._number(names, depth + 1), self._number(names, depth + 1)
        match choose.randrange(4):
            case 0:
                return f"({left} % {choose.randint(1, 7)})"
            case operator:
                return f"({left} {'+-*'[operator - 1]} {right}) % 1000"

    def _condition(self, names: list[str], depth: int = 0) -> str:
        choose = self.random
        if depth < 2 and choose.random() < 0.2:
            return f"(not {self._condition(names, depth + 1)})"
        if depth < 2 and choose.random() < 0.3:
            return f"({self._condition(names, depth + 1)} {choose.choice(['and', 'or'])} {self._condition(names, depth + 1)})"
        return f"({self._number(names)} {choose.choice(['<', '<=', '==', '!=', '>', '>='])} {self._number(names)})"

    def _new(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"

    def _block(self, depth: int, names: list[str], changeable: list[str], may_return: bool) -> None:
        """Names in force, and those of them that may get a new value here."""
        names, changeable, outer = list(names), list(changeable), list(changeable)
        for _ in range(self.random.randint(1, 3)):
            choice = self.random.random()
            if choice < 0.2:
                name = self._new("v")
                is_mut = self.random.random() < 0.7
                value = self._number(names)
                self._emit(depth, f"{'mut ' if is_mut else ''}{name} = {value}", f"{name} = {value}")
                names.append(name)
                changeable.append(name)
                outer += [name] if is_mut else []
            elif choice < 0.5 or depth == DEEPEST:
                self._emit(depth, f"{self.random.choice(changeable)} = {self._number(names)}")
            elif choice < 0.75:
                self._branches(depth, names, outer, may_return)
            elif self.loops < 3:
                self._loop(depth, names, outer)
            elif may_return:
                self._emit(depth, f"return {self._number(names)}")
                return

    def _branches(self, depth: int, names: list[str], changeable: list[str], may_return: bool) -> None:
        self._emit(depth, f"if {self._condition(names)}:")
        self._block(depth + 1, names, changeable, may_return)
        while self.random.random() < 0.4:
            self._emit(depth, f"elif {self._condition(names)}:")
            self._block(depth + 1, names, changeable, may_return)
        if self.random.random() < 0.5:
            self._emit(depth, "else:")
            self._block(depth + 1, names, changeable, may_return)

    def _loop(self, depth: int, names: list[str], changeable: list[str]) -> None:
        self.loops += 1
        first, last = self.random.randint(-1, 2), self.random.randint(0, 4)
        name = self._new("i")
        if self.random.random() < 0.5:
            self._emit(depth, f"for {name} in {first}..{last}:", f"for {name} in range({first}, {last}):")
        else:
            self._emit(depth, f"mut {name} = {first}", f"{name} = {first}")
            self._emit(depth, f"while {name} < {last} and {self._condition(names)}:")
            self._emit(depth + 1, f"{name} = {name} + 1")
        self._block(depth + 1, [*names, name], changeable, may_return=False)

    def run_python(self) -> Callable[[int, int], int]:
        found: dict[str, Callable[[int, int], int]] = {}
        exec("\n".join(self.python), found)
        return found["f"]


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_function_gives_what_python_gives(seed: int, tmp_path: Path) -> None:
    writer = Writer(seed)
    path = tmp_path / "random.ss"
    path.write_text("\n".join(writer.lines) + "\n")
    if any(diagnostic.code == "E0901" for diagnostic in shapescript.check(path)):  # too many ways to the end
        return
    program, expected = shapescript.load(path, engine="numpy"), writer.run_python()
    for arguments in ARGUMENTS:
        assert program.f(*arguments) == expected(*arguments), "\n".join(writer.lines)


def test_most_functions_were_compiled(tmp_path: Path) -> None:
    path = tmp_path / "random.ss"
    refused = 0
    for seed in range(PROGRAMS):
        path.write_text("\n".join(Writer(seed).lines) + "\n")
        errors = [diagnostic for diagnostic in shapescript.check(path) if diagnostic.is_error]
        assert {diagnostic.code for diagnostic in errors} <= {"E0901"}, "\n".join(map(str, errors))
        refused += bool(errors)
    assert refused < PROGRAMS // 5


def test_a_mut_argument_sees_what_a_call_beside_it_changed(tmp_path: Path) -> None:
    path = tmp_path / "nested.ss"
    path.write_text(
        "model M:\n    w: [3] = uniform(0, 1)\n"
        "fn renew(mut m: M) -> int:\n    m = M(seed=2)\n    return 1\n"
        "fn weight(mut m: M, x: int) -> [3]:\n    return x * m.w\n"
        "fn f(mut m: M) -> [3]:\n    return weight(mut m, renew(mut m))\n"
    )
    program = shapescript.load(path, engine="numpy")
    m = program.M(seed=1)
    assert (program.f(m) == program.M(seed=2).w).all() and (m.w == program.M(seed=2).w).all()


def test_a_name_given_to_what_another_variable_holds(tmp_path: Path) -> None:
    path = tmp_path / "alias.ss"
    path.write_text("fn f(n: int) -> int:\n    mut z = 0\n    for i in 0..n:\n        z = i - 2\n        w = z\n    return z\n")
    assert shapescript.load(path, engine="numpy").f(5) == 2
