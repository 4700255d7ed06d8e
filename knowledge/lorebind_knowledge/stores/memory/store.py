"""The store that keeps everything in memory: for tests, notebooks and short-lived processes."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from lorebind_knowledge.errors import StoreError
from lorebind_knowledge.filters import compile_filter
from lorebind_knowledge.records import DocumentMatch, StoredRecord
from lorebind_knowledge.stores.checks import (
    Entry,
    by_index,
    check_dimension,
    check_options,
    check_query,
    check_room,
    entries_of,
    not_opened,
)
from lorebind_knowledge.stores.lexical import best_matches
from lorebind_knowledge.stores.masks import Masks
from lorebind_knowledge.stores.matrix import ExactMatrix, score_of, unit_vector
from lorebind_knowledge.stores.memory.words import MemoryWords
from lorebind_knowledge.stores.terms import terms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from lorebind_knowledge.namespace import IndexKey
    from lorebind_knowledge.records import Record, RecordFilter, SearchOptions, Vector


@dataclass(frozen=True, slots=True, eq=False)
class _Stored:
    row: int
    """A number of its own, never given again."""
    entry: Entry


@dataclass(slots=True, eq=False)
class _Document:
    """The records of one document, by id and generation."""

    staged: dict[tuple[str, int], _Stored] = field(default_factory=dict)
    live: dict[tuple[str, int], _Stored] = field(default_factory=dict)

    def publish(self, generation: int) -> bool:
        """Make a generation the live one; whether that changed what is live."""
        rising = {key: stored for key, stored in self.staged.items() if key[1] == generation}
        falling = {key: stored for key, stored in self.live.items() if key[1] != generation}
        for key in rising:
            del self.staged[key]
        for key in falling:
            del self.live[key]
        # What was staged again since is newer than what was live.
        self.staged = falling | self.staged
        self.live |= rising
        return bool(rising or falling)

    def delete(self, filter: RecordFilter) -> tuple[int, bool]:  # noqa: A002 - the protocol's own word
        """How many records went, and whether live ones were among them."""
        before = len(self.staged), len(self.live)
        self.staged = {key: kept for key, kept in self.staged.items() if not _meant(key, filter)}
        self.live = {key: kept for key, kept in self.live.items() if not _meant(key, filter)}
        gone = before[0] - len(self.staged), before[1] - len(self.live)
        return sum(gone), gone[1] > 0


@dataclass(frozen=True, eq=False)
class _Snapshot:
    """All that is published in an index at one moment. Immutable."""

    matrix: ExactMatrix
    entries: dict[int, Entry]
    masks: Masks

    @cached_property
    def rows(self) -> dict[str, int]:
        """The row of each id."""
        return {entry.id: row for row, entry in self.entries.items()}


class _Index:
    """One index; only to be used under the store's lock, but for the snapshots it gives."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self.documents: dict[str, _Document] = {}
        self._rows = count(1)
        self.words = MemoryWords()
        self._snapshot: _Snapshot | None = None
        self._stale = True

    def stage(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            document = self.documents.setdefault(entry.uri, _Document())
            document.staged[entry.id, entry.generation] = _Stored(next(self._rows), entry)

    def publish(self, uri: str, generation: int) -> None:
        document = self.documents.get(uri)
        if document is not None and document.publish(generation):
            self._stale = True

    def keep_published(self, uri: str) -> None:
        document = self.documents.get(uri)
        if document is not None:
            document.staged = {}
            if not document.live:
                del self.documents[uri]

    def delete(self, filter: RecordFilter) -> int:  # noqa: A002 - the protocol's own word
        uris = list(self.documents) if filter.uri is None else [filter.uri]
        total = 0
        for uri in uris:
            document = self.documents.get(uri)
            if document is None:
                continue
            gone, visible = document.delete(filter)
            total += gone
            self._stale = self._stale or visible
            if not document.staged and not document.live:
                del self.documents[uri]
        return total

    def live(self) -> Iterator[_Stored]:
        for document in self.documents.values():
            yield from document.live.values()

    def snapshot(self) -> _Snapshot:
        if self._snapshot is None or self._stale:
            before = self._snapshot
            entries = {stored.row: stored.entry for stored in self.live()}
            matrix = ExactMatrix.empty(self.dimension) if before is None else before.matrix
            matrix = matrix.replaced(
                ((entry.id, row) for row, entry in entries.items()),
                lambda rows: ((row, entries[row].vector) for row in rows),
            )
            masks = Masks(matrix.rows, None if before is None else before.masks)
            self._snapshot = _Snapshot(matrix, entries, masks)
            self._stale = False
        return self._snapshot


class MemoryStore:
    """A `VectorStore`, `LexicalStore` and `FetchStore` in memory; exact, gone with the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._indexes: dict[IndexKey, _Index] = {}
        self._closed = False

    def open(self, index: IndexKey, dimension: int) -> None:
        check_room(index, dimension)
        with self._lock:
            self._check_usable()
            known = self._indexes.setdefault(index, _Index(dimension))
            check_dimension(index, known.dimension, dimension)

    def upsert(self, records: Sequence[Record]) -> None:
        groups = by_index(records)
        with self._lock:
            dimensions = {index: self._index(index).dimension for index in groups}
        checked = {index: entries_of(group, dimensions[index]) for index, group in groups.items()}
        with self._lock:
            # An index may have been dropped meanwhile: find all of them before writing to any.
            indexes = [(self._index(index), entries) for index, entries in checked.items()]
            for index, entries in indexes:
                index.stage(entries)

    def publish(self, index: IndexKey, uri: str, generation: int) -> None:
        with self._lock:
            self._index(index).publish(uri, generation)

    def replace_documents(self, index: IndexKey, generations: Mapping[str, int]) -> None:
        with self._lock:
            opened = self._index(index)
            for uri, generation in generations.items():
                opened.publish(uri, generation)
                opened.keep_published(uri)

    def similarity_search(self, vector: Vector, options: SearchOptions) -> list[DocumentMatch]:
        check_options(options)
        compile_filter(options.where)
        with self._lock:
            index = self._index(options.index)
            vector = np.asarray(vector)
            check_query(vector, options.index, index.dimension)
            snapshot = index.snapshot()
        entries = snapshot.entries
        allowed = snapshot.masks.mask(
            options.where, lambda rows: ((row, entries[row].metadata) for row in rows)
        )
        if options.ids is not None:
            among = [snapshot.rows[name] for name in options.ids if name in snapshot.rows]
            allowed = snapshot.matrix.among(among, allowed)
        found = snapshot.matrix.top(vector, options.top_k, options.min_score, allowed)
        return [_match(entries[row], cosine) for row, cosine in found]

    def lexical_search(self, query: str, options: SearchOptions) -> list[DocumentMatch]:
        check_options(options)
        allows = compile_filter(options.where)
        words = terms(query)
        among = None if options.ids is None else set(options.ids)
        with self._lock:
            index = self._index(options.index)
            entries = index.snapshot().entries
            ranked = index.words.ranked(entries, words) if words else []
        found = ((entries[row], bm25) for row, bm25 in ranked)
        rows = (
            (entry.id, entry.text, entry.metadata, entry.generation, bm25)
            for entry, bm25 in found
            if among is None or entry.id in among
        )
        return best_matches(rows, allows, options.top_k)

    def fetch(self, index: IndexKey, ids: Collection[str]) -> dict[str, StoredRecord]:
        with self._lock:
            snapshot = self._index(index).snapshot()
        entries = [snapshot.entries[snapshot.rows[name]] for name in ids if name in snapshot.rows]
        return {
            entry.id: StoredRecord(
                entry.id,
                entry.uri,
                entry.text,
                json.loads(entry.metadata),
                unit_vector(entry.vector),
            )
            for entry in entries
        }

    def delete_by_filter(self, filter: RecordFilter) -> int:  # noqa: A002 - the protocol's own word
        with self._lock:
            self._check_usable()
            index = self._indexes.get(filter.index)
            return 0 if index is None else index.delete(filter)

    def count(self, index: IndexKey) -> int:
        with self._lock:
            return sum(1 for _ in self._index(index).live())

    def drop(self, index: IndexKey) -> None:
        with self._lock:
            self._check_usable()
            dropped = self._indexes.pop(index, None)
            if dropped is not None:
                dropped.words.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for index in self._indexes.values():
                index.words.close()
            self._indexes = {}

    def __str__(self) -> str:
        return "memory store"

    def _index(self, index: IndexKey) -> _Index:
        self._check_usable()
        known = self._indexes.get(index)
        if known is None:
            raise not_opened(index, self)
        return known

    def _check_usable(self) -> None:
        if self._closed:
            raise StoreError(f"the {self} is closed")


def _meant(key: tuple[str, int], filter: RecordFilter) -> bool:  # noqa: A002 - the protocol's own word
    _, generation = key
    return filter.generation in (None, generation) and filter.except_generation != generation


def _match(entry: Entry, cosine: float) -> DocumentMatch:
    return DocumentMatch(
        id=entry.id,
        score=score_of(cosine),
        scores={"dense": cosine},
        text=entry.text,
        metadata=json.loads(entry.metadata),
        generation=entry.generation,
    )
