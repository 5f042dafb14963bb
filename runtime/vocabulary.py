"""Vocabularies: which number stands for which character of a text; texts as ids, and back."""

from __future__ import annotations

import numpy as np

from shapescript.compiler.numerics.texts import BYTE_VALUES, characters_of
from shapescript.runtime.arrays import Words, usable_array
from shapescript.runtime.errors import ArgumentError, DataError

LONGEST_SHOWN = 60


class Vocabulary:
    """The characters that texts are made of; the id of one is its place among them."""

    def __init__(self, characters: str) -> None:
        """Raises ArgumentError R1004 for what is no string, and for a string with a character twice."""
        if not isinstance(characters, str):
            raise ArgumentError("R1004", f"characters: expected a str, got {type(characters).__name__}")
        if len(set(characters)) < len(characters):
            twice = next(character for character in characters if characters.count(character) > 1)
            raise ArgumentError("R1004", f"characters: {twice!r} stands there twice")
        self.characters = characters
        codes = _codes_of(characters)
        self._ids = np.argsort(codes)
        self._sorted_codes = codes[self._ids]

    @classmethod
    def of_text(cls, text: str) -> Vocabulary:
        """The characters of a text, in the order of code points."""
        return cls(characters_of(text))

    def __len__(self) -> int:
        return len(self.characters)

    def encode(self, text: str, what: str = "the text") -> Words:
        """The ids of a text's characters. Raises DataError R1203 for a character that the vocabulary lacks."""
        codes = _codes_of(text)
        places = np.searchsorted(self._sorted_codes, codes)
        found = np.append(self._sorted_codes, -1)[places] == codes
        if not found.all():
            position = int(np.argmin(found))
            message = f"{what}: {text[position]!r} at position {position} is none of the vocabulary's {len(self)} characters"
            raise DataError("R1203", message)
        return self._ids[places]

    def decode(self, ids: object) -> str:
        """The text of int64 ids along one axis. Raises DataError R1203 for an id that stands for nothing."""
        return "".join([self.characters[value] for value in self._checked(ids).tolist()])

    def _checked(self, ids: object) -> Words:
        array = usable_array("ids", ids)
        if array.ndim != 1 or array.dtype != np.int64:
            raise ArgumentError("R1004", f"ids: expected int64 along one axis, got {array.dtype} of shape {array.shape}")
        outside = (array < 0) | (array >= len(self))
        if outside.any():
            position = int(np.argmax(outside))
            range_ = f"so ids go from 0 to {len(self) - 1}" if len(self) else "so there are no ids"
            raise DataError("R1203", f"id {array[position]} at position {position}: the vocabulary has {len(self)} characters, {range_}")
        return array

    def __repr__(self) -> str:
        shown = repr(self.characters)
        return f"<Vocabulary of {len(self)} characters: {shown if len(shown) <= LONGEST_SHOWN else f'{shown[:LONGEST_SHOWN]}…'}>"


class ByteVocabulary(Vocabulary):
    """The 256 values of a byte. The ids of a text are its bytes in UTF-8; bytes that aren't UTF-8 are shown as U+FFFD."""

    def __init__(self) -> None:
        super().__init__("".join(map(chr, range(BYTE_VALUES))))

    def encode(self, text: str, what: str = "the text") -> Words:
        try:
            return np.frombuffer(text.encode("utf-8"), np.uint8).astype(np.int64)
        except UnicodeEncodeError as error:
            raise DataError("R1203", f"{what}: {text[error.start]!r} at position {error.start} is no character: it has no bytes") from None

    def decode(self, ids: object) -> str:
        return self._checked(ids).astype(np.uint8).tobytes().decode("utf-8", "replace")

    def __repr__(self) -> str:
        return "<ByteVocabulary>"


def _codes_of(text: str) -> Words:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.int64)
