"""Documents, chunks and runs in pages, which SQL selects."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lorebind import IngestRefusedError, NotFoundError, Project, UsageError
from lorebind_knowledge.documents.listing import DocumentInfo
from tests.bindings.helpers import write

FILES = {f"docs/{name}.txt": f"All of {name}.\n" for name in ("a", "Z", "é", "𐀀", "c d", "m")}
FILES["docs/broken.pdf"] = "This is no PDF.\n"

pytestmark = pytest.mark.parametrize("vector_db", ["memory", "sqlite", "pgvector"], indirect=True)


@pytest.fixture
def project(tmp_path: Path, vector_db: dict[str, Any]) -> Iterator[Project]:
    declared = {
        "name": "shop",
        "embedders": [{"id": "words", "provider": "hashing"}],
        "vector_dbs": [{"id": "here", **vector_db}],
        "knowledge_bases": [
            {
                "id": "docs",
                "sources": [{"type": "file_glob", "path": "docs/*"}],
                "chunking": {"strategy": "token", "size": 64, "overlap": 0},
            }
        ],
    }
    with Project.build(declared, root=write(tmp_path, FILES)) as built:
        yield built


def uris(documents: list[DocumentInfo]) -> list[str]:
    return [document.uri for document in documents]


def keep_waiting(project: Project, *names: str) -> None:
    """Add documents as a process does that ends before it ingests them."""
    from lorebind_knowledge.catalog.added import AddedDocument

    kb = project.knowledge.open("docs").kb
    added = [AddedDocument(name, b"Some text.", "text/plain", {}) for name in names]
    kb.catalog.added.put(kb.namespace, added)


def test_pages_in_both_directions(project: Project) -> None:
    """Joined pages are the whole list in code point order, with documents that are not ingested."""
    project.ingest("docs")
    keep_waiting(project, "added:1", "docs/b", "docs/zz", "zzz")
    whole = uris(project.documents("docs"))
    assert len(whole) == 11
    assert whole == sorted(whole)
    for limit in range(1, 13):
        forth: list[str] = []
        while page := project.documents("docs", limit=limit, after=forth[-1] if forth else None):
            assert len(page) == min(limit, 11 - len(forth))
            forth += uris(page)
        assert forth == whole
        back = whole[-1:]
        while page := project.documents("docs", limit=limit, before=back[0]):
            assert len(page) == min(limit, 11 - len(back))
            back = uris(page) + back
        assert back == whole


def test_a_page_of_one_state(project: Project) -> None:
    """A state also limits the counts, and waiting documents are `pending`."""
    project.ingest("docs")
    keep_waiting(project, "docs/b", "zzz")
    assert uris(project.documents("docs", state="failed", limit=5)) == ["docs/broken.pdf"]
    assert uris(project.documents("docs", state="pending", limit=1)) == ["docs/b"]
    assert uris(project.documents("docs", state="pending", limit=2, after="docs/b")) == ["zzz"]
    assert uris(project.documents("docs", state="ready", limit=2)) == ["docs/Z.txt", "docs/a.txt"]
    assert project.documents("docs", state="failed", after="docs/broken.pdf") == []
    docs = project.knowledge_base("docs")
    assert docs.count_documents() == {"ready": 6, "pending": 2, "failed": 1}
    assert project.stats("docs").documents == docs.count_documents()
    assert project.stats("docs").chunks == 6


def test_pages_while_documents_go(project: Project, tmp_path: Path) -> None:
    """The next page continues after the previous one, even if its last document is removed."""
    project.ingest("docs")
    first = uris(project.documents("docs", limit=3))
    rest = uris(project.documents("docs", after=first[-1]))
    (tmp_path / first[0]).unlink()
    (tmp_path / first[-1]).unlink()
    project.ingest("docs", strategy="replace", allow_mass_delete=True)
    assert uris(project.documents("docs", after=first[-1])) == rest
    assert uris(project.documents("docs", before=rest[0])) == [first[1]]


def test_one_document(project: Project) -> None:
    """A document is found by uri and id, even if it waits; otherwise the known ones are listed."""
    docs = project.knowledge_base("docs")
    with pytest.raises(NotFoundError, match=r"has no document 'docs/a\.txt'; known: none"):
        docs.document("docs/a.txt")
    keep_waiting(project, "added:1")
    waiting = docs.document("added:1")
    assert (waiting.state, waiting.origin) == ("pending", "added")
    assert docs.document(waiting.id) == waiting
    assert docs.chunks_of([waiting.id]) == {waiting.id: []}
    project.ingest("docs")
    for document in project.documents("docs"):
        assert docs.document(document.uri) == docs.document(document.id) == document
    with pytest.raises(NotFoundError, match=r"did you mean 'docs/a\.txt'"):
        docs.document("docs/a.tx")


def test_pages_of_chunks(project: Project, tmp_path: Path) -> None:
    """Joined pages are all chunks of the document, in order."""
    text = "\n\n".join(
        f"Paragraph {n} has words of its own, as many as fit here." for n in range(40)
    )
    (tmp_path / "docs/long.txt").write_text(text)
    project.ingest("docs")
    docs = project.knowledge_base("docs")
    whole = docs.chunks("docs/long.txt")
    assert len(whole) > 4
    pages = [docs.chunks("docs/long.txt", limit=2, after=at) for at in range(0, len(whole) + 2, 2)]
    assert [chunk for page in pages for chunk in page] == whole
    assert max(map(len, pages)) == 2
    assert docs.chunks("docs/long.txt", after=len(whole) - 1) == whole[-1:]


def test_parts_that_cannot_be(project: Project) -> None:
    """Invalid arguments are refused with the valid values."""
    with pytest.raises(UsageError, match="after a uri or before one; give only one of them"):
        project.documents("docs", after="a", before="b")
    with pytest.raises(UsageError, match="limit must be at least 1, not 0"):
        project.documents("docs", limit=0)
    docs = project.knowledge_base("docs")
    with pytest.raises(UsageError, match="limit must be at least 1, not -1"):
        docs.runs(limit=-1)
    with pytest.raises(UsageError, match="after must be at least 0, not -1"):
        docs.chunks("docs/a.txt", after=-1)


def test_runs(project: Project, tmp_path: Path) -> None:
    """The newest run comes first, each with its report; a failed one has a reason."""
    docs = project.knowledge_base("docs")
    assert docs.runs() == []
    assert docs.count_documents() == {"ready": 0, "pending": 0, "failed": 0}
    reports = [project.ingest("docs") for _ in range(5)]
    runs = docs.runs()
    assert [run.run_id for run in runs] == [report.run_id for report in reversed(reports)]
    assert all(run.ended_at is not None and run.started_at <= run.ended_at for run in runs)
    first = docs.run(reports[0].run_id)
    assert (first.status, first.strategy) == ("completed_with_failures", "upsert")
    assert first.error == ""
    assert first.report is not None
    assert first.report["documents"]["added"] == 6
    assert first.report["failures"][0]["uri"] == "docs/broken.pdf"
    assert docs.runs(limit=2) == runs[:2]
    assert docs.runs(limit=2, before=runs[1].run_id) == runs[2:4]
    assert docs.runs(before=first.run_id) == []
    for name in ("a", "Z", "m", "c d"):
        (tmp_path / f"docs/{name}.txt").unlink()
    with pytest.raises(IngestRefusedError) as refused:
        project.ingest("docs", strategy="replace")
    (last,) = docs.runs(limit=1)
    assert (last.status, last.strategy, last.error) == ("failed", "replace", str(refused.value))
    with pytest.raises(NotFoundError, match="has no run 'other'"):
        docs.run("other")
    with pytest.raises(NotFoundError, match="has no run 'other'"):
        docs.runs(before="other")


async def test_asynchronously(project: Project) -> None:
    """Each method has an async version."""
    await project.aingest("docs")
    page = await project.adocuments("docs", limit=1)
    docs = project.knowledge_base("docs")
    assert await docs.adocument(page[0].id) == page[0]
    counts, runs = await asyncio.gather(docs.acount_documents(), docs.aruns())
    assert counts["ready"] == 6
    assert await docs.arun(runs[0].run_id) == runs[0]
    assert len(await docs.achunks(page[0].uri, limit=1)) == 1
