"""The words of one index: BM25 of its passages and of its documents, with one meaning everywhere.

What the catalog says of a word is read once for each version of the index, and the figures are made
from it here, so that no database ranks by a formula of its own.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lorebind_knowledge.bm25.figures import Postings, rarity, saturated
from lorebind_knowledge.bm25.languages import DEFAULT
from lorebind_knowledge.bm25.tokenize import wanted_words
from lorebind_knowledge.catalog import chunks
from lorebind_knowledge.catalog.versions import words_in

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from numpy.typing import NDArray

    from lorebind_knowledge.catalog.sql import Sql

_PLACES_KEPT = 2_000_000
"""Passages in all postings that are remembered: 32 MB."""
_VERSIONS_KEPT = 100_000


class Totals(NamedTuple):
    """What an index holds."""

    passages: int
    words: int
    documents: int
    languages: frozenset[str]
    """Of the documents."""


class _Column:
    """A number for each passage, by the number of the passage; it never changes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known = np.full(0, -1, np.int64)

    def of(
        self, numbers: NDArray[np.int64], read: Callable[[list[int]], Mapping[int, int]]
    ) -> NDArray[np.int64]:
        """Those of some passages; what is not known yet is read, and what cannot be is -1."""
        last = int(numbers.max(initial=-1))
        with self._lock:
            if last >= len(self._known):
                more = np.full(last + 1 - len(self._known), -1, np.int64)
                self._known = np.concatenate([self._known, more])
            found = self._known[numbers]
        missing = numbers[found < 0]
        if len(missing):
            values = read(missing.tolist())  # others go on meanwhile
            with self._lock:
                for number, value in values.items():
                    self._known[number] = value
                found = self._known[numbers]
        return found


class Words:
    """What is remembered of them from one search to the next. Safe to share among threads."""

    def __init__(self, birth: int) -> None:
        self.birth = birth
        self._lock = threading.Lock()
        self._version = -1
        self._totals: Totals | None = None
        self._postings: dict[str, Postings | None] = {}
        self._kept = 0
        self._lengths, self._owners = _Column(), _Column()
        self._documents: dict[str, int] = {}
        self._lengths_of_versions: dict[int, int] = {}

    def at(self, sql: Sql, version: int, question: str) -> Asked:
        """A question to the index as a transaction sees it, in one of its versions."""
        with self._lock:
            if version > self._version:
                self._version, self._totals, self._postings, self._kept = version, None, {}, 0
            totals = self._totals if version == self._version else None
        totals = totals or self._count(sql)
        wanted = wanted_words(question, totals.languages or {DEFAULT})
        with self._lock:
            known = self._postings if version == self._version else {}
            found = {word: known[word] for word in wanted if word in known}
        missing = wanted.keys() - found.keys()
        new = {word: words_in(sql).postings(sql.driver, self.birth, word) for word in missing}
        with self._lock:
            if version == self._version:
                self._totals = totals
                self._remember(found | new)
        found |= new
        held = [(weight, found[word]) for word, weight in wanted.items()]
        return Asked(self, sql, totals, [(weight, one) for weight, one in held if one is not None])

    def lengths(self, sql: Sql, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many words passages have."""

        def read(missing: list[int]) -> Mapping[int, int]:
            found: dict[int, int] = words_in(sql).lengths(sql.driver, self.birth, missing)
            return found

        return self._lengths.of(numbers, read)

    def owners(self, sql: Sql, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The documents of passages, as numbers from 0."""

        def read(missing: list[int]) -> dict[int, int]:
            owners = chunks.owners_of(sql, self.birth, missing)
            with self._lock:
                known = self._documents
                return {number: known.setdefault(uri, len(known)) for number, uri in owners}

        return self._owners.of(numbers, read)

    def lengths_of_versions(self, sql: Sql, versions: Collection[int]) -> dict[int, int]:
        """How many words versions of documents have; what a version holds never changes."""
        with self._lock:
            known = {one: self._lengths_of_versions.get(one) for one in versions}
        missing = [version for version, length in known.items() if length is None]
        found = dict.fromkeys(missing, 0)
        if rows := chunks.numbers_of(sql, missing) if missing else []:
            lengths = self.lengths(sql, np.array([number for _, number in rows], np.int64))
            for (version, _), length in zip(rows, np.maximum(lengths, 0).tolist(), strict=True):
                found[version] += length
        with self._lock:
            if len(self._lengths_of_versions) + len(found) > _VERSIONS_KEPT:
                self._lengths_of_versions = {}
            self._lengths_of_versions |= found
        return {one: length for one, length in known.items() if length is not None} | found

    def _count(self, sql: Sql) -> Totals:
        passages, words = words_in(sql).totals(sql.driver, self.birth)
        languages = chunks.languages_of(sql, self.birth)
        written = languages.keys() - {""}  # where nothing is written
        return Totals(passages, words, sum(languages.values()), frozenset(written))

    def _remember(self, asked: Mapping[str, Postings | None]) -> None:
        for word, one in asked.items():
            self._forget(word)
            self._postings[word] = one
            self._kept += _size(one)
        while self._kept > _PLACES_KEPT:
            self._forget(next(iter(self._postings)))  # what was not asked for the longest

    def _forget(self, word: str) -> None:
        if word in self._postings:
            self._kept -= _size(self._postings.pop(word))


class Asked:
    """The words of one question, as they are found in an index at one moment."""

    def __init__(
        self, words: Words, sql: Sql, totals: Totals, held: list[tuple[int, Postings]]
    ) -> None:
        self._words, self._sql, self._totals, self._held = words, sql, totals, held
        """Of each word how often the question says it, and where it is found."""

    def passages(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The numbers of all passages that hold any of the words, ascending, and their BM25."""
        size = max((int(one.numbers[-1]) + 1 for _, one in self._held), default=0)
        figures = np.zeros(size)
        average = self._totals.words / max(self._totals.passages, 1)
        for weight, one in self._held:
            lengths = self._words.lengths(self._sql, one.numbers)
            weighs = weight * rarity(self._totals.passages, len(one.numbers))
            figures[one.numbers] += weighs * saturated(one.times, lengths, average)
        numbers = np.flatnonzero(figures)
        return numbers, figures[numbers]

    def documents(self, versions: Mapping[int, int]) -> dict[int, float]:
        """Of passages the BM25 of the documents that they belong to, by number.

        How rare a word is, is counted over documents. What holds no word is left out.

        Args:
            versions: of their documents, by the same.
        """
        if not self._held or not versions:
            return {}
        wanted = np.array(list(versions), np.int64)
        ids, first, back = np.unique(
            self._words.owners(self._sql, wanted), return_index=True, return_inverse=True
        )
        of_versions = self._words.lengths_of_versions(self._sql, set(versions.values()))
        lengths = np.array([of_versions[versions[int(wanted[at])]] for at in first])
        average = max(self._totals.words / max(self._totals.documents, 1), 1e-9)
        figures = np.zeros(len(ids))
        for weight, one in self._held:
            owners = self._words.owners(self._sql, one.numbers)
            there = owners >= 0  # all of them, unless the words are damaged
            times = np.bincount(owners[there], one.times[there], minlength=int(ids[-1]) + 1)
            weighs = weight * rarity(self._totals.documents, int(np.count_nonzero(times)))
            figures += weighs * saturated(times[ids], lengths, average)
        each = figures[back].tolist()
        return {n: figure for n, figure in zip(wanted.tolist(), each, strict=True) if figure}


def _size(postings: Postings | None) -> int:
    return 1 if postings is None else 1 + len(postings.numbers)
