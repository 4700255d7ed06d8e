"""Any LangChain `VectorStore` as a store of ours.

The wrapped class keeps texts, metadata and vectors, and nominates what is near. A sidecar knows
which of its documents are live, and the exact cosine, from a copy of the vector in the metadata,
says how near; so scores, ties, filters and generations mean what they mean everywhere.

What that costs: every vector is kept twice, once as base64 (5.3 bytes a number), and comes back
with every hit. Filters and indexes are told apart after the search: it is repeated with a larger
`k` until enough is found or the class has no more. One thread at a time asks it, since LangChain
promises no more. Records of another dimension are kept by another object of the class, made with
the same arguments; a class that keeps one dimension only refuses them.
"""

from __future__ import annotations

import json
import threading
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from lorebind_knowledge.errors import StoreError
from lorebind_knowledge.filters import compile_filter
from lorebind_knowledge.records import DocumentMatch, StoredRecord
from lorebind_knowledge.stores.checks import (
    by_index,
    check_dimension,
    check_options,
    check_query,
    check_room,
    entries_of,
    named,
    not_opened,
)
from lorebind_knowledge.stores.langchain import sidecar as sidecar
from lorebind_knowledge.stores.matrix import ExactMatrix, normalised, score_of, unit_vector

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from lorebind_knowledge.filters import Predicate
    from lorebind_knowledge.namespace import IndexKey
    from lorebind_knowledge.records import Record, RecordFilter, SearchOptions, Vector
    from lorebind_knowledge.stores.checks import Entry
    from lorebind_knowledge.stores.langchain.wrapped import Passage, Recipe, Wrapped

# More than float32 loses in a product of unit vectors, and more than the last decimal of a score.
_MARGIN = 1e-5
_FEWEST = 32
_GROWTH = 4
_ATTEMPTS = 20


class LangChainStore:
    """A `VectorStore` and `FetchStore` over a class of LangChain; exact if that class is.

    `fetch` needs `get_by_ids` of the class. Lexical search is not offered.
    """

    def __init__(self, recipe: Recipe, path: Path | None) -> None:
        """
        Args:
            recipe: what makes the wrapped store.
            path: the sidecar's file; None keeps it in memory, for a class that does the same.
        """
        self._recipe = recipe
        self._sidecar = sidecar.Sidecar(path)
        self._turn = threading.RLock()
        self._made: dict[int, Wrapped] = {}
        self._live: dict[IndexKey, tuple[sidecar.Index, dict[str, sidecar.Identity]]] = {}
        self._closed = False

    def open(self, index: IndexKey, dimension: int) -> None:
        check_room(index, dimension)
        with self._using(create=True) as db:
            found = sidecar.find(db, index)
            if found is not None:
                check_dimension(index, found.dimension, dimension)
            elif db is not None:
                self._wrapped(dimension)  # what it was configured wrongly with is said here
                sidecar.make_index(db, index, dimension)

    def upsert(self, records: Sequence[Record]) -> None:
        groups = by_index(records)
        with self._turn:
            coming = self._announced(groups)
            try:
                for index, documents in coming:
                    self._wrapped(index.dimension).add(documents)
            except BaseException:
                with self._changing() as db:
                    for _, documents in coming:
                        sidecar.give_up(db, documents)
                raise
            with self._changing() as db:
                for index, documents in coming:
                    sidecar.stage(db, index, documents)
            self._bury()

    def publish(self, index: IndexKey, uri: str, generation: int) -> None:
        with self._using() as view:
            db, found = self._opened(view, index)
            sidecar.publish(db, found, uri, generation)
        self._bury()

    def similarity_search(self, vector: Vector, options: SearchOptions) -> list[DocumentMatch]:
        check_options(options)
        allows = compile_filter(options.where)
        vector = np.asarray(vector)
        with self._turn:
            for _ in range(_ATTEMPTS):
                found, live = self._snapshot(options.index)
                check_query(vector, options.index, found.dimension)
                try:
                    matches = self._nearest(vector, options, allows, live, found.dimension)
                except StoreError:
                    if self._snapshot(options.index)[0] == found:
                        raise
                    continue
                # Another process may have deleted what was live when the search began.
                if self._snapshot(options.index)[0] == found:
                    return matches
        raise StoreError(
            f"{self}: {named(options.index)} was changed again and again while it was searched; "
            "search again when less is written"
        )

    def fetch(self, index: IndexKey, ids: Collection[str]) -> dict[str, StoredRecord]:
        with self._turn:
            found, live = self._snapshot(index)
            wanted = set(ids)
            documents = [document for document, record in live.items() if record.id in wanted]
            passages = self._wrapped(found.dimension).get(documents) if documents else []
        if len(passages) < len(documents):
            raise self._lost(index, len(passages), len(documents))
        return {
            live[passage.document].id: StoredRecord(
                live[passage.document].id,
                live[passage.document].uri,
                passage.text,
                json.loads(passage.metadata),
                unit_vector(passage.vector),
            )
            for passage in passages
        }

    def delete_by_filter(self, filter: RecordFilter) -> int:  # noqa: A002 - the protocol's own word
        with self._using() as db:
            found = sidecar.find(db, filter.index)
            if db is None or found is None:
                return 0
            count = sidecar.condemn(db, found, filter)
        self._bury()
        return count

    def count(self, index: IndexKey) -> int:
        with self._turn:
            return len(self._snapshot(index)[1])

    def drop(self, index: IndexKey) -> None:
        with self._using() as db:
            found = sidecar.find(db, index)
            if db is None or found is None:
                return
            sidecar.drop_index(db, found)
        self._bury()

    def close(self) -> None:
        """What the wrapped class has opened is its own to close, and is let go of."""
        with self._turn:
            self._closed = True
            self._made, self._live = {}, {}
            self._sidecar.close()

    def __str__(self) -> str:
        return f"langchain store {self._recipe.name}"

    @contextmanager
    def _using(self, *, create: bool = False) -> Iterator[sqlite3.Connection | None]:
        with self._turn:
            if self._closed:
                raise StoreError(f"the {self} is closed")
            with self._sidecar.transaction(create=create) as db:
                yield db

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        with self._using() as db:
            if db is None:
                raise StoreError(
                    f"{self}: its file {self._sidecar.path} was removed while it was written; "
                    "restore it, or ingest again"
                )
            yield db

    def _opened(
        self, db: sqlite3.Connection | None, index: IndexKey
    ) -> tuple[sqlite3.Connection, sidecar.Index]:
        found = sidecar.find(db, index)
        if db is None or found is None:
            raise not_opened(index, self)
        return db, found

    def _announced(
        self, groups: Mapping[IndexKey, Sequence[Record]]
    ) -> list[tuple[sidecar.Index, dict[str, Entry]]]:
        """Records that were found fit to be stored, entered under the ids that they will have."""
        coming = []
        with self._using() as view:
            for index, group in groups.items():
                db, found = self._opened(view, index)
                entries = entries_of(group, found.dimension)
                documents = {str(uuid.uuid4()): entry for entry in entries}
                sidecar.enter(db, found, documents)
                coming.append((found, documents))
        return coming

    def _snapshot(self, index: IndexKey) -> tuple[sidecar.Index, dict[str, sidecar.Identity]]:
        """An index as it is now with its live documents, which are read when they have changed."""
        with self._using() as view:
            db, found = self._opened(view, index)
            known = self._live.get(index)
            if known is None or known[0] != found:
                known = self._live[index] = (found, sidecar.live(db, found))
            return known

    def _wrapped(self, dimension: int) -> Wrapped:
        from lorebind_knowledge.stores.langchain.wrapped import Wrapped

        if dimension not in self._made:
            self._made[dimension] = Wrapped(self._recipe, dimension)
        return self._made[dimension]

    def _bury(self) -> None:
        """Delete what is dead in the wrapped store, then forget it."""
        with self._turn:
            with self._changing() as db:
                found = sidecar.dead(db)
            for dimension, documents in found.items():
                self._wrapped(dimension).delete(documents)
                with self._changing() as db:
                    sidecar.forget(db, documents)

    def _nearest(
        self,
        vector: Vector,
        options: SearchOptions,
        allows: Predicate,
        live: Mapping[str, sidecar.Identity],
        dimension: int,
    ) -> list[DocumentMatch]:
        if options.ids is not None:
            wanted = set(options.ids)
            live = {document: record for document, record in live.items() if record.id in wanted}
        if not live:
            return []
        direction = normalised(vector.astype(np.float64))
        k = max(_FEWEST, _GROWTH * options.top_k)
        while True:
            found, exhausted = self._wrapped(dimension).nearest(vector, k)
            known = {passage.document: passage for passage in found if passage.document in live}
            complete = len(known) == len(live)
            if exhausted and not complete:
                raise self._lost(options.index, len(known), len(live))
            passing = [p for p in known.values() if allows(json.loads(p.metadata))]
            matches = _ranked(passing, live, direction, options, dimension)
            if complete or (direction.any() and _settled(matches, found, direction, options)):
                return matches
            k *= _GROWTH

    def _lost(self, index: IndexKey, found: int, expected: int) -> StoreError:
        return StoreError(
            f"{self}: {named(index)} should hold {expected} records, and the class gives {found} "
            "of them; if it does not keep them beyond the process, say so by 'persistent: false'; "
            "build the index anew with: lorebind knowledge ingest --strategy replace"
        )


def _ranked(
    passages: Sequence[Passage],
    live: Mapping[str, sidecar.Identity],
    direction: Any,
    options: SearchOptions,
    dimension: int,
) -> list[DocumentMatch]:
    """The best by the exact cosine."""
    matrix = ExactMatrix.empty(dimension).replaced(
        ((live[passage.document].id, row) for row, passage in enumerate(passages)),
        lambda rows: ((row, passages[row].vector) for row in rows),
    )
    matches = []
    for row, cosine in matrix.top(direction, options.top_k, options.min_score):
        passage = passages[row]
        record, metadata = live[passage.document], json.loads(passage.metadata)
        matches.append(
            DocumentMatch(
                record.id,
                score_of(cosine),
                {"dense": cosine},
                passage.text,
                metadata,
                record.generation,
            )
        )
    return matches


def _settled(
    matches: Sequence[DocumentMatch],
    found: Sequence[Passage],
    direction: Any,
    options: SearchOptions,
) -> bool:
    """Whether nothing that is farther than what was found can belong to the answer."""
    if not found:
        return False
    lowest = float(found[-1].handed @ direction) + _MARGIN
    if options.min_score is not None and 0 < options.min_score > lowest:
        return True
    # All that is not above 0 ties at the score 0, and goes by id.
    return len(matches) == options.top_k and matches[-1].score > max(lowest, 0.0)
