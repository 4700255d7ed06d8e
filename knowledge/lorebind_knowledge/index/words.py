"""The words of one index: BM25 of its passages and of its documents, the same in every database.

BM25 is computed here, so that no database ranks by its own formula. It is computed as SQLite's FTS5
does: https://www.sqlite.org/fts5.html#the_bm25_function
"""

from __future__ import annotations

from functools import cached_property
from itertools import starmap
from math import log
from operator import mul
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lorebind_knowledge.catalog.chunks import Chunks
from lorebind_knowledge.catalog.postings import WORDS
from lorebind_knowledge.catalog.rows import damaged
from lorebind_knowledge.index.matches import MANY, Matches, Passages, Term, values_of
from lorebind_knowledge.index.postings_cache import PostingsCache
from lorebind_knowledge.text.languages import DEFAULT
from lorebind_knowledge.text.terms import query_terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from lorebind_knowledge.catalog.segments import Segment
    from lorebind_knowledge.database.sql import Sql

K1, B = 1.2, 0.75
_NONE = np.zeros(0, np.int64)
_STEP = 8
"""Every passage at this step that has a frequent word is inspected before the others."""
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
        numbers = before._numbers if before else np.zeros(0, np.int32)
        new = {number: part.documents for number, part in segments.items() if number not in earlier}
        uris, places = np.unique(np.concatenate([_NONE, *new.values()]), return_inverse=True)
        at = np.searchsorted(hashes, uris)
        are_new = np.ones(len(uris), bool)
        inside = at < len(hashes)
        are_new[inside] = hashes[at[inside]] != uris[inside]
        new_numbers = np.empty(len(uris), np.int32)
        new_numbers[~are_new] = numbers[at[~are_new]]
        new_numbers[are_new] = np.arange(len(hashes), len(hashes) + are_new.sum())
        self._hashes: NDArray[np.int64] = np.insert(hashes, at[are_new], uris[are_new])
        """The documents, ascending."""
        self._numbers: NDArray[np.int32] = np.insert(numbers, at[are_new], new_numbers[are_new])
        ends = np.cumsum([len(part) for part in new.values()])
        numbered = dict(zip(new, np.split(new_numbers[places], ends), strict=False))
        self.by_segment: dict[int, NDArray[np.int32]] = {
            number: earlier[number] if number in earlier else numbered[number]
            for number in segments
        }
        """The document of each passage of each segment."""

    def __len__(self) -> int:
        return len(self._hashes)


class _PassagesOf(NamedTuple):
    """The passages of some documents."""

    positions: NDArray[np.int32]
    """The passages, ascending."""
    owners: NDArray[np.int32]
    """A number from 0 for the document of each passage."""
    documents: NDArray[np.int32]
    """The number of each document."""


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
        self.owners = np.concatenate([_NONE.astype(np.int32), *numbered.by_segment.values()])
        """The document of each passage, as a number from 0."""
        self.documents = sum(languages.values())
        self.languages = languages.keys() - {""}  # documents without text have no language
        live = self.lengths if self.live is None else self.lengths[self.live]
        words = max(int(live.sum(dtype=np.int64)), 1)  # so that an index without words has norms
        self.average, self.document_average = (
            words / max(count, 1) for count in (self.count, self.documents)
        )
        """The average length of passages and of documents."""
        self.least_norm = length_norm(int(live.min()) if len(live) else 0, self.average)
        """That of the shortest passage."""

    @cached_property
    def document_norms(self) -> NDArray[np.float64]:
        """The norm of each document, for `tf_saturation`."""
        live = slice(None) if self.live is None else self.live
        lengths = np.bincount(self.owners[live], self.lengths[live], len(self.numbered))
        norms: NDArray[np.float64] = length_norm(lengths, self.document_average)
        return norms

    @cached_property
    def _runs(self) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
        """Where passages of another document begin and the last ones end, and each one's owner.

        The passages of a document usually follow each other, so there are far fewer of these.
        """
        changes = np.flatnonzero(self.owners[1:] != self.owners[:-1]) + 1
        starts = np.concatenate([[0], changes])
        return np.append(starts, len(self.owners)), self.owners[starts]

    def passages_of(self, documents: NDArray[np.int32]) -> _PassagesOf:
        """Return the live passages of some documents."""
        chosen = np.zeros(len(self.numbered), bool)
        chosen[documents] = True
        starts, owners = self._runs
        runs = np.flatnonzero(chosen[owners])
        parts = map(np.arange, starts[runs], starts[runs + 1])
        positions = np.concatenate([_NONE, *parts]).astype(np.int32)
        if self.live is not None:
            positions = positions[self.live[positions]]
        places = np.empty(len(chosen), np.int32)
        places[documents] = np.arange(len(documents))  # one place for equal documents
        return _PassagesOf(positions, places[self.owners[positions]], places[documents])


class _Word(Term[_Passages]):
    """The passages of an index version that contain a word, and how often it occurs in each."""

    def __init__(
        self, passages: _Passages, positions: NDArray[np.int32], times: NDArray[np.uint8]
    ) -> None:
        super().__init__(passages, positions, times)
        self.idf = idf(passages.count, len(positions))
        self.most = self.idf * tf_saturation(int(times.max()), passages.least_norm)

    def scores_at(self, places: NDArray[np.intp] | slice) -> NDArray[np.float64]:
        """Return the BM25 of some of the passages for one occurrence in the question."""
        lengths = self.passages.lengths[self.positions[places]]
        norms = length_norm(lengths, self.passages.average)
        scores: NDArray[np.float64] = self.idf * tf_saturation(self.weights[places], norms)
        return scores

    @cached_property
    def in_documents(self) -> tuple[NDArray[np.intp], NDArray[Any]]:
        """The documents that contain the word, ascending, and its count in each."""
        counts = np.bincount(self.passages.owners[self.positions], self.weights)
        documents = np.flatnonzero(counts)
        return documents, counts[documents]

    @cached_property
    def document_idf(self) -> float:
        """The weight of the word by the number of documents that contain it."""
        index = self.passages
        contain = np.zeros(len(index.numbered), bool)
        count = 0
        # A word that half of all documents contain weighs least, which some of its passages show.
        for step in (_STEP, 1) if len(self.positions) > index.documents else (1,):
            contain[index.owners[self.positions[::step]]] = True
            count = int(np.count_nonzero(contain))
            if 2 * count >= index.documents:
                break
        if count > index.documents:
            raise damaged("more documents have a word than an index counts")
        return idf(index.documents, count)


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


class QueryWords(Matches[_Passages, _Word]):
    """The words of one question, looked up in an index at one moment."""

    def __init__(self, index: _Passages, held: Sequence[tuple[int, _Word]], missing: int) -> None:
        """
        Args:
            index: the passages.
            held: for each word that passages contain, its count in the question.
            missing: the number of words of the question that no passage contains.
        """
        super().__init__(index, held)
        self._missing = missing

    def documents(self, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the BM25 of the documents of live passages; 0 for a document without the words.

        The rarity of a word is counted over documents.
        """
        if not self._held:
            return np.zeros(len(numbers))
        index = self._index
        documents = index.owners[index.positions_of(numbers)]
        scores: NDArray[np.float64] = np.zeros(len(documents))
        if index.count <= MANY:
            norms = index.document_norms[documents]
            for weight, word in self._held:
                times = values_of(*word.in_documents, documents)
                scores += weight * word.document_idf * tf_saturation(times, norms)
            return scores
        some = index.passages_of(documents)

        def sums(places: Any, figures: NDArray[Any]) -> Any:
            return np.bincount(some.owners[places], figures, len(documents))[some.documents]

        lengths = sums(slice(None), index.lengths[some.positions])
        norms = length_norm(lengths, index.document_average)
        for weight, word in self._held:
            there, places = word.find(some.positions)
            times = sums(there, word.weights[places])
            scores += weight * word.document_idf * tf_saturation(times, norms)
        return scores

    def full_passage(self) -> float:
        """Return the BM25 of a passage of average length with just the words of the question."""
        weights = ((weight, word.idf) for weight, word in self._held)
        return self._full(self._index.count, weights)

    def full_document(self) -> float:
        """Return the BM25 of a document of average length with just the words of the question."""
        weights = ((weight, word.document_idf) for weight, word in self._held)
        return self._full(self._index.documents, weights)

    def _full(self, count: int, weights: Iterable[tuple[float, float]]) -> float:
        return sum(starmap(mul, weights), self._missing * idf(count, 0))
