"""The Qdrant store passes the conformance kit over HTTP, where clients mix between two requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lorebind_knowledge.stores.qdrant.store import QdrantStore
from lorebind_knowledge.testing import (
    FetchStoreConformance,
    LexicalStoreConformance,
    VectorStoreConformance,
)
from tests.conformance.qdrant_loopback import serve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.mark.enable_socket
class OverHttp:
    @pytest.fixture
    def url(self) -> Iterator[str]:
        with serve() as loopback:
            yield loopback.url

    @pytest.fixture
    def store(self, url: str) -> Iterator[QdrantStore]:
        store = QdrantStore("docs", url=url)
        yield store
        store.close()


class TestOverHttp(OverHttp, VectorStoreConformance):
    @pytest.fixture
    def reopen(self, url: str) -> Callable[[], QdrantStore]:
        return lambda: QdrantStore("docs", url=url)


class TestOverHttpLexical(OverHttp, LexicalStoreConformance):
    pass


class TestOverHttpFetch(OverHttp, FetchStoreConformance):
    pass
