"""Make the store of a declared vector database, with its catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from lorebind_config.checks.template_checks import refuse_unset
from lorebind_config.errors import StoreError, UsageError
from lorebind_config.namespace import digest
from lorebind_config.project_files import DATA_FOLDER
from lorebind_config.reading.make_part import PartEnvironment, make_part
from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.catalog.leases import SECONDS
from lorebind_knowledge.stores.wrapper import StoreWrapper

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lorebind_config.declarations.vector_dbs import VectorDBBase
    from lorebind_config.templates import Environment
    from lorebind_knowledge.database.databases import PostgresDatabase
    from lorebind_knowledge.stores.base import VectorStore
    from lorebind_knowledge.stores.wrapper import StoreCall

R = TypeVar("R")

_METHODS = ("add", "nearest", "get", "delete", "count", "drop", "close")
_FLAGS = ("is_exact", "filters", "returns_vectors", "counts_fast")
"""Attributes that classes derived from `VectorStore` inherit."""
_LONGEST_NAME = 63
_IDLE_PART = 0.75
"""The part of a lease for which a suspended writer may keep locks."""


def make_store(
    declaration: VectorDBBase, environment: Environment, *, lease_seconds: float | None = None
) -> tuple[VectorStore, Catalog]:
    """Make a store and its catalog. Neither opens or writes anything before it is used.

    The two belong together. A kind whose database can hold both declares an `own_catalog`. Other
    kinds have their catalog where it is declared, by default in a file of the project. It is in
    memory if the store has an attribute `persistent` that is false.

    Raises:
        StoreError: the store cannot be made from the declaration.
        PluginError: the plugin is broken.
    """
    part = PartEnvironment(environment)

    def redacting(store: VectorStore, _: object) -> VectorStore:
        return RedactingStore(store, declaration.id, part)

    members = (*_METHODS, *_FLAGS)
    store: VectorStore = make_part("vector_dbs", declaration, part, members, StoreError, redacting)
    is_persistent = getattr(store, "persistent", True)
    return store, _catalog(declaration, part, lease_seconds, persistent=is_persistent)


def _catalog(
    declaration: VectorDBBase,
    environment: Environment,
    lease_seconds: float | None,
    *,
    persistent: bool,
) -> Catalog:
    settings: dict[str, Any] = {
        "cache_bytes": declaration.embedding_cache.max_bytes,
        "lease_seconds": lease_seconds,
    }
    declared = declaration.catalog_place
    if declared is None:
        beside = environment.root / DATA_FOLDER / f"{declaration.id}.catalog.db"
        return Catalog(beside if persistent else None, **settings)
    if not persistent:
        raise UsageError(
            f"vector database {declaration.id!r} is kept in memory, so its catalog must be in "
            "memory too, or it would list vectors that no longer exist; remove 'catalog'"
        )
    if declared.dsn is None:
        path = environment.root / environment.fill(declared.path)
        return Catalog(path, **settings)
    return Catalog(postgres=catalog_database(declaration, environment, lease_seconds), **settings)


def catalog_database(
    declaration: VectorDBBase, environment: Environment, lease_seconds: float | None = None
) -> PostgresDatabase:
    """Return the database of a catalog that is in PostgreSQL. It opens nothing before it is used.

    Args:
        declaration: the vector database.
        environment: the environment of the project.
        lease_seconds: the shortest duration of a lease; None means the default.

    Raises:
        MissingVariableError: a variable that the declaration uses is not set.
    """
    declared = declaration.catalog_place
    assert declared is not None
    refuse_unset(declaration, environment)
    from lorebind_knowledge.catalog.schema import CATALOG
    from lorebind_knowledge.database.databases import PostgresDatabase
    from lorebind_knowledge.database.postgres_address import PostgresAddress
    from lorebind_knowledge.database.postgres_connections import IDLE_SECONDS

    schema = declared.table_schema or _schema_of(declaration.id)
    return PostgresDatabase(
        PostgresAddress(environment.fill(declared.dsn)),
        CATALOG,
        ensure_schema=declared.ensure_schema,
        own_schema=None if hasattr(declaration, "own_catalog") else schema,
        idle_seconds=min(IDLE_SECONDS, _IDLE_PART * (lease_seconds or SECONDS)),
    )


def _schema_of(db_id: str) -> str:
    """Return a schema name of at most 63 bytes: PostgreSQL would cut two long ids to one name."""
    name = f"lorebind_{db_id}"
    return name if len(name) <= _LONGEST_NAME else f"lorebind_{digest(db_id)[:40]}"


class RedactingStore(StoreWrapper):
    """Removes the secrets of a store's settings from its exceptions."""

    def __init__(self, inner: VectorStore, name: str, environment: PartEnvironment) -> None:
        super().__init__(inner)
        self.persistent = getattr(inner, "persistent", True)
        self._name, self._environment = name, environment

    async def wrap_call(self, request: StoreCall, call_next: Callable[[], Awaitable[R]]) -> R:
        what = f"vector database {self._name!r} failed in {request.name}"
        with self._environment.redact_errors(StoreError, what):
            return await call_next()
