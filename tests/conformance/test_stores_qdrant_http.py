"""The Qdrant store passes the conformance kit over HTTP, where requests of clients interleave."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from lorebind_knowledge.stores.qdrant.connection import QdrantConnection
from lorebind_knowledge.stores.qdrant.store import QdrantStore
from tests.conformance.qdrant_loopback import serve

from .reopened import Reopened


@pytest.mark.enable_socket
class TestOverHttp(Reopened):
    @pytest.fixture
    def reopen(self) -> Iterator[Callable[[], QdrantStore]]:
        with serve() as loopback:
            yield lambda: QdrantStore("docs", QdrantConnection(url=loopback.url))


@pytest.mark.enable_socket
class TestApproximateOverHttp(Reopened):
    """Every space is large."""

    @pytest.fixture
    def reopen(self) -> Iterator[Callable[[], QdrantStore]]:
        with serve() as loopback:
            url = loopback.url
            yield lambda: QdrantStore("docs", QdrantConnection(url=url), approximate_from=0)
