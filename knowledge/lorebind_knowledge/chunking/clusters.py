"""Where a text may be cut so that no character loses its accents, modifiers or other half.

The rules are those of Unicode's extended grapheme clusters (UAX #29) that a cut would be seen by:
CRLF, Hangul syllables, combining and spacing marks, emoji modifiers and joiners, flags. Halves of
surrogate pairs, which a Python text can hold though it should not, stay together too.
"""

from __future__ import annotations

import unicodedata

_LONGEST = 32
"""In characters: UAX #15 knows of no use for more than 30 combining marks in a row."""


def last_border(text: str, place: int, lowest: int) -> int:
    """The last border between clusters at or before `place` and after `lowest`.

    It is `place` itself where there is none within 32 characters: no text in use has that.
    """
    for border in range(place, max(lowest, place - _LONGEST), -1):
        if is_border(text, border):
            return border
    return place


def first_border(text: str, place: int, highest: int) -> int:
    """The first border at or after `place`, and `highest` where none comes before that.

    It is `place` itself where there is none within 32 characters.
    """
    for border in range(place, min(highest, place + _LONGEST)):
        if is_border(text, border):
            return border
    return highest if highest <= place + _LONGEST else place


def is_border(text: str, place: int) -> bool:
    """Whether a cluster ends before `place` and another begins there."""
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
