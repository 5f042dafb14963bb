"""Which names a pattern such as `"encoder.*.bias"` fits: in it, `*` is any run of characters."""

from __future__ import annotations


def fits(pattern: str, name: str) -> bool:
    """Whether the pattern fits the whole name."""
    first, *others = pattern.split("*")
    if not others:
        return pattern == name
    *middle, last = others
    if not name.startswith(first):
        return False
    place = len(first)
    for part in middle:
        place = name.find(part, place)
        if place < 0:
            return False
        place += len(part)
    return len(name) - place >= len(last) and name.endswith(last)


def may_fit(pattern: str, known: str) -> bool:
    """Whether the pattern fits a name of which `known` is a pattern too: `blocks.*.bias`, for a list of any length."""
    shared = [False] * (len(known) + 1)  # for the rest of the pattern, whether it and each rest of `known` have a text in common
    for i in range(len(pattern), -1, -1):
        row = [False] * (len(known) + 1)
        for j in range(len(known), -1, -1):
            if i == len(pattern) and j == len(known):
                row[j] = True
            elif i < len(pattern) and pattern[i] == "*":
                row[j] = shared[j] or (j < len(known) and row[j + 1])
            elif j < len(known) and known[j] == "*":
                row[j] = row[j + 1] or (i < len(pattern) and shared[j])
            elif i < len(pattern) and j < len(known):
                row[j] = pattern[i] == known[j] and shared[j + 1]
        shared = row
    return shared[0]
