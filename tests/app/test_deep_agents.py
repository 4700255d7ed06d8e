"""Knowledge bases as the file system of an agent of `deepagents`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage

from lorebind import Project
from tests.bindings.helpers import PARTS, Agentic, write

from .shop import shop

deepagents = pytest.importorskip("deepagents")

FILES = {
    "lorebind.yaml": f"""\
name: notes
{PARTS}
knowledge_bases:
  - id: notes
    sources: [{{ type: markdown_glob, path: "notes/**/*.md" }}]
""",
    "notes/a.md": "---\nauthor: Ann\n---\n# Notes\n\nKeys are rotated.\n",
    "notes/deep/b.md": "# Deep\n\nkeys and Keys.\n",
}


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[Any]:
    with Project.load(write(tmp_path, FILES), environ={}) as project:
        project.ingest("notes")
        project.add_documents("notes", [{"id": "a//b", "text": "Odd."}])
        yield project.at("notes").backend()


def paths(found: list[Any]) -> list[str]:
    return [entry["path"] for entry in found]


def test_folders_and_files(backend: Any) -> None:
    """A document is a file below its knowledge base; its uri is the path."""
    assert backend.ls("/").entries == [{"path": "/notes", "is_dir": True}]
    listed = backend.ls("/notes").entries
    assert listed == [
        {"path": "/notes/added:a", "is_dir": True},
        {"path": "/notes/notes", "is_dir": True},
    ]
    assert paths(backend.ls("/notes/notes/").entries) == ["/notes/notes/a.md", "/notes/notes/deep"]
    assert "there is no folder /note; did you mean 'notes'" in backend.ls("/note").error
    assert backend.ls("/notes/nothing").entries == []


def test_lines_keep_their_numbers(backend: Any) -> None:
    """Lines without a chunk are marked, one by one."""
    read = backend.read("/notes/notes/a.md")
    lines = read.file_data["content"].split("\n")
    assert lines[2:] == ["(this line is not in the index)", "# Notes", "", "Keys are rotated."]
    assert (read.start_line, read.end_line, read.total_lines, read.next_offset) == (1, 6, 6, None)
    part = backend.read("/notes/notes/a.md", offset=3, limit=1)
    assert (part.file_data["content"], part.next_offset) == ("# Notes", 4)
    assert backend.read("/notes/added:a/b").file_data["content"] == "Odd."
    assert backend.read("/notes/notes/a.md", limit=0).no_lines_requested
    assert "has lines 1-6" in backend.read("/notes/notes/a.md", offset=99).error
    assert "there is no file" in backend.read("/notes/x.md").error
    assert asyncio.run(backend.aread("/notes/notes/a.md")) == read


def test_text_is_found_as_it_is_written(backend: Any) -> None:
    """`grep` distinguishes upper and lower case, and takes a folder and a pattern of files."""
    assert [(match["path"], match["line"]) for match in backend.grep("Keys").matches] == [
        ("/notes/notes/a.md", 6),
        ("/notes/notes/deep/b.md", 3),
    ]
    assert len(backend.grep("keys").matches) == 1
    assert len(backend.grep("Keys", "/notes/notes/deep").matches) == 1
    assert len(backend.grep("Keys", glob="a.*").matches) == 1
    assert len(backend.grep("Keys", "/notes/notes/a.md").matches) == 1
    cut = backend.grep("Keys", max_count=1)
    assert (len(cut.matches), cut.truncated) == (1, True)
    assert "traversal" in backend.grep("Keys", glob="../*").error


def test_paths_match_patterns(backend: Any) -> None:
    """`glob` has the rules that all backends share."""
    assert paths(backend.glob("*.md").matches) == ["/notes/notes/a.md", "/notes/notes/deep/b.md"]
    assert paths(backend.glob("*/*.md", "/notes/notes").matches) == ["/notes/notes/deep/b.md"]


def test_nothing_is_written(backend: Any) -> None:
    """The model learns that it has to write elsewhere."""
    for result in (backend.write("/x", ""), backend.edit("/x", "a", "b"), backend.delete("/x")):
        assert "read-only" in result.error


def test_a_filter_hides_files(tmp_path: Path) -> None:
    """The files are what the filter of the binding lets pass."""
    with shop(tmp_path, guide=", filters: { uri: guide/keys.md }") as project:
        backend = project.at().backend()
        assert paths(backend.glob("*.md").matches) == ["/guide/guide/keys.md"]
        assert "there is no file" in backend.read("/guide/guide/old.md").error
        assert not backend.grep("Old").matches


def test_a_deep_agent_reads(tmp_path: Path) -> None:
    """The tools of an agent list, find and read the documents."""
    asks = [
        {"name": "ls", "args": {"path": "/guide/guide"}, "id": "1"},
        {"name": "grep", "args": {"pattern": "leak", "output_mode": "content"}, "id": "2"},
        {"name": "read_file", "args": {"file_path": "/guide/guide/old.md"}, "id": "3"},
        {"name": "write_file", "args": {"file_path": "/guide/x.md", "content": "x"}, "id": "4"},
    ]
    model = Agentic(says=[AIMessage("", tool_calls=asks), AIMessage("Done.")])
    with shop(tmp_path) as project:
        agent = deepagents.create_deep_agent(model=model, backend=project.at("guide").backend())
        result = agent.invoke({"messages": [("user", "What about leaks?")]})
    replies = [
        str(message.content) for message in result["messages"] if isinstance(message, ToolMessage)
    ]
    assert "/guide/guide/keys.md" in replies[0]
    assert "/guide/guide/old.md" in replies[1]
    assert "Old keys are to be rotated at once" in replies[2]
    assert "read-only" in replies[3]
