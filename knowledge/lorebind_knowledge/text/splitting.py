"""The words and sentences of a text, as they are written."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

from lorebind_knowledge.text.markdown import code_spans

# For ASCII text: lower-cases letters, and puts a space for all that is in no word. Faster.
_ASCII = "".join(char.lower() if char.isalnum() else " " for char in map(chr, range(128)))


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case: runs of letters, digits and their marks.

    An underscore ends a word: `max_tokens` is two words.
    """
    if text.isascii():
        return text.translate(_ASCII).split()
    words: list[str] = _word().findall(unicodedata.normalize("NFKC", text).lower())
    return words


def word_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each word of a text."""
    for match in _word().finditer(text):
        yield match.span()


@cache
def _word() -> Any:
    import regex  # unlike `re`, it treats the vowel signs of Hindi, Thai and others as marks

    return regex.compile(r"[\p{L}\p{N}][\p{L}\p{N}\p{M}]*")


# Possessive quantifiers and the lookbehind keep the time linear in the length of the text.
_END = re.compile(
    r"((?<![.!?…])[.!?…]++[\"'”’»)\]*_]{0,4}+(?=\s++[\"'“‘«(\[*_]{0,4}+[^\W_a-z]"
    r"|\s++[\"'“‘«(\[*_]{0,4}+`)"
    r"|[。！？｡][\"'”’」』）]{0,4}+)\s*+"
)
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|vs|cf|ca|approx|no|nos|fig|figs|eq|sec|ch|vol|pp?|mr|mrs|ms|dr|prof|st|"
    r"inc|ltd|al)|(?-i:\b[A-Z])|^[ \t]*\d{1,3})\.\Z",  # the last: the number of a list item
    re.IGNORECASE | re.MULTILINE,
)
_LONGEST_ABBREVIATION = 8


def sentence_breaks(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield where a sentence ends and where the next one begins, in ascending order."""
    spans = code_spans(text, start, end)
    code = next(spans, None)
    for stop in _END.finditer(text, start, end):
        full_stop = stop.start() + 1
        while code and code[1] < full_stop:
            code = next(spans, None)
        if code and code[0] < full_stop:
            continue
        if _ABBREVIATION.search(text, max(start, full_stop - _LONGEST_ABBREVIATION), full_stop):
            continue
        yield stop.end(1), stop.end()


def sentence_starts(text: str, start: int, end: int) -> Iterator[int]:
    """Yield the positions where a sentence follows another one, in ascending order."""
    return (following for _, following in sentence_breaks(text, start, end))


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text that have letters or digits, without white space around."""
    cuts = [0, *sentence_starts(text, 0, len(text)), len(text)]
    parts = (text[first:last].strip() for first, last in pairwise(cuts))
    return [part for part in parts if re.search(r"\w", part)]
