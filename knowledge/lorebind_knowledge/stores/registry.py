"""From a declared vector database to its store, and the catalog that lives beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.declarations import MemoryVectorDB, SqliteVectorDB

if TYPE_CHECKING:
    from lorebind_knowledge.configuration import Environment
    from lorebind_knowledge.declarations import VectorDBDeclaration
    from lorebind_knowledge.stores.base import VectorStore


def make_store(
    declaration: VectorDBDeclaration, environment: Environment
) -> tuple[VectorStore, Catalog]:
    """A store and its catalog. Nothing is opened or written until it is used.

    The catalog says what the store holds, so the two share one fate: one file, or memory.
    """
    match declaration:
        case MemoryVectorDB():
            from lorebind_knowledge.stores.memory import MemoryStore

            return MemoryStore(), Catalog()
        case SqliteVectorDB(config=config):
            from lorebind_knowledge.stores.sqlite import SqliteStore

            path = environment.root / environment.resolve(config.path)
            return SqliteStore(path), Catalog(path)
