"""RESULTS.md: a part for each kind of run, which holds the last of them and leaves the other parts as they are."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

PAGE = Path(__file__).with_name("RESULTS.md")
HEAD = "# Results\n\n[README.md](README.md) says what is measured."


class Part(Enum):
    """By its title."""

    PEERS = "Beside the peers"
    GROWTH = "As sizes grow"


def put(page: Path, part: Part, text: str) -> None:
    """Writes the part anew, where there is a page with the others into that."""
    found = _parts(page.read_text()) if page.exists() else {}
    found[part] = text.strip()
    page.write_text("\n\n".join([HEAD, *(f"## {one.value}\n\n{found[one]}" for one in Part if one in found)]) + "\n")


def _parts(text: str) -> dict[Part, str]:
    titles = {part.value: part for part in Part}
    pieces = (piece.partition("\n") for piece in f"\n{text}".split("\n## ")[1:])
    return {titles[title]: body.strip() for title, _, body in pieces if title in titles}
