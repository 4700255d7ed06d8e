"""Tests for implementations of our protocols: inherit a class, give it a fixture, run pytest."""

from lorebind_knowledge.testing.bulk_store import BulkStoreConformance
from lorebind_knowledge.testing.embedder import EmbedderConformance
from lorebind_knowledge.testing.fetch_store import FetchStoreConformance
from lorebind_knowledge.testing.lexical_store import LexicalStoreConformance
from lorebind_knowledge.testing.vector_store import VectorStoreConformance

__all__ = [
    "BulkStoreConformance",
    "EmbedderConformance",
    "FetchStoreConformance",
    "LexicalStoreConformance",
    "VectorStoreConformance",
]
