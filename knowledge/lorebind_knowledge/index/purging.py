"""Finding and removing data of knowledge bases that are no longer declared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from lorebind_config.namespace import COLLECTION_SCOPE, PROJECT_SCOPE
from lorebind_knowledge.catalog.indexes import STATES
from lorebind_knowledge.plumbing.bridge import finish

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lorebind_config.namespace import Namespace
    from lorebind_knowledge.catalog.indexes import IndexEntry
    from lorebind_knowledge.catalog.leases import Lease
    from lorebind_knowledge.index.index import Index

    TenantOwned: TypeAlias = Callable[[], Mapping[tuple[str, str], str]]


def delete_all(index: Index, lease: Lease, sharing: Sequence[Index] = ()) -> None:
    """Delete all data of a knowledge base: indexes, runs, documents added by hand, and
    which documents are excluded.

    Args:
        index: the vector database with its catalog.
        lease: the lease of the knowledge base.
        sharing: further vector databases with the same catalog.

    Raises:
        StoreError: an outage; another call deletes the rest.
    """
    catalog, namespace = index.catalog, lease.namespace
    for state in STATES:
        while entry := catalog.ledger.index(namespace, state):
            for other in sharing:
                finish(other.store.drop(entry.space))
            index.drop(lease, entry)
    catalog.added.clear(namespace)
    catalog.excluded.clear(namespace)
    catalog.recognized.clear(namespace)
    catalog.ledger.forget_runs(lease)


@dataclass(frozen=True, slots=True)
class OrphanedIndex:
    """The data that a vector database holds of a knowledge base that is no longer declared."""

    vector_db: str
    kb_id: str
    tenant: str
    scope: str
    """`project`, or `workflow/<id>`."""
    documents: int
    chunks: int


class Purge:
    """Finds and removes undeclared knowledge bases in the vector databases of a project."""

    def __init__(
        self,
        project: str,
        indexes: Mapping[str, Index],
        declared: Mapping[tuple[str, str], str],
        tenant_owned: TenantOwned = dict,
    ) -> None:
        """
        Args:
            project: the project's name; data of other projects is not touched.
            indexes: its vector databases, by id.
            declared: the vector database of each declared knowledge base, by scope and id.
            tenant_owned: returns the vector database of each knowledge base that belongs to one
                tenant only, by tenant and id; an empty name stands for any database. It is called
                again before each removal.
        """
        self._project, self._indexes, self._declared = project, indexes, declared
        self._tenant_owned = tenant_owned

    def find(self) -> list[OrphanedIndex]:
        """Return the knowledge bases that `remove` would remove."""
        return [self._described(namespace, db_ids[0]) for namespace, db_ids in self._orphans()]

    def remove(self) -> list[OrphanedIndex]:
        """Remove undeclared knowledge bases, and return what was removed.

        Raises:
            IngestRunningError: one of the knowledge bases is being ingested; others may have been
                removed.
            StoreError: an outage; another purge removes the rest.
        """
        removed = []
        for namespace, db_ids in self._orphans():
            described = self._described(namespace, db_ids[0])
            self._remove(namespace, db_ids)
            removed.append(described)
        return removed

    def _orphans(self) -> list[tuple[Namespace, list[str]]]:
        """Return undeclared knowledge bases with their vector databases: some share a catalog."""
        orphans: dict[tuple[Namespace, IndexEntry | str], list[str]] = {}
        tenant_owned = self._tenant_owned()
        for db_id, index in self._indexes.items():
            for namespace in index.catalog.ledger.namespaces(self._project):
                if not self._is_kept(namespace, db_id, tenant_owned):
                    active = self._active(namespace, db_id) or db_id
                    orphans.setdefault((namespace, active), []).append(db_id)
        return [(namespace, db_ids) for (namespace, _), db_ids in orphans.items()]

    def _is_kept(
        self, namespace: Namespace, db_id: str, tenant_owned: Mapping[tuple[str, str], str]
    ) -> bool:
        """Return whether it is declared, possibly in another database with the same catalog."""
        if namespace.scope == COLLECTION_SCOPE:
            return True
        home = self._declared.get((namespace.scope, namespace.kb))
        if home is None and namespace.scope == PROJECT_SCOPE:
            home = tenant_owned.get((namespace.tenant, namespace.kb))
        if home is None or home in (db_id, ""):
            return home is not None
        return self._active(namespace, db_id) == self._active(namespace, home)

    def _active(self, namespace: Namespace, db_id: str) -> IndexEntry | None:
        return self._indexes[db_id].catalog.ledger.index(namespace, "active")

    def _described(self, namespace: Namespace, db_id: str) -> OrphanedIndex:
        active = self._active(namespace, db_id)
        ledger = self._indexes[db_id].catalog.ledger
        documents = ledger.documents(active.key).values() if active else []
        return OrphanedIndex(
            db_id,
            namespace.kb,
            namespace.tenant,
            namespace.scope,
            len(documents),
            sum(entry.chunk_count for entry in documents),
        )

    def _remove(self, namespace: Namespace, db_ids: Sequence[str]) -> None:
        index, *sharing = (self._indexes[db_id] for db_id in db_ids)
        with index.catalog.lease(namespace) as lease:
            # Checked again, because a reindex may have ended; the lease prevents further changes.
            if self._is_kept(namespace, db_ids[0], self._tenant_owned()):
                return
            delete_all(index, lease, sharing)
