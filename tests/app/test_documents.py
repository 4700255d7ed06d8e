"""Documents that are listed, added and deleted one by one."""

from __future__ import annotations

import asyncio
import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.documents import Document

from lorebind import (
    Event,
    Extension,
    IngestRefusedError,
    NotFoundError,
    NotIngestedError,
    Project,
    UsageError,
    tenant,
)
from tests.bindings.helpers import write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .forked_python import ForkedPython
    from .helpers import Cli

FILES = {
    "docs/keys.md": "# Keys\n\nKeys are rotated every month.\n",
    "docs/broken.pdf": "This is no PDF.\n",
}
LUNCH = {
    "id": "lunch.md",
    "text": "# Lunch\n\nLunch is served at noon.",
    "metadata": {"team": "ops"},
}
BILLS = Document("Invoices are sent on Fridays.", metadata={"source": "bills.txt"})


def declared(vector_db: dict[str, Any], embedder: str = "words") -> dict[str, Any]:
    return {
        "name": "shop",
        "embedders": [
            {"id": "words", "provider": "hashing"},
            {"id": "other", "provider": "hashing", "config": {"dimension": 64}},
        ],
        "vector_dbs": [{"id": "here", **vector_db}],
        "knowledge_bases": [
            {
                "id": "docs",
                "embedder": embedder,
                "sources": [{"type": "file_glob", "path": "docs/*"}],
            }
        ],
    }


@pytest.fixture(params=["sqlite", "pgvector"])
def vector_db(request: pytest.FixtureRequest) -> dict[str, Any]:
    if request.param == "sqlite":
        return {"type": "sqlite"}
    dsn = request.getfixturevalue("dsn")
    request.getfixturevalue("monkeypatch").setenv("SHOP_DSN", dsn)
    return {"type": "pgvector", "config": {"dsn": "{{ .env.SHOP_DSN }}"}}


@pytest.fixture
def project(tmp_path: Path, vector_db: dict[str, Any]) -> Iterator[Project]:
    with Project.build(declared(vector_db), root=write(tmp_path, FILES)) as built:
        yield built


def uris(project: Project, state: str | None = None) -> list[str]:
    return [one.uri for one in project.documents("docs", state=state)]


pytestmark = pytest.mark.enable_socket


def test_documents_and_their_chunks(project: Project) -> None:
    """By uri and by id, those that failed with their reasons; the chunks are those of a search."""
    assert project.documents("docs") == []
    project.ingest("docs")
    broken, keys = project.documents("docs")
    assert (keys.uri, keys.title, keys.state, keys.chunks) == ("docs/keys.md", "Keys", "ready", 1)
    assert (broken.state, broken.attempts, broken.chunks) == ("failed", 1, 0)
    assert "PDF" in broken.reason
    assert uris(project, "failed") == ["docs/broken.pdf"]
    (match,) = project.query("docs", "keys")
    for name in (keys.uri, keys.id):
        (chunk,) = project.chunks("docs", name)
        assert (chunk.id, chunk.text, chunk.metadata) == (match.id, match.text, match.metadata)
    assert project.chunks("docs", broken.id) == []


def test_failures_are_listed_even_where_all_fail_at_first(
    tmp_path: Path, vector_db: dict[str, Any]
) -> None:
    """A report that nobody has read can be read again."""
    root = write(tmp_path, {"docs/broken.pdf": "This is no PDF.\n"})
    with Project.build(declared(vector_db), root=root) as project:
        (failure,) = project.ingest("docs").failures
        (listed,) = project.documents("docs")
        assert (listed.reason, listed.state) == (failure.reason, "failed")


def test_what_is_added_stays(project: Project, tmp_path: Path) -> None:
    """Through ingest, replace, reindex and a new process; it is searched as the others are."""
    report = project.add_documents("docs", [LUNCH, BILLS])
    assert (report.status, report.documents["added"]) == ("completed", 2)
    assert uris(project) == ["added:bills.txt", "added:lunch.md"]
    best = project.query("docs", "When is lunch?").matches[0]
    assert (best.metadata["uri"], best.metadata["team"]) == ("added:lunch.md", "ops")
    assert best.metadata["title"] == "Lunch"
    everything = ["added:bills.txt", "added:lunch.md", "docs/broken.pdf", "docs/keys.md"]
    assert project.ingest("docs").documents["unchanged"] == 2
    assert uris(project) == everything
    (tmp_path / "docs/broken.pdf").unlink()
    everything.remove("docs/broken.pdf")
    for renew in (
        lambda: project.ingest("docs", strategy="replace"),
        lambda: project.reindex("docs"),
    ):
        renew()
        assert uris(project) == everything
        assert project.query("docs", "When is lunch?").matches[0].id == best.id
    origins = {one.uri: one.origin for one in project.documents("docs")}
    assert origins["added:lunch.md"] == "added"
    assert origins["docs/keys.md"] == "source"
    project.close()
    assert uris(project) == everything


def test_an_added_document_is_replaced_by_its_id(project: Project) -> None:
    """Only what changed is embedded; without an id the text itself tells one from another."""
    project.add_documents("docs", [LUNCH, {"text": "Snow falls."}])
    report = project.add_documents("docs", [{**LUNCH, "title": "Food"}, {"text": "Snow falls."}])
    assert (report.documents["updated"], report.documents["unchanged"]) == (1, 1)
    assert project.query("docs", "lunch").matches[0].metadata["title"] == "Food"
    assert len(project.documents("docs")) == 2
    data = {"id": "table.csv", "data": b"dish,price\nsoup,4\n"}
    project.add_documents("docs", [data])
    assert "soup" in project.chunks("docs", "added:table.csv")[0].text


def test_an_added_document_is_deleted(project: Project) -> None:
    """It is not found any more, and no ingest brings it back; a source's own is refused."""
    project.ingest("docs")
    project.add_documents("docs", [LUNCH, BILLS])
    lunch = next(one for one in project.documents("docs") if one.uri == "added:lunch.md")
    assert project.delete_document("docs", lunch.id) == lunch
    assert project.query("docs", "When is lunch served?", top_k=9).matches[0].id != lunch.id
    assert "added:lunch.md" not in uris(project)
    project.ingest("docs")
    assert "added:lunch.md" not in uris(project)
    with pytest.raises(UsageError, match="so the next ingest would add it again"):
        project.delete_document("docs", "docs/keys.md")
    with pytest.raises(NotFoundError, match="has no document 'added:lunch"):
        project.delete_document("docs", "added:lunch.md")


def test_an_index_is_deleted(project: Project) -> None:
    """With everything in it; the next ingest begins anew, and embeds nothing."""
    seen: list[str] = []

    class Watching(Extension):
        def collection_deleted(self, event: Event) -> None:
            seen.append(event.kb_id)

    project.knowledge.events.subscribe(Watching())
    project.ingest("docs")
    project.add_documents("docs", [LUNCH])
    project.delete("docs")
    assert (seen, uris(project)) == (["docs"], [])
    assert project.stats("docs").last_run is None
    with pytest.raises(NotIngestedError):
        project.query("docs", "keys")
    report = project.ingest("docs")
    assert (report.documents["added"], report.texts_embedded) == (1, 0)


def test_what_is_no_document(project: Project) -> None:
    """It is refused with its place, and nothing is added."""
    wrong: list[tuple[Any, str]] = [
        ([], "there are no documents to add"),
        (
            [LUNCH, 5],
            r"documents\[1\]: expected a LangChain document or a mapping .* got a int",
        ),
        ([{"txt": "x"}], r"documents\[0\]: unknown key 'txt'; did you mean 'text'"),
        ([{"text": " "}], "expected a text that is not blank, or data that is not empty"),
        ([{"text": "x", "data": b"x"}], "expected a text that is not blank"),
        ([{"text": "x", "id": 5}], "id: expected text, got a int"),
        ([{"text": "x", "metadata": []}, LUNCH], "metadata: expected a mapping"),
        ([{"text": "x" * 5_000_000}], "has 5000000 bytes, more than"),
    ]
    for documents, message in wrong:
        with pytest.raises(UsageError, match=message):
            project.add_documents("docs", documents)
    assert uris(project) == []
    with pytest.raises(UsageError, match="unknown state 'redy'; did you mean 'ready'"):
        project.documents("docs", state="redy")
    with pytest.raises(NotFoundError):
        project.documents("other")


def test_another_embedder_loses_nothing(tmp_path: Path, vector_db: dict[str, Any]) -> None:
    """Added beside an index of another embedder, a document waits for the reindex."""
    root = write(tmp_path, FILES)
    with Project.build(declared(vector_db), root=root) as project:
        project.ingest("docs")
    with Project.build(declared(vector_db, "other"), root=root) as project:
        with pytest.raises(IngestRefusedError, match="was built with another embedder"):
            project.add_documents("docs", [LUNCH])
        assert {one.state for one in project.documents("docs", state="pending")} == {"pending"}
        project.reindex("docs")
        assert project.query("docs", "When is lunch?").matches[0].metadata["uri"] == (
            "added:lunch.md"
        )


def test_tenants_see_their_own(project: Project) -> None:
    """What one adds, lists and deletes is nobody else's."""
    with tenant("acme"):
        project.add_documents("docs", [LUNCH])
        assert uris(project) == ["added:lunch.md"]
    assert uris(project) == []
    with pytest.raises(NotFoundError):
        project.delete_document("docs", "added:lunch.md")
    project.delete("docs")
    with tenant("acme"):
        assert project.query("docs", "lunch").matches[0].metadata["uri"] == "added:lunch.md"


async def test_added_while_others_are(project: Project) -> None:
    """Several at a time wait for each other."""
    many = [[{"id": f"{n}.txt", "text": f"Number {n} of many."}] for n in range(4)]
    await asyncio.gather(*(project.aadd_documents("docs", some) for some in many))
    assert len(await project.adocuments("docs", state="ready")) == 4


KILLED = """
import json, os, sys
from lorebind import Project
from lorebind_knowledge.index.index import Index

def killed(*_):
    os.kill(os.getpid(), 9)

Index.stage = killed
with Project.build(json.loads(sys.argv[1]), root=".") as project:
    project.add_documents("docs", [{"id": "lunch.md", "text": "Lunch is served at noon."}])
"""


def test_what_was_added_survives_a_kill(
    tmp_path: Path, vector_db: dict[str, Any], forked: ForkedPython
) -> None:
    """It is kept before it is ingested, and the next ingest goes on with it."""
    write(tmp_path, FILES)
    data = declared(vector_db)
    command = [forked.commands / "python", "-c", KILLED, json.dumps(data)]
    killed = subprocess.run(command, cwd=tmp_path, timeout=60, check=False)
    assert killed.returncode == 128 + 9
    with Project.build(data, root=tmp_path) as project:
        assert uris(project, "pending") == ["added:lunch.md"]
        project.ingest("docs", wait=True)
        assert project.query("docs", "lunch at noon").matches[0].metadata["uri"] == "added:lunch.md"


def test_on_the_command_line(ready_cli: Cli) -> None:
    """Every verb, as a table and as JSON."""
    ready_cli.write({"lunch.txt": "Lunch is served at noon.\n"})
    assert ready_cli("knowledge", "add", "docs", "lunch.txt").code == 0
    listed = ready_cli("knowledge", "documents", "docs")
    assert "added:lunch.txt" in listed.out
    (added,) = [
        one
        for one in json.loads(ready_cli("knowledge", "documents", "docs", "-o", "json").out)[
            "documents"
        ]
        if one["origin"] == "added"
    ]
    assert "    Lunch is served" in ready_cli("knowledge", "chunks", "docs", added["id"]).out
    assert "documents ready" in ready_cli("knowledge", "stats", "docs").out
    asked = ready_cli("knowledge", "delete", "docs")
    assert (asked.code, "1 of them added by hand; to do so, add --yes" in asked.err) == (2, True)
    gone = ready_cli("knowledge", "delete", "docs", added["id"])
    assert (gone.code, gone.out) == (0, "deleted 1 document of docs\n")
    assert ready_cli("knowledge", "delete", "docs", "--yes").code == 0
    assert ready_cli("knowledge", "documents", "docs", "--state", "ready").code == 0
    assert ready_cli("knowledge", "add", "docs", "gone.txt").code == 2
    assert ready_cli("knowledge", "chunks", "docs", "gone").code == 2
