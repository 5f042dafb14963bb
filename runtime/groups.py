"""How optimisers treat a model's parameters, as its groups say."""

from __future__ import annotations

from shapescript.compiler.records.dataclass import dataclass


@dataclass(frozen=True)
class Treatment:
    """How optimisers treat a parameter: whether the decay is on it, a factor of the rate, and whether it stays as it is."""

    decay: bool = True
    rate: float = 1.0
    frozen: bool = False


ORDINARY = Treatment()  # of what is in no group


class Groups(dict[str, Treatment]):
    """The treatment of each parameter by its dotted name; as text, a table."""

    def __str__(self) -> str:
        rows = [("parameter", "decay", "rate", "frozen")]
        rows += [(name, _yes(one.decay), repr(one.rate), _yes(one.frozen)) for name, one in self.items()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows)


def _yes(truth: bool) -> str:
    return "yes" if truth else "no"
