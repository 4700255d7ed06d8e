"""Documents added by hand. The catalog stores them whole, because no source has a copy."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from lorebind_config.errors import StoreError
from lorebind_knowledge.catalog.rows import HERE, OURS, OWNER, not_failed_beside, owner

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lorebind_config.namespace import IndexKey, Namespace
    from lorebind_knowledge.catalog.rows import Page
    from lorebind_knowledge.database.databases import Database
    from lorebind_knowledge.database.sql import Sql


class AddedDocument(NamedTuple):
    """A document in the form in which it was added."""

    uri: str
    data: bytes
    media_type: str
    metadata: Mapping[str, Any]


class AddedDocuments:
    """Reads and writes the documents that were added by hand.

    Each method is one transaction. No lease is needed: a document that is added during an ingest
    is picked up by the next ingest.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, namespace: Namespace, documents: Sequence[AddedDocument]) -> None:
        """Store all documents or none; documents with the same uri are replaced."""
        with self._database.writing() as sql:
            self.put_within(sql, namespace, documents)

    def put_within(
        self, sql: Sql, namespace: Namespace, documents: Sequence[AddedDocument]
    ) -> None:
        """Store documents within a transaction; see `put`."""
        rows = [
            {
                **owner(namespace),
                "uri": document.uri,
                "media_type": document.media_type,
                "metadata": json.dumps(dict(document.metadata), allow_nan=False),
                "data": document.data,
            }
            for document in documents
        ]
        changed = ", ".join(f"{name} = excluded.{name}" for name in ("media_type", "metadata"))
        after = f"on conflict ({OWNER}, uri) do update set {changed}, data = excluded.data"
        sql.insert("catalog_added", rows, after)

    def remove(self, namespace: Namespace, uris: Sequence[str]) -> None:
        """Delete documents; missing ones are ignored."""
        with self._database.writing() as sql:
            sql.run(
                f"delete from catalog_added where {OURS} and uri in (:*uris)",
                **owner(namespace),
                uris=list(uris),
            )

    def clear(self, namespace: Namespace) -> None:
        """Delete all documents of a knowledge base."""
        with self._database.writing() as sql:
            sql.run(f"delete from catalog_added where {OURS}", **owner(namespace))

    def uris(self, namespace: Namespace) -> list[str]:
        """Return the uris of all documents of a knowledge base, sorted."""
        query = f"select uri from catalog_added where {OURS} order by uri"
        with self._database.reading() as sql:
            return [uri for (uri,) in sql.run(query, **owner(namespace))]

    def waiting_within(
        self,
        sql: Sql,
        namespace: Namespace,
        index: IndexKey | None,
        page: Page,
        beside: IndexKey | None = None,
    ) -> list[str]:
        """Return the uris of the documents that no ingest has seen yet, in a transaction.

        Args:
            sql: the transaction.
            namespace: the knowledge base.
            index: the index that does not know them; None means no index.
            page: the part of them.
            beside: an index in which they have not failed.
        """
        values = _values(namespace, index, beside)
        rows = sql.run(f"select uri {_WAITING}{page.sql}", **values, **page._asdict())
        return [uri for (uri,) in rows]

    def count_waiting_within(
        self,
        sql: Sql,
        namespace: Namespace,
        index: IndexKey | None,
        beside: IndexKey | None = None,
    ) -> int:
        """Return the number of these documents, in a transaction; see `waiting_within`."""
        values = _values(namespace, index, beside)
        ((count,),) = sql.run(f"select count(*) {_WAITING}", **values)
        return int(count)

    def get(self, namespace: Namespace, uri: str) -> AddedDocument | None:
        """Return a document, or None if it does not exist."""
        query = f"select data, media_type, metadata from catalog_added where {OURS} and uri = :uri"
        with self._database.reading() as sql:
            rows = sql.run(query, **owner(namespace), uri=uri)
        if not rows:
            return None
        data, media_type, metadata = rows[0]
        try:
            return AddedDocument(uri, bytes(data), str(media_type), dict(json.loads(metadata)))
        except (TypeError, ValueError) as error:
            raise StoreError(
                f"{self._database}: the document {uri!r} is damaged: {error}; add it again"
            ) from error


# A scalar subquery for the same reason as in `not_failed_beside`.
_WAITING = (
    f"from catalog_added as a where {OURS}"
    f" and (select 1 from catalog_documents where {HERE} and uri = a.uri) is null"
    f" and {not_failed_beside('a')}"
)


def _values(
    namespace: Namespace, index: IndexKey | None, beside: IndexKey | None
) -> dict[str, Any]:
    """Return the query's values. The number 0 stands for no index: no document belongs to it."""
    numbers = {"number": index.number if index else 0, "beside": beside.number if beside else 0}
    return {**owner(namespace), **numbers}
