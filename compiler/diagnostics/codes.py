"""The registry: every code that the compiler or the runtime can give, with its title and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator

from shapescript.compiler.diagnostics.codes_check import CHECK_CODES
from shapescript.compiler.diagnostics.codes_runtime import RUNTIME_CODES
from shapescript.compiler.diagnostics.codes_syntax import SYNTAX_CODES
from shapescript.compiler.records.dataclass import dataclass

FAMILIES = {
    "E01": "layout and syntax",
    "E02": "names and imports",
    "E03": "types",
    "E04": "shapes and patterns",
    "E05": "dim arithmetic",
    "E06": "mut and aliasing",
    "E07": "modes and effects",
    "E08": "differentiation",
    "E09": "not built yet",
    "E23": "generics and requirements",
    "R10": "calls from Python",
    "R11": "values during a run",
    "R12": "data files",
    "R13": "checkpoints",
    "R14": "logs",
    "R15": "the machine",
}


@dataclass(frozen=True, slots=True)
class CodeEntry:
    """`title` names the mistake in a few words; `explanation` says why it is one and how it is mended."""

    code: str
    title: str
    explanation: str

    @property
    def family(self) -> str:
        return FAMILIES[self.code[:3]]


def entries() -> Iterator[CodeEntry]:
    for table in (SYNTAX_CODES, CHECK_CODES, RUNTIME_CODES):
        for row in table:
            yield CodeEntry(*row)


CODES: dict[str, CodeEntry] = {entry.code: entry for entry in entries()}
