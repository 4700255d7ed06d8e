"""The words of one index: BM25 of its passages and of its documents, the same in every database.

The catalog's data about a word is read once per version of the index. BM25 is computed here, so
that no database ranks by its own formula. It is computed as SQLite's FTS5 does:
https://www.sqlite.org/fts5.html#the_bm25_function
"""

from __future__ import annotations

import threading
from functools import cached_property, partial
from math import log
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lorebind_knowledge.catalog.chunks import Chunks
from lorebind_knowledge.catalog.rows import damaged
from lorebind_knowledge.catalog.versions import words_in
from lorebind_knowledge.text.languages import DEFAULT
from lorebind_knowledge.text.terms import query_terms

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from lorebind_knowledge.catalog.words import Postings
    from lorebind_knowledge.database.sql import Sql

K1, B = 1.2, 0.75
_LEAST = 1e-6
"""Minimum weight of a word, so that a word in most passages still counts."""
_PLACES_KEPT = 1_000_000
"""Maximum number of cached postings of all words: 32 MB."""
_VERSIONS_KEPT = 100_000


def idf(count: int, having: int) -> float:
    """Return the weight of a word that `having` of `count` passages, or documents, contain."""
    return max(log((count - having + 0.5) / (having + 0.5)), _LEAST)


def tf_saturation(times: Any, lengths: Any, average: float) -> Any:
    """Return what a word that occurs `times` in texts of `lengths` words counts, elementwise."""
    return times * (K1 + 1) / (times + K1 * (1 - B + B * lengths / average))


class Totals(NamedTuple):
    """The size of an index, and its languages."""

    passages: int
    words: int
    documents: int
    languages: frozenset[str]
    """The languages of the documents."""


class _Column:
    """A value for each passage, by the number of the passage. Values never change."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values = np.full(0, -1, np.int64)

    def of(
        self, numbers: NDArray[np.int64], read: Callable[[list[int]], Mapping[int, int]]
    ) -> NDArray[np.int64]:
        """Return the values of passages. Unknown values are read; missing ones are -1."""
        last = int(numbers.max(initial=-1))
        with self._lock:
            if last >= len(self._values):
                more = np.full(last + 1 - len(self._values), -1, np.int64)
                self._values = np.concatenate([self._values, more])
            values = self._values[numbers]
        missing = numbers[values < 0]
        if len(missing):
            new = read(missing.tolist())  # without the lock, so that other threads continue
            with self._lock:
                for number, value in new.items():
                    self._values[number] = value
                values = self._values[numbers]
        return values


class _Word:
    """The passages of an index version that contain a word, and the word's BM25 in each."""

    def __init__(self, postings: Postings, lengths: NDArray[np.int64], totals: Totals) -> None:
        self.numbers, times = postings
        average = totals.words / max(totals.passages, 1)
        self.scores: NDArray[np.float64] = idf(totals.passages, len(self.numbers)) * tf_saturation(
            times, lengths, average
        )
        """Its BM25 in each of these passages, for one occurrence in the question."""
        self._times = times.astype(np.int32)
        self._in_documents: tuple[NDArray[np.int32], NDArray[np.int32]] | None = None

    def in_documents(
        self, owners: Callable[[NDArray[np.int64]], NDArray[np.int64]]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the documents that contain the word, ascending, and its count in each.

        Args:
            owners: returns the documents of passages, as numbers from 0.
        """
        if self._in_documents is None:
            documents = owners(self.numbers)
            there = documents >= 0  # all of them, unless the stored words are damaged
            times = np.bincount(documents[there], self._times[there])
            held = np.flatnonzero(times)
            self._in_documents = held.astype(np.int32), times[held].astype(np.int32)
        return self._in_documents


class Words:
    """Data about words that is cached between searches. Safe to share among threads."""

    def __init__(self, index_uid: int) -> None:
        self.index_uid = index_uid
        self._lock = threading.Lock()
        self._version = -1
        self._totals: Totals | None = None
        self._words: dict[str, _Word | None] = {}
        self._places = 0
        self._lengths, self._owners = _Column(), _Column()
        self._documents: dict[str, int] = {}
        self._lengths_of_versions: dict[int, int] = {}

    def at(self, sql: Sql, version: int, question: str) -> QueryTerms:
        """Look up the words of a question in the version of the index that a transaction sees."""
        with self._lock:
            if version > self._version:
                self._version, self._totals, self._words, self._places = version, None, {}, 0
            totals = self._totals if version == self._version else None
        totals = totals or self._count(sql)
        terms = query_terms(question, totals.languages or {DEFAULT})
        with self._lock:
            cached = self._words if version == self._version else {}
            postings = {word: cached[word] for word in terms if word in cached}
        new = {word: self._read(sql, word, totals) for word in terms.keys() - postings.keys()}
        with self._lock:
            if version == self._version:
                self._totals = totals
                self._remember(postings | new)
        postings |= new
        held = [
            (weight, in_passages)
            for word, weight in terms.items()
            if (in_passages := postings[word])
        ]
        missing = terms.total() - sum(weight for weight, _ in held)
        return QueryTerms(self, sql, totals, held, missing)

    def lengths(self, sql: Sql, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of words of each passage."""

        def read(missing: list[int]) -> Mapping[int, int]:
            lengths: dict[int, int] = words_in(sql).lengths(sql.driver, self.index_uid, missing)
            return lengths

        return self._lengths.of(numbers, read)

    def owners(self, sql: Sql, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the documents of passages, as numbers from 0."""

        def read(missing: list[int]) -> dict[int, int]:
            owners = Chunks(sql, self.index_uid).owners(missing)
            with self._lock:
                cached = self._documents
                return {number: cached.setdefault(uri, len(cached)) for number, uri in owners}

        return self._owners.of(numbers, read)

    def lengths_of_versions(self, sql: Sql, versions: Collection[int]) -> dict[int, int]:
        """Return the number of words of versions of documents. A version never changes."""
        with self._lock:
            cached = {version: self._lengths_of_versions.get(version) for version in versions}
        missing = [version for version, length in cached.items() if length is None]
        counted = dict.fromkeys(missing, 0)
        if rows := Chunks(sql, self.index_uid).numbers_of(missing) if missing else []:
            lengths = self.lengths(sql, np.array([number for _, number in rows], np.int64))
            for (version, _), length in zip(rows, np.maximum(lengths, 0).tolist(), strict=True):
                counted[version] += length
        with self._lock:
            if len(self._lengths_of_versions) + len(counted) > _VERSIONS_KEPT:
                self._lengths_of_versions = {}
            self._lengths_of_versions |= counted
        return {
            version: length for version, length in cached.items() if length is not None
        } | counted

    def _read(self, sql: Sql, word: str, totals: Totals) -> _Word | None:
        postings = words_in(sql).postings(sql.driver, self.index_uid, word)
        if postings is None:
            return None
        return _Word(postings, self.lengths(sql, postings.numbers), totals)

    def _count(self, sql: Sql) -> Totals:
        passages, words = words_in(sql).totals(sql.driver, self.index_uid)
        languages = Chunks(sql, self.index_uid).languages()
        written = languages.keys() - {""}  # documents without text have no language
        return Totals(passages, words, sum(languages.values()), frozenset(written))

    def _remember(self, postings_by_word: Mapping[str, _Word | None]) -> None:
        for word, postings in postings_by_word.items():
            self._forget(word)
            self._words[word] = postings
            self._places += _size(postings)
        while self._places > _PLACES_KEPT:
            self._forget(next(iter(self._words)))  # the least recently used word

    def _forget(self, word: str) -> None:
        if word in self._words:
            self._places -= _size(self._words.pop(word))


class QueryTerms:
    """The words of one question, looked up in an index at one moment."""

    def __init__(
        self, words: Words, sql: Sql, totals: Totals, held: list[tuple[int, _Word]], missing: int
    ) -> None:
        self._words, self._sql, self._totals, self._held = words, sql, totals, held
        """For each word, its count in the question, and its occurrences in the index."""
        self._missing = missing
        """Number of words of the question that the index does not contain."""

    @cached_property
    def passages(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The numbers of all passages that contain any of the words, ascending, and their BM25."""
        size = max((int(postings.numbers[-1]) + 1 for _, postings in self._held), default=0)
        scores = np.zeros(size)
        for weight, postings in self._held:
            scores[postings.numbers] += weight * postings.scores
        numbers = np.flatnonzero(scores)
        return numbers, scores[numbers]

    def scores(self, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the BM25 of passages; 0 for a passage without any of the words."""
        return _of(*self.passages, numbers)

    def documents(self, numbers: NDArray[np.int64], versions: Sequence[int]) -> NDArray[np.float64]:
        """Return the BM25 of the documents of passages; 0 for a document without the words.

        The rarity of a word is counted over documents.

        Args:
            numbers: the numbers of the passages.
            versions: the version of the document of each passage.
        """
        if not self._held:
            return np.zeros(len(numbers))
        ids = self._words.owners(self._sql, numbers)
        of_versions = self._words.lengths_of_versions(self._sql, set(versions))
        lengths = np.array([of_versions[version] for version in versions])
        average = max(self._totals.words / max(self._totals.documents, 1), 1e-9)
        times = np.array([_of(*postings, ids) for _, postings in self._in_documents])
        if any(len(postings[0]) > self._totals.documents for _, postings in self._in_documents):
            raise damaged("more documents have a word than an index counts")
        weights = [
            weight * idf(self._totals.documents, len(postings[0]))
            for weight, postings in self._in_documents
        ]
        each = tf_saturation(times, lengths, average) * np.array(weights)[:, None]
        scores: NDArray[np.float64] = each.sum(axis=0)
        return scores

    def full_passage(self) -> float:
        """Return the BM25 of a passage of average length with just the words of the question."""
        having = [(weight, len(postings.numbers)) for weight, postings in self._held]
        return self._full(self._totals.passages, having)

    def full_document(self) -> float:
        """Return the BM25 of a document of average length with just the words of the question."""
        having = [(weight, len(numbers)) for weight, (numbers, _) in self._in_documents]
        return self._full(self._totals.documents, having)

    def _full(self, count: int, having: Iterable[tuple[int, int]]) -> float:
        each = (weight * idf(count, those) for weight, those in having)
        return sum(each, self._missing * idf(count, 0))

    @cached_property
    def _in_documents(self) -> list[tuple[int, tuple[NDArray[np.int32], NDArray[np.int32]]]]:
        owners = partial(self._words.owners, self._sql)
        return [(weight, postings.in_documents(owners)) for weight, postings in self._held]


def _of(keys: NDArray[Any], values: NDArray[Any], looked_up: NDArray[Any]) -> NDArray[Any]:
    """Return the values of some keys; 0 for a missing key.

    Args:
        keys: unique and ascending.
        values: one per key.
        looked_up: any keys.
    """
    if not len(keys):
        return np.zeros(len(looked_up))
    at = np.minimum(np.searchsorted(keys, looked_up), len(keys) - 1)
    return np.where(keys[at] == looked_up, values[at], 0)


def _size(word: _Word | None) -> int:
    return 1 if word is None else 1 + len(word.numbers)
