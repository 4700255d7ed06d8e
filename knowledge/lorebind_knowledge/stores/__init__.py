"""Vector stores: the protocol, and the stores that need no server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_config.plugins import lazy_door

if TYPE_CHECKING:
    from lorebind_knowledge.stores.base import VectorStore as VectorStore
    from lorebind_knowledge.stores.memory import MemoryStore as MemoryStore
    from lorebind_knowledge.stores.sqlite import SqliteStore as SqliteStore
else:
    __all__, __getattr__ = lazy_door(
        __name__, {".base": "VectorStore", ".memory": "MemoryStore", ".sqlite": "SqliteStore"}
    )
