"""Operations that a vector store filled by others does not support, and the suggested fixes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

from lorebind import (
    ConfigurationError,
    LorebindError,
    NotIngestedError,
    Project,
    StoreError,
    UsageError,
    existing,
    tenant,
)
from lorebind_config.errors import ReadOnlyError
from tests.bindings.helpers import write
from tests.conformance.existing_stores import DOCUMENTS, LONG, UNIT, Words

QUESTION = "How often are the keys rotated?"


def filled(store: VectorStore | None = None) -> VectorStore:
    target = store or InMemoryVectorStore(UNIT)
    target.add_documents(DOCUMENTS)
    return target


class Unscored(InMemoryVectorStore):
    """A store that returns documents without scores."""

    similarity_search_with_score = VectorStore.similarity_search_with_score
    asimilarity_search_with_score = VectorStore.asimilarity_search_with_score


class Ranks(InMemoryVectorStore):
    """A store that returns ranks as scores."""

    def similarity_search_with_score(self, query: str, k: int = 4, **more: Any) -> Any:
        hits = super().similarity_search_with_score(query, k)
        return [(document, float(rank)) for rank, (document, _) in enumerate(hits)]


class Other(Words):
    """Another embedder than the one the documents were embedded with."""

    def embed_query(self, text: str) -> list[float]:
        return super().embed_query(text[::-1])


def of_many_lengths(folder: Path) -> VectorStore:
    return filled(Chroma("long", LONG, persist_directory=str(folder)))


def with_another_embedder(folder: Path) -> VectorStore:
    filled(Chroma("other", UNIT, persist_directory=str(folder)))
    return Chroma("other", Other(), persist_directory=str(folder))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda folder: filled(Unscored(UNIT)), "has no similarity_search_with_score.*ingest them"),
        (lambda folder: filled(Ranks(UNIT)), "cannot be converted to cosines.*metric that is the"),
        (of_many_lengths, "cannot be converted to cosines.*vectors of length 1"),
        (with_another_embedder, "use the embedder that made its vectors"),
    ],
)
def test_scores_that_are_none(
    make: Callable[[Path], VectorStore], text: str, tmp_path: Path
) -> None:
    """A score that is not a cosine is refused."""
    with (
        Project.build(vector_store=existing(make(tmp_path / "db")), root=tmp_path) as project,
        pytest.raises(StoreError, match=text),
    ):
        project.query("documents", QUESTION)


def test_an_empty_store(tmp_path: Path) -> None:
    """An empty store, which is probably the wrong one, is refused until it is filled."""
    store = InMemoryVectorStore(UNIT)
    with Project.build(vector_store=existing(store), root=tmp_path) as project:
        with pytest.raises(NotIngestedError, match="check that its collection, table or file"):
            project.query("documents", QUESTION)
        filled(store)
        assert project.query("documents", QUESTION).matches


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"strategy": "hybrid"}, "no word index for 'hybrid'; known: similarity, mmr, rerank"),
        ({"strategy": "lexical"}, "no word index for 'lexical'"),
        ({"neighbours": 1}, "omit 'neighbours'"),
        ({"versions": {"by": ["product"]}}, "omit 'versions'"),
        ({"stages": [{"strategy": "hybrid"}]}, "no word index for 'hybrid'"),
        ({"strategy": "rerank"}, "needs a reranker"),
        ({"min_score": 0.1, "min_score_on": "fused"}, "no score 'fused' for min_score"),
    ],
)
def test_searches_that_need_an_index(settings: dict[str, Any], text: str, tmp_path: Path) -> None:
    """They are refused before the search, even in a stage that is rarely reached."""
    with Project.build(vector_store=existing(filled()), root=tmp_path) as project:
        retriever = project.retriever("documents", **settings)
        with pytest.raises(UsageError, match=text):
            retriever.invoke(QUESTION)


DOES: dict[str, Callable[[Project], object]] = {
    "ingest": lambda project: project.ingest("documents"),
    "plan": lambda project: project.plan("documents"),
    "reindex": lambda project: project.knowledge_base("documents").reindex(),
    "stats": lambda project: project.stats("documents"),
    "collection": lambda project: project.collection("notes"),
    "vector_store": lambda project: project.knowledge_base("documents").vector_store(),
}


@pytest.mark.parametrize("does", DOES)
def test_what_writes_or_reads_an_index(does: str, tmp_path: Path) -> None:
    store = filled()
    with Project.build(vector_store=existing(store), root=tmp_path) as project:
        with pytest.raises(ReadOnlyError, match=r"filled by another program.*only be searched"):
            DOES[does](project)
        assert project.purge(dry_run=False) == []
    assert len(store.similarity_search(QUESTION, k=999)) == len(DOCUMENTS)


def test_evaluation(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "queries.jsonl": f'{{"id": "1", "text": "{QUESTION}"}}\n',
            "qrels.tsv": "query-id\tcorpus-id\tscore\n1\tkeys.md\t1\n",
        },
    )
    files = (tmp_path / "queries.jsonl", tmp_path / "qrels.tsv")
    with Project.build(vector_store=existing(filled()), root=tmp_path) as project:
        documents = project.knowledge_base("documents")
        with pytest.raises(ReadOnlyError):
            documents.evaluate(*files)
        with pytest.raises(ReadOnlyError):
            documents.tune(*files)


def test_a_tenant(tmp_path: Path) -> None:
    """Such a store does not separate tenants, so one tenant would see the data of another."""
    with Project.build(vector_store=existing(filled()), root=tmp_path) as project:
        with tenant("acme"), pytest.raises(UsageError, match="has no tenants"):
            project.query("documents", QUESTION)
        assert project.query("documents", QUESTION).matches


def test_several_at_once(tmp_path: Path) -> None:
    """Its scores cannot be compared with those of an index, so ranks decide."""
    source = {"type": "inline", "documents": [{"id": "a", "text": "A"}]}
    declared = {
        "name": "shop",
        "embedders": [{"id": "words", "provider": "hashing"}],
        "vector_dbs": [{"id": "ours", "type": "memory"}, {"id": "theirs", **existing(filled())}],
        "knowledge_bases": [
            {"id": "docs", "sources": [source]},
            {"id": "old", "vector_db": "theirs"},
        ],
    }
    with Project.build(declared, root=tmp_path) as project:
        project.ingest("docs")
        for names in (["docs", "old"], ["old", "docs"]):
            result = project.query_many(names, QUESTION)
            assert result.by_ranks
            assert {match.metadata["kb_id"] for match in result} == set(names)


def test_documents_beside_it(tmp_path: Path) -> None:
    """Documents cannot be added to a store that others fill: they need their own database."""
    with pytest.raises(ConfigurationError, match=r"'documents' is filled by others, so sources"):
        Project.build(vector_store=existing(filled()), documents=DOCUMENTS[:1], root=tmp_path)


THEIRS = """\
name: shop
embedders: [{ id: words, provider: hashing }]
vector_dbs:
  - id: theirs
    type: langchain
    class: langchain_chroma:Chroma
    existing: true
"""
OLD = "knowledge_bases:\n  - id: old\n"


@pytest.mark.parametrize(
    ("added", "parts"),
    [
        (
            f"{OLD}    retrieval: {{ strategy: hybrid }}\n",
            [
                "lorebind.yaml:10:18: ",
                "no word index for 'hybrid'",
                "similarity, mmr or rerank",
            ],
        ),
        (
            f"{OLD}    retrieval: {{ stages: [{{ strategy: lexical }}] }}\n",
            ["lorebind.yaml:10:29: ", "no word index for 'lexical'"],
        ),
        (
            f"{OLD}knowledge: [{{ id: old, neighbours: 1 }}]\n",
            ["lorebind.yaml:10:24: ", "the order of its passages is unknown", "remove it"],
        ),
        (
            f"{OLD}knowledge:\n  - id: old\n    strategy: lexical\n",
            ["lorebind.yaml:12:5: ", "no word index for 'lexical'"],
        ),
        (
            f'{OLD}    sources: [{{ type: markdown_glob, path: "*.md" }}]\n',
            ["lorebind.yaml:10:5: ", "so sources has no effect", "set existing: false"],
        ),
        (
            f"{OLD}    chunking: {{ size: 200 }}\n",
            ["lorebind.yaml:10:5: ", "so chunking has no effect"],
        ),
        (
            "    persistent: true\n",
            ["lorebind.yaml:8:5: ", "persistent has no effect if another program fills it"],
        ),
        (
            '    catalog: { path: "a.db" }\n',
            ["lorebind.yaml:8:5: ", "catalog has no effect if another program fills it"],
        ),
    ],
)
def test_what_files_say(added: str, parts: list[str], tmp_path: Path) -> None:
    """Settings that would be ignored or cannot work are refused with their location."""
    write(tmp_path, {"lorebind.yaml": THEIRS + added})
    with pytest.raises(ConfigurationError) as refused:
        Project.load(tmp_path)
    assert len(refused.value.problems) == 1
    for part in parts:
        assert part in str(refused.value)


def test_a_workflow_may_have_its_own_of_that_name(tmp_path: Path) -> None:
    """A workflow's own knowledge base of that name is valid."""
    source = {"type": "inline", "documents": [{"id": "a", "text": "A"}]}
    declared: dict[str, Any] = {
        "name": "shop",
        "vector_dbs": [{"id": "ours", "type": "memory"}, {"id": "theirs", **existing(filled())}],
        "knowledge_bases": [{"id": "docs", "vector_db": "theirs"}],
        "workflows": [
            {
                "id": "reply",
                "knowledge_bases": [{"id": "docs", "vector_db": "ours", "sources": [source]}],
                "knowledge": [{"id": "docs", "strategy": "lexical"}],
                "tasks": [{"id": "say", "prompt": "What is A?"}],
            }
        ],
    }
    Project.build(declared, root=tmp_path).close()
    del declared["workflows"][0]["knowledge_bases"]
    with pytest.raises(ConfigurationError, match="'docs' is filled by others"):
        Project.build(declared, root=tmp_path)


def test_a_factory_that_makes_something_else(tmp_path: Path) -> None:
    declared = {
        "name": "shop",
        "vector_dbs": [
            {"id": "t", "type": "langchain", "factory": "shop_made:make", "existing": True}
        ],
        "knowledge_bases": [{"id": "old"}],
    }
    write(tmp_path, {"shop_made.py": "def make():\n    return 7\n"})
    with (
        Project.build(declared, root=tmp_path) as project,
        pytest.raises(LorebindError, match="shop_made:make is not a LangChain VectorStore"),
    ):
        project.query("old", QUESTION)


def test_documents_that_are_equal(tmp_path: Path) -> None:
    """A document that equals the question has a valid cosine as its score."""
    store = Chroma("one", UNIT, persist_directory=str(tmp_path / "db"))  # squared distances
    store.add_documents([Document("The keys are rotated."), Document("Lunch is served at noon.")])
    with Project.build(vector_store=existing(store), root=tmp_path) as project:
        first, second = project.query("documents", "The keys are rotated.", top_k=2)
        cosine = float(np.dot(UNIT.embed_query(first.text), UNIT.embed_query(second.text)))
        assert (first.score, second.scores["dense"]) == pytest.approx((1.0, cosine), abs=1e-4)
