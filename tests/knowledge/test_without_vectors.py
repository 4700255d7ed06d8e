"""Knowledge bases without vectors (`embedder: none`): found by words and terms alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

from lorebind import Project
from lorebind_config.errors import ConfigurationError, IndexMismatchError, UsageError
from lorebind_config.reading.loading import build_project
from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.catalog.schema import CATALOG
from lorebind_knowledge.database.databases import PostgresDatabase
from lorebind_knowledge.database.postgres_address import PostgresAddress
from lorebind_knowledge.embedders.hashing import HashingEmbedder
from lorebind_knowledge.embedders.none import NoEmbedder
from lorebind_knowledge.stores.base import VectorStore
from lorebind_knowledge.stores.pgvector.settings import PgvectorSettings
from lorebind_knowledge.stores.pgvector.store import PgvectorStore

from .bench import Bench, counts, paragraph
from .sparse_words import SparseWords, with_sparse

RELATED = {"automobile": "car"}


@pytest.fixture
def garage(bench: Bench) -> Bench:
    """Return a knowledge base without vectors, whose documents are not ingested yet."""
    with_sparse(bench, SparseWords(RELATED))
    bench.change(embedder=NoEmbedder())
    bench.write("a.md", "The automobile waits outside.")
    bench.write("b.md", "The zebra waits inside the garage.")
    bench.write("c.md", "Nobody waits upstairs.")
    return bench


async def uris(bench: Bench, question: str, **settings: Any) -> list[str]:
    return [match.metadata["uri"] for match in (await bench.ask(question, **settings)).matches]


async def test_words_and_terms_find_passages(garage: Bench) -> None:
    """`hybrid` ranks by words and related words; no score is about vectors."""
    plan = await garage.plan()
    assert (plan.texts_to_embed, plan.tokens_to_embed, plan.cache_hits) == (0, 0, 0)
    report = await garage.ingest()
    assert report.documents == counts(added=3)
    assert (report.texts_embedded, report.cache_hits) == (0, 0)
    assert (await uris(garage, "car"))[0] == "docs/a.md"
    assert (await uris(garage, "zebra garage"))[0] == "docs/b.md"
    result = await garage.ask("zebra")
    assert result.matches[0].scores.keys() == {
        *("lexical", "document", "terms", "coverage", "fused"),
    }
    assert "embedder_called" not in garage.diary.names()


async def test_the_relevance_is_the_coverage_of_the_words(garage: Bench) -> None:
    """It is high with all words of the question, 0 without any; thresholds and verdicts use it."""
    await garage.ingest()
    (best,) = (await garage.ask("zebra garage")).matches  # the only one with any of the words
    assert best.relevance == pytest.approx(best.scores["coverage"])
    assert best.score == pytest.approx(best.relevance)
    assert 0.8 < best.relevance <= 1
    partly = (await garage.ask("zebra sleeping in a palace")).matches[0]
    assert 0 < partly.relevance < 0.6
    assert await uris(garage, "zebra garage", min_score=0.8) == ["docs/b.md"]
    assert (await garage.ask("zebra palace", min_score=0.9)).verdict == "miss"
    assert (await garage.ask("!?")).verdict == "miss"


async def test_lexical_and_rrf(garage: Bench) -> None:
    await garage.ingest()
    result = await garage.ask("zebra", strategy="lexical")
    assert [match.metadata["uri"] for match in result.matches] == ["docs/b.md"]
    assert result.matches[0].scores.keys() == {"lexical", "coverage"}
    assert (await uris(garage, "car zebra", fusion={"method": "rrf"}))[0] in (
        "docs/a.md",
        "docs/b.md",
    )


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (
            {"strategy": "similarity"},
            "for the strategy 'similarity'; use hybrid, lexical or rerank",
        ),
        ({"strategy": "mmr"}, "for the strategy 'mmr'"),
        ({"fusion": {"smoothing": {"weight": 0.3}}}, "for smoothing; set its weight to 0"),
        ({"signals": {"dense": 1, "lexical": 0, "terms": 0}}, "give lexical or terms a share"),
        ({"stages": [{"strategy": "mmr"}]}, "for the strategy 'mmr'"),
        ({"min_score_on": "dense"}, "known: coverage, document, fused, lexical, terms"),
    ],
)
async def test_what_needs_vectors_is_refused(
    garage: Bench, settings: dict[str, Any], reason: str
) -> None:
    await garage.ingest()
    with pytest.raises(UsageError) as refused:
        await garage.ask("zebra", **settings)
    assert reason in str(refused.value)


async def test_edits_and_another_embedder(garage: Bench) -> None:
    """Documents change as in any index; with another embedder, a new index takes over."""
    await garage.ingest()
    garage.write("a.md", "The bicycle waits outside.")
    garage.remove("c.md")
    assert (await garage.ingest()).documents == counts(updated=1, removed=1, unchanged=1)
    assert (await uris(garage, "bicycle"))[0] == "docs/a.md"
    garage.change(embedder=HashingEmbedder())
    with pytest.raises(IndexMismatchError, match="was built with the embedder none"):
        await garage.ask("bicycle")
    assert (await garage.ingest()).texts_embedded == 2
    assert "dense" in (await garage.ask("bicycle")).matches[0].scores
    garage.change(embedder=NoEmbedder())
    assert (await garage.ingest()).texts_embedded == 0
    assert "dense" not in (await garage.ask("bicycle")).matches[0].scores


async def test_postgres(dsn: str, tmp_path: Path) -> None:
    """The same on PostgreSQL, where no approximate index is built over equal vectors."""

    def parts() -> tuple[VectorStore, Catalog]:
        store = PgvectorStore(dsn, PgvectorSettings(ensure_index=True), ann_from=2)
        return store, Catalog(postgres=PostgresDatabase(PostgresAddress(dsn), CATALOG))

    bench = Bench(tmp_path, parts)
    bench.change(embedder=NoEmbedder())
    bench.write("a.md", *map(paragraph, ("zebra", "garage", "palace")))
    await bench.ingest()
    assert "zebra" in (await bench.ask("zebra")).matches[0].text
    with psycopg.connect(dsn) as db:
        indexes = db.execute(
            "select indexdef from pg_indexes"
            " where indexdef like '%hnsw%' and schemaname = current_schema()"
        )
        assert indexes.fetchall() == []
    bench.remove("a.md")
    bench.write("b.md", "A palace.")
    await bench.ingest(allow_mass_delete=True)
    assert await uris(bench, "zebra palace") == ["docs/b.md"]
    bench.index.close()


def declared(**settings: Any) -> dict[str, Any]:
    documents = [
        {"id": "setup", "text": "The installation takes ten minutes."},
        {"id": "refunds", "text": "We pay the price back within thirty days."},
    ]
    kb = {"id": "docs", "sources": [{"type": "inline", "documents": documents}], **settings}
    return {"name": "p", "vector_dbs": [{"id": "m", "type": "memory"}], "knowledge_bases": [kb]}


def test_declared(tmp_path: Path) -> None:
    """`embedder: none` needs no declaration of an embedder, and has the built-in terms."""
    with Project.build(declared(embedder="none"), root=tmp_path) as project:
        project.ingest("docs")
        docs = project.knowledge_base("docs")
        best = docs.query("how do I install it?").matches[0]
        assert best.metadata["uri"] == "inline:setup"
        assert best.scores["terms"] > 0
        assert docs.stats().embedder == "none"
        with pytest.raises(UsageError, match="a vector store searches by vectors only"):
            docs.vector_store()
        assert docs.retriever().invoke("refunds")


def test_several(tmp_path: Path) -> None:
    """Two knowledge bases without vectors are searched together; with others they are not."""
    data = declared(embedder="none")
    other = {**data["knowledge_bases"][0], "id": "more"}
    dense = {**data["knowledge_bases"][0], "id": "dense", "embedder": "words"}
    data |= {
        "knowledge_bases": [*data["knowledge_bases"], other, dense],
        "embedders": [{"id": "words", "provider": "hashing"}],
    }
    with Project.build(data, root=tmp_path) as project:
        for name in ("docs", "more", "dense"):
            project.ingest(name)
        result = project.query_many(["docs", "more"], "thirty days")
        assert {match.metadata["kb_id"] for match in result.matches} == {"docs", "more"}
        assert result.matches[0].relevance > 0.7
        assert not result.by_ranks
        assert project.query_many(["docs", "dense"], "thirty days").by_ranks


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            {"embedders": [{"id": "none", "provider": "hashing"}]},
            "'none' cannot be the id of an embedder",
        ),
        (
            {"retrieval": {"strategy": "mmr"}},
            "knowledge base 'docs' has no vectors for 'mmr' (embedder: none); write hybrid",
        ),
        (
            {"retrieval": {"stages": [{"strategy": "similarity"}]}},
            "knowledge base 'docs' has no vectors for 'similarity'",
        ),
        (
            {"knowledge": [{"id": "docs", "strategy": "similarity"}]},
            "knowledge base 'docs' has no vectors for 'similarity'",
        ),
        (
            {
                "vector_dbs": [
                    {
                        "id": "old",
                        "type": "langchain",
                        "class": "package.module:Store",
                        "existing": True,
                    }
                ]
            },
            "is filled by others and searched by vectors; name the embedder that filled it",
        ),
        (
            {
                "vector_dbs": [
                    {
                        "id": "pg",
                        "type": "pgvector",
                        "config": {"dsn": "postgresql://localhost/x", "dimension": 384},
                    }
                ]
            },
            "remove the dimension at",
        ),
    ],
)
def test_declarations_that_need_vectors(
    change: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    data = declared(embedder="none")
    top = {name: change[name] for name in change if name != "retrieval"}
    if "retrieval" in change:
        data["knowledge_bases"][0]["retrieval"] = change["retrieval"]
    if "vector_dbs" in change:
        del data["knowledge_bases"][0]["sources"]
    with pytest.raises(ConfigurationError) as refused:
        build_project({**data, **top}, root=tmp_path)
    assert reason in str(refused.value)
