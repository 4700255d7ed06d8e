"""The words of texts as PostgreSQL can keep them in an index."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING

from lorebind_knowledge.stores.stems import count_stems
from lorebind_knowledge.stores.terms import terms

if TYPE_CHECKING:
    from collections.abc import Sequence

# PostgreSQL's index takes words of some two thousand bytes, and a matter of a hundred is no word.
_LONGEST = 100


def count_terms(texts: Sequence[str]) -> list[Counter[str]]:
    """For each text, how often each word is in it.

    Raises:
        StoreError: this Python's SQLite has no FTS5.
    """
    return [
        Counter({_shortened(word): times for word, times in counted.items()})
        for counted in count_stems(texts)
    ]


def query_terms(query: str) -> Counter[str]:
    """The words to look for, and how often the query says each.

    A word that FTS5 takes for several, as `max_tokens`, is looked for as each of them.
    """
    found: Counter[str] = Counter()
    words = Counter(terms(query))
    for counted, times in zip(count_terms(list(words)), words.values(), strict=True):
        for word, within in counted.items():
            found[word] += within * times
    return found


def _shortened(word: str) -> str:
    if len(word) <= _LONGEST:
        return word
    return hashlib.sha256(word.encode()).hexdigest()
