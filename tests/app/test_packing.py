"""A knowledge base as one file: packed from any store, unpacked into any other."""

from __future__ import annotations

import array
import asyncio
import hashlib
import json
import sqlite3
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.embeddings import Embeddings

from lorebind import (
    EmbedderError,
    IngestRunningError,
    NotIngestedError,
    Project,
    StoreError,
    UsageError,
)
from lorebind_knowledge.stores.sqlite import SqliteStore
from tests.bindings.helpers import write

from .packs import DOCUMENTS, NOTE, Here, answers, packed, without_ids


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    opened = Here(tmp_path)
    yield opened
    opened.close()


@pytest.mark.parametrize("sparse", ["local", "off"])
def test_carried_to_another_store_and_back(
    here: Here, new_dsn: Callable[[], str], monkeypatch: pytest.MonkeyPatch, sparse: str
) -> None:
    """SQLite, pgvector, SQLite: ids, answers and scores are the same, and nothing is embedded."""
    monkeypatch.setenv("PACK_DSN", new_dsn())
    pgvector = {"type": "pgvector", "config": {"dsn": "{{ .env.PACK_DSN }}"}}
    first = here.project(sparse=sparse)
    first.ingest("docs")
    first.add_documents("docs", [NOTE])
    # Deleted text must not come along: words of old versions are still in segments.
    write(here.root / "shop", {"docs/3.md": "# Quagga\n\nIt is gone soon.\n"})
    first.ingest("docs")
    write(here.root / "shop", {"docs/3.md": DOCUMENTS["docs/3.md"]})
    first.ingest("docs")
    pack, before = here.root / "one.lorebind", answers(first)
    report = first.knowledge_base("docs").pack(pack)
    assert (report.documents, report.added, report.bytes) == (13, 1, pack.stat().st_size)
    assert report.chunks == first.stats("docs").chunks
    with zipfile.ZipFile(pack) as opened:
        members = {name: opened.read(name) for name in opened.namelist()}
    assert ("terms.jsonl" in members) == (sparse == "local")
    assert not any(b"quagga" in content.lower() for content in members.values())
    for vector_db in (pgvector, {"type": "sqlite"}):
        folder = f"to {vector_db['type']}"
        second = here.project("shop", vector_db, folder=folder, sparse=sparse)
        done = second.knowledge_base("docs").unpack(pack)
        assert (done.texts_embedded, done.cache_hits, done.differences) == (0, 0, [])
        assert done.chunks["added"] == report.chunks
        assert answers(second) == before
        assert second.stats("docs").documents == first.stats("docs").documents
        again = second.ingest("docs")
        assert again.documents["unchanged"] == 13
        assert (again.texts_embedded, again.cache_hits, again.notices) == (0, 0, [])
        write(second.config.root, {"docs/1.md": "# Other\n\nThe giraffe is tall.\n"})
        assert second.ingest("docs").documents["updated"] == 1
        assert "giraffe" in second.query("docs", "giraffe").matches[0].text
        write(second.config.root, {"docs/1.md": DOCUMENTS["docs/1.md"]})
        second.ingest("docs")
        assert answers(second) == before
        pack = packed(second, here.root / f"{vector_db['type']}.lorebind")
    findings = {finding.part: finding.status for finding in second.doctor(deep=True)}
    assert findings["knowledge base docs"] == "ok", findings


def test_read_by_the_standard_library(here: Here) -> None:
    """The members of a pack are JSON and little-endian floats, in one order."""
    project = here.project(sparse="off")
    project.ingest("docs")
    pack = packed(project, here.root / "kb.lorebind")
    data = pack.read_bytes()
    assert data.endswith(b"sha256:" + hashlib.sha256(data[:-64]).hexdigest().encode())
    with zipfile.ZipFile(pack) as opened:
        manifest = json.loads(opened.read("manifest.json"))
        lines = {
            name: [json.loads(line) for line in opened.read(name).splitlines()]
            for name in opened.namelist()
            if name.endswith(".jsonl")
        }
        vectors = array.array("f", opened.read("vectors.f32"))
    chunks, dimension = lines["chunks.jsonl"], manifest["index"]["dimension"]
    assert len(vectors) == dimension * len(chunks) == dimension * manifest["chunks"]
    assert len(lines["documents.jsonl"]) == manifest["documents"] == 12
    best = project.query("docs", "keys of service 7", strategy="similarity", top_k=1).matches[0]
    (place,) = [at for at, chunk in enumerate(chunks) if chunk["text"] == best.text]
    ours = vectors[place * dimension : (place + 1) * dimension]
    (theirs,) = project.knowledge.open("docs").kb.index.read(
        project.knowledge.open("docs").namespace,
        lambda view: view.vectors([view.named([best.id])[best.id].number]),
    )
    assert list(ours) == theirs.tolist()
    numbers = [number for line in lines["words.jsonl"] for number in line.get("numbers", ())]
    assert sorted(numbers) == list(range(1, len(chunks) + 1))
    assert manifest["declaration"]["knowledge_bases"][0]["id"] == "docs"
    assert "vector_dbs" not in manifest["declaration"]


def test_another_tenant_and_project(here: Here) -> None:
    """Chunks get the ids of their new owner, so nothing is shared, and the next ingest agrees."""
    project = here.project()
    project.ingest("docs")
    pack = packed(project, here.root / "kb.lorebind")
    acme = project.for_tenant("acme")
    acme.knowledge_base("docs").unpack(pack)
    other = here.project("other", {"type": "memory"})
    other.knowledge_base("docs").unpack(pack)
    mine = answers(project)
    for view in (acme, other):
        assert without_ids(view) == without_ids(project)
        assert not {row[0] for row in answers(view)} & {row[0] for row in mine}
        assert view.ingest("docs").documents["unchanged"] == 12
    acme.knowledge_base("docs").delete()
    assert answers(project) == mine


def test_another_embedder(here: Here) -> None:
    """With another embedder, all texts are embedded: the report counts them and their cost."""
    project = here.project(sparse="off")
    project.ingest("docs")
    pack = packed(project, here.root / "kb.lorebind")
    target = here.project("other", embedder="other", sparse="local", retrieval={"top_k": 3})
    report = target.knowledge_base("docs").unpack(pack)
    assert report.texts_embedded > 0
    assert report.texts_embedded + report.cache_hits == report.chunks["added"]
    assert (report.tokens_embedded > 0, report.cost) == (True, None)
    assert report.terms_added == report.chunks["added"]
    assert {row.key: (row.packed, row.declared) for row in report.differences} == {
        "embedder": ("words", "other"),
        "sparse": ("off", "local"),
        "retrieval.top_k": (None, 3),
    }
    reference = here.project("other", folder="same", embedder="other", sparse="local")
    reference.ingest("docs")
    assert answers(target) == answers(reference)
    assert target.ingest("docs").documents["unchanged"] == 12


@pytest.mark.parametrize(
    "vector_db",
    [
        {"type": "memory"},
        {"type": "qdrant", "config": {"path": "vectors"}},
        {
            "type": "langchain",
            "class": "langchain_core.vectorstores:InMemoryVectorStore",
        },
    ],
    ids=lambda vector_db: vector_db["type"],
)
def test_other_stores(here: Here, vector_db: dict[str, Any]) -> None:
    """A pack goes into stores that give no vectors, or change them by rounding, and out again."""
    project = here.project(sparse="off")
    project.ingest("docs")
    other = here.project("shop", vector_db, folder="other", sparse="off")
    other.knowledge_base("docs").unpack(packed(project, here.root / "kb.lorebind"))
    again = here.project("shop", folder="again", sparse="off")
    again.knowledge_base("docs").unpack(packed(other, here.root / "again.lorebind"))

    expected = sorted((row[0], row[1]) for row in answers(project))
    for store in (other, again):
        rows = sorted((row[0], row[1]) for row in answers(store))
        assert [name for name, _ in rows] == [name for name, _ in expected]
        assert [score for _, score in rows] == pytest.approx([x for _, x in expected], abs=1e-5)


class Failing(Embeddings):
    """An embedder that is down for documents."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        raise RuntimeError("down")

    def embed_query(self, text: str) -> list[float]:
        return [1.0, 0.0]


def test_an_embedder_that_fails(here: Here) -> None:
    """Its error is that of an ingest, and nothing is left."""
    project = here.project(sparse="off")
    project.ingest("docs")
    pack = packed(project, here.root / "kb.lorebind")
    declared = {"name": "other", "knowledge_bases": [{"id": "docs", "sparse": "off"}]}
    with Project.build(declared, embedder=Failing(), root=here.root / "failing") as target:
        kb = target.knowledge_base("docs")
        with pytest.raises(EmbedderError, match="down"):
            kb.unpack(pack)
        assert (kb.stats().chunks, kb.documents()) == (0, [])


def test_no_secret(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    """Templates stay as they are written, and addresses lose their passwords."""
    monkeypatch.setenv("PACK_SECRET", "s3cr3t")
    project = here.project(
        description="{{ .env.PACK_SECRET }}, see https://ann:pa55@example.com/x#y and ann@b.com",
    )
    project.ingest("docs")
    with zipfile.ZipFile(packed(project, here.root / "kb.lorebind")) as opened:
        text = b"".join(opened.read(name) for name in opened.namelist())
        manifest = json.loads(opened.read("manifest.json"))
    assert b"s3cr3t" not in text
    assert manifest["declaration"]["knowledge_bases"][0]["description"] == (
        "{{ .env.PACK_SECRET }}, see https://example.com/x#y and ann@b.com"
    )


def test_added_documents(here: Here) -> None:
    """Added documents come along whole; those of the target stay, and the next ingest has them."""
    project = here.project()
    project.ingest("docs")
    project.add_documents("docs", [NOTE])
    pack = packed(project, here.root / "kb.lorebind")
    target = here.project("other")
    target.ingest("docs")
    target.add_documents("docs", [NOTE | {"text": "An old text."}, {"id": "own", "text": "Mine."}])
    report = target.knowledge_base("docs").unpack(pack)
    assert "documents that were added here (1)" in report.notices[0]
    assert target.query("docs", "zebras").matches[0].text == NOTE["text"]
    states = {document.uri: document.state for document in target.documents("docs")}
    assert (states["added:note.md"], states["added:own"]) == ("ready", "pending")
    assert target.ingest("docs").documents["added"] == 1
    assert [run.strategy for run in target.knowledge_base("docs").runs()][:2] == [
        "upsert",
        "unpack",
    ]


def test_words_of_another_version_are_split_again(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pack of a Lorebind that splits words in another way gives the same answers."""
    from lorebind_knowledge.text import terms

    project = here.project()
    project.ingest("docs")
    with monkeypatch.context() as patch:
        patch.setattr(terms, "VERSION", terms.VERSION + 1)
        pack = packed(project, here.root / "kb.lorebind")
    target = here.project("other")
    target.knowledge_base("docs").unpack(pack)
    assert without_ids(target) == without_ids(project)


def test_refused(here: Here) -> None:
    """Nothing to pack, a running ingest and an unwritable file are errors that leave no file."""
    project = here.project()
    kb, folder = project.knowledge_base("docs"), here.root / "out"
    folder.mkdir()
    with pytest.raises(NotIngestedError, match="lorebind knowledge ingest docs"):
        kb.pack(folder / "kb.lorebind")
    project.ingest("docs")
    catalog, namespace = kb.handle.kb.catalog, kb.handle.namespace
    pack = packed(project, here.root / "kb.lorebind")
    with catalog.lease(namespace):
        with pytest.raises(IngestRunningError):
            kb.pack(folder / "kb.lorebind")
        with pytest.raises(IngestRunningError):
            kb.unpack(pack)
    with pytest.raises(UsageError, match="cannot be written"):
        kb.pack(folder / "missing" / "kb.lorebind")
    with pytest.raises(UsageError, match="cannot be read"):
        kb.unpack(folder / "missing")
    kb.handle.kb.index.store.delete(
        catalog.ledger.index(namespace, "active").space,  # type: ignore[union-attr]
        range(1000),
    )
    with pytest.raises(StoreError, match="has lost 36 or more vectors"):
        kb.pack(folder / "kb.lorebind")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("fails", ["add", "cancelled"])
def test_stopped(here: Here, monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    """A stopped unpack leaves nothing visible and no data, and can be repeated."""
    project = here.project()
    project.ingest("docs")
    pack = packed(project, here.root / "kb.lorebind")
    target = here.project("other")
    write(target.config.root, {"docs/0.md": "# Before\n"})
    target.ingest("docs")
    before = answers(target), target.documents("docs")
    error = StoreError("down") if fails == "add" else asyncio.CancelledError()

    def stop(*_: Any) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(SqliteStore, "add", stop)
        with pytest.raises(type(error)):
            target.knowledge_base("docs").unpack(pack)
    assert (answers(target), target.documents("docs")) == before
    run = target.knowledge_base("docs").runs()[0]
    assert (run.strategy, run.status) == ("unpack", "failed" if fails == "add" else "cancelled")
    with sqlite3.connect(target.config.root / ".lorebind" / "lorebind.db") as database:
        assert database.execute("select count(*) from catalog_indexes").fetchone() == (1,)
    target.knowledge_base("docs").unpack(pack)
    assert without_ids(target) == without_ids(project)
