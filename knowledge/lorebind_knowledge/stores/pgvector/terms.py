"""The words of texts as numbers, which PostgreSQL keeps in an index for less than words.

A word's number is made from the word and its index's key: a search need not pass over the records
of other indexes. It has 64 bits, so that of a million words no two are likely to share one.
"""

from __future__ import annotations

import hashlib
import struct
from collections import Counter
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lorebind_knowledge.stores.pgvector.plain_words import plain_words, stems_of
from lorebind_knowledge.stores.stems import count_stems
from lorebind_knowledge.stores.terms import terms

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

# Longer ones were kept so by the version that had the words themselves; nobody looks for them.
_LONGEST = 100
# A few megabytes, in which most of the words of most texts are.
_REMEMBERED = 32_768
# What PostgreSQL's binary format has in front of an array: dimensions, whether any member is null,
# the members' type, how many there are, and the number of the first.
_HEAD = struct.Struct(">5i")
_EMPTY = struct.Struct(">3i")
_BIGINT, _INTEGER = 20, 23


class Words(NamedTuple):
    """The words of one text, as arrays in PostgreSQL's binary format."""

    terms: bytes
    """`bigint[]`: each word once."""
    times: bytes
    """`integer[]`: how often each of them is in the text."""
    length: int
    """How many words the text has."""


@lru_cache(_REMEMBERED)
def word_number(key: int, word: str) -> int:
    """What a word of the index with this key is kept as."""
    if len(word) > _LONGEST:
        word = hashlib.sha256(word.encode()).hexdigest()
    digest = hashlib.sha256(f"{key}:{word}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def words_of(key: int, texts: Sequence[str]) -> Iterator[Words]:
    """The words of each text, as the embedded store's FTS5 finds them.

    Raises:
        StoreError: this Python's SQLite has no FTS5.
    """
    words = [plain_words(text) for text in texts]
    odd = [at for at, some in enumerate(words) if some is None]
    counted = dict(zip(odd, count_stems([texts[at] for at in odd]) if odd else (), strict=True))
    found = _counted(key, [some or [] for some in words])
    for at, plain in enumerate(found):
        stems = counted.get(at)
        if stems is None:
            yield plain
        else:
            numbers = np.array([word_number(key, stem) for stem in stems], np.int64)
            times = np.fromiter(stems.values(), np.int64, len(stems))
            count = len(stems)
            yield Words(
                _array(_BIGINT, count, _members(numbers, ">i8")),
                _array(_INTEGER, count, _members(times, ">i4")),
                stems.total(),
            )


def query_terms(query: str) -> Counter[str]:
    """The words to look for, and how often the query says each.

    A word that FTS5 takes for several, as `max_tokens`, is looked for as each of them.
    """
    found: Counter[str] = Counter()
    words = Counter(terms(query))
    for counted, times in zip(count_stems(list(words)), words.values(), strict=True):
        for word, within in counted.items():
            found[word] += within * times
    return found


def _counted(key: int, texts: Sequence[list[bytes]]) -> Iterator[Words]:
    """The words of texts of which each is a list of `plain_words`."""
    in_order = list(chain.from_iterable(texts))
    stems = stems_of(distinct := dict.fromkeys(in_order, 0))
    places: dict[str, int] = {}
    for word in distinct:
        distinct[word] = places.setdefault(stems[word], len(places))
    numbers = np.array([word_number(key, stem) for stem in places], np.int64)
    lengths = [len(words) for words in texts]
    found = np.fromiter(map(distinct.__getitem__, in_order), np.int64, len(in_order))
    # One long table: for each text, how often each of the words is in it.
    found += np.repeat(np.arange(len(texts)) * len(places), lengths)
    table = np.bincount(found)
    there = np.flatnonzero(table)
    terms_data = _members(numbers[there % max(len(places), 1)], ">i8")
    times_data = _members(table[there], ">i4")
    ends = np.searchsorted(there, np.arange(1, len(texts) + 1) * len(places)).tolist()
    begin = 0
    for end, length in zip(ends, lengths, strict=True):
        yield Words(
            _array(_BIGINT, end - begin, terms_data[12 * begin : 12 * end]),
            _array(_INTEGER, end - begin, times_data[8 * begin : 8 * end]),
            length,
        )
        begin = end


def _members(values: NDArray[np.int64], kind: str) -> bytes:
    members = np.empty(len(values), [("size", ">i4"), ("value", kind)])
    members["size"] = np.dtype(kind).itemsize
    members["value"] = values
    return members.tobytes()


def _array(kind: int, count: int, members: bytes) -> bytes:
    return _HEAD.pack(1, 0, kind, count, 1) + members if count else _EMPTY.pack(0, 0, kind)
