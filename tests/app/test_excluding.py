"""Take documents out of searches, and back."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from lorebind import NotFoundError, Project, UsageError
from lorebind_knowledge.catalog import excluded
from lorebind_knowledge.records import DocumentMatch
from tests.bindings.helpers import write

FILES = {
    "docs/old.md": "# Old keys\n\nRotate the keys each year.\n",
    "docs/new.md": "# New keys\n\nRotate the keys each month.\n",
}
OLD, NEW, ADDED = "docs/old.md", "docs/new.md", "added:note.md"


def declared(vector_db: dict[str, Any]) -> dict[str, Any]:
    source = {"type": "markdown_glob", "path": "docs/*.md"}
    return {
        "name": "shop",
        "embedders": [{"id": "words", "provider": "hashing"}],
        "vector_dbs": [{"id": "here", **vector_db}],
        "knowledge_bases": [{"id": "docs", "embedder": "words", "sources": [source]}],
    }


def filled(folder: Path, vector_db: dict[str, Any]) -> Project:
    project = Project.build(declared(vector_db), root=write(folder, FILES))
    project.ingest("docs")
    project.add_documents("docs", [{"id": "note.md", "text": "The keys are rotated by hand."}])
    return project


@pytest.fixture
def project(tmp_path: Path, vector_db: dict[str, Any]) -> Iterator[Project]:
    with filled(tmp_path, vector_db) as project:
        yield project


def searched(project: Project, **settings: Any) -> set[str]:
    """Return the documents of the passages for a question."""
    result = project.query("docs", "How are the keys rotated?", top_k=9, **settings)
    return {*map(of, result.matches)}


def of(match: DocumentMatch) -> str:
    return str(match.metadata["uri"])


@pytest.mark.parametrize(
    "vector_db",
    [
        {"type": "memory"},
        {"type": "qdrant", "config": {"path": "vectors"}},
        {"type": "langchain", "class": "langchain_core.vectorstores:InMemoryVectorStore"},
    ],
    ids=itemgetter("type"),
)
def test_on_stores_without_a_server(tmp_path: Path, vector_db: dict[str, Any]) -> None:
    with filled(tmp_path, vector_db) as project:
        check_each_strategy(project)


def test_each_strategy(project: Project) -> None:
    check_each_strategy(project)


def check_each_strategy(project: Project) -> None:
    """Each strategy finds the others with the same cosines, and it again once it is included."""
    kb = project.knowledge_base("docs")
    both = {"uri": {"$in": [OLD, NEW]}, "title": {"$exists": True}}
    strategies: tuple[Any, ...] = ("similarity", "lexical", "hybrid", "mmr")
    for strategy in strategies:
        ask = partial(kb.query, "How are the keys rotated?", top_k=9, strategy=strategy)
        before = ask().matches
        assert {*map(of, before)} == {OLD, NEW, ADDED}
        assert kb.exclude_document(OLD).excluded
        left = {match.id: match.scores.get("dense") for match in before if of(match) != OLD}
        after = {match.id: match.scores.get("dense") for match in ask().matches}
        assert after == pytest.approx(left, abs=1e-6)
        assert searched(project, strategy=strategy, filters=both) == {NEW}
        assert searched(project, strategy=strategy, filters={"title": "Old keys"}) == set()
        assert not kb.include_document(OLD).excluded
        again = ask().matches
        assert [(match.id, match.score) for match in again] == [
            (match.id, match.score) for match in before
        ]


def test_it_stays_excluded(project: Project, tmp_path: Path, vector_db: dict[str, Any]) -> None:
    """Ingests, new versions, a rebuild and a rollback do not bring it back; others see it too."""
    kb = project.knowledge_base("docs")
    kb.exclude_document(kb.document(OLD).id)
    kb.exclude_document(ADDED)
    kb.exclude_document(ADDED)
    (tmp_path / OLD).write_text("# Old keys\n\nRotate the keys each decade.\n")
    assert kb.ingest().documents["updated"] == 1
    assert searched(project) == {NEW}
    kb.add_documents([{"id": "note.md", "text": "The keys are rotated by a machine."}])
    kb.reindex()
    assert searched(project) == {NEW}
    kb.rollback()
    with Project.build(declared(vector_db), root=tmp_path) as other:
        assert searched(other) == {NEW}
        other.knowledge_base("docs").include_document(OLD)
    assert searched(project) == {OLD, NEW}
    (tmp_path / OLD).unlink()
    kb.exclude_document(OLD)
    kb.ingest(allow_mass_delete=True)
    (tmp_path / OLD).write_text(FILES[OLD])
    kb.ingest()
    assert {info.uri for info in kb.documents() if info.excluded} == {OLD, ADDED}


async def test_what_shows_it(project: Project) -> None:
    """Lists of documents and chunks show it; nothing that agents read with does."""
    kb = project.knowledge_base("docs")
    await kb.aexclude_document(OLD)
    assert {info.uri: info.excluded for info in await kb.adocuments()} == {
        ADDED: False,
        NEW: False,
        OLD: True,
    }
    assert (await kb.adocument(OLD)).excluded
    assert len(await kb.achunks(OLD)) == 1
    assert [document.uri for document in await kb.areadable_documents()] == [ADDED, NEW]
    found = await kb.afind("Rotate the keys")
    assert [passage.uri for passage in found.passages] == [NEW]
    for read in (kb.afetch(OLD), kb.afind("keys", document=OLD)):
        with pytest.raises(NotFoundError, match=f"known: {ADDED}, {NEW}$"):
            await read
    why = await kb.awhy("How are the keys rotated?", OLD)
    assert why.lost_at == "excluded"
    assert "`include` lets them find it again" in why.explanation


def test_ends(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deleting an added document, or the index, ends exclusions; there is a largest number."""
    kb = project.knowledge_base("docs")
    kb.exclude_document(ADDED)
    kb.delete_document(ADDED)
    kb.add_documents([{"id": "note.md", "text": "The keys are rotated by hand."}])
    assert searched(project) == {OLD, NEW, ADDED}
    monkeypatch.setattr(excluded, "MOST", 1)
    kb.exclude_document(OLD)
    with pytest.raises(UsageError, match="has 1 excluded documents, and more would slow down"):
        kb.exclude_document(NEW)
    with pytest.raises(NotFoundError, match="has no document 'docs/odl"):
        kb.exclude_document("docs/odl.md")
    kb.delete()
    kb.ingest()
    assert searched(project) == {OLD, NEW}
