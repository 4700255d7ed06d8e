"""The Qdrant store passes the conformance kit, in local mode and on a real server."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from lorebind_knowledge.stores.qdrant.connection import QdrantConnection
from lorebind_knowledge.stores.qdrant.store import QdrantStore
from lorebind_knowledge.testing import VectorStoreConformance

from .reopened import Reopened

SERVER = os.environ.get("LOREBIND_TEST_QDRANT_URL", "")
needs_server = pytest.mark.skipif(not SERVER, reason="LOREBIND_TEST_QDRANT_URL names no server")


@pytest.mark.parametrize("metric", ["cosine", "l2", "ip"])
class TestInMemory(VectorStoreConformance):
    @pytest.fixture
    def store(self, metric: str) -> Iterator[QdrantStore]:
        store = QdrantStore("docs", metric=metric)
        yield store
        store.close()


class TestInFolder(Reopened):
    many = 1700  # fewer, because each is a commit; a search still asks for more than 1000

    @pytest.fixture
    def reopen(self, tmp_path: Path) -> Callable[[], QdrantStore]:
        return lambda: QdrantStore("docs", QdrantConnection(path=tmp_path / "qdrant"))


@needs_server
@pytest.mark.enable_socket
class TestOnServer(Reopened):
    @pytest.fixture
    def reopen(self) -> Iterator[Callable[[], QdrantStore]]:
        from qdrant_client import QdrantClient

        name = f"lorebind-test-{uuid4().hex[:12]}"
        key = os.environ.get("LOREBIND_TEST_QDRANT_API_KEY")
        yield lambda: QdrantStore(name, QdrantConnection(url=SERVER, api_key=key))
        client = QdrantClient(url=SERVER, api_key=key, check_compatibility=False)
        for collection in client.get_collections().collections:
            if collection.name.startswith(name):
                client.delete_collection(collection.name)
        client.close()
