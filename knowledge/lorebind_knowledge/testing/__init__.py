"""Tests for implementations of Lorebind's protocols. Inherit a class and define its fixture."""

import pytest

# Lets pytest show the compared values of a failed assertion, as in the user's own tests.
for _name in (
    "document_transform",
    "embedder",
    "engine",
    "index",
    "index_driver",
    "index_recovery",
    "searching",
    "sparse_embedder",
    "store_driver",
    "vector_store",
):
    pytest.register_assert_rewrite(f"{__name__}.{_name}")

from lorebind_knowledge.testing.document_transform import (  # noqa: E402
    DocumentTransformConformance,
)
from lorebind_knowledge.testing.embedder import EmbedderConformance  # noqa: E402
from lorebind_knowledge.testing.engine import EngineConformance  # noqa: E402
from lorebind_knowledge.testing.index import IndexConformance  # noqa: E402
from lorebind_knowledge.testing.sparse_embedder import SparseEmbedderConformance  # noqa: E402
from lorebind_knowledge.testing.vector_store import VectorStoreConformance  # noqa: E402

__all__ = [
    "DocumentTransformConformance",
    "EmbedderConformance",
    "EngineConformance",
    "IndexConformance",
    "SparseEmbedderConformance",
    "VectorStoreConformance",
]
