"""Vector stores: the protocol, and the stores that need no server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_config.plugins import lazy_door

if TYPE_CHECKING:
    from lorebind_knowledge.stores.base import VectorStore
    from lorebind_knowledge.stores.memory import MemoryStore
    from lorebind_knowledge.stores.sqlite import SqliteStore

__all__ = ["MemoryStore", "SqliteStore", "VectorStore"]

_MODULES = {"base": ("VectorStore",), "memory": ("MemoryStore",), "sqlite": ("SqliteStore",)}

__getattr__ = lazy_door(__name__, _MODULES)
