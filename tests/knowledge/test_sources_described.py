"""Sources with `metadata`: what they add to passages, and what a change of it does again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lorebind import Project
from lorebind_config.declarations.path_fields import RESERVED_NAMES
from lorebind_config.errors import ConfigurationError
from lorebind_knowledge.records import SPANS
from lorebind_knowledge.text.values import typed

FROM_PATH = "docs/{team}/{year}/*.md"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("docs/it/2026/Laptops.MD", "docs/hr/2023/leave.md", "docs/readme.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        text = f"# About\n\nThe text of {name}.\n"
        front = "---\nteam: own\nlevel: 2\n---\n" if name == "docs/readme.md" else ""
        (tmp_path / name).write_text(front + text, encoding="utf-8")
    return tmp_path


def project(root: Path, metadata: Any = None, **source: Any) -> Project:
    declared = {"type": "markdown_glob", "path": "docs/**/*.md", **source}
    if metadata is not None:
        declared["metadata"] = metadata
    inline = {"id": "b.txt", "text": "Inline text.", "metadata": {"kind": "own"}}
    sources = [declared]
    if metadata is not None:
        about = {"static": {"kind": "note", "level": 1}}
        sources.append({"type": "inline", "documents": [inline], "metadata": about})
    kb = {"id": "docs", "sources": sources, "embedder": "words"}
    embedders = [{"id": "words", "provider": "hashing"}]
    return Project.build({"name": "p", "embedders": embedders, "knowledge_bases": [kb]}, root=root)


def values(loaded: Project, *names: str) -> dict[str, dict[str, Any]]:
    kb = loaded.knowledge_base("docs")
    by_uri = {info.uri: kb.chunks(info.uri)[0].metadata for info in kb.documents()}
    return {
        uri: {name: metadata[name] for name in names if name in metadata}
        for uri, metadata in by_uri.items()
    }


def test_values_and_filters(root: Path) -> None:
    """Fields of the path have types; a document's own source values win, front matter does not."""
    declared = {"static": {"level": 1, "tags": ["a", "b"]}, "from_path": FROM_PATH}
    with project(root, declared) as loaded:
        loaded.ingest("docs")
        assert values(loaded, "team", "year", "level", "kind") == {
            "docs/hr/2023/leave.md": {"team": "hr", "year": 2023, "level": 1},
            "docs/it/2026/Laptops.MD": {"team": "it", "year": 2026, "level": 1},
            "docs/readme.md": {"team": "own", "level": 1},
            "inline:b.txt": {"level": 1, "kind": "own"},
        }
        passages = loaded.query("docs", "text", filters={"year": {"$gte": 2024}, "tags": "b"})
        assert [match.metadata["uri"] for match in passages] == ["docs/it/2026/Laptops.MD"]


def test_changes(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change is seen in files that did not change; it embeds nothing and is done once."""
    monkeypatch.setattr("lorebind_knowledge.sources.folder.files._YOUNG_NS", 0)
    with project(root) as loaded:
        loaded.ingest("docs")
        assert loaded.ingest("docs").documents["unchanged"] == 3
    for declared, updated in (
        ({"from_path": FROM_PATH}, 2),  # the values of the third stay the same
        ({"from_path": "docs/{group}/**"}, 2),
        ({"static": {"group": "all"}}, 3),
    ):
        with project(root, declared) as loaded:
            assert loaded.plan("docs").documents["updated"] == updated
            report = loaded.ingest("docs")
            assert (report.documents["updated"], report.documents["removed"]) == (updated, 0)
            assert report.texts_embedded <= 1  # the inline text, in the first of these
            again = loaded.ingest("docs")
            assert (again.documents["updated"], again.texts_embedded) == (0, 0)
            group = values(loaded, "group")["docs/hr/2023/leave.md"].get("group")
    assert group == "all"


def test_no_match(root: Path) -> None:
    """A pattern that matches no document is named in the report."""
    with project(root, {"from_path": "doc/{team}/*.md"}) as loaded:
        notices = loaded.ingest("docs").sources[0].notices
    assert notices == ["from_path: doc/{team}/*.md matches the uri of no document"]


@pytest.mark.parametrize(
    ("pattern", "uri", "fields"),
    [
        ("a/{x}/*.md", "a/b/c/d.md", None),
        ("a/**/{x}.md", "a/b.md", {"x": "b"}),
        ("a/**/{x}.md", "a/b/c/d.md", {"x": "d"}),
        ("{x}/**", "a/b/c.md", {"x": "a"}),
        ("{x}-v{n}.md", "one-two-v12.md", {"x": "one-two", "n": 12}),
        ("a (b)/{x}.m?", "a (b)/ü 1.md", {"x": "ü 1"}),
        ("{{ .env.DOCS }}/{x}/*", "{{ .env.DOCS }}/it/a.md", {"x": "it"}),
        ("https://host/{x}/**", "https://host/v1/a?b=c", {"x": "v1"}),
        ("{title}/*", "2026/a.md", {"title": "2026"}),
        ("*{a}x*{b}y*{c}z", "x" * 5_000 + "/", None),
    ],
)
def test_patterns(root: Path, pattern: str, uri: str, fields: dict[str, Any] | None) -> None:
    """A field matches within one part of the path; hostile names take no time."""
    from lorebind_knowledge.sources.described import _reader_of

    assert (_reader_of(pattern)(uri) or None) == fields


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2026", 2026),
        ("007", "007"),
        ("1.10", "1.10"),
        ("-1", "-1"),
        ("true", True),
        ("True", "True"),
        ("٣", "٣"),
        ("9" * 19, "9" * 19),
        ("2026-11-23", "2026-11-23"),
    ],
)
def test_types(text: str, value: Any) -> None:
    assert typed(text) == value
    assert type(typed(text)) is type(value)


@pytest.mark.parametrize(
    ("metadata", "says"),
    [
        ({"from_path": "docs/*.md"}, "'docs/*.md' has no field in braces; write for example"),
        ({"from_path": "docs/{a,b}/{x}"}, "{a,b} lists alternatives; write '*' for a part"),
        ({"from_path": "docs/{my team}"}, "'my team' cannot be the name of a field"),
        ({"from_path": "docs/{page}.md"}, "passages have their own 'page', which citations use"),
        ({"from_path": "{x}/{x}"}, "has the field 'x' twice"),
        ({"from_path": "docs/{x"}, "has a brace without the other"),
        ({"static": {"uri": "a"}}, "passages have their own 'uri', which citations use"),
        ({"static": {"a": {"b": 1}}}, "metadata values are text, numbers, booleans, or lists"),
        ({"team": "it"}, "unknown key 'team'"),
    ],
)
def test_what_is_refused(root: Path, metadata: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        project(root, metadata)
    assert says in str(caught.value)


def test_reserved_names() -> None:
    assert {"uri", "kb_id", "heading", *SPANS} == {*RESERVED_NAMES}
