"""Split a text into its words as they are written."""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import Any

# For ASCII text: lower-cases letters, and puts a space for all that is in no word. Faster.
_ASCII = "".join(char.lower() if char.isalnum() else " " for char in map(chr, range(128)))


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case: runs of letters, digits and their marks.

    An underscore ends a word: `max_tokens` is two words.
    """
    if text.isascii():
        return text.translate(_ASCII).split()
    found: list[str] = _word().findall(unicodedata.normalize("NFKC", text).lower())
    return found


@cache
def _word() -> Any:
    import regex  # unlike `re`, it treats the vowel signs of Hindi, Thai and others as marks

    return regex.compile(r"[\p{L}\p{N}][\p{L}\p{N}\p{M}]*")
