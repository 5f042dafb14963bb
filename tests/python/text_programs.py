"""Programs that read texts, in a folder of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import shapescript

ENGINES = ("native", "numpy")
TEXT = "Der Fluß war breit.\nÜber ihm – ein Steg, schmal wie ein Brett 漢\n\nEnde 🙂"


def program(folder: Path, text: str, engine: Any = "native", **dims: int) -> Any:
    (folder / "text.ss").write_text(text, "utf-8")
    return shapescript.load(folder / "text.ss", dims, engine=engine)
