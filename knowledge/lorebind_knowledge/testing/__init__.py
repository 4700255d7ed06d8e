"""Tests for implementations of our protocols: inherit a class, give it a fixture, run pytest."""

import pytest

# A failed assertion then shows what was compared, as in a test of one's own.
for _name in (
    "embedder",
    "index",
    "index_driver",
    "index_recovery",
    "index_searching",
    "index_writing",
    "searching",
    "store_driver",
    "vector_store",
):
    pytest.register_assert_rewrite(f"{__name__}.{_name}")

from lorebind_knowledge.testing.embedder import EmbedderConformance  # noqa: E402
from lorebind_knowledge.testing.index import IndexConformance  # noqa: E402
from lorebind_knowledge.testing.vector_store import VectorStoreConformance  # noqa: E402

__all__ = ["EmbedderConformance", "IndexConformance", "VectorStoreConformance"]
