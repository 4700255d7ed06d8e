"""Rulers, which measure parts of a text in characters or tokens."""

from __future__ import annotations

import bisect
import re
from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

from lorebind_knowledge.chunking.base import strip
from lorebind_knowledge.plumbing.tokenizing import EncodingName, encode, token_bytes

Unit: TypeAlias = Literal["characters", "tokens"]


class Ruler(Protocol):
    """Measure of the parts of one text. All offsets are characters from the start of the text."""

    def length(self, start: int, end: int) -> int:
        """Return the approximate length of a part, in constant or logarithmic time, for planning.

        The result never decreases as the part grows.
        """
        ...

    def count(self, start: int, end: int) -> int:
        """Return the exact length of a part as a chunk, without surrounding white space."""
        ...

    def reach(self, start: int, end: int, amount: int) -> int:
        """Return about the offset `amount` units after `start`.

        The result is at most `end`; it is at least one character after `start`.
        """
        ...

    def reach_back(self, start: int, end: int, amount: int) -> int:
        """Return about the offset `amount` units before `end`; `end` itself if `amount` is 0."""
        ...


class CharacterRuler:
    """A ruler that counts characters: code points, as Python does."""

    def length(self, start: int, end: int) -> int:
        return end - start

    count = length

    def reach(self, start: int, end: int, amount: int) -> int:
        return min(end, start + max(1, amount))

    def reach_back(self, start: int, end: int, amount: int) -> int:
        return max(start, end - amount)


ENCODING: EncodingName = "o200k_base"

_SURROGATES = re.compile("[\ud800-\udfff]")


def count_tokens(text: str) -> int:
    """Return the number of tokens of a text; a lone surrogate counts as U+FFFD."""
    return len(encode(ENCODING, _encodable(text)))


class TokenRuler:
    """A ruler that counts tokens: those of o200k_base, used by OpenAI's current models.

    The text is encoded once, for planning. A chunk encoded alone can have a token or two more or
    less than its share of that, because its first word may have lost the leading blank of its
    token. So every chunk is counted again.
    """

    def __init__(self, text: str, start: int, end: int) -> None:
        self._text = _encodable(text)
        self._starts = _token_starts(self._text[start:end], start)

    def length(self, start: int, end: int) -> int:
        """Return the number of tokens in the part, including those that are only partly in it."""
        return bisect.bisect_left(self._starts, end) - self._first(start) if start < end else 0

    def count(self, start: int, end: int) -> int:
        start, end = strip(self._text, start, end)
        return len(encode(ENCODING, self._text[start:end]))

    def reach(self, start: int, end: int, amount: int) -> int:
        index = self._first(start) + amount
        place = self._starts[index] if index < len(self._starts) else end
        return max(start + 1, min(end, place))

    def reach_back(self, start: int, end: int, amount: int) -> int:
        index = bisect.bisect_left(self._starts, end) - amount
        return end if amount <= 0 else max(start, min(end, self._starts[max(0, index)]))

    def _first(self, place: int) -> int:
        """Return the index of the first token that ends after the position."""
        index = bisect.bisect_left(self._starts, place)
        on_start = index < len(self._starts) and self._starts[index] == place
        return index if on_start else max(0, index - 1)


def make_ruler(unit: Unit, text: str, start: int, end: int) -> Ruler:
    """Return a ruler for `text[start:end]`."""
    if unit == "characters":
        return CharacterRuler()
    return TokenRuler(text, start, end)


def _token_starts(text: str, shift: int) -> Sequence[int]:
    """Return the offset of the character in which each token begins."""
    import numpy as np

    parts = token_bytes(ENCODING, encode(ENCODING, text))
    ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
    starts = np.concatenate([[0], ends[:-1]]) if parts else ends
    if not text.isascii():
        data = np.frombuffer(text.encode(), dtype=np.uint8)
        starts = (np.cumsum((data & 0xC0) != 0x80) - 1)[starts]
    places: list[int] = (starts + shift).tolist()
    return places


def _encodable(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode; the length stays the same."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATES.sub("\ufffd", text)
    return text
