"""Documents that searches must not find, though the index has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_config.errors import UsageError
from lorebind_knowledge.catalog.rows import OURS, owner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_config.namespace import Namespace
    from lorebind_knowledge.database.databases import Database
    from lorebind_knowledge.database.sql import Sql

MOST = 1000
"""Maximum number of excluded documents of a knowledge base: each search compares their uris."""


class ExcludedDocuments:
    """Reads and writes which documents of a knowledge base are excluded from searches.

    Rows belong to the knowledge base, not to one of its indexes, so that they survive each ingest,
    reindex and rollback. Each method is one transaction, and none needs a lease: a change applies
    at once, even during an ingest.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, namespace: Namespace, uri: str) -> None:
        """Exclude a document; nothing happens if it is excluded already.

        Raises:
            UsageError: as many documents as possible are excluded.
        """
        with self._database.writing() as sql:
            excluded = excluded_uris(sql, namespace)
            if uri in excluded:
                return
            if len(excluded) >= MOST:
                raise UsageError(
                    f"knowledge base {namespace.kb!r} has {len(excluded)} excluded documents, and "
                    "more would slow down its searches; use `exclude` of its sources, or a filter"
                )
            sql.insert("catalog_excluded", [{**owner(namespace), "uri": uri}])
            _renew(sql, namespace)

    def remove(self, namespace: Namespace, uris: Sequence[str]) -> None:
        """Let searches find documents again; those that are not excluded are ignored."""
        with self._database.writing() as sql:
            if not excluded_uris(sql, namespace).isdisjoint(uris):
                sql.run(
                    f"delete from catalog_excluded where {OURS} and uri in (:*uris)",
                    **owner(namespace),
                    uris=list(uris),
                )
                _renew(sql, namespace)

    def clear(self, namespace: Namespace) -> None:
        """Forget which documents of a knowledge base are excluded."""
        with self._database.writing() as sql:
            sql.run(f"delete from catalog_excluded where {OURS}", **owner(namespace))
            _renew(sql, namespace)


def excluded_uris(sql: Sql, namespace: Namespace) -> frozenset[str]:
    """Return the uris of the excluded documents, within a transaction."""
    query = f"select uri from catalog_excluded where {OURS}"
    return frozenset(uri for (uri,) in sql.run(query, **owner(namespace)))


def _renew(sql: Sql, namespace: Namespace) -> None:
    """Give the indexes new versions, as caches hold what searches find in one version."""
    query = f"update catalog_indexes set version = version + 1 where {OURS}"
    sql.run(query, **owner(namespace))
