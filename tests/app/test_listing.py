"""`documents`: format, size, times and metadata of documents, and how they are selected."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lorebind import Project, UsageError
from lorebind_knowledge.documents.changing import keep_documents
from lorebind_knowledge.plumbing.bridge import finish
from tests.bindings.helpers import write

from .helpers import Cli

FILES = {
    "docs/Ärger.md": "---\nteam: it\nyear: 2026\n---\n# Trouble\n\nText of it.\n",
    "docs/b_1.html": "<title>The 100% page</title><h1>Pages</h1><p>Text of a page.",
    "docs/broken.pdf": "no PDF",
    "docs/c.txt": "Text.",
}
YAML = """
name: p
embedders: [{ id: words, provider: hashing }]
knowledge_bases:
  - id: docs
    embedder: words
    metadata: { audience: staff }
    sources: [{ type: file_glob, path: "docs/*" }]
"""
ADDED = {"id": "d.md", "text": "# Added\n\nText.", "metadata": {"team": "hr", "page": 7}}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("listing")


@pytest.fixture(scope="module")
def project(root: Path) -> Iterator[Project]:
    write(root, {"lorebind.yaml": YAML, **FILES})
    os.utime(root / "docs/c.txt", (1_700_000_000, 1_700_000_000))
    with Project.load(root) as project:
        project.add_documents("docs", [ADDED])
        project.ingest("docs")
        yield project


def test_details(project: Project) -> None:
    """Each document has what its last ingest has read; a failed one has nothing of it."""
    by_uri = {info.uri: info for info in project.documents("docs")}
    page, text = by_uri["docs/b_1.html"], by_uri["docs/c.txt"]
    assert (page.format, page.size) == ("html", len(FILES["docs/b_1.html"]))
    assert (text.format, text.modified) == ("text", "2023-11-14T22:13:20Z")
    assert abs(text.updated_at - time.time()) < 600
    assert dict(text.metadata) == {"audience": "staff"}
    assert by_uri["docs/Ärger.md"].metadata == {"team": "it", "year": 2026, "audience": "staff"}
    assert by_uri["added:d.md"].metadata == {"team": "hr", "audience": "staff"}
    failed = by_uri["docs/broken.pdf"]
    assert (failed.format, failed.size, failed.metadata) == ("", 0, {})
    assert project.knowledge_base("docs").document("docs/Ärger.md") == by_uri["docs/Ärger.md"]


@pytest.mark.parametrize(
    ("options", "uris"),
    [
        ({"q": "ärg"}, ["docs/Ärger.md"]),
        ({"q": "TROUBLE"}, ["docs/Ärger.md"]),
        ({"q": "B_"}, ["docs/b_1.html"]),
        ({"q": "0% p"}, ["docs/b_1.html"]),
        ({"q": "0%p"}, []),
        ({"q": "!"}, []),
        ({"format": "markdown"}, ["added:d.md", "docs/Ärger.md"]),
        ({"format": "markdown", "q": "added"}, ["added:d.md"]),
        ({"format": "docx"}, []),
        ({"filters": {"team": ["it", "hr"]}}, ["added:d.md", "docs/Ärger.md"]),
        ({"filters": {"audience": "staff"}, "limit": 2}, ["added:d.md", "docs/b_1.html"]),
        ({"filters": {"audience": "staff"}, "limit": 1, "after": "added:d.md"}, ["docs/b_1.html"]),
        ({"filters": {"audience": "staff"}, "limit": 1, "before": "docs/c.txt"}, ["docs/b_1.html"]),
        ({"filters": {"audience": "staff"}, "state": "failed"}, []),
        ({"filters": {"uri": "docs/c.txt"}, "q": "c."}, ["docs/c.txt"]),
    ],
    ids=str,
)
def test_selections(project: Project, options: dict[str, Any], uris: list[str]) -> None:
    assert [info.uri for info in project.documents("docs", **options)] == uris


def test_pages_of_a_filter(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few documents pass, a page has as many as there are, forwards and backwards."""
    monkeypatch.setattr("lorebind_knowledge.documents.listing._PAGE", 1)
    where = {"filters": {"$not": {"team": "hr"}}}
    names = [info.uri for info in project.documents("docs", **where)]
    assert names == ["docs/b_1.html", "docs/c.txt", "docs/Ärger.md"]
    last = project.documents("docs", **where, limit=2, before="docs/Ärger.md")
    assert [info.uri for info in last] == names[:2]


def test_added_documents_before_an_ingest(tmp_path: Path) -> None:
    """A document that waits for its ingest has a uri only."""
    write(tmp_path, {"lorebind.yaml": YAML, **FILES})
    with Project.load(tmp_path) as project:
        finish(keep_documents(project.knowledge_base("docs").handle.kb, [ADDED]))
        waiting = project.documents("docs", q="D.M")
        assert [(info.uri, info.state, info.updated_at) for info in waiting] == [
            ("added:d.md", "pending", 0.0)
        ]
        assert project.documents("docs", q="x") == project.documents("docs", format="text") == []


def test_failures_of_a_rebuild(tmp_path: Path) -> None:
    """They are selected by what is listed: the title and the format that searches find."""
    write(tmp_path, {"lorebind.yaml": YAML, **FILES})
    with Project.load(tmp_path) as project:
        project.ingest("docs")
        (before,) = project.documents("docs", q="trouble")
        (tmp_path / before.uri).write_bytes(b"\0\xff")
        os.utime(tmp_path / before.uri, (1_700_000_000, 1_700_000_000))
        project.ingest("docs", strategy="replace")
        (after,) = project.documents("docs", q="trouble", format="markdown")
        assert (after.state, after.modified) == ("failed", before.modified)


def test_malformed_filters(project: Project) -> None:
    with pytest.raises(UsageError, match=r"\$in takes a list"):
        project.documents("docs", filters={"a": {"$in": 1}})


def test_command(root: Path, project: Project, cli: Cli) -> None:
    """`--long` has columns for all of it; without it, the table stays narrow."""
    command = ("knowledge", "documents", "docs", "-p", str(root))
    assert "size" not in cli(*command).out
    text = cli(*command, "--long", "--filter", "team=it").out
    for part in ("format", "size", "modified", "updated", "metadata", "markdown", "team=it"):
        assert part in text
    listed = json.loads(cli(*command, "-q", "c.t", "-o", "json").out)["documents"]
    assert [info["metadata"] for info in listed] == [{"audience": "staff"}]
