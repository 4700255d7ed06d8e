"""What LangChain's `PGVectorStore` and this store see of each other's rows.

A table of ours, opened by `PGVectorStore`: it finds what is published, in one state. Its filters
take `chunk_id`, `tenant`, `project`, `scope`, `kb`, `number`, `uri` and `generation` where they are
given as `metadata_columns`, and a search over several knowledge bases wants them. A document's id
is the row's, new with every version of the document; open the table with `id_column="chunk_id"`,
for reading only, to have the ids that we use. What it adds is found by itself at once. It may
change and delete what it has added; PostgreSQL refuses that for a row that was ingested.

A table that `PGVectorStore` has made, named as ours: it stays as it is and is only read. What is
ingested is kept beside it, in tables that begin with its name, and is not found by `PGVectorStore`.

Either way `PGVectorStore`'s rows are of no knowledge base. Here they are the index
`PgvectorStore.langchain_index`, which can be opened, searched by similarity (with its own
approximate index, if it has made one), filtered, counted and fetched from, and not written to. It
has no words: a lexical search of it is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lorebind_knowledge.errors import StoreError
from lorebind_knowledge.namespace import IndexKey, Namespace
from lorebind_knowledge.records import DocumentMatch, StoredRecord
from lorebind_knowledge.stores.checks import check_dimension, check_query, not_opened
from lorebind_knowledge.stores.matrix import normalised, score_of, unit_vector
from lorebind_knowledge.stores.pgvector.rows import vector_of, vector_text
from lorebind_knowledge.stores.pgvector.schema import LANGCHAIN_VERSION, SHOWN

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import psycopg

    from lorebind_knowledge.records import SearchOptions, Vector
    from lorebind_knowledge.stores.pgvector.schema import Tables

_OWN = ("langchain_id", "content", "embedding", "langchain_metadata", "chunk_id")
# Distances are of single precision: so many more are asked for, and put into order here.
_SPARE = 10


class LangChainRows:
    """The rows of one table that `PGVectorStore` has written."""

    def __init__(self, tables: Tables, store: str) -> None:
        self.index = IndexKey(Namespace("", "", "langchain", tables.name), 0)
        self._tables = tables
        self._store = store

    def open(self, db: psycopg.Connection, dimension: int) -> None:
        """
        Raises:
            IndexMismatchError: the vectors that are there are of another dimension.
        """
        stored = self._dimension(db, self._relation(db))
        if stored is not None:
            check_dimension(self.index, stored, dimension)

    def search(
        self,
        db: psycopg.Connection,
        vector: Vector,
        options: SearchOptions,
        allowed: str,
        values: Mapping[str, Any],
    ) -> list[DocumentMatch]:
        """The nearest rows that pass the condition `allowed`; any number, in any order."""
        relation = self._relation(db)
        stored = self._dimension(db, relation)
        check_query(vector, self.index, len(vector) if stored is None else stored)
        direction = normalised(vector.astype(np.float64))
        rows = db.execute(
            f"select chunk_id, content, fields, vector_send(embedding::vector) from {relation}"
            f" where {allowed} order by embedding <=> %(query)s, chunk_id limit %(most)s",
            {**values, "query": vector_text(vector), "most": options.top_k + _SPARE},
        )
        matches = []
        for id_, text, metadata, binary in rows:
            cosine = float((unit_vector(vector_of(binary)) * direction).sum())
            matches.append(DocumentMatch(id_, score_of(cosine), {"dense": cosine}, text, metadata))
        return matches

    def fetch(self, db: psycopg.Connection, ids: Collection[str]) -> dict[str, StoredRecord]:
        rows = db.execute(
            "select chunk_id, content, fields, vector_send(embedding::vector)"
            f" from {self._relation(db)} where chunk_id = any(%s::text[])",
            [list(ids)],
        )
        return {
            id_: StoredRecord(id_, "", text, metadata, unit_vector(vector_of(binary)))
            for id_, text, metadata, binary in rows
        }

    def count(self, db: psycopg.Connection) -> int:
        row = db.execute(f"select count(*) from {self._relation(db)}", []).fetchone()
        return int(row[0]) if row else 0

    def refuse_words(self) -> StoreError:
        return StoreError(
            f"{self._store}: what PGVectorStore has written can be found by similarity only, since "
            "it does not count words; search it so, or ingest its texts from where they came from"
        )

    def _dimension(self, db: psycopg.Connection, relation: str) -> int | None:
        row = db.execute(f"select vector_dims(embedding) from {relation} limit 1", []).fetchone()
        return int(row[0]) if row else None

    def _relation(self, db: psycopg.Connection) -> str:
        """The rows under the names that filters know."""
        columns = self._tables.columns(db, self._tables.view)
        if self._tables.is_langchains(db):
            rows = f"{self._tables.view} as t"
        elif columns.issuperset(SHOWN):
            rows = f"{self._tables.rows} as t where version = {LANGCHAIN_VERSION}"
        else:
            raise not_opened(self.index, self._store)
        others = ", ".join(f"t.{_quoted(name)}" for name in sorted(columns - {*_OWN}))
        metadata = "coalesce(t.langchain_metadata::jsonb, '{}')"
        if "langchain_metadata" not in columns:
            metadata = "'{}'::jsonb"
        return (
            "(select t.langchain_id::text as chunk_id, t.content, t.embedding,"
            f" jsonb_strip_nulls((select to_jsonb(c) from (select {others}) as c)) || {metadata}"
            f" as fields from {rows}) as r"
        )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""').replace("%", "%%") + '"'
