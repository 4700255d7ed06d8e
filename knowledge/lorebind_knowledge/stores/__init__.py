"""Where vectors are kept: the protocol, and the stores that need no server."""

from lorebind_knowledge.stores.base import VectorStore
from lorebind_knowledge.stores.memory import MemoryStore
from lorebind_knowledge.stores.sqlite import SqliteStore

__all__ = ["MemoryStore", "SqliteStore", "VectorStore"]
