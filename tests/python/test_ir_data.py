"""The typed IR as data: it comes back from JSON as it was, and depends on nothing that the process has done before."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from fixtures import EXAMPLES
from uses import PROGRAM, USES

from shapescript import std
from shapescript.compiler.check.checker import check_file, check_source
from shapescript.compiler.diagnostics.model import Source, Span
from shapescript.compiler.ir.data import Decoder, Encoder, Places, Unencodable
from shapescript.compiler.ir.nodes import Block, Function, Module, Op, Value, walk
from shapescript.compiler.ir.printer import print_function
from shapescript.compiler.ir.sizes import Size, Symbol, dim, floor_divide, fresh, number, of
from shapescript.compiler.ir.types import FLOAT, Element, TensorType
from shapescript.compiler.passes.pipeline import compile_entry

FILES = [*sorted(EXAMPLES.glob("*.ss")), *(std.path(name) for name in std.names())]


def encoded(functions: Mapping[str, Function]) -> tuple[str, Places]:
    encoder = Encoder({name: place for place, name in enumerate(functions)})
    references = [encoder.function(function) for function in functions.values()]
    return json.dumps([encoder.nodes, references]), encoder.places


def decoded(text: str, places: Places) -> list[Function]:
    nodes, references = json.loads(text)
    decoder = Decoder(nodes, places)
    return [decoder.value(reference) for reference in references]


def differences(one: Any, other: Any, callees: Sequence[str], where: str = "") -> list[str]:
    """Where two parts of the IR differ. Symbols without a value are the same by name, functions by their place among `callees`."""
    if type(one) is not type(other) and not (isinstance(one, Mapping) and isinstance(other, Mapping)):
        return [f"{where}: {one!r} and {other!r}"]
    if isinstance(one, Size):
        return [] if str(one) == str(other) else [f"{where}: {one} and {other}"]
    if isinstance(one, Symbol):
        return [] if (one.name, one.value) == (other.name, other.value) else [f"{where}: {one} and {other}"]
    if isinstance(one, Span) or not (isinstance(one, tuple | Mapping) or dataclasses.is_dataclass(one)):
        return [] if repr(one) == repr(other) else [f"{where}: {one!r} and {other!r}"]
    if isinstance(one, Op):
        one, other = ({**parts(op), "attributes": dict(op.attributes)} for op in (one, other))
        if "callee" in one["attributes"]:
            one["attributes"]["callee"] = callees.index(one["attributes"]["callee"])
    left, right = parts(one), parts(other)
    if left.keys() != right.keys():
        return [f"{where}: {list(left)} and {list(right)}"]
    return [found for name in left for found in differences(left[name], right[name], callees, f"{where}.{name}")]


def parts(value: Any) -> dict[Any, Any]:
    if isinstance(value, tuple):
        return dict(enumerate(value))
    return dict(value) if isinstance(value, Mapping) else {part.name: getattr(value, part.name) for part in dataclasses.fields(value)}


def assert_comes_back(functions: Mapping[str, Function]) -> None:
    again = decoded(*encoded(functions))
    for before, after in zip(functions.values(), again, strict=True):
        assert differences(before, after, list(functions)) == []
        if not any(op.name == "call" for op in walk(before.body)):
            assert print_function(after) == print_function(before)  # it shows which value is which


def module_of(path: Path) -> Module:
    program = check_file(path)
    assert program.module is not None, program.diagnostics
    return program.module


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_checked_programs_come_back(path: Path) -> None:
    assert_comes_back(module_of(path).functions)


@pytest.mark.parametrize("use", sorted(USES))
def test_what_is_built_in_comes_back(use: str) -> None:
    body = "\n        print(k)" if USES[use].endswith(":") else ""
    program = check_source(f"{PROGRAM}    {USES[use]}{body}\n")
    assert program.module is not None, program.diagnostics
    assert_comes_back(program.module.functions)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ss")), ids=lambda path: path.stem)
def test_final_functions_come_back_at_the_places_of_their_program(path: Path) -> None:
    module = module_of(path)
    (key,) = [key for key in module.functions if ":main#" in key and str(path) in key]
    encoder = Encoder({name: place for place, name in enumerate(module.functions)})
    for function in module.functions.values():
        encoder.function(function)
    final = compile_entry(module, key, {})
    own = encoder.of_what_became()
    reference = own.value(final)
    after = Decoder(json.loads(json.dumps(own.nodes)), encoder.places).value(reference)
    assert differences(final, after, []) == [] and print_function(after) == print_function(final)


def test_data_is_the_same_wherever_a_program_lies_and_whatever_was_checked_before(tmp_path: Path) -> None:
    texts = []
    for folder in (tmp_path / "a", tmp_path / "b" / "c"):
        folder.mkdir(parents=True)
        shutil.copy(EXAMPLES / "linear_regression.ss", folder)
        texts.append(encoded(module_of(folder / "linear_regression.ss").functions)[0])
        fresh("n")
    assert texts[0] == texts[1] and str(tmp_path) not in texts[0]


def test_what_stands_before_a_function_doesnt_change_its_data() -> None:
    body = "fn f(x: [n]) -> [n]:\n    return x + 1.0\n"
    moved = [check_source(text) for text in (body, f"# a comment\n\n{body}")]
    texts = [encoded({"f": next(iter(program.module.functions.values()))}) for program in moved if program.module]
    assert texts[0][0] == texts[1][0]
    (function,) = decoded(texts[0][0], texts[1][1])
    assert function.body.ops[-1].span is not None and function.body.ops[-1].span.line == 4


def test_numbers_keep_their_kind_and_their_bits() -> None:
    values = (1, 1.0, True, 0.0, -0.0, 0.1, 5e-324, float("inf"), float("-inf"), 2**63 - 1, "1", "", None)
    encoder = Encoder()
    reference = encoder.value((values, (True, 1), (1, 1), (1.0, 1)))
    after = Decoder(json.loads(json.dumps(encoder.nodes)), encoder.places).value(reference)
    assert repr(after) == repr((values, (True, 1), (1, 1), (1.0, 1)))


def test_sizes_come_back_in_their_normal_form() -> None:
    """Symbols of one name are in the order of their numbers, which are new."""
    later, first = fresh("n"), fresh("n")
    size = of(first) * of(later) + floor_divide(of(first), number(2)) * of(dim("D", 4)) + number(3)
    encoder = Encoder()
    kind = TensorType(Element.F32, (of(first), of(later), size))
    reference = encoder.value(kind)
    after = Decoder(json.loads(json.dumps(encoder.nodes)), Places()).value(reference)
    one, other, both = after.axes
    assert one != other and both == one * other + floor_divide(one, number(2)) * of(dim("D", 4)) + number(3)


def test_different_values_stay_different() -> None:
    x, y = Value(FLOAT, "x"), Value(FLOAT, "x")
    total = Value(FLOAT)
    function = Function("f", (), Block((x, y), (Op("sub", (y, x), {}, (total,)),), (total,)), (False, False), 1)
    (after,) = decoded(*encoded({"f": function}))
    assert after.body.ops[0].operands == after.body.parameters[::-1] and after.body.parameters[0] is not after.body.parameters[1]


def test_what_is_no_part_of_the_ir_is_refused() -> None:
    with pytest.raises(Unencodable, match="object in the IR"):
        Encoder().value((object(),))


def test_places_that_a_program_lacks_are_refused() -> None:
    source = Source("a.ss", "fn f(): pass")
    encoder = Encoder()
    encoder.function(Function("f", (), Block((), (), ()), (), 0, Span(source, 0, 4)))
    own = encoder.of_what_became()
    own.value(Span(source, 0, 4))
    with pytest.raises(Unencodable, match=r"a place that the program doesn't mention: a\.ss:1:6"):
        own.value(Span(source, 5, 6))
