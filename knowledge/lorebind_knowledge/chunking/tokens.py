"""Tokens as a unit: where in a text they begin, and how many a passage has.

The encoding is o200k_base, that of OpenAI's current models. A text is encoded once, for planning.
What a passage has by itself can differ by a token or two from its share of that, since its first
word may have lost the blank that belonged to its token; so every passage is counted once more.
"""

from __future__ import annotations

import bisect
import re
from typing import TYPE_CHECKING

from lorebind_knowledge.chunking.base import strip
from lorebind_knowledge.tokenizing import EncodingName, encode, token_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

ENCODING: EncodingName = "o200k_base"

_SURROGATES = re.compile("[\ud800-\udfff]")


def count_tokens(text: str) -> int:
    """How many tokens a text has; a lone surrogate counts as the replacement character."""
    return len(encode(ENCODING, _encodable(text)))


class TokenRuler:
    """Counts the tokens of a text's parts."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self._text = _encodable(text)
        self._starts = _token_starts(self._text[start:end], start)

    def length(self, start: int, end: int) -> int:
        """The tokens that lie in the part, those that reach into it included."""
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
        """The first token with something at or after the place."""
        index = bisect.bisect_left(self._starts, place)
        on_start = index < len(self._starts) and self._starts[index] == place
        return index if on_start else max(0, index - 1)


def _token_starts(text: str, shift: int) -> Sequence[int]:
    """The character in which each token begins."""
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
    """The text with lone surrogates replaced, which UTF-8 cannot say; as long as before."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATES.sub("\ufffd", text)
    return text
