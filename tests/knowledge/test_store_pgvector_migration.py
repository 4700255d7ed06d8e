"""Tables that an earlier version of the PostgreSQL store has made are brought to this one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import psycopg
import pytest

from lorebind_knowledge.errors import StoreError
from lorebind_knowledge.namespace import IndexKey
from lorebind_knowledge.records import Record, SearchOptions
from lorebind_knowledge.stores import MemoryStore
from lorebind_knowledge.stores.stems import count_stems
from lorebind_knowledge.testing.store_driver import EAST, INDEX, ids, record, vector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lorebind_knowledge.stores.pgvector.store import PgvectorStore

OTHER = IndexKey(INDEX.namespace, 2)
COLUMNS = """(langchain_id text collate "C" not null, content text not null,
    embedding vector not null, langchain_metadata json not null, tenant text not null,
    project text not null, scope text not null, kb text not null, number integer not null,
    uri text not null, generation bigint not null, index_key bigint not null,
    fields jsonb not null, terms jsonb not null, length integer not null,
    primary key (index_key, langchain_id, generation))"""
VERSION_1 = f"""
    create table knowledge_chunks_version (version integer not null);
    create table knowledge_chunks_indexes (
      key bigint generated always as identity primary key, tenant text collate "C" not null,
      project text collate "C" not null, scope text collate "C" not null,
      kb text collate "C" not null, number integer not null, dimension integer not null,
      records bigint not null default 0, words bigint not null default 0,
      unique (tenant, project, scope, kb, number));
    create table knowledge_chunks {COLUMNS};
    create table knowledge_chunks_staged {COLUMNS};
    create index on knowledge_chunks (index_key, md5(uri));
    create index on knowledge_chunks_staged (index_key, md5(uri));
    create index on knowledge_chunks using gin (fields jsonb_path_ops);
    create index on knowledge_chunks using gin (terms);
    create index knowledge_chunks_ann_1 on knowledge_chunks
      using hnsw ((embedding::vector(4)) vector_cosine_ops) where index_key = 1;
    insert into knowledge_chunks_version values (1)
"""
PUBLISHED = [
    record("a", text="Running the keys", n=1, tags=["x"]),
    record("b", (0.6, 0.8, 0.0, 0.0), text="x" * 200 + " bills and keys, keys", n=2),
    record("c", uri="odd\x01'%s", text="", n=2),
    record("a", index=OTHER, text="of another index"),
]
STAGED = [record("a", generation=2, text="newer"), record("d", uri="d.md", text="waits")]


def write(db: psycopg.Connection, table: str, one: Record, key: int) -> None:
    """A row as version 1 wrote it."""
    (counts,) = count_stems([one.searched])
    # A word of more than a hundred letters was kept as a digest, which no text here needs.
    words = {f"{key}:{word}": times for word, times in counts.items() if len(word) <= 100}
    owner, metadata = one.index.namespace, json.dumps(dict(one.metadata))
    values = [
        *(one.id, one.text, str(one.vector.tolist()), metadata, owner.tenant, owner.project),
        *(owner.scope, owner.kb, one.index.number, one.uri.replace("\x01", "\x01\x02")),
        *(one.generation, key, metadata, json.dumps(words), counts.total()),
    ]
    db.execute(f"insert into {table} values ({', '.join(['%s'] * len(values))})", values)  # type: ignore[arg-type]


@pytest.fixture
def db(dsn: str) -> Iterator[psycopg.Connection]:
    """A database that version 1 has filled."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(VERSION_1)
        for key, index in enumerate((INDEX, OTHER), 1):
            owner, mine = index.namespace, [one for one in PUBLISHED if one.index == index]
            words = sum(counts.total() for counts in count_stems([one.searched for one in mine]))
            connection.execute(
                "insert into knowledge_chunks_indexes (tenant, project, scope, kb, number,"
                " dimension, records, words) values (%s, %s, %s, %s, %s, 4, %s, %s)",
                [
                    *(owner.tenant, owner.project, owner.scope, owner.kb, index.number),
                    *(len(mine), words),
                ],
            )
            for one in mine:
                write(connection, "knowledge_chunks", one, key)
        for one in STAGED:
            write(connection, "knowledge_chunks_staged", one, 1)
        yield connection


def as_in_memory(store: PgvectorStore) -> None:
    """The store answers as one that was given the same records today."""
    memory = MemoryStore()
    for index in (INDEX, OTHER):
        memory.open(index, 4)
    memory.upsert(PUBLISHED)
    for one in PUBLISHED:
        memory.publish(one.index, one.uri, 1)
    for index in (INDEX, OTHER):
        assert store.count(index) == memory.count(index)
        for options in (
            SearchOptions(index, 9),
            SearchOptions(index, 9, where={"n": 2}),
            SearchOptions(index, 9, ids=["b", "c"]),
        ):
            ours, theirs = (s.similarity_search(vector(EAST), options) for s in (store, memory))
            assert ours == [replace(m, scores=o.scores) for m, o in zip(theirs, ours, strict=True)]
            ours, theirs = (s.lexical_search("run keys another", options) for s in (store, memory))
            assert [(m.id, m.score) for m in ours] == [(m.id, m.score) for m in theirs]
            assert [m.scores["lexical"] for m in ours] == pytest.approx(
                [m.scores["lexical"] for m in theirs], rel=1e-9
            )


def test_a_search_brings_it_up_to_date(
    db: psycopg.Connection, make_store: Callable[..., PgvectorStore]
) -> None:
    """The first use moves everything; what was published is found, what was staged waits."""
    store = make_store()
    as_in_memory(store)
    store.publish(INDEX, "a.md", 2)
    store.publish(INDEX, "d.md", 1)
    found = store.similarity_search(vector(EAST), SearchOptions(INDEX, 9))
    assert {match.id: match.text for match in found} == {"a": "newer", "c": "", "d": "waits"}
    store.publish(INDEX, "a.md", 1)
    store.publish(INDEX, "d.md", 9)
    assert sorted(ids(store.lexical_search("run bills", SearchOptions(INDEX)))) == ["a", "b"]
    made = "select relname from pg_class where relname ~ '^knowledge_chunks_(old|staged|ann)'"
    made += " and relnamespace = current_schema()::regnamespace"
    assert db.execute(made).fetchall() == []
    as_in_memory(make_store())


def test_without_leave_to_change_tables(
    db: psycopg.Connection, make_store: Callable[..., PgvectorStore]
) -> None:
    """With `ensure_schema: false` nothing is changed, and the error has the SQL that does it."""
    store = make_store(ensure_schema=False)
    with pytest.raises(StoreError, match=r"older version of Lorebind.*ensure_schema") as caught:
        store.count(INDEX)
    assert db.execute("select version from knowledge_chunks_version").fetchone() == (1,)
    _, _, sql = str(caught.value).partition(":\n")
    db.execute(sql)
    as_in_memory(store)
