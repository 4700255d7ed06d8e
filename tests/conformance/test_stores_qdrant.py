"""The Qdrant store passes the conformance kit: in local mode, and on a real server.

Set `LOREBIND_TEST_QDRANT_URL` to the address of a server for the last of these.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from lorebind_knowledge.stores.qdrant.store import QdrantStore
from lorebind_knowledge.testing import (
    FetchStoreConformance,
    LexicalStoreConformance,
    VectorStoreConformance,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


SERVER = os.environ.get("LOREBIND_TEST_QDRANT_URL", "")
needs_server = pytest.mark.skipif(not SERVER, reason="LOREBIND_TEST_QDRANT_URL names no server")


class InMemory:
    @pytest.fixture
    def store(self) -> Iterator[QdrantStore]:
        store = QdrantStore("docs")
        yield store
        store.close()


class TestInMemory(InMemory, VectorStoreConformance):
    pass


class TestInMemoryLexical(InMemory, LexicalStoreConformance):
    pass


class TestInMemoryFetch(InMemory, FetchStoreConformance):
    pass


def _on_server() -> tuple[Callable[[], QdrantStore], Callable[[], None]]:
    """A maker of stores on the real server under a name of its own, and what cleans up."""
    from qdrant_client import QdrantClient

    name = f"lorebind-test-{uuid4().hex[:12]}"
    key = os.environ.get("LOREBIND_TEST_QDRANT_API_KEY")

    def remove() -> None:
        client = QdrantClient(url=SERVER, api_key=key, check_compatibility=False)
        for collection in client.get_collections().collections:
            if collection.name.startswith(name):
                client.delete_collection(collection.name)
        client.close()

    return lambda: QdrantStore(name, url=SERVER, api_key=key), remove


@needs_server
@pytest.mark.enable_socket
class OnServer:
    @pytest.fixture
    def reopen(self) -> Iterator[Callable[[], QdrantStore]]:
        make, remove = _on_server()
        yield make
        remove()

    @pytest.fixture
    def store(self, reopen: Callable[[], QdrantStore]) -> Iterator[QdrantStore]:
        store = reopen()
        yield store
        store.close()


class TestOnServer(OnServer, VectorStoreConformance):
    pass


class TestOnServerLexical(OnServer, LexicalStoreConformance):
    pass


class TestOnServerFetch(OnServer, FetchStoreConformance):
    pass
