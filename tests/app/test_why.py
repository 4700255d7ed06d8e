"""How far a document comes in a search, and the stage that loses it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lorebind import Project
from lorebind_config.errors import NotFoundError
from lorebind_knowledge.retrieval.explaining import highlights

QUESTION = "When can I return goods?"


@pytest.fixture
def project(tmp_path: Path) -> Any:
    pages = tmp_path / "pages"
    pages.mkdir()
    for name, text in {
        "returns.md": "---\nteam: shop\n---\nYou can return goods within 30 days.",
        "copy.md": "---\nteam: shop\n---\nYou can return goods within 30 days.",
        "shipping.md": "---\nteam: depot\n---\nShipping takes five working days.",
        "empty.md": "---\nteam: depot\n---\nQuokka.",
    }.items():
        (pages / name).write_text(text)
    (pages / "broken.pdf").write_bytes(b"no PDF")
    declared = {
        "name": "shop",
        "embedders": [{"id": "words", "provider": "hashing"}],
        "knowledge_bases": [
            {"id": "pages", "sources": [{"type": "file_glob", "path": "pages/*"}]},
        ],
    }
    with Project.build(declared, root=tmp_path) as project:
        project.ingest("pages")
        yield project


def lost(project: Project, document: str, **settings: Any) -> str | None:
    path = project.knowledge_base("pages").why(QUESTION, f"pages/{document}", **settings)
    result = project.query("pages", QUESTION, **settings)
    uris = [match.metadata["uri"] for match in result.matches]
    assert (path.lost_at is None) == (path.uri in uris)
    assert all(stage.passes for stage in path.stages) or path.lost_at
    assert path.uri in path.explanation
    return path.lost_at


def test_a_document_that_is_found_has_its_rank_at_each_stage(project: Project) -> None:
    path = project.knowledge_base("pages").why(QUESTION, "pages/returns.md")
    result = project.query("pages", QUESTION)
    (place,) = (at for at, match in enumerate(result.matches) if match.metadata["uri"] == path.uri)
    match = result.matches[place]
    ranks = {stage.stage: stage for stage in path.stages}
    assert ranks["top_k"].rank == place + 1
    for name, score in match.scores.items():
        assert ranks[name].score == score
    assert path.explanation == f"The search finds pages/returns.md, at rank {place + 1}."


@pytest.mark.parametrize("strategy", ["hybrid", "similarity", "lexical", "mmr"])
def test_each_stage_can_lose_a_document(project: Project, strategy: Any) -> None:
    settings = {"strategy": strategy}
    assert lost(project, "returns.md", **settings) in (None, "top_k")  # its copy may stay
    assert lost(project, "shipping.md", **settings, filters={"team": "shop"}) == "filters"
    assert lost(project, "broken.pdf", **settings) == "ingest"
    if strategy != "lexical":
        assert lost(project, "shipping.md", **settings, min_score=0.9) == "min_score"
    last = lost(project, "shipping.md", **settings, top_k=1)
    assert last in ("top_k", "mmr", "candidates")


def test_a_document_that_no_signal_finds_is_no_candidate(project: Project) -> None:
    assert lost(project, "empty.md", strategy="lexical") == "candidates"
    path = project.knowledge_base("pages").why(QUESTION, "pages/empty.md", strategy="lexical")
    own = {stage.stage: stage.score for stage in path.stages if stage.rank is None}
    assert own["lexical"] == 0.0
    with pytest.raises(NotFoundError, match=r"no document 'pages/nothing\.md'"):
        project.knowledge_base("pages").why(QUESTION, "pages/nothing.md")


def test_words_are_marked_in_any_form() -> None:
    text = "Returning goods: the returned good – İstanbul, ﬁne."
    spans = highlights("How do I return the goods?", text)
    assert [text[start:end] for start, end in spans] == ["Returning", "goods", "returned", "good"]
