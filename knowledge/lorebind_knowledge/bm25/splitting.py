"""From a text to its words, as they are written."""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import Any

# Of ASCII, letters in lower case and a space for all that is in no word: the same words, sooner.
_ASCII = "".join(char.lower() if char.isalnum() else " " for char in map(chr, range(128)))


def words_of(text: str) -> list[str]:
    """The words of a text in lower case: runs of letters, digits and their marks.

    An underscore ends a word: `max_tokens` is two.
    """
    if text.isascii():
        return text.translate(_ASCII).split()
    found: list[str] = _word().findall(unicodedata.normalize("NFKC", text).lower())
    return found


@cache
def _word() -> Any:
    import regex  # unlike `re`, it knows the vowel signs of Hindi, Thai and others as marks

    return regex.compile(r"[\p{L}\p{N}][\p{L}\p{N}\p{M}]*")
