"""The catalog: what it writes and when, how it fails, its ledger, its lock, its cache."""

from __future__ import annotations

import contextlib
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from lorebind_knowledge.catalog import catalog as catalog_module
from lorebind_knowledge.catalog import database
from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.catalog.ledger import DocumentEntry, Manifest
from lorebind_knowledge.catalog.postgres import PostgresAddress
from lorebind_knowledge.catalog.postgres_database import PostgresDatabase
from lorebind_knowledge.errors import EmbedderError, IngestRefusedError, StoreError
from lorebind_knowledge.namespace import IndexKey, Namespace

from .bench import CountingEmbedder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HERE = Namespace("acme", "support", "project", "docs")
ELSEWHERE = replace(HERE, tenant="other")
MANIFEST = Manifest("hashing/x", "key-1", 64, "chunker 1")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".lorebind" / "lorebind.db"


@pytest.fixture(params=["memory", "file", "postgres"])
def catalog(request: pytest.FixtureRequest, path: Path) -> Iterator[Catalog]:
    if request.param == "postgres":
        address = PostgresAddress(request.getfixturevalue("dsn"))
        made = Catalog(postgres=PostgresDatabase(address))
    else:
        made = Catalog(path if request.param == "file" else None)
    yield made
    made.close()


def read_everything(catalog: Catalog) -> None:
    ledger = catalog.ledger
    assert ledger.index(HERE, "active") is None
    assert ledger.documents(IndexKey(HERE)) == {}
    assert ledger.chunk_ids(IndexKey(HERE), "a.md") == []
    assert ledger.last_runs(HERE, 5) == []
    assert ledger.retired_indexes(HERE) == []
    assert len(catalog.embeddings.missing(CountingEmbedder(), ["a", "b", "a"])) == 2


# The file.


def test_reading_makes_nothing(path: Path) -> None:
    """A catalog whose file is not there reads as empty, and leaves no trace."""
    with contextlib.closing(Catalog(path)) as catalog:
        read_everything(catalog)
        assert not path.parent.exists()
        catalog.ledger.create_index(HERE, MANIFEST)
        assert catalog.ledger.index(HERE, "building") is not None


def test_writing_makes_the_folder(path: Path) -> None:
    """The folder is made at the first write, and kept out of version control."""
    with contextlib.closing(Catalog(path)) as catalog:
        catalog.ledger.start_run(HERE, "upsert")
    assert (path.parent / ".gitignore").read_text() == "*\n"
    assert path.is_file()


def test_a_folder_of_the_users_is_left_alone(tmp_path: Path) -> None:
    """Only a folder made here gets a .gitignore."""
    (tmp_path / "mine").mkdir()
    for folder in ("mine", "made"):
        with contextlib.closing(Catalog(tmp_path / folder / "x.db")) as catalog:
            catalog.ledger.start_run(HERE, "upsert")
        assert not (tmp_path / folder / ".gitignore").exists()


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    """A folder that cannot be made is a StoreError with a way out."""
    (tmp_path / "file").write_text("in the way")
    with (
        contextlib.closing(Catalog(tmp_path / "file" / "x.db")) as catalog,
        pytest.raises(StoreError, match=r"cannot make the folder|unable to open"),
    ):
        catalog.ledger.start_run(HERE, "upsert")


def test_it_lasts(path: Path) -> None:
    """What one catalog wrote another one reads, and a closed one opens again."""
    first = Catalog(path)
    key = first.ledger.create_index(HERE, MANIFEST).key
    first.close()
    assert first.ledger.index(HERE, "building") is not None
    first.close()
    with contextlib.closing(Catalog(path)) as second:
        entry = second.ledger.index(HERE, "building")
        assert entry is not None
        assert (entry.key, entry.manifest) == (key, MANIFEST)


def test_a_newer_schema_is_refused(path: Path) -> None:
    """A file of a newer version is left alone, and the advice is to upgrade."""
    with contextlib.closing(Catalog(path)) as catalog:
        catalog.ledger.start_run(HERE, "upsert")
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("update catalog_version set version = 99")
    with contextlib.closing(Catalog(path)) as catalog:
        with pytest.raises(StoreError, match=r"newer Lorebind .schema 99.*pip install -U lorebind"):
            catalog.ledger.index(HERE, "active")
        with pytest.raises(StoreError, match="newer Lorebind"):
            catalog.ledger.start_run(HERE, "upsert")


def test_not_a_database(path: Path) -> None:
    """Another file under that name is refused with advice, and not changed."""
    path.parent.mkdir()
    path.write_text("these are my notes, not a database " * 100)
    before = path.read_bytes()
    with (
        contextlib.closing(Catalog(path)) as catalog,
        pytest.raises(StoreError, match="not a database; move the file away"),
    ):
        catalog.ledger.start_run(HERE, "upsert")
    assert path.read_bytes() == before


def test_locked(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that another process holds is an error that says so, once the wait is over."""
    with contextlib.closing(Catalog(path)) as catalog:
        catalog.ledger.start_run(HERE, "upsert")
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.05)
    holder = sqlite3.connect(path, isolation_level=None)
    with contextlib.closing(holder), contextlib.closing(Catalog(path)) as catalog:
        holder.execute("begin immediate")
        assert catalog.ledger.last_runs(HERE, 1)
        with pytest.raises(StoreError, match="locked; another process holds it"):
            catalog.ledger.start_run(HERE, "upsert")
        holder.execute("rollback")
        catalog.ledger.start_run(HERE, "upsert")


def test_threads(catalog: Catalog) -> None:
    """Many threads write and read at once, and nothing is lost."""
    key = catalog.ledger.create_index(HERE, MANIFEST).key

    def work(number: int) -> int:
        entry = DocumentEntry(f"{number}.md", "source", attempts=number)
        catalog.ledger.put_documents(key, [entry], "run", [[str(number)]])
        assert catalog.ledger.chunk_ids(key, f"{number}.md") == [str(number)]
        return len(catalog.ledger.documents(key))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(60)))
    assert len(catalog.ledger.documents(key)) == 60


# The ledger.


def test_states_of_indexes(catalog: Catalog) -> None:
    """An index is building, then in use; its successor retires it; dropping it forgets it."""
    ledger = catalog.ledger
    first = ledger.create_index(HERE, MANIFEST)
    assert ledger.index(HERE, "active") is None
    assert ledger.index(HERE, "building") == first
    ledger.activate_index(first.key)
    assert ledger.index(HERE, "building") is None
    second = ledger.create_index(HERE, replace(MANIFEST, embedder_key="key-2"))
    assert second.key.number == first.key.number + 1
    active = ledger.index(HERE, "active")
    assert active is not None
    assert active.key == first.key
    ledger.activate_index(second.key)
    active = ledger.index(HERE, "active")
    assert active is not None
    assert (active.key, active.manifest.embedder_key) == (second.key, "key-2")
    assert ledger.retired_indexes(HERE) == [first.key]
    ledger.put_documents(first.key, [DocumentEntry("a.md", "s")], "run")
    ledger.put_documents(second.key, [DocumentEntry("a.md", "s")], "run")
    ledger.drop_index(first.key)
    assert ledger.retired_indexes(HERE) == []
    assert ledger.documents(first.key) == {}
    assert set(ledger.documents(second.key)) == {"a.md"}


def test_retiring_a_successor(catalog: Catalog) -> None:
    """One that is given up is no successor any more, and waits to be dropped like an old index."""
    ledger = catalog.ledger
    first = ledger.create_index(HERE, MANIFEST)
    ledger.activate_index(first.key)
    second = ledger.create_index(HERE, MANIFEST)
    ledger.retire_index(second.key)
    assert ledger.index(HERE, "building") is None
    assert ledger.retired_indexes(HERE) == [second.key]
    active = ledger.index(HERE, "active")
    assert active is not None
    assert active.key == first.key


def test_manifest(catalog: Catalog) -> None:
    """A manifest can be written anew."""
    key = catalog.ledger.create_index(HERE, MANIFEST).key
    changed = replace(MANIFEST, chunker="chunker 2")
    catalog.ledger.set_manifest(key, changed)
    entry = catalog.ledger.index(HERE, "building")
    assert entry is not None
    assert entry.manifest == changed


def test_documents(catalog: Catalog) -> None:
    """A document's row comes back as it was written; chunk ids stay where none are given."""
    ledger = catalog.ledger
    key = ledger.create_index(HERE, MANIFEST).key
    entry = DocumentEntry("ä.md", "source", "Title", "failed", "why", 3, "sig", 4, 5, 2)
    ledger.put_documents(key, [entry], "run", [["one", "two"]])
    (stored,) = ledger.documents(key).values()
    assert stored._replace(updated_at=0.0) == entry
    assert stored.updated_at > 0
    ledger.put_documents(key, [entry._replace(state="ready")], "run-2")
    assert ledger.documents(key)["ä.md"].state == "ready"
    assert ledger.chunk_ids(key, "ä.md") == ["one", "two"]
    ledger.put_documents(key, [entry], "run-3", [[]])
    assert ledger.chunk_ids(key, "ä.md") == []
    ledger.remove_document(key, "ä.md")
    assert ledger.documents(key) == {}
    assert ledger.chunk_ids(key, "ä.md") == []


@pytest.mark.parametrize("field", ["tenant", "project", "scope", "kb"])
def test_namespaces_do_not_touch(catalog: Catalog, field: str) -> None:
    """Nothing that is done in one namespace is seen or changed in another."""
    ledger, other = catalog.ledger, replace(HERE, **{field: "other"})
    here, there = ledger.create_index(HERE, MANIFEST).key, ledger.create_index(other, MANIFEST).key
    ledger.put_documents(here, [DocumentEntry("a.md", "s")], "run", [["x"]])
    ledger.put_documents(there, [DocumentEntry("a.md", "s")], "run", [["y"]])
    ledger.activate_index(here)
    assert ledger.index(other, "active") is None
    ledger.remove_document(there, "a.md")
    ledger.drop_index(there)
    ledger.start_run(other, "upsert")
    assert ledger.chunk_ids(here, "a.md") == ["x"]
    assert ledger.last_runs(HERE, 9) == []


def test_runs(catalog: Catalog) -> None:
    """Runs are listed from the latest; one that never ended is failed when the next one starts."""
    ledger = catalog.ledger
    first = ledger.start_run(HERE, "upsert")
    second = ledger.start_run(HERE, "replace")
    ledger.finish_run(HERE, second, "completed", {"some": "report"})
    runs = ledger.last_runs(HERE, 9)
    assert [(run["run_id"], run["strategy"], run["status"]) for run in runs] == [
        (second, "replace", "completed"),
        (first, "upsert", "failed"),
    ]
    assert [run["run_id"] for run in ledger.last_runs(HERE, 1)] == [second]


# The lock.


def test_one_ingest_at_a_time(catalog: Catalog) -> None:
    """A second holder is refused, other knowledge bases are not, and the lock is given back."""
    with catalog.ingest_lock(HERE):
        with (
            pytest.raises(IngestRefusedError, match="'docs' is under way"),
            catalog.ingest_lock(HERE),
        ):
            pass
        with catalog.ingest_lock(ELSEWHERE):
            pass
    with pytest.raises(ZeroDivisionError), catalog.ingest_lock(HERE):
        _ = 1 / 0
    with catalog.ingest_lock(HERE):
        pass


def test_the_lock_is_of_the_file(path: Path) -> None:
    """Two catalogs of one process on the same file share the lock."""
    with (
        contextlib.closing(Catalog(path)) as first,
        contextlib.closing(Catalog(path)) as second,
        first.ingest_lock(HERE),
        pytest.raises(IngestRefusedError),
        second.ingest_lock(HERE),
    ):
        pass


HOLDER = """
import sys, time
from pathlib import Path
from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.namespace import Namespace
with Catalog(Path(sys.argv[1])).ingest_lock(Namespace("acme", "support", "project", "docs")):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_the_lock_of_another_process(path: Path) -> None:
    """Another process holds the lock until it is killed, and not a moment longer."""
    with (
        contextlib.closing(Catalog(path)) as catalog,
        subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True
        ) as holder,
    ):
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(IngestRefusedError), catalog.ingest_lock(HERE):
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait(10)
        with catalog.ingest_lock(HERE):
            pass


def test_a_lock_that_cannot_be(path: Path) -> None:
    """Where the lock's file cannot be made the error names it."""
    name = catalog_module.digest(*(getattr(HERE, part) for part in HERE.__slots__))[:16]
    (path.parent / f"{path.name}.{name}.lock").mkdir(parents=True)
    with (
        contextlib.closing(Catalog(path)) as catalog,
        pytest.raises(StoreError, match=r"cannot lock .*lock"),
        catalog.ingest_lock(HERE),
    ):
        pass


# The embedding cache.


async def test_a_text_is_embedded_once(catalog: Catalog, embedder: CountingEmbedder) -> None:
    """Vectors come from the cache the second time, equal to the bit and in the order asked."""
    first = await catalog.embeddings.embed(embedder, ["a", "b"])
    second = await catalog.embeddings.embed(embedder, ["b", "c", "a"])
    assert embedder.batches == [["a", "b"], ["c"]]
    assert (first.texts_embedded, first.cache_hits) == (2, 0)
    assert (second.texts_embedded, second.cache_hits) == (1, 2)
    np.testing.assert_array_equal(second.vectors[[2, 0]], first.vectors)
    assert second.vectors.shape == (3, 64)


async def test_duplicates_in_one_call(catalog: Catalog, embedder: CountingEmbedder) -> None:
    """Equal texts of one call are embedded once, and each gets its vector."""
    result = await catalog.embeddings.embed(embedder, ["a", "b", "a", "a"])
    assert embedder.batches == [["a", "b"]]
    assert (result.texts_embedded, result.cache_hits) == (2, 2)
    np.testing.assert_array_equal(result.vectors[0], result.vectors[3])


async def test_embedders_do_not_share(catalog: Catalog) -> None:
    """Each embedder has its own vectors; two objects of one fingerprint are one embedder."""
    one, other, same = (CountingEmbedder(revision=revision) for revision in "121")
    for embedder in (one, other, same):
        await catalog.embeddings.embed(embedder, ["a"])
    assert (one.texts, other.texts, same.texts) == (["a"], ["a"], [])
    assert catalog.embeddings.missing(other, ["a"]) == {}


async def test_many_texts(catalog: Catalog, embedder: CountingEmbedder) -> None:
    """More texts than one query takes are found all the same."""
    texts = [f"text {number}" for number in range(1_300)]
    await catalog.embeddings.embed(embedder, texts)
    assert len(catalog.embeddings.missing(embedder, [*texts, "new"])) == 1
    assert (await catalog.embeddings.embed(embedder, texts)).texts_embedded == 0


async def test_a_failure_stores_nothing(catalog: Catalog, embedder: CountingEmbedder) -> None:
    """A batch whose embedder fails is not in the cache."""

    def fail(_: int) -> None:
        raise RuntimeError("overloaded")

    embedder.before_batch = fail
    with pytest.raises(EmbedderError, match="overloaded"):
        await catalog.embeddings.embed(embedder, ["a"])
    assert len(catalog.embeddings.missing(embedder, ["a"])) == 1


async def test_what_was_embedded_is_kept_at_once(path: Path, embedder: CountingEmbedder) -> None:
    """Once vectors have been returned, another process finds them: a crash costs nothing."""
    with contextlib.closing(Catalog(path)) as first, contextlib.closing(Catalog(path)) as second:
        await first.embeddings.embed(embedder, ["a"])
        assert second.embeddings.missing(embedder, ["a"]) == {}


async def test_a_model_that_changed_its_size(catalog: Catalog) -> None:
    """Vectors of another size under the same name are an EmbedderError, and are not kept."""

    class Unsteady(CountingEmbedder):
        @property
        def fingerprint(self):  # type: ignore[no-untyped-def]
            return replace(super().fingerprint, dimension=None)

    await catalog.embeddings.embed(Unsteady(dimension=64), ["a"])
    with pytest.raises(EmbedderError, match="of dimension 32, and earlier ones of dimension 64"):
        await catalog.embeddings.embed(Unsteady(dimension=32), ["a", "b"])
    assert len(catalog.embeddings.missing(Unsteady(), ["b"])) == 1


def test_a_file_that_was_replaced(path: Path) -> None:
    """A catalog whose file was removed under it is an empty one, not what it remembers."""
    catalog = Catalog(path)
    catalog.ledger.create_index(HERE, MANIFEST)
    for left in path.parent.glob(f"{path.name}*"):
        left.unlink()
    assert catalog.ledger.index(HERE, "building") is None
    assert catalog.ledger.create_index(HERE, MANIFEST).key.number == 1
    assert catalog.ledger.index(HERE, "building") is not None
    catalog.close()
