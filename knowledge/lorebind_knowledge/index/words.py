"""The words of one index: BM25 of its passages and of its documents, the same in every database.

BM25 is computed here, so that no database ranks by its own formula. It is computed as SQLite's FTS5
does: https://www.sqlite.org/fts5.html#the_bm25_function
"""

from __future__ import annotations

from functools import cached_property
from math import log
from typing import TYPE_CHECKING, Any

import numpy as np

from lorebind_knowledge.catalog.chunks import Chunks
from lorebind_knowledge.catalog.postings import WORDS
from lorebind_knowledge.catalog.rows import damaged
from lorebind_knowledge.index.postings_cache import Passages, PostingsCache, values_of
from lorebind_knowledge.text.languages import DEFAULT
from lorebind_knowledge.text.terms import query_terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from lorebind_knowledge.catalog.postings import Segment
    from lorebind_knowledge.database.sql import Sql

K1, B = 1.2, 0.75
_NONE = np.zeros(0, np.int64)
_LEAST = 1e-6
"""Minimum weight of a word, so that a word in most passages still counts."""


def idf(count: int, having: int) -> float:
    """Return the weight of a word that `having` of `count` passages, or documents, contain."""
    return max(log((count - having + 0.5) / (having + 0.5)), _LEAST)


def length_norm(lengths: Any, average: float) -> Any:
    """Return by how much the length of texts lowers what a word counts in them, elementwise."""
    return K1 * (1 - B + B * lengths / average)


def tf_saturation(times: Any, norms: Any) -> Any:
    """Return what a word counts that occurs `times` in texts of these norms, elementwise."""
    return times * (K1 + 1) / (times + norms)


class _Documents:
    """A number from 0 for each document of some segments.

    A document keeps its number from version to version of an index, so that a new version numbers
    the documents of its new segments only.
    """

    def __init__(self, segments: Mapping[int, Segment], before: _Documents | None) -> None:
        """
        Args:
            segments: all segments, oldest first.
            before: the numbers in an earlier version.
        """
        earlier = before.by_segment if before else {}
        hashes = before._hashes if before else np.zeros(0, np.int64)
        numbers = before._numbers if before else np.zeros(0, np.int64)
        new = {number: part.documents for number, part in segments.items() if number not in earlier}
        uris, places = np.unique(np.concatenate([_NONE, *new.values()]), return_inverse=True)
        at = np.searchsorted(hashes, uris)
        are_new = np.ones(len(uris), bool)
        inside = at < len(hashes)
        are_new[inside] = hashes[at[inside]] != uris[inside]
        new_numbers = np.empty(len(uris), np.int64)
        new_numbers[~are_new] = numbers[at[~are_new]]
        new_numbers[are_new] = np.arange(len(hashes), len(hashes) + are_new.sum())
        self._hashes: NDArray[np.int64] = np.insert(hashes, at[are_new], uris[are_new])
        """The documents, ascending."""
        self._numbers: NDArray[np.int64] = np.insert(numbers, at[are_new], new_numbers[are_new])
        ends = np.cumsum([len(part) for part in new.values()])
        numbered = dict(zip(new, np.split(new_numbers[places], ends), strict=False))
        self.by_segment: dict[int, NDArray[np.int64]] = {
            number: earlier[number] if number in earlier else numbered[number]
            for number in segments
        }
        """The document of each passage of each segment."""

    def __len__(self) -> int:
        return len(self._hashes)


class _Passages(Passages):
    """The passages with the lengths of their texts and documents."""

    def __init__(
        self,
        segments: Mapping[int, Segment],
        languages: Mapping[str, int],
        before: _Passages | None = None,
    ) -> None:
        """
        Args:
            segments: all segments, oldest first.
            languages: the number of documents by language.
            before: the passages of an earlier version.
        """
        super().__init__(segments)
        numbered = _Documents(segments, before.numbered if before else None)
        if len(numbered) > 2 * sum(languages.values()):  # most are gone
            numbered = _Documents(segments, None)
        self.numbered: _Documents = numbered
        self.owners = np.concatenate([_NONE, *numbered.by_segment.values()])[self._live]
        """The document of each passage, as a number from 0."""
        self.documents = sum(languages.values())
        self.languages = languages.keys() - {""}  # documents without text have no language
        words = max(int(self.lengths.sum()), 1)  # so that an index without words has norms
        self.norms = length_norm(self.lengths, words / max(len(self.lengths), 1))
        of_documents = np.bincount(self.owners, self.lengths)
        self.document_norms = length_norm(of_documents, words / max(self.documents, 1))
        """The norms of passages and documents by their lengths, for `tf_saturation`."""


class _Word:
    """The passages of an index version that contain a word."""

    def __init__(
        self, passages: _Passages, positions: NDArray[np.int32], times: NDArray[np.uint8]
    ) -> None:
        self._passages = passages
        self.positions, self._times = positions, times
        """The passages, ascending, and how often the word occurs in each."""
        weight = idf(len(passages.numbers), len(positions))
        self.scores: NDArray[np.float64] = weight * tf_saturation(times, passages.norms[positions])
        """Its BM25 in each of these passages, for one occurrence in the question."""

    @cached_property
    def in_documents(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The documents that contain the word, ascending, and its count in each."""
        counts = np.bincount(self._passages.owners[self.positions], self._times)
        documents = np.flatnonzero(counts)
        return documents, counts[documents]


class Words:
    """The words of an index, cached between searches. Safe to share among threads."""

    def __init__(self, index_uid: int) -> None:
        def passages(
            sql: Sql, segments: Mapping[int, Segment], before: _Passages | None
        ) -> _Passages:
            return _Passages(segments, Chunks(sql, index_uid).languages(), before)

        self.cache = PostingsCache(index_uid, WORDS, passages, _Word)

    def at(self, sql: Sql, version: int, question: str) -> QueryWords:
        """Look up the words of a question in the version of the index that a transaction sees."""
        passages = self.cache.passages(sql, version)
        words = query_terms(question, passages.languages or {DEFAULT})
        in_index = self.cache.look_up(sql, passages, words)
        # In the question's order, because sums of rounded figures depend on it.
        held = [(weight, in_index[word]) for word, weight in words.items() if word in in_index]
        missing = words.total() - sum(weight for weight, _ in held)
        return QueryWords(passages, held, missing)


class QueryWords:
    """The words of one question, looked up in an index at one moment."""

    def __init__(self, index: _Passages, held: list[tuple[int, _Word]], missing: int) -> None:
        self._index, self._held = index, held
        """For each word, its count in the question, and its occurrences in the index."""
        self._missing = missing
        """Number of words of the question that the index does not contain."""

    @cached_property
    def passages(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The numbers of all passages that contain any of the words, ascending, and their BM25."""
        scores = np.zeros(len(self._index.numbers))
        for weight, word in self._held:
            scores[word.positions] += weight * word.scores
        there = np.flatnonzero(scores)
        return self._index.numbers[there], scores[there]

    def scores(self, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the BM25 of passages; 0 for a passage without any of the words."""
        return values_of(*self.passages, numbers)

    def documents(self, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the BM25 of the documents of live passages; 0 for a document without the words.

        The rarity of a word is counted over documents.
        """
        index = self._index
        if not self._held:
            return np.zeros(len(numbers))
        if any(len(word.in_documents[0]) > index.documents for _, word in self._held):
            raise damaged("more documents have a word than an index counts")
        ids = values_of(index.numbers, index.owners, numbers)
        norms = index.document_norms[ids]
        scores = np.zeros(len(numbers))
        for weight, word in self._held:
            documents, counts = word.in_documents
            times = values_of(documents, counts, ids)
            scores += weight * idf(index.documents, len(documents)) * tf_saturation(times, norms)
        return scores

    def full_passage(self) -> float:
        """Return the BM25 of a passage of average length with just the words of the question."""
        having = [(weight, len(word.positions)) for weight, word in self._held]
        return self._full(len(self._index.numbers), having)

    def full_document(self) -> float:
        """Return the BM25 of a document of average length with just the words of the question."""
        having = [(weight, len(word.in_documents[0])) for weight, word in self._held]
        return self._full(self._index.documents, having)

    def _full(self, count: int, having: Iterable[tuple[int, int]]) -> float:
        each = (weight * idf(count, those) for weight, those in having)
        return sum(each, self._missing * idf(count, 0))
