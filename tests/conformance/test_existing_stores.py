"""Vector stores that another program fills are searched as they are, and never written to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore
from langchain_core.vectorstores.utils import maximal_marginal_relevance

from lorebind import Project, existing
from lorebind_knowledge.records import QueryResult

from .existing_stores import DOCUMENTS, SIZE, STORES, UNIT, Words

pytestmark = pytest.mark.enable_socket  # for Qdrant and PostgreSQL

QUESTIONS = ("How often are the keys rotated?", "Who has served lunches at noon?")
WEIGHT = 0.7
ROWS = np.array(UNIT.embed_documents([doc.page_content for doc in DOCUMENTS]))


@pytest.fixture(scope="module", params=STORES)
def store(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    new_dsn: Callable[[], str],
) -> Iterator[VectorStore]:
    make, words = STORES[request.param]
    with ExitStack() as stack:
        store = make(words, tmp_path_factory.mktemp("store"), new_dsn(), stack)
        store.add_documents(DOCUMENTS, ids=[str(doc.id) for doc in DOCUMENTS])
        yield store


def everything(store: VectorStore) -> list[tuple[str, dict[str, Any]]]:
    """Return everything that a store returns itself."""
    documents = store.similarity_search("everything", k=len(DOCUMENTS) + 10)
    return sorted(
        ((doc.page_content, doc.metadata) for doc in documents),
        key=lambda pair: pair[1]["number"],
    )


def expected(question: str, allowed: list[Document], k: int) -> list[tuple[str, float]]:
    """Return the URIs of the documents that are nearest to a question, and their cosines."""
    figures = ROWS @ np.array(UNIT.embed_query(question))
    best = sorted(allowed, key=lambda doc: -figures[doc.metadata["number"]])
    return [(doc.metadata["source"], figures[doc.metadata["number"]]) for doc in best[:k]]


def diverse(question: str, allowed: list[Document], k: int, weight: float) -> list[str]:
    """Return the texts that maximal marginal relevance chooses from the 50 nearest."""
    vector = np.array(UNIT.embed_query(question))
    figures = ROWS @ vector
    pool = sorted(allowed, key=lambda doc: -figures[doc.metadata["number"]])[:50]
    rows = [ROWS[doc.metadata["number"]] for doc in pool]
    return [pool[at].page_content for at in maximal_marginal_relevance(vector, rows, weight, k)]


def check(result: QueryResult, question: str, allowed: list[Document], k: int) -> None:
    """Check that exactly these documents were found, in this order, with their cosines."""
    best = expected(question, allowed, k)
    assert [match.metadata["uri"] for match in result] == [uri for uri, _ in best]
    cosines = [match.scores["dense"] for match in result]
    assert cosines == pytest.approx([cosine for _, cosine in best], abs=1e-4)
    assert [match.score for match in result] == pytest.approx(np.clip(cosines, 0, 1), abs=1e-6)


def test_the_nearest_are_found_with_their_cosines(store: VectorStore, tmp_path: Path) -> None:
    """Each class finds the same with each metric. A search writes nothing to the store."""
    before = everything(store)
    assert len(before) == len(DOCUMENTS)
    with Project.build(vector_store=existing(store), root=tmp_path / "project") as project:
        for question in QUESTIONS:
            for k in (3, 8):
                check(project.query("documents", question, top_k=k), question, DOCUMENTS, k)
            texts = {doc.id for doc in DOCUMENTS}
            matches = project.query("documents", question, top_k=50)
            assert {match.id for match in matches} <= texts
            assert len({match.id for match in matches}) == 50
    assert everything(store) == before


def test_filters_mean_the_same(store: VectorStore, tmp_path: Path) -> None:
    """Filters also work if few documents pass them and these are far from the question."""
    question = QUESTIONS[0]
    ways: list[dict[str, Any]] = [
        {"team": "office"},
        {"seldom": True},
        {"number": {"$gte": 200}, "source": "passwords.md"},
        {"source": {"$in": ["alerts.md", "lunches.md"]}},
    ]
    with Project.build(vector_store=existing(store), root=tmp_path / "project") as project:
        for filters, passes in zip(
            ways,
            (
                lambda doc: doc.metadata["team"] == "office",
                lambda doc: doc.metadata["seldom"],
                lambda doc: (
                    doc.metadata["number"] >= 200 and doc.metadata["source"] == "passwords.md"
                ),
                lambda doc: doc.metadata["source"] in ("alerts.md", "lunches.md"),
            ),
            strict=True,
        ):
            allowed = [doc for doc in DOCUMENTS if passes(doc)]
            for k in (3, 8):
                matches = project.query("documents", question, top_k=k, filters=filters)
                check(matches, question, allowed, k)
            chosen = project.query("documents", question, top_k=5, filters=filters, strategy="mmr")
            texts = [match.text for match in chosen]
            assert texts == diverse(question, allowed, 5, WEIGHT)[: len(allowed)]


def test_mmr_is_the_same_everywhere(store: VectorStore, tmp_path: Path) -> None:
    """Results are in the order of choice, and a shorter result is the start of a longer one."""
    with Project.build(vector_store=existing(store), root=tmp_path / "project") as project:
        for question in QUESTIONS:
            matches = project.query("documents", question, strategy="mmr", top_k=8)
            assert [match.text for match in matches] == diverse(question, DOCUMENTS, 8, WEIGHT)
            fewer = project.query("documents", question, strategy="mmr", top_k=3)
            assert [match.id for match in fewer] == [match.id for match in matches][:3]
            by_text = {row.page_content: at for at, row in enumerate(DOCUMENTS)}
            figures = ROWS @ np.array(UNIT.embed_query(question))
            cosines = [figures[by_text[match.text]] for match in matches]
            assert [match.scores["dense"] for match in matches] == pytest.approx(cosines, abs=1e-4)


class Wordless(Words):
    """Embeds a text without words as the zero vector."""

    def embed_query(self, text: str) -> list[float]:
        return super().embed_query(text) if any(map(str.isalpha, text)) else [0.0] * SIZE


def test_a_question_without_a_direction(tmp_path: Path, dsn: str) -> None:
    """PostgreSQL returns NaN as the cosine of a zero vector; the score is 0, as elsewhere."""
    make, _ = STORES["postgres cosine"]
    with ExitStack() as stack:
        store = make(Wordless(), tmp_path, dsn, stack)
        store.add_documents(DOCUMENTS[:9])
        with Project.build(vector_store=existing(store), root=tmp_path / "project") as project:
            matches = project.query("documents", "42?", top_k=3)
            assert [match.scores for match in matches] == [{"dense": 0.0}] * 3
