"""The metadata of passages: declared types, and limits that hostile metadata meets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lorebind import Project
from lorebind_config.declarations.sources import SourceMetadata
from lorebind_knowledge.ingest.metadata import (
    MOST_CHARACTERS,
    MOST_KEYS,
    bounded_metadata,
    converted,
    merged_metadata,
)
from lorebind_knowledge.loaders.base import LoadedDocument
from lorebind_knowledge.sources.base import Content
from lorebind_prompts import label

HOSTILE: dict[str, Any] = {
    **{f"key {number}": number for number in range(10_000)},
    "huge": "x" * 1_000_000,
    "list": list(range(10_000)),
    "nested": {"a": {"b": {}}},
    "nested list": [[[1]]],
    "number": 2**70,
    "k" * 5_000: 1,
    "\x1b[31mred\n\x00": "a\x1b]0;title\x07b\ud800",
    "": "empty",
    "page": {"a": 1},
    "time_start": [1, 2],
    "locator": "slide 4\n\x1b[2J" * 1000,
    "uri": "elsewhere",
    "kb_id": "other",
    "heading": 7,
    "$in": "an operator",
    "a.b": "a dot",
    "'; drop table chunks; --": "quotes",
}


def about(
    of_source: dict[str, Any],
    types: dict[str, Any] | None = None,
    in_document: dict[str, Any] | None = None,
    **of_all: Any,
) -> tuple[dict[str, Any], str]:
    declared = SourceMetadata(types=types) if types else None
    document = LoadedDocument("text", "title", metadata=in_document or {"own": 1})
    content = Content(b"", metadata=of_source, declared=declared)
    return bounded_metadata(merged_metadata(document, content, of_all), declared)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("string", 7, "7"),
        ("string", True, "true"),
        ("string", "2026-01-01T10:00+01:00", "2026-01-01T10:00+01:00"),
        ("string", [1, "a"], ["1", "a"]),
        ("number", "7", 7),
        ("number", " -1.50 ", -1.5),
        ("number", True, None),
        ("number", "1e999", None),
        ("number", "٣", None),
        ("number", ["1", "x"], None),
        ("boolean", "Yes", True),
        ("boolean", 1, None),
        ("date", "Mon, 23 Nov 2026 10:00:00 +0100", "2026-11-23T09:00:00Z"),
        ("date", ["2026-11-23", "soon"], None),
        ("date", 20261123, None),
        ("list", "a, b; c,,", ["a", "b", "c"]),
        ("list", 7, [7]),
        ("list", ["2026-01-01 00:00"], ["2026-01-01T00:00:00Z"]),
    ],
)
def test_declared_types(kind: str, value: Any, expected: Any) -> None:
    """A value becomes the declared type; one that cannot is omitted, and a notice says so."""
    assert converted(value, kind) == expected
    values, notice = about({"key": value}, {"key": kind})
    assert values.get("key") == expected
    assert type(values.get("key")) is type(expected)
    assert notice == ("" if expected is not None else f"omits 'key': cannot be read as {kind}")


def test_inferred_types() -> None:
    """A text in the form of a date is a date in UTC; other values stay as they are."""
    written = {
        "on": "2026-01-01 10:00+02:00",
        "days": ["2026-01-01", "x"],
        "n": 1,
        "version": "1.10",
    }
    values, notice = about(written, kb="all")
    on = "2026-01-01T08:00:00Z"
    assert (values, notice) == ({"own": 1, **written, "on": on, "kb": "all"}, "")


def test_too_much() -> None:
    """The document's own keys are omitted first, and the notice is short."""
    in_document = {"team": "all", "level": 0, **HOSTILE}
    values, notice = about({"level": 2, "own": 1}, in_document=in_document, team="it")
    assert list(values.items())[-3:] == [("level", 2), ("own", 1), ("team", "it")]
    assert len(values) == MOST_KEYS
    assert not {"uri", "kb_id", "heading"} & values.keys()
    assert len(notice) < 1_000
    assert notice.startswith("omits ")
    assert f"more than {MOST_KEYS} keys" in notice
    long = {f"k{number}": "x" * 1_900 for number in range(50)}
    values, notice = about(long)
    assert len(json.dumps(values)) <= MOST_CHARACTERS + 1_000
    assert "more than 20,000 characters in all" in notice


@pytest.mark.parametrize("declared", ["it", ["nested", ["list"]]])
def test_equal_names(declared: Any) -> None:
    """A document replaces no declared value, whatever spaces are around its key."""
    in_document = {" team": "all", "team\t": "all", "uri ": "elsewhere", "\x01kb_id": "other"}
    values, notice = about({"team": declared}, in_document=in_document)
    assert values == ({"team": "it"} if declared == "it" else {})
    assert ("'team'" in notice) is (declared != "it")


def test_hostile_metadata(tmp_path: Path) -> None:
    """It breaks no ingest, citation, list of fields or filter, and the report names it."""
    front = "\n".join(f"k{number}: {number}" for number in range(5_000))
    (tmp_path / "a.md").write_text(f"---\n{front}\nbig: {'x' * 3000}\n---\n# A\n\nA text.\n")
    declared = {
        "name": "p",
        "embedders": [{"id": "words", "provider": "hashing"}],
        "knowledge_bases": [
            {"id": "docs", "embedder": "words", "sources": [{"type": "file_glob", "path": "*.md"}]}
        ],
    }
    with Project.build(declared, root=tmp_path) as project:
        kb = project.knowledge_base("docs")
        report = kb.ingest()
        (notice,) = report.notices
        assert notice.startswith("the metadata of a.md omits 'big'")
        added = kb.add_documents([{"id": "b", "text": "A text too.", "metadata": HOSTILE}])
        assert any("the metadata of added:b omits" in notice for notice in added.notices)
        matches = kb.query("text", filters={"uri": "added:b"}).matches
        assert [label(match.metadata) for match in matches] == ["added:b, line 1"]
        fields = {field.key for field in kb.fields()}
        assert "a.b" in fields
        assert not {field for field in fields if not field.isprintable()}
        for where in ({"a.b": "a dot"}, {"'; drop table chunks; --": "quotes"}):
            assert len(kb.query("text", filters=where)) == 1


def test_metadata_of_the_knowledge_base(tmp_path: Path) -> None:
    """It precedes that of rows, dates in it are stored in UTC, and there are few notices."""
    for number in range(30):
        (tmp_path / f"{number}.csv").write_text("text,team,big\n" + f"One,x,{'x' * 3000}\n" * 2)
    source = {
        "type": "file_glob",
        "path": "*.csv",
        "metadata": {"text_columns": ["text"], "metadata_columns": ["team", "big"]},
    }
    kb = {
        "id": "docs",
        "embedder": "words",
        "sources": [source],
        "metadata": {"team": "it", "on": "2026-01-01T10:00:00+02:00"},
    }
    declared = {
        "name": "p",
        "embedders": [{"id": "words", "provider": "hashing"}],
        "knowledge_bases": [kb],
    }
    with Project.build(declared, root=tmp_path) as project:
        docs = project.knowledge_base("docs")
        report = docs.ingest()
        assert len(report.notices) == 21
        more = "metadata of 10 more documents is omitted for such reasons"
        assert report.notices[-1] == more
        (match,) = docs.query("One", top_k=1, strategy="lexical").matches
        assert (match.metadata["team"], match.metadata["on"]) == ("it", "2026-01-01T08:00:00Z")
