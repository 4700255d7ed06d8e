"""Sidecars: the metadata of files in JSON files next to them, and what a change of these does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from lorebind import Project
from lorebind_config.errors import ConfigurationError
from lorebind_knowledge.sources.folder.sidecars import LIMIT

HANDBOOK, NOTES = "docs/handbook.md", "docs/notes.txt"
SIDECAR = "docs/handbook.md.meta.json"
ORPHANS = ("gone.md.meta.json", "gone.meta.json")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    front = "---\nteam: front\nlevel: 2\n---\n# Handbook\n\nWe begin at nine.\n"
    write(tmp_path, HANDBOOK, front)
    write(tmp_path, NOTES, "Nothing happens at ten.\n")
    return tmp_path


@pytest.fixture
def old(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let files count as old at once."""
    monkeypatch.setattr("lorebind_knowledge.sources.folder.files._YOUNG_NS", 0)


def write(root: Path, name: str, text: str | bytes) -> None:
    # Replaced, so that the inode differs even within one tick of the clock.
    (root / "new").write_bytes(text.encode() if isinstance(text, str) else text)
    (root / "new").replace(root / name)


def project(root: Path, pattern: str = "*.meta.json", more: Any = None, **source: Any) -> Project:
    metadata = {"sidecar": pattern, **(more or {})}
    declared = {"type": "file_glob", "path": "docs/**/*", "metadata": metadata, **source}
    kb = {"id": "docs", "sources": [declared], "embedder": "words"}
    embedders = [{"id": "words", "provider": "hashing"}]
    return Project.build({"name": "p", "embedders": embedders, "knowledge_bases": [kb]}, root=root)


def metadata_of(loaded: Project, uri: str) -> dict[str, Any]:
    (chunk,) = loaded.knowledge_base("docs").chunks(uri)
    return dict(chunk.metadata)


def test_values(root: Path) -> None:
    """They precede all other values of the source; a name with its extension precedes one without.

    The report names values that metadata cannot have. A sidecar itself is no document.
    """
    write(root, SIDECAR, '\ufeff{"team": "it", "since": "2026-01-01", "n": 1.5, "deep": {"a": 1}}')
    write(root, "docs/handbook.meta.json", '{"team": "other", "unused": true}')
    write(root, "docs/notes.meta.json", '{"title": "Minutes", "tags": ["a", "b"]}')
    write(root, "docs/gone.md.meta.json", "{}")
    more = {"static": {"team": "all", "level": 1}, "types": {"n": "string"}}
    with project(root, more=more) as loaded:
        report = loaded.ingest("docs")
        assert report.documents["added"] == 2
        handbook, notes = metadata_of(loaded, HANDBOOK), metadata_of(loaded, NOTES)
        since = {"since": {"$gte": "2025-12-31"}}
        passages = loaded.query("docs", "nine ten", filters=since).matches
    expected = {"team": "it", "level": 1, "since": "2026-01-01", "n": "1.5"}
    assert handbook.items() >= expected.items()
    assert not {"deep", "unused"} & handbook.keys()
    assert (notes["title"], notes["tags"], notes["team"]) == ("Minutes", ["a", "b"], "all")
    assert [match.metadata["uri"] for match in passages] == [HANDBOOK]
    assert any("omits 'deep'" in notice for notice in report.notices)
    skipped = [(item.uri, item.reason, item.setting) for item in report.sources[0].skipped]
    assert skipped == [
        ("docs/gone.md.meta.json", "sidecars", ""),
        ("docs/handbook.md.meta.json", "sidecars", ""),
        ("docs/handbook.meta.json", "sidecars", ""),
        ("docs/notes.meta.json", "sidecars", ""),
    ]


@pytest.mark.usefixtures("old")
@pytest.mark.parametrize("verify", ["stat", "content"])
@pytest.mark.parametrize("path", ["docs/**/*", "{{ .env.WHERE }}/*.md"])
def test_changes(root: Path, monkeypatch: pytest.MonkeyPatch, verify: str, path: str) -> None:
    """A new, changed or removed sidecar updates the metadata of its document and embeds nothing."""
    monkeypatch.setenv("WHERE", "docs")

    def remove() -> None:
        (root / SIDECAR).unlink()

    with project(root, verify=verify, path=path) as loaded:
        loaded.ingest("docs")
        (uri,) = (each.uri for each in loaded.documents("docs") if "handbook" in each.uri)
        for change, team in (
            (lambda: write(root, SIDECAR, '{"team": "it"}'), "it"),
            (lambda: write(root, SIDECAR, '{"team": "hr"}'), "hr"),
            (lambda: write(root, "docs/handbook.meta.json", '{"team": "us"}'), None),
            (remove, "us"),
            (lambda: (root / "docs/handbook.meta.json").unlink(), "front"),
        ):
            change()
            updated = int(team is not None)
            assert loaded.plan("docs").documents["updated"] == updated
            report = loaded.ingest("docs")
            assert (report.documents["updated"], report.texts_embedded) == (updated, 0)
            assert metadata_of(loaded, uri)["team"] == team or not updated


@pytest.mark.usefixtures("old")
def test_unchanged(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `stat`, neither a document nor its sidecar is read again."""
    write(root, SIDECAR, '{"team": "it"}')
    with project(root) as loaded:
        loaded.ingest("docs")
        monkeypatch.delattr("lorebind_knowledge.sources.folder.files.FileSource._data")
        assert loaded.ingest("docs").documents["unchanged"] == 2


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b'{"team": it}', "line 1, column 10: not JSON: Expecting value"),
        (b'["it"]', "expected an object of JSON, such as"),
        (b'{"team": "\xff"}', "is not UTF-8: invalid start byte at byte 10"),
        (b'{"a":' * 50_000, "is nested too deeply"),
        (b'{"n": ' + b"9" * 5_000 + b"}", "a number is too long"),
        (b" " * (LIMIT.size + 1), "is larger than 256 KiB; keep only metadata in it"),
        (b'{"page": 3}', "passages have their own 'page', which citations use; use another name"),
        (b'{"title": 3}', "the title is not text; write it in quotes"),
        ("link", "is a link to a location outside the project folder"),
        ("folder", "cannot be read: Is a directory"),
    ],
    ids=lambda value: str(value)[:12],
)
def test_what_cannot_be_read(root: Path, data: bytes | str, says: str) -> None:
    """Its document fails and stays as it was; the others are read."""
    with project(root) as loaded:
        write(root, SIDECAR, '{"team": "it"}')
        loaded.ingest("docs")
        (root / SIDECAR).unlink()
        if data == "link":
            (root / SIDECAR).symlink_to(os.devnull)
        elif data == "folder":
            (root / SIDECAR).mkdir()
        else:
            write(root, SIDECAR, data)
        write(root, NOTES, "Nothing happens at eleven.\n")
        report = loaded.ingest("docs")
        assert (report.documents["failed"], report.documents["updated"]) == (1, 1)
        assert f"{HANDBOOK}: its sidecar {SIDECAR}: " in report.failures[0].reason
        assert says in report.failures[0].reason
        assert metadata_of(loaded, HANDBOOK)["team"] == "it"


def test_no_sidecar(root: Path) -> None:
    with project(root, "*.about.json") as loaded:
        report = loaded.ingest("docs")
    assert report.sources[0].notices == ["sidecar: *.about.json is next to no document"]
    assert report.documents["added"] == 2


@pytest.mark.parametrize("path", ["docs/*.md", "{{ .env.WHERE }}/**/*"])
def test_orphans(root: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """Plan and report name the sidecars without a document, also if no pattern matches these."""
    monkeypatch.setenv("WHERE", "docs")
    for name in ("handbook", "handbook.md", "notes", "gone.md", "gone", "a.b"):
        write(root, f"docs/{name}.meta.json", "{}")
    (root / "docs/a").mkdir()
    (root / "docs/a.b.zip").touch()
    (root / "docs/loop").symlink_to("loop")
    start = "{{ .env.WHERE }}" if "{{" in path else "docs"
    notices = [f"sidecar: {start}/{name} is next to no document" for name in ORPHANS]
    with project(root, path=path) as loaded:
        assert loaded.plan("docs").sources[0].notices == notices
        assert loaded.ingest("docs").sources[0].notices == notices
        for number in range(30):
            write(root, f"docs/{number}.meta.json", "{}")
        assert (
            loaded.plan("docs").sources[0].notices[-1] == "sidecar: 12 more are next to no document"
        )


@pytest.mark.parametrize(
    ("pattern", "source", "says"),
    [
        *(
            (pattern, {}, f"{pattern!r} is not the name of a JSON file next to a document")
            for pattern in ("meta.json", "*.yaml", "*/*.json", "a*.json", "*{a,b}.json", "**.json")
        ),
        *(
            ("*.json", {"path": None, **source}, "only files of the project folder have a sidecar")
            for source in (
                {"type": "inline", "documents": [{"id": "a", "text": "b"}]},
                {"type": "url", "url": "https://example.com/a.md"},
                {"type": "media_transcript", "url": "https://example.com/a.vtt"},
                {"type": "cloud_storage", "provider": "file", "bucket": "b"},
            )
        ),
    ],
)
def test_what_is_refused(root: Path, pattern: str, source: dict[str, Any], says: str) -> None:
    declared = {"type": "file_glob", "path": "docs/*", **source}
    declared |= {"metadata": {"sidecar": pattern}}
    if declared["path"] is None:
        del declared["path"]
    kbs = [{"id": "docs", "sources": [declared]}]
    with pytest.raises(ConfigurationError) as caught:
        Project.build({"name": "p", "knowledge_bases": kbs}, root=root)
    (problem,) = caught.value.problems
    assert says in str(problem)
