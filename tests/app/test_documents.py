"""List, add and delete single documents."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
from lorebind_knowledge.catalog.ledger import Ledger
from lorebind_knowledge.documents.changing import keep_documents
from tests.bindings.helpers import write
from tests.knowledge.bench import counts

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


@pytest.fixture
def project(tmp_path: Path, vector_db: dict[str, Any]) -> Iterator[Project]:
    with Project.build(declared(vector_db), root=write(tmp_path, FILES)) as built:
        yield built


def uris(project: Project, state: str | None = None) -> list[str]:
    return [document.uri for document in project.documents("docs", state=state)]


pytestmark = pytest.mark.enable_socket


def test_documents_and_their_chunks(project: Project) -> None:
    """Documents have uri and id, or the reason of a failure; the chunks are those of a search."""
    assert project.documents("docs") == []
    project.ingest("docs")
    broken, keys = project.documents("docs")
    assert (keys.uri, keys.title, keys.state, keys.chunks) == ("docs/keys.md", "Keys", "ready", 1)
    assert (broken.state, broken.attempts, broken.chunks) == ("failed", 1, 0)
    assert "PDF" in broken.reason
    assert uris(project, "failed") == ["docs/broken.pdf"]
    (match,) = project.query("docs", "keys")
    docs = project.knowledge_base("docs")
    for name in (keys.uri, keys.id):
        (chunk,) = docs.chunks(name)
        assert (chunk.id, chunk.text, chunk.metadata) == (match.id, match.text, match.metadata)
    assert docs.chunks(broken.id) == []


def test_an_added_document_alone(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """To add a document, the rows of all others need not be read."""
    project.ingest("docs")
    monkeypatch.setattr(Ledger, "every_document", None)
    project.knowledge_base("docs").add_documents([{"id": "new", "text": "A new soup."}])
    assert uris(project, "ready") == ["added:new", "docs/keys.md"]


def test_chunks_of_several_documents(project: Project) -> None:
    """They are those of each document, under the name that was given; an unknown one is refused."""
    project.ingest("docs")
    broken, keys = project.documents("docs")
    docs = project.knowledge_base("docs")
    (chunk,) = docs.chunks(keys.uri)
    assert docs.chunks_of([keys.id, broken.uri]) == {keys.id: [chunk], broken.uri: []}
    with pytest.raises(NotFoundError, match=r"did you mean 'docs/keys\.md'"):
        docs.chunks_of([keys.uri, "docs/key.md"])


def test_failures_are_listed_even_where_all_fail_at_first(
    tmp_path: Path, vector_db: dict[str, Any]
) -> None:
    """The failures of an ingest can still be listed after its report is lost."""
    root = write(tmp_path, {"docs/broken.pdf": "This is no PDF.\n"})
    with Project.build(declared(vector_db), root=root) as project:
        (failure,) = project.ingest("docs").failures
        (listed,) = project.documents("docs")
        assert (listed.reason, listed.state) == (failure.reason, "failed")


def test_what_is_added_stays(project: Project, tmp_path: Path) -> None:
    """Added documents survive ingest, replace, reindex and restarts, and are searched."""
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
        lambda: project.knowledge_base("docs").reindex(),
    ):
        renew()
        assert uris(project) == everything
        assert project.query("docs", "When is lunch?").matches[0].id == best.id
    origins = {document.uri: document.origin for document in project.documents("docs")}
    assert origins["added:lunch.md"] == "added"
    assert origins["docs/keys.md"] == "source"
    project.close()
    assert uris(project) == everything


def test_an_added_document_is_replaced_by_its_id(project: Project) -> None:
    """Only changed content is embedded; a document without an id is identified by its text."""
    project.add_documents("docs", [LUNCH, {"text": "Snow falls."}])
    report = project.add_documents("docs", [{**LUNCH, "title": "Food"}, {"text": "Snow falls."}])
    assert (report.documents["updated"], report.documents["unchanged"]) == (1, 1)
    assert project.query("docs", "lunch").matches[0].metadata["title"] == "Food"
    assert len(project.documents("docs")) == 2
    data = {"id": "table.csv", "data": b"dish,price\nsoup,4\n"}
    project.add_documents("docs", [data])
    assert "soup" in project.knowledge_base("docs").chunks("added:table.csv")[0].text


def test_parts_of_one_source(project: Project) -> None:
    """All parts of a source are kept, numbered in their order; adding them again changes them."""
    pages = [Document(f"Page {n} is here.", metadata={"source": Path("book.pdf")}) for n in "123"]
    report = project.add_documents("docs", pages)
    assert (report.status, report.documents["added"]) == ("completed", 3)
    assert uris(project) == ["added:book.pdf", "added:book.pdf#2", "added:book.pdf#3"]
    assert project.knowledge_base("docs").chunks("added:book.pdf#2")[0].text == "Page 2 is here."
    pages[1].page_content = "Page two is here."
    report = project.add_documents("docs", pages)
    assert (report.documents["updated"], report.documents["unchanged"]) == (1, 2)


def test_one_id_for_two_documents(project: Project) -> None:
    """Different documents of one call cannot share an id; nothing is added. Equal ones can."""
    other = {**LUNCH, "text": "Lunch is over."}
    for documents in (
        [LUNCH, other],
        [LUNCH, Document("Lunch is over.", id="lunch.md")],
        [{"text": "Snow falls."}, {"text": "Snow falls.", "title": "Snow"}],
    ):
        with pytest.raises(UsageError, match=r"documents\[1\]: .* give each document its own id"):
            project.add_documents("docs", documents)
    assert uris(project) == []
    report = project.add_documents("docs", [LUNCH, LUNCH, *[{"text": "Snow falls."}] * 2])
    assert (report.status, report.documents["added"]) == ("completed", 2)


def test_the_longest_id(project: Project) -> None:
    """Every database stores an id of 500 characters; a longer one is refused."""
    project.add_documents("docs", [{"text": "x", "id": "\N{SNOWBOARDER}" * 500}])
    assert project.knowledge_base("docs").count_documents()["ready"] == 1
    with pytest.raises(UsageError, match=r"documents\[0\]: id: has 501 characters, more than 500"):
        project.add_documents("docs", [{"text": "x", "id": "x" * 501}])


def test_a_file_named_like_an_added_document(tmp_path: Path) -> None:
    """Both are found, and the added one can be deleted."""
    data = declared({"type": "memory"})
    data["knowledge_bases"][0]["sources"][0]["path"] = "added*"
    root = write(tmp_path, {"added:keys.md": "Keys are lost.\n"})
    with Project.build(data, root=root) as built:
        built.add_documents("docs", [{"id": "keys.md", "text": "Keys are found."}])
        assert built.ingest("docs").documents == counts(added=1, unchanged=1)
        assert {document.uri: document.origin for document in built.documents("docs")} == {
            "./added:keys.md": "source",
            "added:keys.md": "added",
        }
        built.delete_document("docs", "added:keys.md")
        assert built.query("docs", "keys").matches[0].text == "Keys are lost."


def test_the_title_of_an_added_document(project: Project) -> None:
    """Without a title of its own, it is the id without the file extension."""
    project.add_documents("docs", [{"id": "read.me", "text": "x"}, {"id": "a/b.txt", "text": "y"}])
    assert {document.title for document in project.documents("docs")} == {"read", "b"}


def test_an_added_document_is_deleted(project: Project) -> None:
    """It is no longer found, and no ingest restores it; a source's document cannot be deleted."""
    project.ingest("docs")
    project.add_documents("docs", [LUNCH, BILLS])
    lunch = next(
        document for document in project.documents("docs") if document.uri == "added:lunch.md"
    )
    assert project.delete_document("docs", lunch.id) == lunch
    assert project.query("docs", "When is lunch served?", top_k=9).matches[0].id != lunch.id
    assert "added:lunch.md" not in uris(project)
    project.ingest("docs")
    assert "added:lunch.md" not in uris(project)
    with pytest.raises(UsageError, match="so the next ingest would add it again"):
        project.delete_document("docs", "docs/keys.md")
    with pytest.raises(NotFoundError, match="has no document 'added:lunch"):
        project.delete_document("docs", "added:lunch.md")


async def test_added_again_while_its_deletion_waits(project: Project) -> None:
    """A deletion that waits for an ingest does not delete what was added in the meantime."""
    await project.aadd_documents("docs", [LUNCH])
    kb = project.knowledge.open("docs").kb
    async with kb.catalog.hold_lease(kb.namespace, wait=False):
        deleting = asyncio.create_task(project.adelete_document("docs", "added:lunch.md"))
        while kb.catalog.added.uris(kb.namespace):
            await asyncio.wait([deleting], timeout=0.01)
        await keep_documents(kb, [LUNCH])
    await deleting
    assert uris(project, "ready") == ["added:lunch.md"]
    await project.adelete_document("docs", "added:lunch.md")
    assert uris(project) == []


def test_an_index_is_deleted(project: Project) -> None:
    """Deleting an index removes all in it; the next ingest rebuilds it from cached embeddings."""
    seen: list[str] = []

    class Watching(Extension):
        def collection_deleted(self, event: Event) -> None:
            seen.append(event.kb_id)

    project.knowledge.events.subscribe(Watching())
    project.ingest("docs")
    project.add_documents("docs", [LUNCH])
    project.knowledge_base("docs").delete()
    assert (seen, uris(project)) == (["docs"], [])
    assert project.stats("docs").last_run is None
    with pytest.raises(NotIngestedError):
        project.query("docs", "keys")
    report = project.ingest("docs")
    assert (report.documents["added"], report.texts_embedded) == (1, 0)


def test_what_is_no_document(project: Project) -> None:
    """An invalid document is refused with its location, and nothing is added."""
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


def test_an_unknown_document(project: Project) -> None:
    """The message has the most similar uri and some others, however many there are."""
    project.add_documents("docs", [{"id": f"{n}.txt", "text": f"Number {n}."} for n in range(9)])
    few = ", ".join(f"added:{n}.txt" for n in range(5))
    with pytest.raises(NotFoundError, match=f"did you mean 'added:8.txt'; known: {few} and more$"):
        project.knowledge_base("docs").chunks("added:8.text")


def test_another_embedder_loses_nothing(tmp_path: Path, vector_db: dict[str, Any]) -> None:
    """A document that is added to an index of another embedder waits for the reindex."""
    root = write(tmp_path, FILES)
    with Project.build(declared(vector_db), root=root) as project:
        project.ingest("docs")
    with Project.build(declared(vector_db, "other"), root=root) as project:
        refused = "another embedder, .* the added documents are stored and pending; to ingest them"
        with pytest.raises(IngestRefusedError, match=refused):
            project.add_documents("docs", [LUNCH])
        assert {document.state for document in project.documents("docs", state="pending")} == {
            "pending"
        }
        project.knowledge_base("docs").reindex()
        assert project.query("docs", "When is lunch?").matches[0].metadata["uri"] == (
            "added:lunch.md"
        )


def test_tenants_see_their_own(project: Project) -> None:
    """No tenant sees the documents that another adds, lists and deletes."""
    with tenant("acme"):
        project.add_documents("docs", [LUNCH])
        assert uris(project) == ["added:lunch.md"]
    assert uris(project) == []
    with pytest.raises(NotFoundError):
        project.delete_document("docs", "added:lunch.md")
    project.knowledge_base("docs").delete()
    with tenant("acme"):
        assert project.query("docs", "lunch").matches[0].metadata["uri"] == "added:lunch.md"


async def test_added_while_others_are(project: Project) -> None:
    """Concurrent additions wait for each other."""
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
    """A document is stored before it is ingested, and the next ingest completes it."""
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
    """Every command prints a table and JSON."""
    ready_cli.write({"lunch.txt": "Lunch is served at noon.\n"})
    assert ready_cli("knowledge", "add", "docs", "lunch.txt").code == 0
    listed = ready_cli("knowledge", "documents", "docs")
    assert "added:lunch.txt" in listed.out
    (added,) = [
        document
        for document in json.loads(ready_cli("knowledge", "documents", "docs", "-o", "json").out)[
            "documents"
        ]
        if document["origin"] == "added"
    ]
    assert "    Lunch is served" in ready_cli("knowledge", "chunks", "docs", added["id"]).out
    assert "documents ready" in ready_cli("knowledge", "stats", "docs").out
    done = ready_cli("knowledge", "delete", "docs")
    assert (done.code, "1 of them added by hand; to confirm, add --yes" in done.err) == (2, True)
    gone = ready_cli("knowledge", "delete", "docs", added["id"])
    assert (gone.code, gone.out) == (0, "deleted 1 document of docs\n")
    assert ready_cli("knowledge", "delete", "docs", "--yes").code == 0
    assert ready_cli("knowledge", "documents", "docs", "--state", "ready").code == 0
    assert ready_cli("knowledge", "add", "docs", "gone.txt").code == 2
    assert ready_cli("knowledge", "chunks", "docs", "gone").code == 2


def test_files_are_told_apart_by_their_paths(ready_cli: Cli) -> None:
    """Files of the same name are separate documents; a path may be written in several ways."""
    ready_cli.write({"x/readme.md": "First.\n", "y/readme.md": "Second.\n"})
    outside = ready_cli.root.parent / "readme.md"
    outside.write_text("Third.\n")
    add = ("knowledge", "add", "rules", "-o", "json")
    for files, done in (
        (["x/readme.md", "y/readme.md", str(outside)], counts(added=3)),
        (["./x/readme.md", "y/../x//readme.md"], counts(unchanged=1)),
    ):
        assert json.loads(ready_cli(*add, *files).out)["documents"] == done
    with Project.load(ready_cli.root) as project:
        names = [
            document.uri for document in project.documents("rules") if document.origin == "added"
        ]
    assert names == [f"added:{outside}", "added:x/readme.md", "added:y/readme.md"]


def test_a_file_that_cannot_be_added(ready_cli: Cli) -> None:
    """The message names the file."""
    ready_cli.write({"docs/empty.md": "", "big.txt": "x" * 5_000_000})
    for file, message in {"docs/empty.md": "expected a text", "big.txt": "has 5000000"}.items():
        refused = ready_cli("knowledge", "add", "docs", file)
        assert (refused.code, refused.err.startswith(f"lorebind: {file}: {message}")) == (2, True)


def test_variables_of_other_knowledge_bases(ready_cli: Cli) -> None:
    """Listing and deleting documents needs only the variables of that knowledge base."""
    file = ready_cli.root / "lorebind.yaml"
    other = ", { id: far, type: pgvector, config: { dsn: '{{ .env.NOT_SET }}' } }]"
    text = file.read_text().replace("type: sqlite }]", "type: sqlite }" + other)
    text = text.replace("  - id: rules\n", "  - id: rules\n    vector_db: far\n")
    assert text.count("far") == 2
    file.write_text(text)
    for command in ("documents docs", "chunks docs docs/keys.md", "stats docs"):
        assert ready_cli("knowledge", *command.split()).code == 0
    missing = "variable NOT_SET is not set"
    assert missing in ready_cli("knowledge", "documents", "rules").err
    assert ready_cli("knowledge", "delete", "docs", "--yes").code == 0
    assert ready_cli("ingest", "docs").code == 0
    assert missing in ready_cli("ingest", "rules").err


def test_statistics_without_an_index(cli: Cli) -> None:
    """They show no embedder and no dimension."""
    printed = cli("knowledge", "stats", "docs").out
    assert "documents failed    0" in printed
    assert "last ingest         never" in printed
    assert "embedder" not in printed
    assert "dimension" not in printed


@pytest.mark.parametrize("declared", ["{ id: notes }", "{ id: notes, sources: [] }"])
def test_a_knowledge_base_without_sources(empty_cli: Cli, declared: str) -> None:
    """It is filled by `add`; every ingest and reindex includes the added documents."""
    parts = "name: x\nembedders: [{ id: w, provider: hashing }]\n"
    empty_cli.write(
        {"lorebind.yaml": f"{parts}knowledge_bases: [{declared}]\n", "a.md": "The contact is Ann."}
    )
    question = ("query", "notes", "-q", "Who is the contact?")
    assert empty_cli("ingest").code == 0
    done = empty_cli(*question)
    assert (done.code, "run: lorebind knowledge add notes FILE" in done.err) == (1, True)
    assert "run: lorebind knowledge add notes FILE" in empty_cli("doctor").out.replace("\n", " ")
    for command in ("knowledge add notes a.md", "ingest notes", "knowledge reindex notes"):
        assert empty_cli(*command.split()).code == 0
        assert "The contact is Ann." in empty_cli(*question).out
    with Project.load(empty_cli.root) as project:
        assert project.ingest("notes", strategy="replace").documents["removed"] == 0
        assert [document.uri for document in project.documents("notes")] == ["added:a.md"]
