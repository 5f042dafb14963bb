"""Files that tests read: programs, and the diagnostics that a program's header says it must give."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"
EXAMPLES = ROOT / "examples"

EXPECTATION = re.compile(r"# expect: (?P<code>[ER]\d{4}) at (?P<line>\d+):(?P<column>\d+)$", re.MULTILINE)


def expected(path: Path) -> list[tuple[str, int, int]]:
    """What a program's header expects, one line a diagnostic (`# expect: E0104 at 7:5`): code, line, column, sorted by place.

    Raises ValueError for a program that expects nothing, or whose header has a line that isn't understood.
    """
    text = path.read_text("utf-8")
    found = [(match["code"], int(match["line"]), int(match["column"])) for match in EXPECTATION.finditer(text)]
    if not found or len(found) != text.count("# expect"):
        raise ValueError(f"{path}: no header of the form `# expect: E0104 at 7:5`, or a line of it is malformed")
    return sorted(found, key=lambda expectation: expectation[1:])
