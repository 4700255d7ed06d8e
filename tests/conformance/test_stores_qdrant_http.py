"""The Qdrant store passes the conformance kit over HTTP, where requests of clients interleave."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from lorebind_knowledge.stores.qdrant.connection import QdrantConnection
from lorebind_knowledge.stores.qdrant.store import QdrantStore
from lorebind_knowledge.testing import VectorStoreConformance
from tests.conformance.qdrant_loopback import serve


@pytest.mark.enable_socket
class TestOverHttp(VectorStoreConformance):
    @pytest.fixture
    def reopen(self) -> Iterator[Callable[[], QdrantStore]]:
        with serve() as loopback:
            yield lambda: QdrantStore("docs", QdrantConnection(url=loopback.url))

    @pytest.fixture
    def store(self, reopen: Callable[[], QdrantStore]) -> Iterator[QdrantStore]:
        store = reopen()
        yield store
        store.close()
