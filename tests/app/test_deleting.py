"""Delete the added documents whose metadata passes a filter."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lorebind import Project, UsageError
from lorebind_knowledge.documents.changing import keep_documents
from tests.bindings.helpers import write

from .helpers import Cli

FILES = {"docs/old.md": "---\nteam: old\n---\n# Old\n\nA page of the old team.\n"}
DECLARED = """\
name: shop
embedders: [{ id: words, provider: hashing }]
knowledge_bases:
  - id: docs
    embedder: words
    chunking: { size: 64, overlap: 0 }
    sources: [{ type: markdown_glob, path: "docs/*.md" }]
"""


def added(name: str, team: str, text: str = "A short note.") -> dict[str, Any]:
    return {"id": name, "text": text, "metadata": {"team": team}}


@pytest.fixture
def project(tmp_path: Path, vector_db: dict[str, Any]) -> Iterator[Project]:
    kb = {
        "id": "docs",
        "embedder": "words",
        "chunking": {"size": 64, "overlap": 0},
        "sources": [{"type": "markdown_glob", "path": "docs/*.md"}],
    }
    declared = {
        "name": "shop",
        "embedders": [{"id": "words", "provider": "hashing"}],
        "vector_dbs": [{"id": "here", **vector_db}],
        "knowledge_bases": [kb],
    }
    with Project.build(declared, root=write(tmp_path, FILES)) as built:
        built.ingest("docs")
        yield built


def uris(project: Project) -> list[str]:
    return [document.uri for document in project.documents("docs")]


async def test_delete_by_filter(project: Project) -> None:
    """Added documents that pass go for good, also pending ones; those of sources are named."""
    kb = project.knowledge_base("docs")
    long = "# One\n\nThe first section is here.\n\n# Two\n\nThe second section is there."
    names = [f"{number}.md" for number in range(150)]
    await kb.aadd_documents([added(name, "old", f"Note {name}.") for name in names])
    await kb.aadd_documents([added("new.md", "new"), added("long.md", "new", long)])
    await keep_documents(kb.handle.kb, [added("pending.md", "old"), added("later.md", "new")])
    before = [document.uri for document in await kb.adocuments()]
    plan = await kb.adelete_documents({"team": "old"}, dry_run=True)
    gone = {f"added:{name}" for name in [*names, "pending.md"]}
    assert ({document.uri for document in plan.documents}, plan.dry_run) == (gone, True)
    assert [document.uri for document in await kb.adocuments()] == before
    done = await kb.adelete_documents({"team": "old"})
    assert (done.documents, done.of_sources, done.partly) == (plan.documents, plan.of_sources, [])
    [of_source] = done.of_sources
    assert of_source.uri == "docs/old.md"
    assert of_source.excluded_by == (
        "add it to `exclude` of the source markdown_glob:docs/*.md, and ingest again"
    )
    left = ["added:later.md", "added:long.md", "added:new.md", "docs/old.md"]
    assert [document.uri for document in await kb.adocuments()] == left
    await kb.aingest()
    assert [document.uri for document in await kb.adocuments()] == left
    partly = await kb.adelete_documents({"heading": "One"})
    assert ([info.uri for info in partly.partly], partly.documents) == (["added:long.md"], [])
    assert (await kb.adelete_documents({"team": "none"})).documents == []
    for filters, why in (({}, "is empty"), ({"team": {"$near": 1}}, "near")):
        with pytest.raises(UsageError, match=why):
            await kb.adelete_documents(filters)
    assert [document.uri for document in await kb.adocuments()] == left


def test_on_the_command_line(empty_cli: Cli) -> None:
    """`--dry-run` lists, `--yes` deletes, and without a terminal nothing is deleted unasked."""
    more = {f"docs/{number}.md": "---\nteam: it\n---\nA page.\n" for number in range(7)}
    empty_cli.write({**FILES, **more, "lorebind.yaml": DECLARED})
    with Project.load(empty_cli.root) as project:
        project.ingest("docs")
        project.add_documents("docs", [added("a.md", "old"), added("b.md", "new", "Another.")])
    delete = ("knowledge", "delete", "docs", "--filter", "team=old")
    listed = empty_cli(*delete, "--dry-run")
    assert "added:a.md" in listed.out
    assert "would delete 1 document of docs" in listed.out
    assert "docs/old.md is of a source: add it to `exclude`" in listed.out
    of_source = empty_cli(*delete[:-1], "team=it", "--dry-run").out
    names = ", ".join(list(more)[:5])
    assert f"note: {names} and 2 more are of a source; for each: add it to" in of_source
    refused = empty_cli(*delete)
    assert (refused.code, "confirm with --yes" in refused.err) == (2, True)
    data = json.loads(empty_cli(*delete, "--yes", "-o", "json").out)
    assert [document["uri"] for document in data["documents"]] == ["added:a.md"]
    assert "deleted 0 documents" in empty_cli(*delete).out
    for wrong in (("a.md", "--filter", "team=old"), ("--dry-run",), ("--filter", "team")):
        assert empty_cli("knowledge", "delete", "docs", *wrong).code == 2
    with Project.load(empty_cli.root) as project:
        assert uris(project) == ["added:b.md", *more, "docs/old.md"]
