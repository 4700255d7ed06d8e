"""Properties that the defaults of the search must keep, tested on forty pages of documentation.

The embedder is the hashing one, whose vectors carry little meaning, so that a default that relies
too much on vectors fails. `benchmarks/retrieval.py` tests the same with the real embedder.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lorebind_config.declarations.retrieval import RetrievalDeclaration
from lorebind_config.namespace import Namespace
from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.chunking.recursive import RecursiveChunker
from lorebind_knowledge.embedders.hashing import HashingEmbedder
from lorebind_knowledge.evaluation.dataset import Dataset
from lorebind_knowledge.evaluation.evaluate import evaluate
from lorebind_knowledge.events import Events
from lorebind_knowledge.index.index import Index
from lorebind_knowledge.index.view import View
from lorebind_knowledge.ingest.corpus import Corpus
from lorebind_knowledge.ingest.engine import ingest
from lorebind_knowledge.knowledge_base import IndexedKnowledgeBase
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.sources.folder.files import FileSource
from lorebind_knowledge.stores import MemoryStore

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "examples" / "quickstart" / "docs" / "tutorial"
JUDGED = {
    "declare a cookie parameter": "cookie-params cookie-param-models",
    "read headers of the request": "header-params header-param-models",
    "validate query parameters": "query-params query-params-str-validations query-param-models",
    "path parameters with numbers": "path-params path-params-numeric-validations",
    "nested models in the request body": "body body-nested-models body-fields",
    "upload a file with a form": "request-files request-forms request-forms-and-files",
    "return an error with a status code": "response-status-code handling-errors",
    "test the application with a database": "testing sql-databases",
    "stream data to the client": "server-sent-events stream-json-lines",
    "describe the API in its documentation": "metadata path-operation-configuration",
}
TRUSTING = {
    "signals": {"dense": 0.85, "lexical": 0.15, "terms": 0},
    "fusion": {"document_weight": 0},
}
"""Settings that trust vectors too much."""


def _guards() -> Any:
    spec = importlib.util.spec_from_file_location("guards", ROOT / "benchmarks" / "guards.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


guards = _guards()


@pytest.fixture(scope="module")
def kb() -> Iterator[IndexedKnowledgeBase]:
    kb = IndexedKnowledgeBase(
        id="docs",
        namespace=Namespace("default", "test", "project", "docs"),
        embedder=HashingEmbedder(dimension=128),
        index=Index(MemoryStore(), Catalog()),
        retrieval=RetrievalDeclaration(),
        events=Events([]),
    )
    yield kb
    kb.index.close()


@pytest.fixture
async def filled(kb: IndexedKnowledgeBase) -> IndexedKnowledgeBase:
    """Return the knowledge base, ingested at the first use."""
    source = FileSource("markdown_glob", ["*.md"], PAGES)
    report = await ingest(Corpus(kb, [source], RecursiveChunker(1000, 100), {}))
    assert report.chunks["total"] == 296
    return kb


async def ndcg(kb: IndexedKnowledgeBase, data: Dataset, **settings: Any) -> float:
    (report,) = await evaluate(kb, data, {"": RetrievalDeclaration(**settings)})
    return report.ndcg_10


async def test_rare_words(filled: IndexedKnowledgeBase) -> None:
    """Three rare words of a page find it, although vectors do not."""
    texts = {page.stem: page.read_text(encoding="utf-8") for page in PAGES.glob("*.md")}
    data = guards.rare_words(texts)
    assert len(data.relevant) == 40
    assert await ndcg(filled, data) >= 0.85
    assert await ndcg(filled, data, **TRUSTING) < 0.7
    assert await ndcg(filled, data, fusion={"document_weight": 0}) < 0.8


async def test_thinned_judgements(filled: IndexedKnowledgeBase) -> None:
    """A page is found when the other pages about its topic are filtered out."""
    relevant = {question: frozenset(names.split()) for question, names in JUDGED.items()}
    data, away = guards.thinned(Dataset(dict(zip(JUDGED, JUDGED, strict=True)), relevant))
    assert all(len(pages) == 1 and not pages & away for pages in data.relevant.values())
    where = {"filters": {"uri": {"$nin": [f"{name}.md" for name in away]}}}
    assert await ndcg(filled, data, **where) >= 0.85
    assert await ndcg(filled, data, **where, **TRUSTING) < 0.85


async def test_headings(filled: IndexedKnowledgeBase) -> None:
    """A heading finds a passage of its section."""

    def paths(view: View) -> list[str]:
        whole = view.chunks(view.rows()[1].tolist()).values()
        return [chunk.metadata.get("heading") or "" for chunk in whole]

    data = guards.headings(await call(filled.index.read, filled.namespace, paths), 100)
    assert len(data) == 100
    report = await guards.ask_headings(filled, data, RetrievalDeclaration())
    trusting = await guards.ask_headings(filled, data, RetrievalDeclaration(**TRUSTING))
    assert report.mrr >= 0.76
    assert trusting.mrr < 0.755
    spread = await guards.ask_headings(filled, data, RetrievalDeclaration(max_per_document=1))
    assert spread.documents[0] > report.documents[0]


def test_telling_questions_apart() -> None:
    """The measure is the share of pairs whose own question scores higher; ties count half."""
    assert guards.separation([3, 4], [1, 2]) == 1
    assert guards.separation([1, 4], [2, 1]) == (0.5 + 2) / 4
