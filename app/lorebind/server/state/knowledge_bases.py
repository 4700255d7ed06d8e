"""Knowledge bases that were created over the API."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lorebind.server.state.tables import lock, open_state
from lorebind_config.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lorebind_config.reading.loaded import LoadedProject
    from lorebind_knowledge.database.databases import Database
    from lorebind_knowledge.database.sql import Sql

_COLUMNS = "tenant, kb, declared, declared_at"
_OURS = "tenant = :tenant and project = :project"


@dataclass(frozen=True, slots=True)
class StoredKB:
    """A knowledge base as it was declared over the API."""

    tenant: str
    id: str
    declared: Mapping[str, Any]
    """The declaration, with the keys of the YAML."""
    declared_at: str
    """The time of the last change, in UTC."""


class StoredKnowledgeBases:
    """The created knowledge bases of a project, each of one tenant. All methods are sync."""

    def __init__(self, database: Database, project: str) -> None:
        self._database = database
        self._project = project

    def of(self, tenant: str) -> list[StoredKB]:
        """Return the knowledge bases of a tenant, by id."""
        with self._database.reading() as sql:
            return self._read(sql, f"where {_OURS} order by kb", tenant=tenant)

    def all(self) -> list[StoredKB]:
        """Return the knowledge bases of all tenants."""
        with self._database.reading() as sql:
            return self._read(sql, "where project = :project order by tenant, kb")

    def find(self, tenant: str, kb_id: str) -> StoredKB | None:
        with self._database.reading() as sql:
            return self._find(sql, tenant, kb_id)

    def put(self, kb: StoredKB, check: Callable[[StoredKB | None], None]) -> bool:
        """Store a knowledge base.

        `check` gets the stored one, or None, and may raise an error to keep it unchanged.

        Returns:
            Whether it existed before.
        """
        with self._database.writing() as sql:
            lock(sql, "server_knowledge_bases")
            before = self._find(sql, kb.tenant, kb.id)
            check(before)
            self._delete(sql, kb.tenant, kb.id)
            row = {"tenant": kb.tenant, "project": self._project, "kb": kb.id}
            row |= {"declared": json.dumps(kb.declared), "declared_at": kb.declared_at}
            sql.insert("server_knowledge_bases", [row])
        return before is not None

    def delete(self, tenant: str, kb_id: str, check: Callable[[StoredKB], None]) -> None:
        """Delete a knowledge base if it exists; `check` may raise an error to keep it."""
        with self._database.writing() as sql:
            lock(sql, "server_knowledge_bases")
            before = self._find(sql, tenant, kb_id)
            if before is not None:
                check(before)
                self._delete(sql, tenant, kb_id)

    def _find(self, sql: Sql, tenant: str, kb_id: str) -> StoredKB | None:
        kbs = self._read(sql, f"where {_OURS} and kb = :kb", tenant=tenant, kb=kb_id)
        return kbs[0] if kbs else None

    def _read(self, sql: Sql, which: str, **values: str) -> list[StoredKB]:
        query = f"select {_COLUMNS} from server_knowledge_bases {which}"
        rows = sql.run(query, project=self._project, **values)
        return [StoredKB(tenant, kb, json.loads(text), at) for tenant, kb, text, at in rows]

    def _delete(self, sql: Sql, tenant: str, kb_id: str) -> None:
        query = f"delete from server_knowledge_bases where {_OURS} and kb = :kb"
        sql.run(query, tenant=tenant, project=self._project, kb=kb_id)


def made_over_api(loaded: LoadedProject) -> dict[tuple[str, str], str]:
    """Map tenant and id of each such knowledge base to the id of its vector database.

    The database id is empty if the database holds no index of Lorebind. If no server has run, the
    mapping is empty, and no file is created to find that out.

    Raises:
        StoreError: the state of the server cannot be read.
    """
    database = open_state(loaded)
    try:
        stored = StoredKnowledgeBases(database, loaded.project.name).all()
    finally:
        database.close()
    return {(kb.tenant, kb.id): _vector_db(loaded, kb.declared.get("vector_db")) for kb in stored}


def _vector_db(loaded: LoadedProject, db_id: str | None) -> str:
    try:
        vector_db = loaded.vector_db(db_id)
    except NotFoundError:
        return ""
    return "" if vector_db.is_existing else vector_db.id
