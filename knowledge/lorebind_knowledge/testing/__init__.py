"""Tests for implementations of our protocols: inherit a class, give it a fixture, run pytest."""

from lorebind_knowledge.testing.lexical_store import LexicalStoreConformance
from lorebind_knowledge.testing.vector_store import VectorStoreConformance

__all__ = ["LexicalStoreConformance", "VectorStoreConformance"]
