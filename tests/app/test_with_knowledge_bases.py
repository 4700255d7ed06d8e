"""Knowledge bases that are added to a project while it is in use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lorebind import ConfigurationError, NotFoundError, Project, tenant

DECLARED: dict[str, Any] = {
    "name": "shop",
    "embedders": [{"id": "words", "provider": "hashing"}],
    "knowledge_bases": [
        {
            "id": "handbook",
            "sources": [
                {"type": "inline", "documents": [{"id": "a", "text": "Returns: 30 days."}]}
            ],
        }
    ],
}


def inline(kb_id: str, text: str, **more: Any) -> dict[str, Any]:
    documents = [{"id": "b", "text": text}]
    return {"id": kb_id, "sources": [{"type": "inline", "documents": documents}], **more}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.build(DECLARED, root=tmp_path)


def test_both_share_what_is_open(project: Project) -> None:
    with project:
        project.ingest("handbook")
        more = project.with_knowledge_bases([inline("tours", "Tours leave at nine.")])
        more.ingest("tours")

        assert [hit.text for hit in more.query("tours", "tours")] == ["Tours leave at nine."]
        assert [hit.text for hit in more.query("handbook", "returns")] == ["Returns: 30 days."]
        assert more.knowledge.index() is project.knowledge.index()
        with pytest.raises(NotFoundError, match="no knowledge base 'tours'"):
            project.query("tours", "tours")


def test_another_view_finds_what_was_ingested(project: Project) -> None:
    tours = inline("tours", "Tours leave at nine.")
    with project:
        project.with_knowledge_bases([tours]).ingest("tours")
        assert len(project.with_knowledge_bases([tours]).query("tours", "tours")) == 1
        with tenant("other"), pytest.raises(NotFoundError, match="nothing has been ingested"):
            project.with_knowledge_bases([tours]).query("tours", "tours")


def test_one_that_is_declared_anew_is_ingested_anew(project: Project) -> None:
    with project:
        for text in ("Tours leave at nine.", "Tours leave at ten."):
            declared = inline("tours", text, ingest="on_start")
            hits = project.with_knowledge_bases([declared]).query("tours", "tours")
            assert [hit.text for hit in hits] == [text]


@pytest.mark.parametrize(
    ("wrong", "pointer", "message"),
    [
        (inline("handbook", "x"), "/id", "knowledge base id 'handbook' is used twice"),
        (inline("new", ""), "/sources/0/documents/0/text", "text is empty"),
        (inline("new", "x", embedder="nope"), "/embedder", "uses unknown embedder 'nope'"),
        (inline("new", "x", vector_db="nope"), "/vector_db", "uses unknown vector database"),
        (inline("new", "x", retrieval={"top_k": 99}), "/retrieval/top_k", "top_k is 99"),
        (inline("new", "x", **{"a/b~": 1}), "/a~1b~0", "unknown key 'a/b~'"),
    ],
)
def test_what_is_wrong_is_pointed_at(
    project: Project, wrong: dict[str, Any], pointer: str, message: str
) -> None:
    with pytest.raises(ConfigurationError) as error:
        project.with_knowledge_bases([wrong])
    assert [problem.file for problem in error.value.problems] == [pointer]
    assert message in error.value.problems[0].message
