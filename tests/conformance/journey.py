"""The whole life of a knowledge base in one vector database, the same for all databases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lorebind import Project

_PAGES = {
    "keys.md": "# Keys\n\nRotate the keys in the console under security.\n",
    "billing.md": "# Billing\n\nInvoices are sent on the first of the month.\n",
    "setup.md": "# Setup\n\nInstall the package, then start the server.\n",
}


def build(root: Path, vector_db: dict[str, Any], **more: Any) -> Project:
    """Create a project with one knowledge base over `docs/` in a vector database."""
    declared = {
        "name": "journey",
        "embedders": [{"id": "words", "provider": "hashing"}],
        "vector_dbs": [{"id": "db", **vector_db}],
        "knowledge_bases": [
            {
                "id": "docs",
                "embedder": "words",
                "vector_db": "db",
                "sources": [{"type": "markdown_glob", "path": "docs/*.md"}],
                "chunking": {"strategy": "recursive_text_splitter", "size": 200, "overlap": 0},
                "retrieval": {"strategy": "similarity", "top_k": 3},
            }
        ],
    }
    return Project.build(declared, root=root, **more)


def travel(project: Project, root: Path) -> None:
    """Ingest, query, ingest again, edit, delete and rebuild; searches find what is in the files."""
    docs = root / "docs"
    docs.mkdir()
    for name, text in _PAGES.items():
        (docs / name).write_text(text, encoding="utf-8")

    report = project.ingest("docs")
    assert (report.status, report.documents["added"]) == ("completed", 3)
    assert _first(project, "How do I rotate keys?") == "keys.md"
    assert len(project.query("docs", "keys invoices package").matches) == 3

    report = project.ingest("docs")
    assert (report.documents["unchanged"], report.texts_embedded) == (3, 0)

    (docs / "keys.md").write_text("# Keys\n\nKeys are gone; passkeys replace them.\n", "utf-8")
    report = project.ingest("docs")
    assert (report.documents["updated"], report.documents["unchanged"]) == (1, 2)
    assert _first(project, "passkeys replace") == "keys.md"
    assert not any("Rotate" in match.text for match in project.query("docs", "rotate the keys"))

    (docs / "billing.md").unlink()
    report = project.ingest("docs")
    assert (report.documents["removed"], report.chunks["total"]) == (1, 2)
    assert not any("Invoices" in match.text for match in project.query("docs", "invoices month"))

    before = project.query("docs", "start the server").matches
    report = project.ingest("docs", strategy="replace")
    assert (report.status, report.texts_embedded) == ("completed", 0)
    assert project.query("docs", "start the server").matches == before


def _first(project: Project, question: str) -> str:
    return str(project.query("docs", question).matches[0].metadata["uri"]).rpartition("/")[2]
