"""`fields`: the keys of metadata with their types and values, in Python and on a server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lorebind import Project
from lorebind.plain_data import as_data, from_data
from lorebind_knowledge.documents.fields import FieldValue, MetadataField

NAMES = [f"name {number:02}" for number in range(25)]


@pytest.fixture
def project(tmp_path: Path) -> Any:
    kb = {"id": "docs", "embedder": "words"}
    declared = {
        "name": "p",
        "embedders": [{"id": "words", "provider": "hashing"}],
        "knowledge_bases": [kb],
    }
    with Project.build(declared, root=tmp_path) as project:
        yield project


def add(project: Project, *documents: dict[str, Any]) -> dict[str, MetadataField]:
    kb = project.knowledge_base("docs")
    kb.add_documents(
        {"id": str(number), "text": f"Text {number}. " * 200, "metadata": metadata}
        for number, metadata in enumerate(documents)
    )
    return {field.key: field for field in kb.fields()}


def test_types_values_and_counts(project: Project) -> None:
    """Documents are counted, not their passages, and 1, 1.0 and true are what filters compare."""
    fields = add(
        project,
        {"team": "it", "tags": ["a", "b", "a"], "n": 1, "on": "2026-01-01", "bool": True},
        {"team": "it", "tags": "a", "n": 1.0, "on": "2026-01-01T10:00:00Z", "bool": 1},
        {"team": "hr", "on": "2026-01-01 or so"},
        {},
    )
    assert list(fields) == ["bool", "n", "on", "tags", "team"]
    assert fields["team"] == MetadataField(
        "team", ["string"], 3, [FieldValue("it", 2), FieldValue("hr", 1)]
    )
    assert fields["tags"] == MetadataField(
        "tags", ["list", "string"], 2, [FieldValue("a", 2), FieldValue("b", 1)]
    )
    assert (fields["n"].types, fields["n"].values) == (["number"], [FieldValue(1, 2)])
    assert fields["on"].types == ["date", "string"]
    assert fields["bool"].types == ["boolean", "number"]
    values = [(type(entry.value), entry.count) for entry in fields["bool"].values]
    assert values == [(int, 1), (bool, 1)]
    assert from_data(list[MetadataField], as_data(list(fields.values()))) == [*fields.values()]


def test_many_and_hostile_values(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The most frequent values are listed, long ones cut; keys and values have limits."""
    monkeypatch.setattr("lorebind_knowledge.documents.fields._MOST_FIELDS", 2)
    fields = add(
        project,
        {"names": NAMES, "long": "x" * 1_000},
        {"names": NAMES[-1], "long": "\x1b[31m\n", "more": 1},
    )
    assert fields.keys() == {"long", "names"}
    values = fields["names"].values
    assert len(values) == 20
    assert values[:2] == [FieldValue(NAMES[-1], 2), FieldValue(NAMES[0], 1)]
    assert {entry.value for entry in fields["long"].values} == {"x" * 200, " [31m\n"}
    json.dumps(as_data(list(fields.values())))


def test_nothing_ingested(project: Project) -> None:
    assert project.knowledge_base("docs").fields() == []
