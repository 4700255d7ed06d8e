"""Where records are kept and searched: the protocols, and the stores that need no server."""

from lorebind_knowledge.stores.base import LexicalStore, VectorStore
from lorebind_knowledge.stores.memory.store import MemoryStore
from lorebind_knowledge.stores.sqlite.store import SqliteStore

__all__ = ["LexicalStore", "MemoryStore", "SqliteStore", "VectorStore"]
