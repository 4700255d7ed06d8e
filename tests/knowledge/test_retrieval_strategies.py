"""All strategies on the embedded stores agree on scores, order, filters and thresholds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from langchain_core.documents import BaseDocumentCompressor

from lorebind_config.errors import UsageError
from lorebind_knowledge.index.view import View
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.records import DocumentMatch, QueryResult
from lorebind_knowledge.rerankers.langchain import LangChainReranker
from lorebind_knowledge.retrieval.query import Query
from lorebind_knowledge.retrieval.search import STRATEGIES

from .bench import Bench, text_of

T = TypeVar("T")

SCORES = {
    "similarity": {"dense"},
    "lexical": {"dense", "lexical"},
    "hybrid": {"dense", "lexical", "document", "fused"},
    "mmr": {"dense", "lexical", "document", "fused", "mmr"},
    "rerank": {"dense", "lexical", "document", "fused", "rerank"},
}
QUESTION = "apple boat cedar"


class ByLength(BaseDocumentCompressor):
    """A reranker that prefers short texts."""

    def compress_documents(
        self, documents: Sequence[Any], query: str, callbacks: Any = None
    ) -> Sequence[Any]:
        for document in documents:
            document.metadata["relevance_score"] = 1 / (1 + len(document.page_content) / 100)
        return sorted(documents, key=lambda document: len(document.page_content))


async def filled(bench: Bench, count: int = 30) -> Bench:
    for number in range(count):
        bench.write(f"{number % 3}/{number:02}.md", text_of(number))
    bench.change(dedupe=False, reranker=lambda declared: LangChainReranker(ByLength()))
    await bench.ingest()
    return bench


async def ask(bench: Bench, question: str, strategy: str, **settings: Any) -> QueryResult:
    if strategy == "rerank":
        settings["rerank"] = {"class": "some.module:ByLength"}
    return await bench.ask(question, strategy=strategy, **settings)


async def viewed(bench: Bench, ask: Callable[[View], T]) -> T:
    """Return the result of `ask`, called with a view of the index."""
    return await call(bench.index.read, bench.kb.namespace, ask)


def names(matches: Sequence[DocumentMatch]) -> list[tuple[str, float]]:
    return [(match.id, match.score) for match in matches]


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_fewer_are_the_beginning_of_more(bench: Bench, strategy: str) -> None:
    """The first k are the first of the first 2k, with the same scores, for every k."""
    await filled(bench)
    every = (await ask(bench, QUESTION, strategy, top_k=50)).matches
    assert len(every) > 10
    for k in (1, 2, 3, 5, 8, 13, 21):
        fewer = (await ask(bench, QUESTION, strategy, top_k=k)).matches
        assert names(fewer) == names(every)[:k]
        assert [match.scores for match in fewer] == [match.scores for match in every[:k]]


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_figures(bench: Bench, strategy: str) -> None:
    """Scores are in 0 to 1 and fall, except for mmr; the raw scores are included."""
    await filled(bench)
    result = await ask(bench, QUESTION, strategy, top_k=20)
    assert result.strategy == strategy
    scores = [match.score for match in result]
    assert 0 <= min(scores) <= max(scores) <= 1
    assert all(set(match.scores) == SCORES[strategy] for match in result)
    assert all(type(figure) is float for match in result for figure in match.scores.values())
    if strategy != "mmr":
        order = sorted(result.matches, key=lambda match: (-match.score, match.id))
        assert result.matches == order


@pytest.mark.parametrize("strategy", ["similarity", "lexical", "hybrid", "mmr"])
async def test_where_nothing_is_near_nothing_scores_high(bench: Bench, strategy: str) -> None:
    """No score exceeds the cosine of the nearest passage."""
    await filled(bench)
    for question in (QUESTION, "zebra", f"zebra quagga okapi {QUESTION.split()[0]}"):
        vector = bench.embedder.embed_query(question)
        nearest = (await viewed(bench, lambda view, v=vector: view.nearest(v, 1))).scores[0]
        hits = await ask(bench, question, strategy, top_k=50)
        assert hits.matches or (strategy, question) == ("lexical", "zebra")
        assert all(match.score <= max(nearest, 0) + 1e-6 for match in hits)


@pytest.mark.parametrize("strategy", ["lexical", "hybrid", "mmr", "rerank"])
async def test_what_only_one_list_holds_has_both_figures(bench: Bench, strategy: str) -> None:
    """A passage from beyond the depth of a list still has its real scores for both lists."""
    await filled(bench, 120)  # the lists hold 50
    vector = bench.embedder.embed_query(QUESTION)
    near, named = await viewed(
        bench, lambda view: (view.nearest(vector, 200), view.bm25_search(QUESTION, 200))
    )
    cosines = dict(zip(near.ids, near.scores, strict=True))
    words = dict(zip(named.ids, named.scores, strict=True))
    assert len(words) > 50
    hits = (await ask(bench, QUESTION, strategy, top_k=50, fusion={"depth": 50})).matches
    for match in hits:
        assert match.scores["dense"] == pytest.approx(cosines[match.id], abs=1e-6)
        assert match.scores["lexical"] == pytest.approx(words.get(match.id, 0.0), abs=1e-6)


async def test_a_passage_far_down_one_list_is_found(bench: Bench) -> None:
    """Passages that match by words are found even if many others are nearer, and the reverse."""
    for number in range(60):
        bench.write(f"near{number:02}.md", f"keys keys keys keys n{number}")
    bench.write("far.md", "rotate " + " ".join(f"other{n}" for n in range(9)))
    await bench.ingest()
    bench.change(dedupe=False)
    question = "keys keys keys keys rotate"
    fusion = bench.kb.retrieval.fusion.model_copy(update={"depth": 50})
    settings = bench.kb.retrieval.model_copy(update={"fusion": fusion})
    vector = bench.embedder.embed_query(question)

    def read(view: View) -> tuple[Any, Any, Any]:
        query = Query(question, vector, settings, {"docs": view})
        (far,) = view.chunks([hit.number for hit in query.bm25_search(1)]).values()
        ranked = {hit.id: hit for hit in STRATEGIES["hybrid"](query, 5)}
        return far, ranked, (query.nearest(50), query.nearest(61))

    far, ranked, (nearest, every) = await viewed(bench, read)
    assert far.uri == "docs/far.md"
    assert far.id not in {hit.id for hit in nearest}
    (alone,) = (hit for hit in every if hit.id == far.id)
    assert ranked[far.id].scores["dense"] == alone.scores["dense"] > 0
    assert ranked[far.id].scores["lexical"] > 0


@pytest.mark.parametrize("question", ["?!", "the of and", "… —", "x"])
async def test_a_question_without_words_to_look_for(bench: Bench, question: str) -> None:
    """The word search finds nothing; strategies with vectors use only the vectors."""
    await filled(bench, 12)
    assert (await ask(bench, question, "lexical")).matches == []
    near = (await ask(bench, question, "similarity", top_k=12)).matches
    both = (await ask(bench, question, "hybrid", top_k=12)).matches
    assert [match.id for match in both] == [match.id for match in near]
    assert {match.scores["lexical"] for match in both} == {0.0}


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_filters(bench: Bench, strategy: str) -> None:
    """Only passages that pass the filter are found and ranked."""
    await filled(bench)
    uris = [f"docs/1/{number:02}.md" for number in (1, 4, 7, 10)]
    where = {"uri": {"$in": uris}}
    hits = (await ask(bench, QUESTION, strategy, top_k=50, filters=where)).matches
    assert {match.metadata["uri"] for match in hits} <= set(uris)
    assert len(hits) == 4 or strategy == "lexical"
    assert hits
    nothing = {"uri": "docs/none.md"}
    assert (await ask(bench, QUESTION, strategy, filters=nothing)).matches == []


# Thresholds.


@pytest.mark.parametrize("strategy", ["similarity", "lexical", "hybrid", "mmr"])
async def test_min_score_is_about_the_cosine(bench: Bench, strategy: str) -> None:
    """A threshold drops passages with a smaller cosine, whatever their score."""
    await filled(bench)
    every = (await ask(bench, QUESTION, strategy, top_k=50)).matches
    bar = sorted(match.scores["dense"] for match in every)[len(every) // 2]
    expected = [match for match in every if round(match.scores["dense"], 6) >= round(bar, 6)]
    got = (await ask(bench, QUESTION, strategy, top_k=50, min_score=round(bar, 6))).matches
    assert got == expected
    assert 0 < len(got) < len(every)


async def test_min_score_finds_what_stands_behind(bench: Bench) -> None:
    """As many passages as asked for are found if enough reach the threshold at any rank."""
    await filled(bench)
    every = (await ask(bench, QUESTION, "hybrid", top_k=50, signals={"dense": 0})).matches
    bar = sorted((round(match.scores["dense"], 6) for match in every), reverse=True)[3]
    passing = [match for match in every if round(match.scores["dense"], 6) >= bar]
    settings: dict[str, Any] = {"min_score": bar, "signals": {"dense": 0}}
    for k in (1, 2, 3, 4):
        got = (await ask(bench, QUESTION, "hybrid", top_k=k, **settings)).matches
        assert names(got) == names(passing)[:k]


async def test_min_score_for_rerank_is_about_its_figure(bench: Bench) -> None:
    """The reranker's score is absolute, so the threshold applies to it."""
    await filled(bench)
    every = (await ask(bench, QUESTION, "rerank", top_k=50)).matches
    bar = every[5].score
    got = (await ask(bench, QUESTION, "rerank", top_k=50, min_score=bar)).matches
    assert got == [match for match in every if match.score >= bar]
    dense = await ask(bench, QUESTION, "rerank", top_k=50, min_score=bar, min_score_on="dense")
    assert dense.matches == [m for m in every if round(m.scores["dense"], 6) >= bar]


async def test_min_score_on_another_figure(bench: Bench) -> None:
    """The threshold applies to the score that `min_score_on` names."""
    await filled(bench)
    every = (await ask(bench, QUESTION, "hybrid", top_k=50)).matches
    fused = await ask(bench, QUESTION, "hybrid", top_k=50, min_score=0.5, min_score_on="fused")
    assert names(fused.matches) == names([m for m in every if m.scores["fused"] >= 0.5])
    assert all(match.relevance == match.scores["fused"] for match in fused)
    assert 0 < len(fused) < len(every)
    settings: dict[str, Any] = {"min_score": 1, "min_score_on": "lexical"}
    words = await ask(bench, QUESTION, "hybrid", top_k=50, **settings)
    assert names(words.matches) == names([m for m in every if round(m.scores["lexical"], 6) >= 1])
    assert {match.relevance for match in words} == {1.0}


async def test_zero_is_a_threshold(bench: Bench) -> None:
    """A threshold of 0 lets everything pass, but still requires that the score exists."""
    await filled(bench)
    every = (await ask(bench, QUESTION, "similarity", top_k=50)).matches
    assert any(match.scores["dense"] < 0 for match in every)
    assert (await ask(bench, QUESTION, "similarity", top_k=50, min_score=0)).matches == every
    with pytest.raises(UsageError, match="no score 'fused'"):
        await ask(bench, QUESTION, "similarity", min_score=0, min_score_on="fused")


@pytest.mark.parametrize(
    ("strategy", "figure"),
    [("similarity", "lexical"), ("lexical", "fused"), ("hybrid", "rerank"), ("mmr", "rerank")],
)
async def test_a_figure_that_a_strategy_does_not_have(
    bench: Bench, strategy: str, figure: str
) -> None:
    """A threshold on a missing score is a UsageError that lists the known ones."""
    await filled(bench, 5)
    with pytest.raises(UsageError, match=rf"{strategy}.* no score '{figure}'.*dense"):
        await ask(bench, QUESTION, strategy, min_score=0.1, min_score_on=figure)


async def test_a_reranker_is_asked_once(bench: Bench) -> None:
    """The reranker is called only once even for a miss, since more calls get the same passages."""
    await filled(bench)
    counts: list[int] = []

    class Counting(ByLength):
        def compress_documents(self, documents: Any, query: str, callbacks: Any = None) -> Any:
            counts.append(len(documents))
            return super().compress_documents(documents, query, callbacks)

    bench.change(reranker=lambda declared: LangChainReranker(Counting()))
    result = await ask(bench, QUESTION, "rerank", top_k=5, min_score=1)
    assert result.matches == []
    assert counts == [30]


async def test_words_that_were_superseded_meanwhile(bench: Bench) -> None:
    """A passage that is replaced during a word search loses no score and raises no error."""
    await filled(bench, 6)
    bench.write("0/00.md", "apple boat cedar first")
    await bench.ingest()
    embedder = bench.embedder
    hurry = [True]

    class Overtaken(type(embedder)):  # type: ignore[misc]  # the class of the bench
        async def embed_query(self, text: str) -> Any:
            if hurry.pop() if hurry else False:
                bench.kb = replace(bench.kb, embedder=embedder)
                bench.write("0/00.md", "apple boat cedar second")
                await bench.ingest()
            return super().embed_query(text)

    bench.change(embedder=Overtaken())
    hits = (await ask(bench, QUESTION, "lexical", top_k=1, min_score=0.01)).matches
    assert [match.text for match in hits] == ["apple boat cedar second"]


@pytest.mark.parametrize(("count", "is_scaled"), [(30, True), (49, True), (50, False), (60, False)])
async def test_words_are_scaled_by_the_question_in_small_indexes(
    bench: Bench, count: int, is_scaled: bool
) -> None:
    """In small indexes, few words of a question do not count as much as all its words."""
    await filled(bench, count)
    settings: dict[str, Any] = {
        "signals": {"dense": 0},
        "fusion": {"document_weight": 0, "depth": 50},
    }
    question = "item7 " + " ".join(f"unheard{number}" for number in range(9))
    best = (await ask(bench, question, "hybrid", **settings)).matches[0]
    assert best.text == text_of(7)
    assert (best.scores["fused"] < 1) is is_scaled
