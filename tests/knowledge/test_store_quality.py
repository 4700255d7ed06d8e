"""The same documents and questions find the same passages on every store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.vectorstores import InMemoryVectorStore

from lorebind_config.declarations.retrieval import RetrievalDeclaration
from lorebind_config.namespace import Namespace
from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.chunking.recursive import RecursiveChunker
from lorebind_knowledge.embedders.hashing import HashingEmbedder
from lorebind_knowledge.events import Events
from lorebind_knowledge.index.index import Index
from lorebind_knowledge.ingest.corpus import Corpus
from lorebind_knowledge.ingest.engine import ingest
from lorebind_knowledge.knowledge_base import IndexedKnowledgeBase
from lorebind_knowledge.rerankers.base import Reranker
from lorebind_knowledge.retrieval.search import rank, search
from lorebind_knowledge.sources.folder.files import FileSource
from lorebind_knowledge.stores import MemoryStore, SqliteStore
from lorebind_knowledge.stores.langchain.recipe import Recipe
from lorebind_knowledge.stores.langchain.store import LangChainStore
from lorebind_knowledge.stores.pgvector.store import PgvectorStore
from lorebind_knowledge.stores.qdrant.store import QdrantStore

DOCUMENTS = Path(__file__).parents[2] / "examples" / "quickstart"
QUESTIONS = (
    "How do I allow cross-origin requests?",
    "upload a file with a form",
    "declare a cookie parameter",
    "run a task after the response was sent",
    "What is dependency injection?",
    "OAuth2 with a password and JWT tokens",
    "return a custom status code",
    "How can I test my application?",
    "nested models in the body",
    "middleware that adds a header",
    "use a database with SQL",
    "path parameters with numbers greater than zero",
    "regular expression for a query parameter",
    "serve static files",
    "exclude unset values from the response model",
    "server-sent events",
    "the the the of and",
    "debug in the editor",
    "bigger applications with several files",
    "APIRouter prefix tags dependencies",
    "HTTPException detail headers",
    "deprecate an operation in the docs",
    "yield in dependencies and exceptions",
    "PUT and PATCH updates",
    "zebra crossings in Vienna",
)
STORES = ("memory", "sqlite", "pgvector", "qdrant", "langchain")


class Judge(Reranker):
    """Counts the words that question and passage have in common."""

    def rerank(self, question: str, texts: Sequence[str]) -> list[float]:
        words = set(question.lower().split())
        return [len(words & set(text.lower().split())) / len(words) for text in texts]


@pytest.fixture(scope="module")
def kbs(
    tmp_path_factory: pytest.TempPathFactory, new_dsn: Callable[[], str]
) -> Iterator[dict[str, IndexedKnowledgeBase]]:
    """Make one knowledge base per store, with the same documents and ids."""
    stores: dict[str, Any] = {
        "memory": MemoryStore(),
        "sqlite": SqliteStore(tmp_path_factory.mktemp("quality") / "store.db"),
        "pgvector": PgvectorStore(new_dsn()),
        "qdrant": QdrantStore("docs"),
        "langchain": LangChainStore(Recipe("Memory", InMemoryVectorStore), exact=True),
    }
    assert tuple(stores) == STORES
    kbs = {
        name: IndexedKnowledgeBase(
            id="docs",
            namespace=Namespace("default", "test", "project", "docs"),
            embedder=HashingEmbedder(dimension=128),
            index=Index(store, Catalog()),
            retrieval=RetrievalDeclaration(),
            events=Events([]),
            reranker=lambda declared: Judge(),
        )
        for name, store in stores.items()
    }
    yield kbs
    for kb in kbs.values():
        kb.index.close()


@pytest.fixture
async def filled(kbs: dict[str, IndexedKnowledgeBase]) -> dict[str, IndexedKnowledgeBase]:
    """Ingest on first use; another ingest of the same documents changes nothing."""
    if kbs["memory"].catalog.ledger.index(kbs["memory"].namespace, "active") is None:
        source = FileSource("markdown_glob", ["docs/**/*.md"], DOCUMENTS)
        for kb in kbs.values():
            report = await ingest(Corpus(kb, [source], RecursiveChunker(2500, 200), {}))
            assert report.chunks["total"] > 140, report
    return kbs


async def answers(
    kb: IndexedKnowledgeBase, question: str, settings: RetrievalDeclaration
) -> list[tuple[str, float, dict[str, Any]]]:
    hits = await rank(kb, question, settings, 50)
    return [(match.id, match.score, dict(match.scores)) for match in hits]


async def compare(
    filled: dict[str, IndexedKnowledgeBase], *, each: int = 1, **settings: Any
) -> None:
    """Check that all stores give the same ids in the same order with the same scores."""
    way = RetrievalDeclaration.model_validate(settings)
    first, *others = STORES
    for question in QUESTIONS[::each]:
        expected = await answers(filled[first], question, way)
        for name in others:
            got = await answers(filled[name], question, way)
            assert [hit[0] for hit in got] == [hit[0] for hit in expected], (name, question)
            assert [hit[1] for hit in got] == pytest.approx(
                [hit[1] for hit in expected], abs=1e-5
            ), (name, question)
            for (_, _, figures), (_, _, theirs) in zip(got, expected, strict=True):
                assert figures == pytest.approx(theirs, abs=1e-5), (name, question)


pytestmark = pytest.mark.enable_socket

WAYS: dict[str, dict[str, Any]] = {
    "similarity": {"strategy": "similarity"},
    "lexical": {"strategy": "lexical"},
    "hybrid": {"strategy": "hybrid", "each": 2},
    "smoothed": {"each": 8, "fusion": {"smoothing": {"weight": 0.3}}},
    "by ranks": {"strategy": "hybrid", "each": 8, "fusion": {"method": "rrf"}},
    "mmr": {"strategy": "mmr", "each": 8, "mmr_lambda": 0.5},
    "rerank": {"strategy": "rerank", "each": 8, "rerank": {"class": "a.b:Judge"}},
}


@pytest.mark.parametrize("way", WAYS)
async def test_strategies(filled: dict[str, IndexedKnowledgeBase], way: str) -> None:
    """Every strategy finds the same on every store, whatever the database supports."""
    await compare(filled, **WAYS[way])


@pytest.mark.parametrize("way", WAYS)
async def test_filters(filled: dict[str, IndexedKnowledgeBase], way: str) -> None:
    """Filtered searches find the same, with the rarity of words counted over all documents."""
    where = {"uri": {"$in": [f"docs/tutorial/{name}.md" for name in ("cors", "testing", "body")]}}
    await compare(filled, **WAYS[way] | {"each": 8}, filters=where)


async def test_what_users_see(filled: dict[str, IndexedKnowledgeBase]) -> None:
    """Texts and metadata are the same too, with and without neighbors."""
    for question in QUESTIONS[:2]:
        for neighbours in (0, 1):
            settings = RetrievalDeclaration(neighbours=neighbours)
            expected = (await search((filled["memory"],), question, settings)).matches
            assert expected
            for name in STORES[1:]:
                got = (await search((filled[name],), question, settings)).matches
                assert [(m.text, dict(m.metadata)) for m in got] == [
                    (m.text, dict(m.metadata)) for m in expected
                ]
