"""The store in PostgreSQL with pgvector: for many processes and machines."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lorebind_knowledge.catalog.postgres import PostgresAddress
from lorebind_knowledge.declarations.vector_dbs import AnnIndexConfig, PoolConfig
from lorebind_knowledge.errors import StoreError
from lorebind_knowledge.records import DocumentMatch, StoredRecord
from lorebind_knowledge.stores.checks import (
    by_index,
    check_dimension,
    check_options,
    check_query,
    check_room,
    not_opened,
)
from lorebind_knowledge.stores.matrix import normalised, score_of
from lorebind_knowledge.stores.pgvector import queries, versions
from lorebind_knowledge.stores.pgvector.ann import AnnIndex
from lorebind_knowledge.stores.pgvector.connections import Connections
from lorebind_knowledge.stores.pgvector.filters import sql_filter
from lorebind_knowledge.stores.pgvector.langchain_rows import LangChainRows
from lorebind_knowledge.stores.pgvector.making import make
from lorebind_knowledge.stores.pgvector.rows import vector_of, vector_text
from lorebind_knowledge.stores.pgvector.schema import SCHEMA_VERSION, Tables
from lorebind_knowledge.stores.pgvector.terms import query_terms, word_number

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import psycopg
    from numpy.typing import NDArray

    from lorebind_knowledge.declarations.vector_dbs import Metric
    from lorebind_knowledge.namespace import IndexKey
    from lorebind_knowledge.records import Record, RecordFilter, SearchOptions, Vector

log = logging.getLogger(__name__)


class _Index(NamedTuple):
    """An index as one transaction sees it."""

    key: int
    dimension: int
    records: int
    words: int


class PgvectorStore:
    """A `VectorStore`, `LexicalStore` and `FetchStore` in PostgreSQL.

    Extension and tables are made when the first index is opened. Vectors are kept at length 1, of
    any dimension beside each other. Methods block: each is a few round trips, and threads serve
    every event loop alike. Any number of threads and processes may use the table at once.

    LangChain's `PGVectorStore` can open the table, and this store one of its own; what either sees
    of the other is said in `langchain_rows`.

    Searches are exact. With `ensure_index`, an index of `ann_from` records or more gets an
    approximate one: the first search that misses it has it built in the background, so that no
    ingest waits for it, and is answered exactly meanwhile.
    """

    def __init__(
        self,
        dsn: str | PostgresAddress,
        *,
        table: str = "knowledge_chunks",
        ensure_schema: bool = True,
        ensure_index: bool = False,
        index: AnnIndexConfig | None = None,
        metric: Metric = "cosine",
        dimension: int | None = None,
        pool: PoolConfig | None = None,
        ann_from: int = 10_000,
    ) -> None:
        """
        Raises:
            UsageError: the DSN or the name of the table cannot be.
            MissingDependencyError: psycopg is not installed.
        """
        address = PostgresAddress(dsn) if isinstance(dsn, str) else dsn
        self._name = f"pgvector store, table {table!r} at {address}"
        self._tables = Tables(table)
        self._langchain = LangChainRows(self._tables, self._name)
        self.langchain_index = self._langchain.index
        """The index of what LangChain's `PGVectorStore` has written, see `langchain_rows`."""
        self._db = Connections(address, self._name, pool or PoolConfig())
        self._ensure_schema = ensure_schema
        self._ann = AnnIndex(self._tables, index or AnnIndexConfig(), metric)
        self._ann_from = ann_from if ensure_index else None
        self._dimension = dimension
        self._has_tables = False
        self._building: set[int] = set()

    def open(self, index: IndexKey, dimension: int) -> None:
        check_room(index, dimension)
        if self._dimension is not None:
            check_dimension(index, self._dimension, dimension)
        if self._ann_from is not None:
            self._ann.check(dimension)
        with self._reading() as db:
            if index == self.langchain_index:
                self._langchain.open(db, dimension)
                return
            found = self._find(db, index)
        if found is None:
            with self._writing() as db:
                make(self._tables, db, self._name, allowed=self._ensure_schema)
                self._has_tables = True
                db.execute(
                    f"insert into {self._tables.indexes}"
                    " (tenant, project, scope, kb, number, dimension)"
                    " values (%s, %s, %s, %s, %s, %s) on conflict do nothing",
                    (*_names(index), dimension),
                )
                found = self._opened(db, index)
        check_dimension(index, found.dimension, dimension)

    def upsert(self, records: Sequence[Record]) -> None:
        if not records:
            return
        with self._writing() as db:
            for index, group in sorted(by_index(records).items()):
                # Held so that the index is not dropped meanwhile; many may hold it so.
                found = self._opened(db, index, "for key share")
                versions.stage(db, self._tables, found.key, found.dimension, group)

    def publish(self, index: IndexKey, uri: str, generation: int) -> None:
        self._publish(index, {uri: generation}, keep_others=True)

    def replace_documents(self, index: IndexKey, generations: Mapping[str, int]) -> None:
        self._publish(index, generations, keep_others=False)

    def _publish(
        self, index: IndexKey, generations: Mapping[str, int], *, keep_others: bool
    ) -> None:
        with self._writing() as db:
            found = self._opened(db, index, "for no key update")
            versions.publish(db, self._tables, found.key, generations, keep_others=keep_others)

    def similarity_search(self, vector: Vector, options: SearchOptions) -> list[DocumentMatch]:
        check_options(options)
        allowed, values = _allowed(options)
        with self._reading() as db:
            vector = np.asarray(vector)
            if options.index == self.langchain_index:
                hits = self._langchain.search(db, vector, options, allowed, values)
                return _best(hits, options)
            found = self._opened(db, options.index)
            check_query(vector, options.index, found.dimension)
            direction = normalised(vector.astype(np.float64))
            values |= {
                "key": found.key,
                "k": options.top_k,
                "query": vector_text(direction.astype(np.float32)),
            }
            hits = []
            if self._approximate(db, options.index, found):
                filtered = bool(options.where) or options.ids is not None
                self._ann.prepare(db, options.top_k, found.records, filtered=filtered)
                order = self._ann.order(found.dimension, "%(query)s")
                some = {"candidates": self._ann.candidates(options.top_k)}
                hits = _matches(
                    db.execute(queries.nearest(self._tables, allowed, order), values | some),
                    direction,
                )
            if _above_zero(hits) < options.top_k:
                # All that there is, or a filter that leaves less than an approximate search finds.
                hits = _matches(
                    db.execute(queries.nearest(self._tables, allowed), values), direction
                )
            if _above_zero(hits) < options.top_k and (options.min_score or 0) <= 0:
                rest = db.execute(queries.unrelated(self._tables, allowed), values)
                hits += _matches(rest, direction)
        return _best(hits, options)

    def lexical_search(self, query: str, options: SearchOptions) -> list[DocumentMatch]:
        check_options(options)
        allowed, values = _allowed(options)
        words = query_terms(query)
        if options.index == self.langchain_index:
            raise self._langchain.refuse_words()
        with self._reading() as db:
            found = self._opened(db, options.index)
            if not words or not found.words:
                return []
            values |= {
                "key": found.key,
                "k": options.top_k,
                "words": [word_number(found.key, word) for word in words],
                "weights": list(words.values()),
                "records": found.records,
                "average": found.words / found.records,
            }
            # The planner does not know what it costs to unpack the words of every row.
            db.execute("set local enable_seqscan = off")
            rows = db.execute(queries.best_by_words(self._tables, allowed, len(words)), values)
            return [
                DocumentMatch(id_, score, {"lexical": bm25}, text, metadata, generation)
                for id_, text, metadata, generation, bm25, score in rows
            ]

    def fetch(self, index: IndexKey, ids: Collection[str]) -> dict[str, StoredRecord]:
        with self._reading() as db:
            if index == self.langchain_index:
                return self._langchain.fetch(db, ids)
            found = self._opened(db, index)
            rows = db.execute(
                "select chunk_id, uri, content, langchain_metadata, vector_send(embedding)"
                f" from {self._tables.rows} as r where index_key = %s"
                f" and chunk_id = any(%s::text[]) and {self._tables.is_published('r')}",
                (found.key, list(ids)),
            )
            return {
                id_: StoredRecord(id_, uri, text, metadata, vector_of(binary))
                for id_, uri, text, metadata, binary in rows
            }

    def delete_by_filter(self, filter: RecordFilter) -> int:  # noqa: A002 - the protocol's own word
        with self._writing() as db:
            found = self._find(db, filter.index, "for no key update")
            return 0 if found is None else versions.delete(db, self._tables, found.key, filter)

    def count(self, index: IndexKey) -> int:
        with self._reading() as db:
            if index == self.langchain_index:
                return self._langchain.count(db)
            return self._opened(db, index).records

    def drop(self, index: IndexKey) -> None:
        with self._writing() as db:
            found = self._find(db, index, "for update")
            if found is not None:
                for table in (self._tables.rows, self._tables.docs):
                    db.execute(f"delete from {table} where index_key = %s", [found.key])
                db.execute(f"delete from {self._tables.indexes} where key = %s", [found.key])

    def finish_load(self, index: IndexKey) -> None:
        with self._reading() as db:
            records = self._opened(db, index).records
        if self._ann_from is not None and records >= self._ann_from and self._ensure_schema:
            self.build_index(index)

    def build_index(self, index: IndexKey) -> None:
        """Make the approximate index of an index now, and wait for it.

        A search does so in the background; call this at the end of a bulk load to have it at once.
        Nothing happens if it is there, or if another process is making it.

        Raises:
            StoreError: the index was not opened; `ensure_schema` is false, which forbids to make
                it (the text has the statement that does); or PostgreSQL refused.
        """
        with self._reading() as db:
            found = self._opened(db, index)
        if not self._ensure_schema:
            raise StoreError(
                f"{self._name}: the approximate index is missing, and ensure_schema is false; "
                f"make it with:\n{self._ann.sql(*found[:3])};"
            )
        with self._db.single() as db:
            self._ann.build(db, *found[:3])

    def close(self) -> None:
        self._db.close()

    def __str__(self) -> str:
        return self._name

    @contextmanager
    def _reading(self) -> Iterator[psycopg.Connection]:
        self._look_for_tables()
        with self._db.reading() as db:
            yield db

    @contextmanager
    def _writing(self) -> Iterator[psycopg.Connection]:
        self._look_for_tables()
        with self._db.writing() as db:
            yield db

    def _look_for_tables(self) -> None:
        """Note whether there are tables; those of an earlier version are brought to this one."""
        if self._has_tables:
            return
        with self._db.reading() as db:
            version = self._tables.found(db, self._name)
        if version is not None and version < SCHEMA_VERSION:
            with self._db.writing() as db:
                make(self._tables, db, self._name, allowed=self._ensure_schema)
        self._has_tables = version is not None

    def _find(self, db: psycopg.Connection, index: IndexKey, lock: str = "") -> _Index | None:
        if not self._has_tables:
            return None
        try:
            row = db.execute(
                f"select key, dimension, records, words from {self._tables.indexes} where"
                f" tenant = %s and project = %s and scope = %s and kb = %s and number = %s {lock}",
                _names(index),
            ).fetchone()
        except self._db.errors.UndefinedTable:
            self._has_tables = False  # somebody dropped them: the next call looks for them
            raise
        return None if row is None else _Index(*row)

    def _opened(self, db: psycopg.Connection, index: IndexKey, lock: str = "") -> _Index:
        found = self._find(db, index, lock)
        if found is None:
            raise not_opened(index, self)
        return found

    def _approximate(self, db: psycopg.Connection, index: IndexKey, found: _Index) -> bool:
        """Whether the search can use an approximate index; one that should be there is begun."""
        if self._ann_from is None or found.records < self._ann_from:
            return False
        row = db.execute(
            "select indisvalid from pg_index where indexrelid = to_regclass(%s)",
            [f'"{self._ann.name(found.key)}"'],
        ).fetchone()
        if row and row[0]:
            return True
        if found.key not in self._building:
            self._building.add(found.key)
            threading.Thread(
                target=self._build_behind, args=[index], name="lorebind-pgvector", daemon=True
            ).start()
        return False

    def _build_behind(self, index: IndexKey) -> None:
        try:
            self.build_index(index)
        except Exception as error:
            # Searches stay exact, and so right: this is about their speed only.
            log.warning("%s", error)


def _names(index: IndexKey) -> tuple[str, str, str, str, int]:
    owner = index.namespace
    return owner.tenant, owner.project, owner.scope, owner.kb, index.number


def _allowed(options: SearchOptions) -> tuple[str, dict[str, Any]]:
    """The condition for the records that a search may return."""
    allowed, values = sql_filter(options.where)
    if options.ids is not None:
        allowed += " and chunk_id = any(%(ids)s::text[])"
        values["ids"] = list(options.ids)
    return f"({allowed})", values


def _best(hits: list[DocumentMatch], options: SearchOptions) -> list[DocumentMatch]:
    hits.sort(key=lambda hit: (-hit.score, hit.id))
    low = options.min_score
    return [hit for hit in hits[: options.top_k] if low is None or hit.score >= low]


def _matches(rows: psycopg.Cursor[Any], direction: NDArray[np.float64]) -> list[DocumentMatch]:
    matches = []
    for id_, text, metadata, generation, binary in rows:
        cosine = float((vector_of(binary) * direction).sum())
        scores = {"dense": cosine}
        matches.append(DocumentMatch(id_, score_of(cosine), scores, text, metadata, generation))
    return matches


def _above_zero(hits: Sequence[DocumentMatch]) -> int:
    return sum(hit.score > 0 for hit in hits)
