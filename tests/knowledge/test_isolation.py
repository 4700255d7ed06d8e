"""No namespace sees, counts or deletes anything of another, on any store."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.vectorstores import InMemoryVectorStore

from lorebind_config.namespace import Namespace
from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.catalog.indexes import Manifest
from lorebind_knowledge.stores import MemoryStore, SqliteStore
from lorebind_knowledge.stores.langchain.recipe import Recipe
from lorebind_knowledge.stores.langchain.store import LangChainStore
from lorebind_knowledge.stores.pgvector.store import PgvectorStore
from lorebind_knowledge.stores.qdrant.store import QdrantStore
from lorebind_knowledge.testing.index_driver import Driver, record

from .every_catalog import in_postgres

# Names that would collide if they were joined, or matched by a pattern.
NAMES = ("a", "ab", "a/b", "b", "%", "_", "a'b")
WORDS = ("apple", "boat", "cedar")
WAYS = ("uri", "all", "drop", "replace", "reindex")

namespaces = st.builds(
    Namespace,
    tenant=st.sampled_from(NAMES),
    project=st.sampled_from(NAMES),
    scope=st.sampled_from(("project", "workflow/a", "workflow/project")),
    kb=st.sampled_from(NAMES),
)


def family(owner: Namespace) -> list[Namespace]:
    """Return a namespace and all those that differ from it in one name."""
    fields = ("tenant", "project", "scope", "kb")
    return [owner, *(replace(owner, **{field: "workflow/z"}) for field in fields)]


chunks = st.lists(
    st.tuples(
        st.sampled_from(("x", "y")), st.lists(st.sampled_from(WORDS), min_size=1, max_size=3)
    ),
    max_size=5,
)
owners_of_one = namespaces.flatmap(
    lambda owner: st.lists(st.sampled_from(family(owner)), min_size=2, max_size=4, unique=True)
)
owner_lists = owners_of_one | st.lists(namespaces, min_size=2, max_size=4, unique=True)
contents = owner_lists.flatmap(
    lambda owners: st.dictionaries(st.sampled_from(owners), chunks, min_size=2, max_size=4)
)
vectors = {word: np.eye(3, dtype=np.float32)[at] for at, word in enumerate(WORDS)}


@contextmanager
def opened(kind: str, new_dsn: Callable[[], str]) -> Iterator[Driver]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "lorebind.db")
        match kind:
            case "memory":
                driver = Driver(MemoryStore(), Catalog())
            case "sqlite":
                driver = Driver(SqliteStore(path), Catalog(path))
            case "pgvector":
                dsn = new_dsn()
                driver = Driver(PgvectorStore(dsn), in_postgres(dsn))
            case "qdrant":
                driver = Driver(QdrantStore("docs"), Catalog())
            case _:
                driver = Driver(LangChainStore(Recipe("Memory", InMemoryVectorStore)), Catalog())
        yield driver
        driver.close()


def fill(to: Driver, owner: Namespace, passages: list[tuple[str, list[str]]]) -> None:
    """Store ids, URIs and texts that other namespaces have too."""
    to.open(owner, 3)
    records = [
        record(
            f"{uri}{at}",
            vectors[words[0]],
            uri=uri,
            text=" ".join(words),
            owner=repr(owner),
        )
        for at, (uri, words) in enumerate(passages)
    ]
    to.stage(*records, namespace=owner)
    to.publish_all({"x": 1, "y": 1}, owner)


def seen(to: Driver, owner: Namespace) -> list[Any]:
    """Return everything that can be read from an index, with all scores."""
    answers: list[Any] = [to.count(owner)]
    where = {"owner": repr(owner)}
    for word in WORDS:
        for answer in (
            to.search(vectors[word], 50, namespace=owner),
            to.search(vectors[word], 2, where, namespace=owner),
            to.words(word, 50, namespace=owner),
        ):
            assert all(match.metadata == where for match in answer)
            answers.append([(m.id, m.text, m.score, round(m.figure, 5)) for m in answer])
    names = [f"{uri}{at}" for uri in "xy" for at in range(5)]
    fetched = to.fetch(*names, namespace=owner)
    assert all(chunk.metadata == where for chunk in fetched.values())
    return [*answers, sorted((name, chunk.text) for name, chunk in fetched.items())]


def disturb(to: Driver, victim: Namespace, way: str) -> None:
    """Change one index."""
    match way:
        case "uri":
            to.remove("x", namespace=victim)
        case "all":
            to.remove("x", "y", namespace=victim)
            assert to.count(victim) == 0
        case "drop":
            to.drop(to.entry(victim))
        case "replace":
            to.publish("x", 2, victim)
        case "reindex":
            before = to.entry(victim)
            fill(to, victim, [("x", ["apple"])])
            to.drop(before)
    if way != "drop":
        to.sweep(victim)


@pytest.mark.enable_socket
@pytest.mark.parametrize(
    ("kind", "examples"),
    [("memory", 25), ("sqlite", 15), ("pgvector", 8), ("qdrant", 6), ("langchain", 10)],
)
def test_indexes_of_one_store(kind: str, examples: int, new_dsn: Callable[[], str]) -> None:
    """Each index gives the same results and BM25 scores as alone."""

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(contents, st.data())
    def check(content: dict[Namespace, list[tuple[str, list[str]]]], data: st.DataObject) -> None:
        alone: dict[Namespace, list[Any]] = {}
        for owner, passages in content.items():
            reference = Driver(MemoryStore(), Catalog())
            fill(reference, owner, passages)
            alone[owner] = seen(reference, owner)
            reference.close()
        with opened(kind, new_dsn) as to:
            for owner, passages in content.items():
                fill(to, owner, passages)
            assert {owner: seen(to, owner) for owner in content} == alone
            victim = data.draw(st.sampled_from(sorted(content)))
            disturb(to, victim, data.draw(st.sampled_from(WAYS)))
            others = {owner: answers for owner, answers in alone.items() if owner != victim}
            assert {owner: seen(to, owner) for owner in others} == others

    check()


@contextmanager
def catalog_of(kind: str, new_dsn: Callable[[], str]) -> Iterator[Catalog]:
    with tempfile.TemporaryDirectory() as folder:
        match kind:
            case "memory":
                catalog = Catalog()
            case "sqlite":
                catalog = Catalog(Path(folder, "catalog.db"))
            case _:
                catalog = in_postgres(new_dsn())
        yield catalog
        catalog.close()


@pytest.mark.enable_socket
@pytest.mark.parametrize(("kind", "examples"), [("memory", 15), ("sqlite", 15), ("postgres", 5)])
def test_ledgers_of_one_catalog(kind: str, examples: int, new_dsn: Callable[[], str]) -> None:
    """Each namespace has its own indexes, runs and locks."""

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
                with catalog.lease(owner) as lease:
                    entry = ledger.create_index(lease, Manifest(repr(owner), "key", 3, "chunker"))
                    ledger.activate_index(lease, entry.key)
                    entries[owner] = entry
                    runs[owner] = ledger.start_run(lease, "upsert")
            assert ledger.index(first, "active") is None
            assert list(catalog.runs.list(first, 9)) == []
            assert ledger.retired_indexes(first) == []
            with catalog.lease(first) as lease:
                mine = ledger.create_index(lease, Manifest("mine", "key", 3, "chunker"))
                assert mine.key.number == 1
                ledger.activate_index(lease, mine.key)
                run_id = ledger.start_run(lease, "upsert")
                ledger.finish_run(lease, run_id, "completed", {})
                with catalog.writing(lease) as sql:
                    ledger.drop_index(sql, mine.key)
                for owner in others:
                    with catalog.lease(owner):
                        active = ledger.index(owner, "active")
                    assert active is not None
                    assert (active.key, active.manifest) == (
                        entries[owner].key,
                        entries[owner].manifest,
                    )
                    (run,) = catalog.runs.list(owner, 9)
                    assert (run.run_id, run.status) == (runs[owner], "running")

    check()
