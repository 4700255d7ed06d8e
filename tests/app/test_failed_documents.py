"""Documents that failed are listed, counted, found and tried again, whichever ingest read them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lorebind import Project
from lorebind_knowledge.documents.changing import read_documents
from tests.bindings.helpers import write
from tests.knowledge.bench import counts

from .helpers import Cli
from .test_documents import declared, uris

pytestmark = pytest.mark.enable_socket

FIVE = {f"docs/{n}.json": f'{{"name": "number{n}"}}\n' for n in range(5)}


@pytest.fixture
def project(tmp_path: Path, vector_db: dict[str, Any]) -> Iterator[Project]:
    """Yield a project with five good documents."""
    with Project.build(declared(vector_db), root=write(tmp_path, FIVE)) as built:
        built.ingest("docs")
        yield built


def spoil(project: Project, *numbers: int) -> None:
    write(project.config.root, {f"docs/{n}.json": "{" for n in numbers})


def mend(project: Project, *numbers: int) -> None:
    write(project.config.root, {name: FIVE[name] for n in numbers if (name := f"docs/{n}.json")})


def agree(project: Project, *failed: int, pending: int = 0) -> None:
    """Check that lists, pages, counts, statistics and single documents say the same."""
    listed = project.documents("docs")
    states = [document.state for document in listed]
    counts = {state: states.count(state) for state in ("ready", "pending", "failed")}
    assert counts["pending"] == pending
    docs = project.knowledge_base("docs")
    assert docs.count_documents() == counts == project.stats("docs").documents
    assert [document.uri for document in listed if document.state == "failed"] == [
        f"docs/{n}.json" for n in failed
    ]
    for document in listed:
        assert docs.document(document.uri) == document == docs.document(document.id)
        assert len(docs.chunks(document.uri)) == document.chunks
        assert (document.reason != "") == (document.state == "failed")
    for state in (None, *counts):
        whole = [document for document in listed if state in (None, document.state)]
        assert project.documents("docs", state=state) == whole
        for limit in (1, 2, 3):
            forth: list[Any] = []
            while page := project.documents(
                "docs", state=state, limit=limit, after=forth[-1].uri if forth else None
            ):
                forth += page
            assert forth == whole
            back: list[Any] = []
            while page := project.documents(
                "docs", state=state, limit=limit, before=back[0].uri if back else "z"
            ):
                back = [*page, *back]
            assert back == whole


@pytest.mark.parametrize("rebuild", ["replace", "reindex"])
def test_failures_of_a_rebuild(project: Project, rebuild: str) -> None:
    """If a rebuild cannot switch, its failures are listed, with the chunks that searches find."""
    spoil(project, 1, 3)
    (project.config.root / "docs/9.json").write_text("{")
    if rebuild == "replace":
        report = project.ingest("docs", strategy="replace")
    else:
        report = project.knowledge_base("docs").reindex()
    assert (report.documents["failed"], len(report.notices)) == (3, 1)
    agree(project, 1, 3, 9)
    first, _, new = project.documents("docs", state="failed")
    assert (first.title, first.chunks, first.attempts) == ("1", 1, 1)
    assert (new.chunks, new.attempts, new.origin) == (0, 1, "source")
    assert first.reason == report.failures[0].reason
    report = project.ingest("docs", strategy="replace")
    assert [document.attempts for document in project.documents("docs", state="failed")] == [
        2,
        2,
        2,
    ]
    (project.config.root / "docs/9.json").unlink()
    mend(project, 1, 3)
    assert project.ingest("docs", strategy="replace").status == "completed"
    agree(project)


def test_only_the_failures_of_a_rebuild(project: Project) -> None:
    """`only_failed` tries them again, and what is mended is no longer listed as failed."""
    spoil(project, 1, 2, 3)
    project.ingest("docs", strategy="replace")
    mend(project, 1)
    write(project.config.root, {"docs/2.json": '{"name": "mended"}\n'})
    report = project.ingest("docs", only_failed=True)
    assert report.documents == counts(unchanged=1, updated=1, failed=1)
    agree(project, 3)
    assert project.ingest("docs", only_failed=True).documents == counts(failed=1)
    agree(project, 3)
    mend(project, 3)
    assert project.ingest("docs", only_failed=True).status == "completed"
    agree(project)
    assert project.ingest("docs", strategy="replace").documents["failed"] == 0
    agree(project)


def test_added_documents_that_fail_in_a_rebuild(project: Project) -> None:
    """They are listed once, can be replaced, and can be deleted."""
    project.add_documents("docs", [{"id": f"{n}.json", "text": "{}"} for n in "ab"])
    kb = project.knowledge.open("docs").kb
    put = kb.catalog.added.put
    bad = [
        upload._replace(data=b"{")
        for name in ("added:a.json", "added:b.json")
        if (upload := kb.catalog.added.get(kb.namespace, name))
    ]
    put(kb.namespace, [*bad, bad[0]._replace(uri="added:c.json")])
    spoil(project, 0)
    project.ingest("docs", strategy="replace")
    failed = ["added:a.json", "added:b.json", "added:c.json", "docs/0.json"]
    assert uris(project, "failed") == failed
    assert len(uris(project)) == 8
    assert project.stats("docs").documents == {"ready": 4, "pending": 0, "failed": 4}
    assert project.knowledge_base("docs").document("added:c.json").state == "failed"
    project.add_documents("docs", [{"id": "a.json", "text": "{}"}])
    for name in ("added:b.json", "added:c.json"):
        project.delete_document("docs", name)
    assert uris(project, "failed") == ["docs/0.json"]
    assert uris(project, "ready") == ["added:a.json", *sorted(FIVE)[1:]]


def test_statistics_count_what_is_listed(tmp_path: Path, vector_db: dict[str, Any]) -> None:
    """Also if all documents fail at first, and if an added one waits for its first ingest."""
    root = write(tmp_path, dict.fromkeys(FIVE, "{"))
    with Project.build(declared(vector_db), root=root) as project:
        agree(project)
        project.ingest("docs")
        agree(project, *range(5))
        kb = project.knowledge.open("docs").kb
        kb.catalog.added.put(kb.namespace, read_documents([{"id": "x", "text": "x"}]))
        agree(project, *range(5), pending=1)
        mend(project, *range(5))
        project.ingest("docs")
        agree(project)
        assert project.stats("docs").chunks == sum(
            document.chunks for document in project.documents("docs")
        )


def test_the_list_counts_them_too(cli: Cli) -> None:
    """`list` and `doctor` count what `documents` lists."""
    cli("ingest", "docs")
    cli.write({"docs/keys.md": "a\0b", "rules/access.md": "a\0b"})
    assert cli("ingest", "rules").code == 1
    assert cli("ingest", "docs", "--strategy", "replace").code == 1
    listed = [line.split()[:2] for line in cli("knowledge", "list").out.splitlines()[2:]]
    assert listed == [["docs", "2"], ["rules", "1"]]
    assert "1 failed, such as docs/keys.md" in cli("doctor").out
