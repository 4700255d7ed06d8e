"""Find where sentences begin, by punctuation and with a list of abbreviations."""

from __future__ import annotations

import re
from collections.abc import Iterator

# Possessive quantifiers and the lookbehind keep the time linear in the length of the text.
_END = re.compile(
    r"(?<![.!?…])[.!?…]++[\"'”’»)\]*_]{0,4}+\s++(?=[\"'“‘«(\[*_`]{0,4}[^\W_a-z])"
    r"|[。！？｡][\"'”’」』）]{0,4}+\s*+"
)
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|vs|cf|ca|approx|no|nos|fig|figs|eq|sec|ch|vol|pp?|mr|mrs|ms|dr|prof|st|"
    r"inc|ltd|al)|(?-i:\b[A-Z])|^[ \t]*\d{1,3})\.\Z",  # the last: the number of a list item
    re.IGNORECASE | re.MULTILINE,
)
_LONGEST_ABBREVIATION = 8


def sentence_starts(text: str, start: int, end: int) -> Iterator[int]:
    """Yield the positions where a sentence follows another one, in ascending order."""
    for found in _END.finditer(text, start, end):
        full_stop = found.start() + 1
        if _ABBREVIATION.search(text, max(start, full_stop - _LONGEST_ABBREVIATION), full_stop):
            continue
        yield found.end()
