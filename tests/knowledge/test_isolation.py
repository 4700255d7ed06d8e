"""Nothing of one namespace is seen, counted or deleted from another, on any store."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.catalog.ledger import Manifest
from lorebind_knowledge.catalog.postgres import PostgresAddress
from lorebind_knowledge.catalog.postgres_database import PostgresDatabase
from lorebind_knowledge.namespace import IndexKey, Namespace
from lorebind_knowledge.records import Record, RecordFilter, SearchOptions
from lorebind_knowledge.stores import MemoryStore, SqliteStore
from lorebind_knowledge.stores.pgvector.store import PgvectorStore
from lorebind_knowledge.stores.qdrant.store import QdrantStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Names that would collide if they were joined, or matched by a pattern.
NAMES = ("a", "ab", "a/b", "b", "%", "_", "a'b")
WORDS = ("apple", "boat", "cedar")

namespaces = st.builds(
    Namespace,
    tenant=st.sampled_from(NAMES),
    project=st.sampled_from(NAMES),
    scope=st.sampled_from(("project", "workflow/a", "workflow/project")),
    kb=st.sampled_from(NAMES),
)


def family(one: Namespace) -> list[Namespace]:
    """A namespace and those that differ from it in one name alone."""
    fields = ("tenant", "project", "scope", "kb")
    return [one, *(replace(one, **{field: "workflow/z"}) for field in fields)]


chunks = st.lists(
    st.tuples(
        st.sampled_from(("x", "y")), st.lists(st.sampled_from(WORDS), min_size=1, max_size=3)
    ),
    max_size=5,
)
owners_of_one = namespaces.flatmap(
    lambda one: st.lists(st.sampled_from(family(one)), min_size=2, max_size=4, unique=True)
)
owner_lists = owners_of_one | st.lists(namespaces, min_size=2, max_size=4, unique=True)
contents = owner_lists.flatmap(
    lambda owners: st.dictionaries(
        st.builds(IndexKey, st.sampled_from(owners), st.integers(1, 2)),
        chunks,
        min_size=2,
        max_size=4,
    )
)
vectors = {word: np.eye(3, dtype=np.float32)[at] for at, word in enumerate(WORDS)}


@contextmanager
def opened(kind: str, new_dsn: Callable[[], str]) -> Iterator[Any]:
    with tempfile.TemporaryDirectory() as folder:
        store: Any
        match kind:
            case "memory":
                store = MemoryStore()
            case "sqlite":
                store = SqliteStore(Path(folder, "store.db"))
            case "pgvector":
                store = PgvectorStore(new_dsn())
            case _:
                store = QdrantStore("docs")
        yield store
        store.close()


def records(index: IndexKey, passages: list[tuple[str, list[str]]]) -> list[Record]:
    """Ids, uris and texts that other indexes have as well: only the index tells them apart."""
    return [
        Record(
            f"{uri}{at}",
            index,
            uri,
            1,
            " ".join(words),
            vectors[words[0]],
            {"owner": repr(index), "uri": uri},
        )
        for at, (uri, words) in enumerate(passages)
    ]


def fill(store: Any, index: IndexKey, passages: list[tuple[str, list[str]]]) -> None:
    store.open(index, 3)
    store.upsert(records(index, passages))
    for uri in ("x", "y"):
        store.publish(index, uri, 1)


def seen(store: Any, index: IndexKey) -> list[Any]:
    """All that can be read of an index, with every figure."""
    options = SearchOptions(index, 50)
    found: list[Any] = [store.count(index)]
    for word in WORDS:
        answers = (
            store.similarity_search(vectors[word], options),
            store.lexical_search(word, options),
        )
        for answer in answers:
            assert all(match.metadata["owner"] == repr(index) for match in answer)
            found.append(
                [(m.id, m.text, {k: round(v, 5) for k, v in m.scores.items()}) for m in answer]
            )
    names = [f"{uri}{at}" for uri in "xy" for at in range(5)]
    fetched = store.fetch(index, names)
    assert all(one.metadata["owner"] == repr(index) for one in fetched.values())
    return [*found, sorted((name, one.text) for name, one in fetched.items())]


@pytest.mark.enable_socket
@pytest.mark.parametrize(
    ("kind", "examples"), [("memory", 40), ("sqlite", 25), ("pgvector", 8), ("qdrant", 6)]
)
def test_indexes_of_one_store(kind: str, examples: int, new_dsn: Callable[[], str]) -> None:
    """Each index gives what it gives alone, BM25 figures too, and what is deleted from one is
    there in the others."""

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(contents, st.data())
    def check(content: dict[IndexKey, list[tuple[str, list[str]]]], data: st.DataObject) -> None:
        alone: dict[IndexKey, list[Any]] = {}
        for index, passages in content.items():
            reference = MemoryStore()
            fill(reference, index, passages)
            alone[index] = seen(reference, index)
        with opened(kind, new_dsn) as store:
            for index, passages in content.items():
                fill(store, index, passages)
            assert {index: seen(store, index) for index in content} == alone
            victim = data.draw(st.sampled_from(sorted(content)))
            others = {index: found for index, found in alone.items() if index != victim}
            match data.draw(st.sampled_from(["uri", "all", "drop", "generation", "replace"])):
                case "uri":
                    deleted = store.delete_by_filter(RecordFilter(victim, uri="x"))
                    assert deleted == sum(uri == "x" for uri, _ in content[victim])
                case "all":
                    assert store.delete_by_filter(RecordFilter(victim)) == len(content[victim])
                    assert store.count(victim) == 0
                case "drop":
                    store.drop(victim)
                case "generation":
                    store.delete_by_filter(RecordFilter(victim, except_generation=2))
                case "replace":
                    store.publish(victim, "x", 2)
            assert {index: seen(store, index) for index in others} == others

    check()


@contextmanager
def catalog_of(kind: str, new_dsn: Callable[[], str]) -> Iterator[Catalog]:
    with tempfile.TemporaryDirectory() as folder:
        if kind == "memory":
            catalog = Catalog()
        elif kind == "sqlite":
            catalog = Catalog(Path(folder, "catalog.db"))
        else:
            address = PostgresAddress(new_dsn())
            catalog = Catalog(postgres=PostgresDatabase(address, ensure_schema=True))
        yield catalog
        catalog.close()


@pytest.mark.enable_socket
@pytest.mark.parametrize(("kind", "examples"), [("memory", 15), ("sqlite", 15), ("postgres", 5)])
def test_ledgers_of_one_catalog(kind: str, examples: int, new_dsn: Callable[[], str]) -> None:
    """Indexes, runs and locks of a namespace are its own."""

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(owner_lists)
    def check(owners: list[Namespace]) -> None:
        with catalog_of(kind, new_dsn) as catalog:
            ledger = catalog.ledger
            first, *others = owners
            entries, runs = {}, {}
            for owner in others:
                manifest = Manifest(repr(owner), "key", 3, "chunker")
                entry = ledger.create_index(owner, manifest)
                ledger.activate_index(entry.key)
                entries[owner] = entry
                runs[owner] = ledger.start_run(owner, "upsert")
            assert ledger.index(first, "active") is None
            assert list(ledger.last_runs(first, 9)) == []
            assert ledger.retired_indexes(first) == []
            mine = ledger.create_index(first, Manifest("mine", "key", 3, "chunker"))
            assert mine.key.number == 1
            ledger.activate_index(mine.key)
            run_id = ledger.start_run(first, "upsert")
            ledger.finish_run(first, run_id, "completed", {})
            ledger.drop_index(mine.key)
            with catalog.ingest_lock(first):
                for owner in others:
                    with catalog.ingest_lock(owner):
                        active = ledger.index(owner, "active")
                    assert active is not None
                    assert (active.key, active.manifest) == (
                        entries[owner].key,
                        entries[owner].manifest,
                    )
                    (one,) = ledger.last_runs(owner, 9)
                    assert (one["run_id"], one["status"]) == (runs[owner], "running")

    check()
