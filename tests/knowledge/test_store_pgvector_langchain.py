"""The PostgreSQL store beside langchain-postgres' `PGVectorStore`, on each other's tables."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_postgres import Column, PGEngine, PGVectorStore
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.ext.asyncio import create_async_engine

from lorebind_knowledge.errors import IndexMismatchError, StoreError
from lorebind_knowledge.records import Record, SearchOptions
from lorebind_knowledge.testing.store_driver import INDEX, ids, vector

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from lorebind_knowledge.stores.pgvector.store import PgvectorStore

DIMENSION = 16
EMBEDDING = DeterministicFakeEmbedding(size=DIMENSION)
TEXTS = ("keys", "bills", "rules")


@pytest.fixture
def store(make_store: Callable[..., PgvectorStore]) -> PgvectorStore:
    """Three documents are published, and a newer one of the first is staged."""
    store = make_store()
    fill(store)
    return store


def fill(store: PgvectorStore) -> None:
    given = [
        Record(
            text,
            INDEX,
            f"{text}.md",
            1,
            f"about {text}",
            np.array(embedded, np.float32),
            {"kb_id": "handbook", "size": len(text)},
        )
        for text, embedded in zip(TEXTS, EMBEDDING.embed_documents([*TEXTS]), strict=True)
    ]
    store.open(INDEX, DIMENSION)
    store.upsert(given)
    for one in given:
        store.publish(INDEX, one.uri, 1)
    store.upsert([replace(given[0], generation=2, text="staged")])


@pytest.fixture
async def engine(dsn: str) -> AsyncIterator[PGEngine]:
    made = create_async_engine(dsn.replace("postgresql://", "postgresql+psycopg://"))
    yield PGEngine.from_engine(made)
    await made.dispose()


@pytest.fixture
def schema(dsn: str) -> str:
    return dsn.partition("search_path%3D")[2].partition("%2C")[0]


@pytest.fixture
def opened(engine: PGEngine, schema: str) -> Callable[..., Any]:
    """Opens a table as LangChain does."""

    def make(table: str = "knowledge_chunks", **settings: Any) -> Any:
        return PGVectorStore.create(engine, EMBEDDING, table, schema_name=schema, **settings)

    return make


def query(text: str) -> Any:
    return np.array(EMBEDDING.embed_query(text), np.float32)


def search(store: PgvectorStore, text: str, **options: Any) -> list[Any]:
    return store.similarity_search(query(text), SearchOptions(store.langchain_index, **options))


# A table of ours.


async def test_it_reads_what_is_published(store: PgvectorStore, opened: Callable[..., Any]) -> None:
    """It finds what is published at our distances, and filters by our columns."""
    theirs = await opened(id_column="chunk_id", metadata_columns=["tenant", "kb", "uri"])
    ours = store.similarity_search(query("keys"), SearchOptions(INDEX, 3))
    hits = await theirs.asimilarity_search_with_score("keys", k=5)
    assert {document.id: 1 - distance for document, distance in hits} == pytest.approx(
        {match.id: match.scores["dense"] for match in ours}, abs=1e-5
    )
    best = hits[0][0]
    assert best.page_content == "about keys"
    columns = {"tenant": "acme", "kb": "handbook", "uri": "keys.md"}
    assert best.metadata == {"kb_id": "handbook", "size": 4, **columns}
    for where, expected in (
        ({"uri": "bills.md"}, ["bills"]),
        ({"tenant": "other"}, []),
        ({"kb_id": "handbook", "uri": {"$in": ["keys.md", "none.md"]}}, ["keys"]),
    ):
        documents = await theirs.asimilarity_search("keys", k=3, filter=where)
        assert [document.id for document in documents] == expected
    (document,) = await theirs.aget_by_ids(["rules"])
    assert document.page_content == "about rules"


async def test_it_sees_a_switch_whole(store: PgvectorStore, opened: Callable[..., Any]) -> None:
    """What takes a document's place is found as soon as it is published, under a new id."""
    theirs = await opened()
    (before,) = await theirs.asimilarity_search("keys", k=1)
    store.replace_documents(INDEX, {"keys.md": 2})
    (after,) = await theirs.asimilarity_search("keys", k=1)
    assert (before.page_content, after.page_content) == ("about keys", "staged")
    assert before.id != after.id
    assert await theirs.aget_by_ids([before.id]) == []


async def test_it_adds_rows(store: PgvectorStore, opened: Callable[..., Any]) -> None:
    """What it adds it finds at once; here it is an index of its own, and in no knowledge base."""
    theirs = await opened(metadata_columns=["tenant"])
    note = Document("a note", id="n1", metadata={"by": "ann", "tenant": "acme", "n": 1})
    added = await theirs.aadd_documents([note, Document("another")])
    assert [hit.id for hit in await theirs.asimilarity_search("a note", k=1)] == ["n1"]
    assert added[0] == "n1"

    assert store.count(store.langchain_index) == 2
    best, second = search(store, "a note")
    assert (best.id, best.text, best.score) == ("n1", "a note", 1.0)
    assert best.metadata == {"by": "ann", "tenant": "acme", "n": 1}
    assert second.id == added[1]
    assert ids(search(store, "a note", top_k=1)) == ["n1"]
    assert ids(search(store, "a note", where={"by": "ann", "n": {"$gt": 0}})) == ["n1"]
    assert search(store, "a note", where={"tenant": "other"}) == []
    assert ids(search(store, "a note", ids=[added[1]])) == [added[1]]
    assert ids(search(store, "a note", min_score=0.99)) == ["n1"]
    fetched = store.fetch(store.langchain_index, ["n1", "keys", "none"])
    assert [(one.text, one.metadata["by"]) for one in fetched.values()] == [("a note", "ann")]
    assert np.linalg.norm(fetched["n1"].vector) == pytest.approx(1, abs=1e-6)

    assert store.count(INDEX) == 3
    everything = store.similarity_search(query("a note"), SearchOptions(INDEX, 50))
    assert sorted(ids(everything)) == sorted(TEXTS)
    assert store.lexical_search("note another", SearchOptions(INDEX)) == []


async def test_it_changes_its_own_rows_only(
    store: PgvectorStore, opened: Callable[..., Any]
) -> None:
    """It may write and delete what it added; of what was ingested it may do neither."""
    theirs = await opened()
    ours = [hit.id for hit in await theirs.asimilarity_search("keys", k=3)]
    await theirs.aadd_documents([Document("first", id="n1")])
    await theirs.aadd_documents([Document("second", id="n1")])
    assert [hit.text for hit in search(store, "second")] == ["second"]
    with pytest.raises(ProgrammingError, match="ingested by Lorebind and only ingestion"):
        await theirs.aadd_documents([Document("no", id=ours[0])])
    with pytest.raises(ProgrammingError, match="ingested by Lorebind and only ingestion"):
        await theirs.adelete([*ours, "n1"])
    assert store.count(store.langchain_index) == 1
    assert await theirs.adelete(["n1"])
    assert store.count(store.langchain_index) == 0
    assert {hit.page_content for hit in await theirs.asimilarity_search("keys", k=9)} == {
        f"about {text}" for text in TEXTS
    }


def test_its_rows_are_not_ours_to_write(store: PgvectorStore) -> None:
    """The index of its rows has no words and takes no records; deleting and dropping do nothing."""
    index = store.langchain_index
    options = SearchOptions(index)
    with pytest.raises(StoreError, match="similarity only"):
        store.lexical_search("note", options)
    store.open(index, DIMENSION)
    assert store.similarity_search(query("a note"), options) == []
    with pytest.raises(StoreError):
        store.upsert([Record("x", index, "x", 1, "x", query("x"), {})])
    with pytest.raises(StoreError):
        store.publish(index, "x", 1)
    store.drop(index)
    assert store.count(index) == 0


def test_where_there_is_no_table(make_store: Callable[..., PgvectorStore]) -> None:
    """Without a table there is no such index either."""
    store = make_store()
    for call in (
        lambda: store.open(store.langchain_index, 4),
        lambda: store.count(store.langchain_index),
        lambda: search(store, "x"),
    ):
        with pytest.raises(StoreError, match="langchain/knowledge_chunks"):
            call()


# A table of LangChain's.


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "columns"])
async def test_a_table_that_it_made(
    engine: PGEngine,
    schema: str,
    dsn: str,
    opened: Callable[..., Any],
    make_store: Callable[..., PgvectorStore],
    plain: bool,
) -> None:
    """Its rows are found in the same order, without leave to make anything; the table stays."""
    settings: dict[str, Any] = {}
    if not plain:
        settings["metadata_columns"] = [Column('odd "%s"', "TEXT"), Column("n", "INTEGER")]
        settings["id_column"] = Column("langchain_id", "TEXT", nullable=False)
    await engine.ainit_vectorstore_table("made", DIMENSION, schema_name=schema, **settings)
    theirs = await opened("made", metadata_columns=[] if plain else ["n"])
    notes = [Document(f"note {n}", metadata={"n": n, "tag": "x"}) for n in range(30)]
    added = await theirs.aadd_documents(notes)

    store = make_store(table="made", ensure_schema=False)
    store.open(store.langchain_index, DIMENSION)
    with pytest.raises(IndexMismatchError, match=r"\b16\b.*\b4\b"):
        store.open(store.langchain_index, 4)
    with pytest.raises(StoreError, match="expected 16"):
        store.similarity_search(vector((1.0, 0.0)), SearchOptions(store.langchain_index))
    ranked = await theirs.asimilarity_search_with_score("note 3", k=10)
    ours = search(store, "note 3", top_k=10)
    assert ids(ours) == [document.id for document, _ in ranked]
    assert [match.scores["dense"] for match in ours] == pytest.approx(
        [1 - distance for _, distance in ranked], abs=1e-5
    )
    assert ours[0].metadata == {"n": 3, "tag": "x"}
    assert store.count(store.langchain_index) == 30
    (few,) = search(store, "note 3", where={"n": {"$in": [7]}, "tag": "x"})
    assert few.id == added[7]
    assert list(store.fetch(store.langchain_index, [added[5], "none"])) == [added[5]]
    with psycopg.connect(dsn) as db:
        made = "select relname from pg_class where relname like 'made\\_%%' and relkind = 'r'"
        assert db.execute(made).fetchall() == []


async def test_ingesting_beside_its_table(
    engine: PGEngine, schema: str, opened: Callable[..., Any], make_store: Callable[..., Any]
) -> None:
    """What is ingested into a table of that name is kept beside it, and each finds its own."""
    await engine.ainit_vectorstore_table("made", DIMENSION, schema_name=schema)
    theirs = await opened("made")
    await theirs.aadd_documents([Document("a note")])
    store = make_store(table="made")
    fill(store)
    assert ids(store.similarity_search(query("keys"), SearchOptions(INDEX, 1))) == ["keys"]
    assert [match.text for match in search(store, "a note")] == ["a note"]
    assert [hit.page_content for hit in await theirs.asimilarity_search("keys", k=9)] == ["a note"]
    other = make_store(table="made")
    assert other.count(INDEX) == 3
