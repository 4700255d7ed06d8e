"""A vector store and a catalog, combined so that every write is found completely or not at all.

Writing follows one order. Each step is a transaction of the catalog, guarded by the lease:

1. chunks are staged, and vectors get numbers;
2. the store adds the vectors;
3. the new generations are published, together with their rows in the ledger;
4. dead versions are collected, 5. deleted in the store, 6. forgotten.

A crash may happen after any step. The next holder of the lease marks everything that an
interrupted writer has staged as dead, and the next sweep deletes dead numbers again.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from lorebind_config.errors import LeaseLostError, StoreError
from lorebind_knowledge.catalog.chunks import Chunks
from lorebind_knowledge.catalog.entries import entries_of, unit_vector
from lorebind_knowledge.catalog.ledger import put_documents, remove_documents
from lorebind_knowledge.catalog.versions import Versions
from lorebind_knowledge.index.memory import Memory
from lorebind_knowledge.plumbing.bridge import finish
from lorebind_knowledge.records import SPANS
from lorebind_knowledge.stores.base import ApproximateStore, LostVectorsError, StoredVector, batches

if TYPE_CHECKING:
    from lorebind_config.namespace import Namespace
    from lorebind_knowledge.catalog.catalog import Catalog
    from lorebind_knowledge.catalog.indexes import IndexEntry
    from lorebind_knowledge.catalog.leases import Lease
    from lorebind_knowledge.catalog.ledger import DocumentEntry
    from lorebind_knowledge.catalog.versions import Change
    from lorebind_knowledge.database.sql import Sql
    from lorebind_knowledge.index.view import View
    from lorebind_knowledge.records import Partition, Record, Vector
    from lorebind_knowledge.stores.base import VectorStore

T = TypeVar("T")

# All pauses take .6 s together on average, and an index is swept every three seconds at most.
_ATTEMPTS = 30
_LONGEST_PAUSE = 0.05
# Searches that are under way during a sweep have to begin again.
_SECONDS_BETWEEN_SWEEPS = 3.0
_DELETED_AT_ONCE = 1000
_COMPARED_AT_ONCE = 500
_SAMPLE = 20
_MUCH = 0.1
"""The share of an index above which a change is large."""


class Agreement(NamedTuple):
    """The result of comparing the store with the catalog for one index."""

    live: int
    """Number of chunks that searches find, by the catalog."""
    lost: list[int]
    """Numbers of the vectors that are missing in the store."""
    has_strays: bool = False
    """Whether the store has more vectors than the catalog knows of."""


class NoIndexError(LookupError):
    """A namespace has no index that can be searched."""


class SweptError(Exception):
    """The results of a read may be incomplete, because an index was swept in the meantime."""


class Version(NamedTuple):
    """The index that searches use, and its state."""

    index_uid: int
    number: int
    embedder_key: str
    address: str = ""


class Index:
    """The indexes of one vector database. Methods block; any number of threads may call them."""

    def __init__(self, store: VectorStore, catalog: Catalog) -> None:
        """
        Args:
            store: stores the vectors.
            catalog: stores everything else; it belongs to this store alone.
        """
        self.store, self.catalog = store, catalog
        self._memory = Memory()
        self._swept: dict[int, float] = {}
        self._changed: Counter[int] = Counter()
        """Number of chunks published or removed since the last `finish_load`, by index."""

    # Reading

    def read(self, namespace: Namespace, ask: Callable[[View], T]) -> T:
        """Return the result of `ask` for a view of the active index; see `read_indexes`.

        Raises:
            NoIndexError: nothing has been ingested.
        """

        def ask_view(views: Mapping[Namespace, View]) -> T:
            if namespace not in views:
                raise NoIndexError(namespace.kb)
            return ask(views[namespace])

        return read_indexes({self: [namespace]}, ask_view)

    @contextmanager
    def views(self, namespaces: Sequence[Namespace]) -> Iterator[dict[Namespace, View]]:
        """Open views of the active indexes, all at the same moment.

        Namespaces without an index have no view.

        Raises:
            SweptError: at the end of the block, if its results may be incomplete: the store may
                have deleted vectors that one of the views could see.
            LostVectorsError: the store has lost vectors.
        """
        lost: LostVectorsError | None = None
        with self.catalog.reading() as sql:
            views = self._views(sql, namespaces)
            try:
                yield views
            except LostVectorsError as error:
                lost = error
            # Ends the snapshot: it cannot see a sweep that began after it.
            sql.renew()
            swept = any(_was_swept(view) for view in views.values())
        # Vectors that a sweep deleted in the meantime look like lost ones, so this comes first.
        if swept:
            raise SweptError
        if lost is not None:
            raise lost

    def version(self, namespace: Namespace) -> Version | None:
        """Return a value that changes with every change to results; None without an index."""
        with self.catalog.reading() as sql:
            active = self.catalog.ledger.searched_within(sql, namespace)
        if active is None:
            return None
        index, state = active
        about = index.manifest
        return Version(index.index_uid, state.version, about.embedder_key, about.address)

    def _views(self, sql: Sql, namespaces: Sequence[Namespace]) -> dict[Namespace, View]:
        from lorebind_knowledge.index.view import View  # with NumPy, which only searches need

        views = {}
        for namespace in namespaces:
            if active := self.catalog.ledger.searched_within(sql, namespace):
                views[namespace] = View(*active, sql, self.store, self._memory)
        return views

    # Writing

    def stage(self, lease: Lease, index: IndexEntry, records: Sequence[Record]) -> None:
        """Write chunks with their vectors. No search finds them before they are published.

        A chunk replaces the staged chunk with the same document, generation and id.

        Raises:
            LeaseLostError: another writer has taken over; nothing was changed.
            StoreError: a record is invalid; its generation is not newer than the live one; an
                outage.
        """
        space = index.space
        entries = entries_of(records, space)
        if not entries:
            return
        with self.catalog.writing(lease) as sql:  # while other documents are published
            _check_there(sql, index)
            new = Versions(sql, space.index_uid).stage(entries, self.payload)
            if not self.store.returns_vectors:
                copies = {number: entry.vector for number, entry in new.items()}
                Chunks(sql, space.index_uid).keep_vectors(copies)
        # The catalog first, so that it knows every number that the store may ever have.
        vectors = [
            StoredVector(number, entry.vector, entry.text, self.payload(entry.metadata))
            for number, entry in new.items()
        ]
        if vectors:
            self.add_vectors(lease, index, vectors)

    def publish(
        self,
        lease: Lease,
        index: IndexEntry,
        generations: Mapping[str, int],
        rows: Sequence[DocumentEntry] = (),
        run_id: str = "",
    ) -> dict[str, Change]:
        """Make these generations of documents live, in one transaction with the ledger's rows.

        Returns:
            the numbers of added, removed and unchanged chunks of each document that changed.

        Raises:
            LeaseLostError: another writer has taken over; nothing was changed.
            StoreError: a newer generation is live already; an outage. Nothing was changed.
        """
        with self.changing(lease, index) as sql:
            _check_there(sql, index)
            changes = Versions(sql, index.index_uid).publish(generations)
            put_documents(sql, index.key, rows, run_id)
        self._changed[index.index_uid] += sum(
            change.added + change.removed for change in changes.values()
        )
        self._sweep_sometimes(lease, index)
        return changes

    def remove(self, lease: Lease, index: IndexEntry, uris: Sequence[str]) -> int:
        """Remove documents and their rows in the ledger, and return the number of their chunks."""
        with self.changing(lease, index) as sql:
            count = Versions(sql, index.index_uid).remove(uris)
            remove_documents(sql, index.key, uris)
        self._changed[index.index_uid] += count
        self._sweep_sometimes(lease, index)
        return count

    def sweep(self, lease: Lease, index: IndexEntry, *, abandon: bool = False) -> None:
        """Delete dead vectors and chunks, in the store and then in the catalog.

        Args:
            lease: the writer's.
            index: the index.
            abandon: also delete chunks that an earlier writer has staged and not published.
        """
        self._swept[index.index_uid] = time.monotonic()
        with self.changing(lease, index) as sql:
            if abandon:
                Versions(sql, index.index_uid).abandon()
            dead = Versions(sql, index.index_uid).collect_dead()
        if not dead.versions:
            return
        # The store first: if this process ends here, the next sweep still finds the dead versions.
        self._delete(index.space, dead.numbers)
        with self.changing(lease, index) as sql:
            Versions(sql, index.index_uid).forget(dead)

    def drop(self, lease: Lease, index: IndexEntry) -> None:
        """Remove an index that is not in use, in the store and then in the catalog."""
        with self.changing(lease, index) as sql:
            # Searches that are under way learn that vectors may be gone, and begin again.
            sql.run(
                "update catalog_indexes set swept = version + 1 where index_uid = :space",
                space=index.index_uid,
            )
        finish(self.store.drop(index.space))
        with self.changing(lease, index) as sql:
            Versions(sql, index.index_uid).drop()
            self.catalog.ledger.drop_index(sql, index.key)
        self._memory.forget(index.index_uid)

    def release(self, index: IndexEntry) -> None:
        """Free what is in memory for searches of an index that is no longer active."""
        self._memory.forget(index.index_uid)

    @contextmanager
    def changing(self, lease: Lease, index: IndexEntry) -> Iterator[Sql]:
        """Open a transaction that changes what searches find. Others of this kind wait for its end.

        Otherwise two could merge the same segments, or count the same dead vectors.

        Raises:
            LeaseLostError: another writer has taken over.
        """
        with self.catalog.writing(lease) as sql:
            if sql.is_postgres:  # SQLite has one transaction at a time anyway
                # Not the row of the index, from which `stage` takes numbers in the meantime.
                sql.run(
                    "select pg_advisory_xact_lock("
                    "'catalog_indexes'::regclass::oid::integer, hashint8(:space))",
                    space=index.index_uid,
                )
            yield sql

    def next_generations(self, index: IndexEntry, uris: Sequence[str]) -> dict[str, int]:
        """Return for each document a generation that is newer than all its generations."""
        with self.catalog.reading() as sql:
            return Versions(sql, index.index_uid).next_generations(uris)

    def uris(self, index: IndexEntry) -> list[str]:
        """Return the documents that have a live version, even one without chunks."""
        with self.catalog.reading() as sql:
            return Versions(sql, index.index_uid).live_documents()

    def chunk_ids(self, index: IndexEntry, uri: str) -> list[str]:
        """Return the ids of a document's live chunks, in order."""
        with self.catalog.reading() as sql:
            return Chunks(sql, index.index_uid).ids_of_document(uri)

    def note_changes(self, index: IndexEntry, chunks: int) -> None:
        """Count chunks that were written in another way than by `publish`, for `finish_load`."""
        self._changed[index.index_uid] += chunks

    def finish_load(self, index: IndexEntry) -> None:
        """Let the databases optimize searches of newly written data.

        Call it at the end of an ingest. Some databases do nothing.
        """
        with self.catalog.reading() as sql:
            state = Chunks(sql, index.index_uid).current_state()
        if state is not None and self._changed.pop(index.index_uid, 0) > _MUCH * state.live:
            self.catalog.finish_load()
        if isinstance(self.store, ApproximateStore):
            finish(self.store.finish_load(index.space))

    # Agreement

    def compare(self, index: IndexEntry, *, deep: bool = False) -> Agreement:
        """Compare the store with the catalog. Call it only when nothing is staged.

        The check takes milliseconds: it compares the number of vectors and looks up a few of them.
        If the database cannot count, it only looks up the few. With `deep`, it looks up every
        vector.
        """
        with self.catalog.reading() as sql:
            chunks = Chunks(sql, index.index_uid)
            state = chunks.current_state()
            if state is None:
                return Agreement(0, [])
            newest = chunks.newest_numbers(_SAMPLE)
        counted = finish(self.store.count(index.space))
        # An equal number may be other vectors, for example after a backup was restored.
        if not deep and counted in (None, state.entered) and not self._missing(index.space, newest):
            return Agreement(state.live, [])
        with self.catalog.reading() as sql:
            numbers = Chunks(sql, index.index_uid).live_numbers()
        has_strays = counted is not None and counted > state.entered
        return Agreement(state.live, self._missing(index.space, numbers), has_strays)

    def lost_texts(self, index: IndexEntry, numbers: Collection[int]) -> dict[int, str]:
        """Return the embedder's input for chunks whose vectors were lost, by number."""
        with self.catalog.reading() as sql:
            return Chunks(sql, index.index_uid).embedded_texts(numbers)

    def sample(self, index: IndexEntry, count: int) -> list[tuple[str, Vector | None]]:
        """Return the embedder's input for a few live chunks, with their vectors if available."""
        with self.catalog.reading() as sql:
            chunks = Chunks(sql, index.index_uid)
            numbers = chunks.newest_numbers(count)
            texts = chunks.embedded_texts(numbers)
        vectors = self.stored_vectors(index, numbers)
        return [(text, vectors.get(number)) for number, text in texts.items()]

    def stored_vectors(self, index: IndexEntry, numbers: Collection[int]) -> Mapping[int, Vector]:
        """Return vectors by number, from the store or else the catalog; lost ones are omitted."""
        if not self.store.returns_vectors:
            with self.catalog.reading() as sql:
                return Chunks(sql, index.index_uid).kept_vectors(numbers)
        stored = finish(self.store.get(index.space, numbers))
        return {number: vector for number, vector in stored.items() if vector is not None}

    def restore(self, lease: Lease, index: IndexEntry, vectors: Mapping[int, Vector]) -> None:
        """Add vectors that were lost, under their old numbers."""
        with self.catalog.writing(lease) as sql:
            whole = Chunks(sql, index.index_uid).chunks(vectors.keys())
        added = [
            StoredVector(
                n, unit_vector(vectors[n]), chunk.text, self.payload(json.dumps(chunk.metadata))
            )
            for n, chunk in whole.items()
        ]
        self.add_vectors(lease, index, added)

    def delete_strays(self, lease: Lease, index: IndexEntry) -> None:
        """Delete vectors that a writer has added after another one had taken over.

        No search finds them, but they make a count of vectors miss lost ones.
        """
        with self.changing(lease, index) as sql:
            numbers = Chunks(sql, index.index_uid).forgotten_numbers()
        self._delete(index.space, numbers)

    def close(self) -> None:
        """Close the store and the catalog."""
        finish(self.store.close())
        self.catalog.close()

    def add_vectors(self, lease: Lease, index: IndexEntry, vectors: Sequence[StoredVector]) -> None:
        """Add vectors to the store, and delete them again if another writer has taken over.

        The other writer may have tried to delete them before they were added, and would not try
        again.
        """
        finish(self.store.add(index.space, vectors))
        # The store knows no leases, so the lease is checked after its write.
        try:
            with self.catalog.writing(lease):
                pass
        except LeaseLostError:
            numbers = [vector.number for vector in vectors]
            with self.catalog.reading() as sql:
                live = Chunks(sql, index.index_uid).members(numbers)
            # A number that is not live now is dead or was never live: it is not needed again.
            finish(self.store.delete(index.space, [n for n in numbers if n not in live]))
            raise

    def _delete(self, space: Partition, numbers: Sequence[int]) -> None:
        for batch in batches(numbers, _DELETED_AT_ONCE):
            finish(self.store.delete(space, batch))

    def _missing(self, space: Partition, numbers: Sequence[int]) -> list[int]:
        missing = []
        for batch in batches(numbers, _COMPARED_AT_ONCE):
            try:
                there = finish(self.store.get(space, batch))
            except NotImplementedError:  # the database cannot look up vectors
                return []
            missing += [number for number in batch if number not in there]
        return missing

    def _sweep_sometimes(self, lease: Lease, index: IndexEntry) -> None:
        if (
            time.monotonic() - self._swept.setdefault(index.index_uid, 0.0)
            > _SECONDS_BETWEEN_SWEEPS
        ):
            self.sweep(lease, index)

    def payload(self, metadata: str) -> dict[str, Any]:
        """Return the part of a chunk's metadata, given as JSON, that the store receives."""
        if not self.store.filters:
            return {}
        return {key: value for key, value in json.loads(metadata).items() if key not in SPANS}


def _was_swept(view: View) -> bool:
    """Return whether the store may have deleted vectors that the view could see."""
    swept = view.swept()
    return swept is None or swept > view.state.version


def read_indexes(
    searched: Mapping[Index, Sequence[Namespace]], ask: Callable[[dict[Namespace, View]], T]
) -> T:
    """Return the result of `ask` for views of active indexes, each catalog's at the same moment.

    Namespaces without an index have no view. `ask` is called again if an index was swept in the
    meantime, so it must not change anything.

    Args:
        searched: the namespaces to read in each vector database.
        ask: reads the views.

    Raises:
        LostVectorsError: a store has lost vectors.
        StoreError: an outage, or the indexes kept changing.
    """
    # A catalog admits one reader, or some, at a time: all callers enter in the same order.
    ordered = sorted(searched, key=lambda index: index.catalog.order)
    for attempt in range(_ATTEMPTS):
        with suppress(SweptError), ExitStack() as opened:
            views: dict[Namespace, View] = {}
            for index in ordered:
                views |= opened.enter_context(index.views(searched[index]))
            return ask(views)
        time.sleep(random.uniform(0, min(0.001 * 2**attempt, _LONGEST_PAUSE)))
    owners = " and ".join(repr(namespace.kb) for index in ordered for namespace in searched[index])
    raise StoreError(
        f"{owners} kept changing while it was being searched; search again when there are fewer "
        "writes"
    )


def _check_there(sql: Sql, index: IndexEntry) -> None:
    if Chunks(sql, index.index_uid).current_state() is None:
        raise StoreError(f"{index.space} was dropped; run the ingest again")
