"""The documentation against the compiler: every program in it, the error index against the registry of codes, links and headings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from fixtures import PROGRAMS, ROOT, expected
from test_packaging import ROOMS

from shapescript.checking import check
from shapescript.compiler.check.checker import check_file
from shapescript.compiler.diagnostics.codes import CODES, FAMILIES
from shapescript.compiler.diagnostics.model import CompileError, Diagnostic
from shapescript.compiler.diagnostics.render import render_text
from shapescript.compiler.ir.verifier import verify_function
from shapescript.compiler.ops.table import infer
from shapescript.compiler.passes.pipeline import compile_entry

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
BLOCK = re.compile(r"^```shapescript\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXPECTED = re.compile(r"# expect: (E\d{4})\n")
OVERRIDES = re.compile(r"# dims: (.+)\n")
SECTION = re.compile(r"^### ([ER]\d{4}): ([^\n]+)\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)")


@dataclass(frozen=True)
class Example:
    """A program of a page: where it begins, and the code that its first line expects, None for a program without mistakes."""

    page: str
    line: int
    text: str

    @property
    def code(self) -> str | None:
        found = EXPECTED.match(self.text)
        return found[1] if found else None

    @property
    def dims(self) -> Mapping[str, int]:
        found = OVERRIDES.search(self.text)
        pairs = [pair.split("=") for pair in found[1].split()] if found else []
        return {name: int(value) for name, value in pairs}

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def examples_of(page: Path) -> Iterator[Example]:
    text = page.read_text("utf-8")
    for block in BLOCK.finditer(text):
        yield Example(page.name, text.count("\n", 0, block.start()) + 1, block[1])


EXAMPLES = [example for page in PAGES for example in examples_of(page)]
SECTIONS = {section[1]: section for section in SECTION.finditer((DOCS / "errors.md").read_text("utf-8"))}


def diagnostics_of(text: str, dims: Mapping[str, int], folder: Path) -> list[Diagnostic]:
    """What the checker says, and where that is nothing, what compiling its functions whole says, or warns of."""
    path = folder / "example.ss"
    path.write_text(text, "utf-8")
    program = check_file(path, dims)
    found = list(program.diagnostics)
    if program.module is None:
        return found
    for function in program.module.functions.values():
        verify_function(function, infer)
    for signature in (signature for overloads in program.functions.values() for signature in overloads):
        if not signature.dims and signature.key in program.module.functions:  # a generic one has instances instead
            try:
                compile_entry(program.module, signature.key, {}, verify=True)
            except CompileError as error:
                found += error.diagnostics
    return found or check(path, dims)


# ---- programs in the pages ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_program_gives_what_its_page_says(example: Example, tmp_path: Path) -> None:
    found = diagnostics_of(example.text, example.dims, tmp_path)
    assert [d.code for d in found] == ([example.code] if example.code else []), render_text(found)


def test_the_language_is_shown_by_programs() -> None:
    assert sum(example.page == "language.md" for example in EXAMPLES) > 12


# ---- the error index ---------------------------------------------------------------------------------------------------------------------


def test_index_has_a_section_for_each_code_in_order() -> None:
    assert list(SECTIONS) == list(CODES)
    assert {code: section[2] for code, section in SECTIONS.items()} == {code: entry.title for code, entry in CODES.items()}


def test_index_has_a_heading_for_each_family() -> None:
    headings = re.findall(r"^## ([ER]\d\d)xx: (.+)$", (DOCS / "errors.md").read_text("utf-8"), re.MULTILINE)
    assert headings == list(FAMILIES.items())


@pytest.mark.parametrize("code", [code for code in CODES if code.startswith("E")])
def test_section_has_a_failing_program_and_a_mended_one(code: str) -> None:
    text = SECTIONS[code][3]
    programs = [block[1] for block in BLOCK.finditer(text)]
    assert [EXPECTED.match(program) is not None for program in programs] == [True, False]
    assert EXPECTED.match(programs[0])[1] == code  # type: ignore[index]
    assert len(BLOCK.sub("", text).split()) > 5


@pytest.mark.parametrize("code", [code for code in CODES if code.startswith("R")])
def test_section_of_a_run_time_code_is_text(code: str) -> None:
    assert not BLOCK.search(SECTIONS[code][3])
    assert len(SECTIONS[code][3].split()) > 20


def test_every_code_is_given_somewhere() -> None:
    sources = [path for room in ("compiler", "runtime", "shapescript") for path in (ROOT / room).rglob("*.py")]
    text = "".join(path.read_text("utf-8") for path in sources if not path.name.startswith("codes"))
    assert not {code for code in CODES if code not in text}


def test_every_code_that_can_be_given_has_a_failing_program_beside_the_tests() -> None:
    paths = [path for room in ("check", "syntax", "generics") for path in (PROGRAMS / room).glob("*.ss")]
    programs = {code for path in paths for code, _, _ in expected(path)}
    without = {"E0206", "E0504", "E0801", "E0804", "E0805"}  # several files, overrides, found by a pass: tests of their own
    assert {code for code in CODES if code.startswith("E")} - programs == without


# ---- pages -------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(prose_of(page)):
        if "://" in target:
            continue
        path = page.parent / target if target else page
        assert path.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors_of(path), f"{page.name}: {target}#{anchor}"


def test_table_of_rooms_is_the_one_that_imports_are_held_to() -> None:
    rows = re.findall(r"^\| `(\w+)` \| .* \|([^|]*)\|$", (DOCS / "architecture.md").read_text("utf-8"), re.MULTILINE)
    assert {room: set(re.findall(r"`(\w+)`", allowed)) for room, allowed in rows} == ROOMS


def prose_of(page: Path) -> str:
    """A page without its code."""
    return re.sub(r"`[^`\n]*`", "", FENCED.sub("", page.read_text("utf-8")))


def anchors_of(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", page.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
