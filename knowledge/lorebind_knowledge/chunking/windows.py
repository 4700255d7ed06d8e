"""The strategies `fixed` and `token`: windows of a fixed size, regardless of the text.

A window never separates a character from its combining marks. The rules are the parts of Unicode's
extended grapheme clusters (UAX #29) whose violation would be visible: CRLF, Hangul syllables,
combining and spacing marks, emoji modifiers and joiners, flags. Surrogate pairs, which a Python
text can contain but should not, also stay together.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lorebind_knowledge.chunking.base import Chunker, Interval, strip
from lorebind_knowledge.chunking.rulers import Ruler, Unit, make_ruler

_LONGEST = 32
"""In characters; UAX #15 allows for at most 30 combining marks in a row."""


def last_border(text: str, place: int, lowest: int) -> int:
    """Return the last border between clusters at or before `place` and after `lowest`.

    Returns `place` itself if there is no border within 32 characters, which no real text has.
    """
    for border in range(place, max(lowest, place - _LONGEST), -1):
        if is_border(text, border):
            return border
    return place


def first_border(text: str, place: int, highest: int) -> int:
    """Return the first border at or after `place`, or `highest` if there is none before it.

    Returns `place` itself if there is no border within 32 characters.
    """
    for border in range(place, min(highest, place + _LONGEST)):
        if is_border(text, border):
            return border
    return highest if highest <= place + _LONGEST else place


def is_border(text: str, place: int) -> bool:
    """Return whether one cluster ends and the next begins at `place`."""
    if place <= 0 or place >= len(text):
        return True
    before, after = text[place - 1], text[place]
    if after < "\u0300":
        return not (after == "\n" and before == "\r")
    if unicodedata.category(after) in ("Mn", "Mc", "Me"):
        return False
    if after == "\u200d" or before == "\u200d":
        return False
    if "\U0001f3fb" <= after <= "\U0001f3ff":  # skin tones
        return False
    if "\u1160" <= after <= "\u11ff":  # vowels and finals of conjoining Hangul
        return not "\u1100" <= before <= "\u11ff" and not "\uac00" <= before <= "\ud7a3"
    if "\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff":
        return False
    return not (_is_flag_half(after) and _flag_halves_before(text, place) % 2)


def _is_flag_half(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _flag_halves_before(text: str, place: int) -> int:
    lowest = max(0, place - _LONGEST)
    halves = 0
    while place - halves > lowest and _is_flag_half(text[place - halves - 1]):
        halves += 1
    return halves


@dataclass(frozen=True, eq=False)
class WindowChunker(Chunker):
    """A chunker that cuts windows of a fixed size.

    Each chunk has `size` units, except the last; `overlap` of them repeat the previous chunk. A
    chunk is smaller if it is stripped of white space, or if a cut would separate a character from
    its combining marks. A character whose marks alone exceed the size is cut, but a single code
    point (up to four tokens) never is.
    """

    size: int
    overlap: int
    unit: Unit = "characters"

    @property
    def fingerprint(self) -> str:
        return f"fixed/1 size={self.size} overlap={self.overlap} {self.unit}"

    def split(
        self, text: str, start: int, end: int, boundaries: Sequence[int] = ()
    ) -> list[Interval]:
        ruler = make_ruler(self.unit, text, start, end)
        cut = windows(ruler, text, start, end, self.size, self.overlap)
        stripped = (strip(text, *window) for window in cut)
        return [(first, last) for first, last in stripped if first < last]


def windows(
    ruler: Ruler, text: str, start: int, end: int, size: int, overlap: int
) -> Iterator[Interval]:
    """Cut a part into windows with ascending starts; they are not stripped of white space."""
    while True:
        cut = _window_end(ruler, text, start, end, size)
        yield start, cut
        if cut >= end:
            return
        repeated = max(start + 1, ruler.reach_back(start, cut, overlap))
        start = first_border(text, repeated, cut)


def _window_end(ruler: Ruler, text: str, start: int, end: int, size: int) -> int:
    amount = size
    while True:
        cut = ruler.reach(start, end, amount)
        if cut < end:
            cut = last_border(text, cut, start)
        excess = ruler.count(start, cut) - size
        if excess <= 0:
            return cut
        amount -= excess
        if amount <= 0:
            return start + 1
