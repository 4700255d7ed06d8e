"""`stages`: further searches while too little is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lorebind_config.declarations.retrieval import RetrievalDeclaration, WeakLevels
from lorebind_config.errors import ConfigurationError, UsageError
from lorebind_config.reading.loading import build_project
from lorebind_knowledge.retrieval.search import search

from .bench import Bench, paragraph

WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")
ONLY_ALPHA = {"uri": "docs/alpha.md"}


async def filled(bench: Bench) -> Bench:
    for word in WORDS:
        bench.write(f"{word}.md", paragraph(word))
    await bench.ingest()
    bench.embedder.forget()
    return bench


async def test_the_first_that_finds_enough(bench: Bench) -> None:
    """Stages are tried in order; the result says which one found it, with which strategy."""
    await filled(bench)
    stages: list[dict[str, Any]] = [
        {"filters": {"uri": ["docs/alpha.md", "docs/beta.md"]}},
        {"filters": {}, "strategy": "similarity"},
        {"filters": {}, "strategy": "lexical"},
    ]
    query: dict[str, Any] = {"filters": ONLY_ALPHA, "min_score": 0, "stages": stages}
    for least, stage, strategy, count in [
        (1, 0, "hybrid", 1),
        (2, 1, "hybrid", 2),
        (3, 2, "similarity", 5),
    ]:
        result = await bench.ask("alpha", min_results=least, **query)
        assert (result.stage, result.strategy, len(result)) == (stage, strategy, count)
    assert bench.diary.data("retrieval_completed")[-1]["stage"] == 2


async def test_a_stage_is_the_search_it_describes(bench: Bench) -> None:
    """A stage returns the same scores and order as a search with the same settings."""
    await filled(bench)
    stages = [{"filters": {}, "min_score": None, "strategy": "lexical"}]
    staged = await bench.ask("alpha words", filters={"uri": "none"}, min_score=0.9, stages=stages)
    alone = await bench.ask("alpha words", strategy="lexical")
    assert staged.matches == alone.matches
    assert staged.stage == 1


async def test_the_question_is_embedded_once(bench: Bench) -> None:
    """The question is embedded once for any number of stages."""
    await filled(bench)
    stages = [{"filters": {"uri": str(number)}} for number in range(5)]
    result = await bench.ask("alpha", filters={"uri": "none"}, stages=stages)
    assert (result.matches, bench.embedder.questions) == ([], ["alpha"])


async def test_none_finds_enough(bench: Bench) -> None:
    """If no stage finds enough, the longest result, the first of equals, is returned as a miss."""
    await filled(bench)
    stages = [
        {"filters": {"uri": "none"}},
        {"filters": {"uri": ["docs/alpha.md", "docs/beta.md"]}},
        {"filters": {"uri": ["docs/beta.md", "docs/gamma.md"]}},
    ]
    settings = RetrievalDeclaration.model_validate(
        {"filters": ONLY_ALPHA, "min_results": 4, "stages": stages}
    )
    result = await bench.ask(
        "alpha", **{name: getattr(settings, name) for name in ("filters", "min_results", "stages")}
    )
    assert (result.stage, len(result)) == (2, 2)
    assert (result.verdict, result.shortfall[:10]) == ("miss", "2 passages")


@pytest.mark.parametrize(("weak_below", "stage"), [(0.1, 0), (0.99, 1), (None, 0)])
async def test_what_is_not_likely_to_answer(
    bench: Bench, weak_below: float | None, stage: int
) -> None:
    """Enough passages of which none is near do not suffice."""
    await filled(bench)
    bench.change(weak_levels=WeakLevels(weak_below))
    settings = RetrievalDeclaration.model_validate({"stages": [{"min_score_on": "fused"}]})
    result = await bench.ask("alpha and words", stages=settings.stages)
    assert result.stage == stage
    assert (result.verdict, result.shortfall) == ("hit", "")


@pytest.mark.parametrize("strategy", ["similarity", "hybrid", "mmr"])
async def test_fewer_are_the_first_of_more(bench: Bench, strategy: str) -> None:
    """`top_k` only cuts the result, and does not change which stage is used."""
    await filled(bench)
    settings: dict[str, Any] = {
        "strategy": strategy,
        "min_results": 3,
        "filters": {"uri": ["docs/alpha.md", "docs/beta.md"]},
        "stages": [{"filters": {}}],
    }
    most = await bench.ask("alpha beta", top_k=6, **settings)
    assert (most.stage, len(most)) == (1, 6)
    for top_k in range(1, 6):
        fewer = await bench.ask("alpha beta", top_k=top_k, **settings)
        assert fewer.stage == 1
        assert fewer.matches == most.matches[:top_k]


@pytest.mark.parametrize("min_results", [1, 4])
async def test_the_stage_does_not_depend_on_top_k(bench: Bench, min_results: int) -> None:
    """Also if no stage is a hit, a smaller `top_k` returns the first passages of a larger one."""
    await filled(bench)
    bench.change(weak_levels=WeakLevels(0.999))
    settings: dict[str, Any] = {
        "filters": {"uri": ["docs/alpha.md"]},
        "min_results": min_results,
        "stages": [{"filters": {"uri": ["docs/beta.md"]}}, {"filters": {}}],
    }
    most = await bench.ask("alpha and more", top_k=6, **settings)
    for top_k in range(1, 6):
        fewer = await bench.ask("alpha and more", top_k=top_k, **settings)
        assert (fewer.stage, fewer.verdict) == (most.stage, most.verdict)
        assert fewer.matches == most.matches[:top_k]


async def test_several_knowledge_bases(bench: Bench) -> None:
    """Several knowledge bases go through the stages together."""
    await filled(bench)
    settings = RetrievalDeclaration.model_validate(
        {"filters": {"uri": "none"}, "stages": [{"filters": ONLY_ALPHA}], "min_score": 0}
    )
    result = await search([bench.kb], "alpha", settings)
    assert [match.metadata["uri"] for match in result] == ["docs/alpha.md"]
    assert (result.stage, bench.embedder.questions) == (1, ["alpha"])


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        ({"strategy": "rerank"}, r"'docs': stage 2 .*needs a reranker"),
        (
            {"strategy": "similarity", "min_score": 0.1, "min_score_on": "lexical"},
            r"stage 2 .* has no score 'lexical'; known: dense",
        ),
    ],
)
async def test_a_stage_that_would_fail(bench: Bench, stage: dict[str, Any], message: str) -> None:
    """An invalid stage is refused in every search, even if the first stage finds enough."""
    await filled(bench)
    with pytest.raises(UsageError, match=message):
        await bench.ask("alpha", stages=[{"min_score": 0}, stage])


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([{}], r"stages\[0\]: the stage changes nothing; write at least one of strategy"),
        ([{"min_score": 2}], r"stages\[0\]\.min_score: "),
        ([{"min_scor": 0.2}], r"min_scor: unknown key 'min_scor'; did you mean 'min_score'"),
        ([{"strategy": "keywords"}], r"stages\[0\]\.strategy: "),
        ([{"strategy": None}], r"stages\[0\]\.strategy: strategy cannot be null"),
        ([{"min_score": 0.1}] * 6, r"stages: "),
    ],
)
def test_declarations_that_cannot_be(
    tmp_path: Path, stages: list[dict[str, Any]], message: str
) -> None:
    """Invalid declarations are refused with their location."""
    data = {
        "name": "p",
        "knowledge_bases": [
            {
                "id": "docs",
                "sources": [{"type": "markdown_glob", "path": "*.md"}],
                "retrieval": {"stages": stages},
            }
        ],
    }
    with pytest.raises(ConfigurationError, match=message):
        build_project(data, root=tmp_path, environ={})
