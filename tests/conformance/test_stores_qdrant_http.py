"""The Qdrant store passes the conformance kit over HTTP, where requests of clients interleave."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from lorebind_knowledge.stores.qdrant.connection import QdrantConnection
from lorebind_knowledge.stores.qdrant.store import QdrantStore
from tests.conformance.qdrant_loopback import Loopback, serve

from .reopened import Reopened


@pytest.fixture(scope="module")
def server() -> Iterator[Loopback]:
    with serve() as loopback:
        yield loopback


@pytest.fixture
def url(server: Loopback) -> Iterator[str]:
    """Yield the URL of an empty server."""
    yield server.url
    server.drop_all()


@pytest.mark.enable_socket
class TestOverHttp(Reopened):
    @pytest.fixture
    def reopen(self, url: str) -> Callable[[], QdrantStore]:
        return lambda: QdrantStore("docs", QdrantConnection(url=url))


@pytest.mark.enable_socket
class TestApproximateOverHttp(Reopened):
    """Every space is large."""

    @pytest.fixture
    def reopen(self, url: str) -> Callable[[], QdrantStore]:
        return lambda: QdrantStore("docs", QdrantConnection(url=url), approximate_from=0)
