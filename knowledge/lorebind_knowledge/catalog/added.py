"""Documents that were added by hand: the catalog keeps them whole, as a source keeps its own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from lorebind_knowledge.catalog.rows import HERE, OURS, OWNER, owner
from lorebind_knowledge.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lorebind_knowledge.catalog.rows import Page
    from lorebind_knowledge.database.base import Database
    from lorebind_knowledge.database.sql import Sql
    from lorebind_knowledge.namespace import IndexKey, Namespace


class AddedDocument(NamedTuple):
    """A document as it was added."""

    uri: str
    data: bytes
    media_type: str
    metadata: Mapping[str, Any]


class AddedDocuments:
    """Reads and writes them; each method is one transaction. No lease is needed: what is added
    while an ingest runs is found by the next."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, namespace: Namespace, documents: Sequence[AddedDocument]) -> None:
        """Keep documents, in place of those with the same uris; all of them or none."""
        rows = [
            {
                **owner(namespace),
                "uri": one.uri,
                "media_type": one.media_type,
                "metadata": json.dumps(dict(one.metadata), allow_nan=False),
                "data": one.data,
            }
            for one in documents
        ]
        changed = ", ".join(f"{name} = excluded.{name}" for name in ("media_type", "metadata"))
        after = f"on conflict ({OWNER}, uri) do update set {changed}, data = excluded.data"
        with self._database.writing() as sql:
            sql.insert("catalog_added", rows, after)

    def remove(self, namespace: Namespace, uri: str) -> None:
        """Forget a document."""
        with self._database.writing() as sql:
            sql.run(
                f"delete from catalog_added where {OURS} and uri = :uri",
                **owner(namespace),
                uri=uri,
            )

    def clear(self, namespace: Namespace) -> None:
        """Forget all of a knowledge base's."""
        with self._database.writing() as sql:
            sql.run(f"delete from catalog_added where {OURS}", **owner(namespace))

    def uris(self, namespace: Namespace) -> list[str]:
        """Of all documents of a knowledge base, in order."""
        query = f"select uri from catalog_added where {OURS} order by uri"
        with self._database.reading() as sql:
            return [uri for (uri,) in sql.run(query, **owner(namespace))]

    def waiting_within(
        self, sql: Sql, namespace: Namespace, index: IndexKey | None, page: Page
    ) -> list[str]:
        """The uris of those that an index does not know yet, within a transaction."""
        found = sql.run(
            f"select uri {_WAITING}{page.sql}", **_values(namespace, index), **page._asdict()
        )
        return [uri for (uri,) in found]

    def count_waiting_within(self, sql: Sql, namespace: Namespace, index: IndexKey | None) -> int:
        """How many there are of them."""
        ((count,),) = sql.run(f"select count(*) {_WAITING}", **_values(namespace, index))
        return int(count)

    def get(self, namespace: Namespace, uri: str) -> AddedDocument | None:
        """A document; None if it is not there."""
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


# Not `not exists`: PostgreSQL would make a join of that, and before it has counted the tables it
# would read all documents for each one that was added.
_WAITING = (
    f"from catalog_added as a where {OURS}"
    f" and (select 1 from catalog_documents where {HERE} and uri = a.uri) is null"
)


def _values(namespace: Namespace, index: IndexKey | None) -> dict[str, Any]:
    """No index has the number 0."""
    return {**owner(namespace), "number": index.number if index else 0}
