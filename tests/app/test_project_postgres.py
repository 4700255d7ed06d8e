"""A project whose vectors and catalog are in PostgreSQL, from documents to answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from lorebind import NotIngestedError, Project
from tests.bindings.helpers import write

DOCUMENTS = {
    "docs/keys.md": "# Keys\n\nRotate the keys with the rotate command every ninety days.\n",
    "docs/bills.md": "# Bills\n\nInvoices are sent by mail to the owner each month.\n",
    "docs/odd.md": '# Odd\n\nWho\'d quote "it" 100 % right in this manual of the printer?\n',
}


def declarations(**config: Any) -> dict[str, Any]:
    return {
        "name": "shop",
        "embedders": [{"id": "words", "provider": "hashing"}],
        "vector_dbs": [
            {"id": "pg", "type": "pgvector", "config": {"dsn": "{{ .env.PG_DSN }}", **config}}
        ],
        "knowledge_bases": [
            {
                "id": "docs",
                "embedder": "words",
                "vector_db": "pg",
                "sources": [{"type": "markdown_glob", "path": "docs/*.md"}],
                "metadata": {"team": "ops"},
            }
        ],
    }


@pytest.fixture
def project(tmp_path: Path, dsn: str) -> Iterator[Project]:
    write(tmp_path, DOCUMENTS)
    project = Project.build(declarations(), root=tmp_path, environ={"PG_DSN": dsn})
    yield project
    project.close()


def best(project: Project, question: str, **settings: Any) -> str:
    return project.query("docs", question, **settings).matches[0].text


def test_documents_are_read(project: Project) -> None:
    """Lines are found and fetched as they are written, whatever characters they have."""
    project.ingest("docs")
    kb = project.knowledge_base("docs")
    for pattern, uris in (
        ("100 % RIGHT", ["docs/odd.md"]),
        ("1__ %", []),
        ("who'd", ["docs/odd.md"]),
    ):
        assert [passage.uri for passage in kb.find(pattern).passages] == uris
    found = kb.find("^(rotate|invoices) ", regex=True).passages
    assert [passage.lines[0][0] for passage in found] == [3, 3]
    assert kb.fetch("docs/keys.md").text == DOCUMENTS["docs/keys.md"].rstrip()
    (listed,) = kb.readable_documents(filters={"uri": "docs/odd.md"})
    assert (listed.metadata["team"], listed.lines) == ("ops", 3)


def test_from_documents_to_answers(project: Project, tmp_path: Path, dsn: str) -> None:
    """Ingest, ask, ingest again, edit, delete and replace work on PostgreSQL as elsewhere."""
    with pytest.raises(NotIngestedError):
        project.query("docs", "keys")
    report = project.ingest("docs")
    assert (report.status, report.documents["added"]) == ("completed", 3)
    assert "ninety days" in best(project, "How do I rotate the keys?")
    match = project.query("docs", "Who'd print 100 % of the manual?").matches[0]
    assert (match.metadata["uri"], match.metadata["team"]) == ("docs/odd.md", "ops")
    assert best(
        project, "keys", strategy="similarity", filters={"uri": "docs/bills.md"}
    ).startswith("# Bills")

    again = project.ingest("docs")
    assert (again.documents["unchanged"], again.texts_embedded) == (3, 0)

    write(tmp_path, {"docs/keys.md": "# Keys\n\nRotate the keys every thirty days.\n"})
    (tmp_path / "docs" / "bills.md").unlink()
    changed = project.ingest("docs")
    assert (changed.documents["updated"], changed.documents["removed"]) == (1, 1)
    texts = [match.text for match in project.query("docs", "How do I rotate the keys?").matches]
    assert "thirty days" in texts[0]
    assert not any("ninety" in text or "Invoices" in text for text in texts)

    replaced = project.ingest("docs", strategy="replace")
    assert (replaced.status, replaced.texts_embedded) == ("completed", 0)
    assert "thirty days" in best(project, "How do I rotate the keys?")
    kb = declarations()["knowledge_bases"][0] | {"keep": 0}  # drops the index before
    config = declarations() | {"knowledge_bases": [kb]}
    with Project.build(config, root=tmp_path, environ={"PG_DSN": dsn}) as without_earlier:
        without_earlier.ingest("docs")
    with psycopg.connect(dsn) as db:
        left = "select count(*), count(distinct space) from knowledge_chunks_vectors"
        assert db.execute(left).fetchone() == (project.stats("docs").chunks, 1)
        words = "select sum(passages), count(distinct space) from catalog_segments"
        assert db.execute(words).fetchone() == (project.stats("docs").chunks, 1)
    assert not (tmp_path / ".lorebind").exists()


def test_another_project_object_finds_it(project: Project, tmp_path: Path, dsn: str) -> None:
    """Another process answers from an existing index, and embeds nothing again."""
    project.ingest("docs")
    with Project.build(declarations(), root=tmp_path, environ={"PG_DSN": dsn}) as other:
        assert "ninety days" in best(other, "How do I rotate the keys?")
        assert other.ingest("docs").texts_embedded == 0


def test_all_settings(tmp_path: Path, dsn: str) -> None:
    """Table, index, metric and pool can be configured."""
    write(tmp_path, DOCUMENTS)
    config = {
        "table": "chunks",
        "ensure_index": True,
        "index": {"type": "ivfflat", "lists": 4},
        "metric": "l2",
        "pool": {"min_size": 1, "max_size": 3},
        "dimension": 256,
    }
    project = Project.build(declarations(**config), root=tmp_path, environ={"PG_DSN": dsn})
    with project, psycopg.connect(dsn) as db:
        project.ingest("docs")
        assert "ninety days" in best(project, "How do I rotate the keys?")
        assert db.execute("select count(*) > 0 from chunks_vectors").fetchone() == (True,)
        (database,) = [item for item in project.doctor() if item.part == "vector database pg"]
        assert database.status == "ok"
