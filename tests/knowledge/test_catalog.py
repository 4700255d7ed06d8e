"""The catalog: its file, its failures, its ledger and its embedding cache."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lorebind_config.errors import EmbedderError, StoreError
from lorebind_config.namespace import IndexKey, Namespace
from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.catalog.chunks import Chunks
from lorebind_knowledge.catalog.indexes import IndexEntry, Manifest
from lorebind_knowledge.catalog.leases import Lease
from lorebind_knowledge.catalog.ledger import DocumentEntry, remove_documents
from lorebind_knowledge.database import sqlite as database
from lorebind_knowledge.index.index import Index
from lorebind_knowledge.records import Record

from .bench import CountingEmbedder
from .every_catalog import OnEveryCatalog
from .plain_stores import PlainStore

HERE = Namespace("acme", "support", "project", "docs")
ELSEWHERE = replace(HERE, tenant="other")
MANIFEST = Manifest("hashing/x", "key-1", 64, "chunker 1")


def start_run(catalog: Catalog) -> str:
    with catalog.lease(HERE) as lease:
        return catalog.ledger.start_run(lease, "upsert")


def create_index(catalog: Catalog, namespace: Namespace = HERE) -> IndexEntry:
    with catalog.lease(namespace) as lease:
        return catalog.ledger.create_index(lease, MANIFEST)


def read_everything(catalog: Catalog) -> None:
    ledger = catalog.ledger
    assert ledger.index(HERE, "active") is None
    assert ledger.documents(IndexKey(HERE)) == {}
    assert catalog.runs.list(HERE, 5) == []
    assert ledger.retired_indexes(HERE) == []
    assert len(catalog.embeddings.missing(CountingEmbedder(), ["a", "b", "a"])) == 2


# The file.


def test_reading_makes_nothing(path: Path) -> None:
    """A catalog without a file reads as empty, and creates nothing."""
    with contextlib.closing(Catalog(path)) as catalog:
        read_everything(catalog)
        assert not path.parent.exists()
        create_index(catalog)
        assert catalog.ledger.index(HERE, "building") is not None


def test_writing_makes_the_folder(path: Path) -> None:
    """The first write creates the folder and excludes it from version control."""
    with contextlib.closing(Catalog(path)) as catalog:
        start_run(catalog)
    assert (path.parent / ".gitignore").read_text() == "*\n"
    assert path.is_file()


def test_a_folder_of_the_users_is_left_alone(tmp_path: Path) -> None:
    """Only a folder that the catalog has created gets a .gitignore."""
    (tmp_path / "mine").mkdir()
    for folder in ("mine", "made"):
        with contextlib.closing(Catalog(tmp_path / folder / "x.db")) as catalog:
            start_run(catalog)
        assert not (tmp_path / folder / ".gitignore").exists()


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    """A folder that cannot be created is a StoreError with a suggested fix."""
    (tmp_path / "file").write_text("in the way")
    with (
        contextlib.closing(Catalog(tmp_path / "file" / "x.db")) as catalog,
        pytest.raises(StoreError, match=r"cannot create the folder .*file: "),
    ):
        start_run(catalog)


def test_it_lasts(path: Path) -> None:
    """Another catalog reads what one has written, and a closed one opens again."""
    first = Catalog(path)
    created = create_index(first)
    first.close()
    assert first.ledger.index(HERE, "building") is not None
    first.close()
    with contextlib.closing(Catalog(path)) as second:
        assert second.ledger.index(HERE, "building") == created
        assert created.manifest == MANIFEST


def test_a_newer_schema_is_refused(path: Path) -> None:
    """A file of a newer version is not changed, and the error suggests an upgrade."""
    with contextlib.closing(Catalog(path)) as catalog:
        start_run(catalog)
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("update catalog_schema set version = 99")
    with contextlib.closing(Catalog(path)) as catalog:
        with pytest.raises(StoreError, match=r"newer Lorebind .schema 99.*pip install -U lorebind"):
            catalog.ledger.index(HERE, "active")
        with pytest.raises(StoreError, match="newer Lorebind"):
            start_run(catalog)


def test_not_a_database(path: Path) -> None:
    """A file that is no database is refused with a suggested fix, and not changed."""
    path.parent.mkdir()
    path.write_text("these are my notes, not a database " * 100)
    before = path.read_bytes()
    with (
        contextlib.closing(Catalog(path)) as catalog,
        pytest.raises(StoreError, match="not a database; move it away"),
    ):
        start_run(catalog)
    assert path.read_bytes() == before


def test_locked(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that another process has locked is an error once the timeout is over."""
    with contextlib.closing(Catalog(path)) as catalog:
        start_run(catalog)
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.05)
    holder = sqlite3.connect(path, isolation_level=None)
    with contextlib.closing(holder), contextlib.closing(Catalog(path)) as catalog:
        holder.execute("begin immediate")
        assert catalog.runs.list(HERE, 1)
        with pytest.raises(StoreError, match="locked; another process has locked it"):
            start_run(catalog)
        holder.execute("rollback")
        start_run(catalog)


def test_threads(catalog: Catalog) -> None:
    """Many threads write and read at the same time, and nothing is lost."""
    with catalog.lease(HERE) as lease:
        key = catalog.ledger.create_index(lease, MANIFEST).key

        def work(number: int) -> int:
            entry = DocumentEntry(f"{number}.md", "source", attempts=number)
            catalog.ledger.put_documents(lease, key, [entry], "run")
            return len(catalog.ledger.documents(key))

        with ThreadPoolExecutor(8) as threads:
            seen = list(threads.map(work, range(60)))
    entries = catalog.ledger.documents(key).values()
    assert max(seen) == len(entries) == 60
    assert all(entry.uri == f"{entry.attempts}.md" for entry in entries)


# The ledger.


@pytest.fixture
def lease(catalog: Catalog) -> Iterator[Lease]:
    with catalog.lease(HERE) as lease:
        yield lease


def test_states_of_indexes(catalog: Catalog, lease: Lease) -> None:
    """An index is building, then active; its successor retires it; dropping it deletes it."""
    ledger = catalog.ledger
    first = ledger.create_index(lease, MANIFEST)
    assert ledger.index(HERE, "active") is None
    assert ledger.index(HERE, "building") == first
    ledger.activate_index(lease, first.key)
    assert ledger.index(HERE, "building") is None
    second = ledger.create_index(lease, replace(MANIFEST, embedder_key="key-2"))
    assert second.key.number == first.key.number + 1
    assert ledger.index(HERE, "active") == replace(first, state="active")
    ledger.activate_index(lease, second.key)
    assert ledger.index(HERE, "active") == replace(second, state="active")
    assert ledger.retired_indexes(HERE) == [replace(first, state="retired")]
    for index in (first, second):
        ledger.put_documents(lease, index.key, [DocumentEntry("a.md", "s")], "run")
    with catalog.writing(lease) as sql:
        ledger.drop_index(sql, first.key)
    assert ledger.retired_indexes(HERE) == []
    assert ledger.documents(first.key) == {}
    assert set(ledger.documents(second.key)) == {"a.md"}


def test_retiring_a_successor(catalog: Catalog, lease: Lease) -> None:
    """A retired successor is no successor any longer, and waits to be dropped."""
    ledger = catalog.ledger
    first = ledger.create_index(lease, MANIFEST)
    ledger.activate_index(lease, first.key)
    second = ledger.create_index(lease, MANIFEST)
    ledger.retire_index(lease, second.key)
    assert ledger.index(HERE, "building") is None
    assert ledger.retired_indexes(HERE) == [replace(second, state="retired")]
    assert ledger.index(HERE, "active") == replace(first, state="active")


def test_births(catalog: Catalog, lease: Lease) -> None:
    """A new index that reuses the number of a dropped one is another index."""
    first = catalog.ledger.create_index(lease, MANIFEST)
    with catalog.writing(lease) as sql:
        catalog.ledger.drop_index(sql, first.key)
    second = catalog.ledger.create_index(lease, MANIFEST)
    assert first.key == second.key
    assert first.index_uid != second.index_uid
    assert first.space != second.space


def test_manifest(catalog: Catalog, lease: Lease) -> None:
    """A manifest can be replaced."""
    index = catalog.ledger.create_index(lease, MANIFEST)
    changed = replace(MANIFEST, chunker="chunker 2")
    catalog.ledger.set_manifest(lease, index.key, changed)
    assert catalog.ledger.index(HERE, "building") == replace(index, manifest=changed)


def test_documents(catalog: Catalog, lease: Lease) -> None:
    """A document's row is returned as it was last written."""
    ledger = catalog.ledger
    key = ledger.create_index(lease, MANIFEST).key
    entry = DocumentEntry("ä.md", "source", "Title", "failed", "why", 3, "sig", 4, 5)
    entry = entry._replace(version="v", recipe="r", refused="x", textless_parts='{"page": 6}')
    ledger.put_documents(lease, key, [entry], "run")
    (stored,) = ledger.documents(key).values()
    assert stored._replace(updated_at=0.0) == entry
    assert stored.updated_at > 0
    ledger.put_documents(lease, key, [entry._replace(state="ready")], "run-2")
    assert ledger.documents(key)["ä.md"].state == "ready"
    with catalog.writing(lease) as sql:
        remove_documents(sql, key, ["ä.md"])
    assert ledger.documents(key) == {}


@pytest.mark.parametrize("field", ["tenant", "project", "scope", "kb"])
def test_namespaces_do_not_touch(catalog: Catalog, field: str) -> None:
    """Changes in one namespace neither appear in another nor change it."""
    ledger, other = catalog.ledger, replace(HERE, **{field: "other"})
    with catalog.lease(HERE) as ours, catalog.lease(other) as theirs:
        here, there = (ledger.create_index(lease, MANIFEST).key for lease in (ours, theirs))
        ledger.put_documents(ours, here, [DocumentEntry("a.md", "s")], "run")
        ledger.put_documents(theirs, there, [DocumentEntry("a.md", "s")], "run")
        ledger.activate_index(ours, here)
        assert ledger.index(other, "active") is None
        run = ledger.start_run(ours, "upsert")
        with catalog.writing(theirs) as sql:
            remove_documents(sql, there, ["a.md"])
            ledger.drop_index(sql, there)
        ledger.start_run(theirs, "upsert")
    assert set(ledger.documents(here)) == {"a.md"}
    runs = catalog.runs.list(HERE, 9)
    assert [(run.run_id, run.status) for run in runs] == [(run, "running")]


def test_runs(catalog: Catalog) -> None:
    """Runs are listed latest first; an unfinished run has failed once the next one starts."""
    ledger = catalog.ledger
    first = start_run(catalog)
    with catalog.lease(HERE) as lease:
        second = ledger.start_run(lease, "replace")
        ledger.finish_run(lease, second, "completed", {"some": "report"})
    runs = catalog.runs.list(HERE, 9)
    assert [(run.run_id, run.strategy, run.status) for run in runs] == [
        (second, "replace", "completed"),
        (first, "upsert", "failed"),
    ]
    assert [run.run_id for run in catalog.runs.list(HERE, 1)] == [second]


# The embedding cache.


async def test_a_text_is_embedded_once(catalog: Catalog, embedder: CountingEmbedder) -> None:
    """The second call gets identical vectors from the cache, in the requested order."""
    first = await catalog.embeddings.embed(embedder, ["a", "b"])
    second = await catalog.embeddings.embed(embedder, ["b", "c", "a"])
    assert embedder.batches == [["a", "b"], ["c"]]
    assert (first.texts_embedded, first.cache_hits) == (2, 0)
    assert (second.texts_embedded, second.cache_hits) == (1, 2)
    np.testing.assert_array_equal(second.vectors[[2, 0]], first.vectors)
    assert second.vectors.shape == (3, 64)


async def test_duplicates_in_one_call(catalog: Catalog, embedder: CountingEmbedder) -> None:
    """Equal texts in one call are embedded once, and each gets the vector."""
    result = await catalog.embeddings.embed(embedder, ["a", "b", "a", "a"])
    assert embedder.batches == [["a", "b"]]
    assert (result.texts_embedded, result.cache_hits) == (2, 2)
    np.testing.assert_array_equal(result.vectors[0], result.vectors[3])


async def test_embedders_do_not_share(catalog: Catalog) -> None:
    """Embedders have separate vectors; two objects with one fingerprint are one embedder."""
    first, other, same = (CountingEmbedder(revision=revision) for revision in "121")
    for embedder in (first, other, same):
        await catalog.embeddings.embed(embedder, ["a"])
    assert (first.texts, other.texts, same.texts) == (["a"], ["a"], [])
    assert catalog.embeddings.missing(other, ["a"]) == {}


async def test_many_texts(catalog: Catalog, embedder: CountingEmbedder) -> None:
    """More texts than fit into one query are found too."""
    texts = [f"text {number}" for number in range(1_300)]
    await catalog.embeddings.embed(embedder, texts)
    assert len(catalog.embeddings.missing(embedder, [*texts, "new"])) == 1
    assert (await catalog.embeddings.embed(embedder, texts)).texts_embedded == 0


async def test_a_failure_stores_nothing(catalog: Catalog, embedder: CountingEmbedder) -> None:
    """A batch whose embedder fails is not cached."""

    def fail(_: int) -> None:
        raise RuntimeError("overloaded")

    embedder.before_batch = fail
    with pytest.raises(EmbedderError, match="overloaded"):
        await catalog.embeddings.embed(embedder, ["a"])
    assert len(catalog.embeddings.missing(embedder, ["a"])) == 1


async def test_what_was_embedded_is_kept_at_once(path: Path, embedder: CountingEmbedder) -> None:
    """Another process finds vectors as soon as they have been returned: a crash loses none."""
    with contextlib.closing(Catalog(path)) as first, contextlib.closing(Catalog(path)) as second:
        await first.embeddings.embed(embedder, ["a"])
        assert second.embeddings.missing(embedder, ["a"]) == {}


async def test_a_model_that_changed_its_size(catalog: Catalog) -> None:
    """Vectors of another dimension under the same name are an EmbedderError, and not stored."""

    class Unsteady(CountingEmbedder):
        @property
        def fingerprint(self):  # type: ignore[no-untyped-def]
            return replace(super().fingerprint, dimension=None)

    await catalog.embeddings.embed(Unsteady(dimension=64), ["a"])
    with pytest.raises(EmbedderError, match="of dimension 32, but earlier ones have dimension 64"):
        await catalog.embeddings.embed(Unsteady(dimension=32), ["a", "b"])
    assert len(catalog.embeddings.missing(Unsteady(), ["b"])) == 1


def test_a_file_that_was_replaced(path: Path) -> None:
    """A catalog whose file was removed is empty, and returns no remembered data."""
    catalog = Catalog(path)
    create_index(catalog)
    for left in path.parent.glob(f"{path.name}*"):
        left.unlink()
    assert catalog.ledger.index(HERE, "building") is None
    assert create_index(catalog).key.number == 1
    assert catalog.ledger.index(HERE, "building") is not None
    catalog.close()


# Queries about chunks.


class TestMetadataKeys(OnEveryCatalog):
    """The keys that a filter can use, in every database that can hold a catalog."""

    def test_those_that_can_be_found(self, make_catalog: Callable[[], Catalog]) -> None:
        """Keys of live chunks are found, whatever their values; keys of staged ones are not."""
        with contextlib.closing(Index(PlainStore(), make_catalog())) as index:
            with index.catalog.lease(HERE) as lease:
                entry = index.catalog.ledger.create_index(lease, replace(MANIFEST, dimension=2))
                metadata: list[dict[str, Any]] = [{"team": "ops", "a\"b'.c": []}, {"größe": None}]
                metadata += [{"staged": {"deep": 1}}]
                vector = np.array([1, 0], np.float32)
                records = [
                    Record(f"id{number}", entry.key, f"{number}.md", 1, "", vector, extra)
                    for number, extra in enumerate(metadata)
                ]
                index.stage(lease, entry, records)
                index.publish(lease, entry, {"0.md": 1, "1.md": 1})
            with index.catalog.reading() as sql:
                chunks, others = (Chunks(sql, entry.index_uid + more) for more in (0, 1))
                keys = chunks.metadata_keys()
                assert keys == ["a\"b'.c", "größe", "team"]
                assert others.metadata_keys() == []
                for key in keys:
                    assert chunks.has_metadata_key(key)
                    assert not others.has_metadata_key(key)
                for key in ("staged", "deep", "Team", "", "%"):
                    assert not chunks.has_metadata_key(key)
