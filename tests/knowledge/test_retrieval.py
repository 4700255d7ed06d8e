"""Searching one knowledge base: its refusals, its events, and its verdicts."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lorebind_config.declarations.retrieval import RetrievalDeclaration, WeakLevels
from lorebind_config.errors import (
    EmbedderError,
    NotFoundError,
    NotIngestedError,
    StoreError,
    UsageError,
)
from lorebind_knowledge.plumbing import bridge
from lorebind_knowledge.records import QueryResult
from lorebind_knowledge.retrieval.judging import judge

from .bench import Bench, CountingEmbedder, paragraph


async def filled(bench: Bench) -> Bench:
    for word in ("alpha", "beta", "gamma", "delta", "epsilon", "zeta"):
        bench.write(f"{word}.md", paragraph(word))
    await bench.ingest()
    bench.diary.entries.clear()
    return bench


async def test_the_best_comes_first(bench: Bench) -> None:
    """Matches are sorted by score, as many as asked for, from the searched knowledge base."""
    await filled(bench)
    result = await bench.ask("gamma", top_k=3)
    assert result.matches[0].text == paragraph("gamma")
    scores = [match.score for match in result]
    assert scores == sorted(scores, reverse=True)
    assert len(result) == 3
    assert (result.strategy, result.searched, result.skipped) == ("hybrid", ["docs"], [])
    assert result.seconds > 0
    assert bench.embedder.questions == ["gamma"]


async def test_fewer_are_the_beginning_of_more(bench: Bench) -> None:
    """The three best are the first of the six best; the knowledge base's settings are defaults."""
    await filled(bench)
    bench.change(retrieval=RetrievalDeclaration(top_k=2))
    six = (await bench.ask("beta words", top_k=6)).matches
    assert (await bench.ask("beta words", top_k=3)).matches == six[:3]
    assert (await bench.ask("beta words")).matches == six[:2]


@pytest.mark.parametrize("question", ["", "  ", "\n\t\u3000"])
async def test_blank_question(bench: Bench, question: str) -> None:
    """A blank question is a UsageError, not a search."""
    await filled(bench)
    with pytest.raises(UsageError, match="question is empty"):
        await bench.ask(question)
    assert bench.diary.entries == []


async def test_nothing_ingested(bench: Bench) -> None:
    """Before the first ingest, the error names the command and no file is created."""
    with pytest.raises(NotIngestedError, match="lorebind knowledge ingest docs"):
        await bench.ask("anything")
    assert list(bench.root.iterdir()) == []


async def test_events(bench: Bench) -> None:
    """A search emits its start and its result, without the text of the question."""
    await filled(bench)
    await bench.ask("gamma", top_k=3)
    assert bench.diary.names() == ["retrieval_started", "retrieval_completed"]
    assert bench.diary.data("retrieval_started") == [{"strategy": "hybrid", "top_k": 3}]
    (completed,) = bench.diary.data("retrieval_completed")
    assert completed["matches"] == 3
    assert "gamma" not in repr(bench.diary.entries)


async def test_events_of_a_failure(bench: Bench) -> None:
    """A failed search emits the reason, and the caller gets the error."""
    bench.diary.content = True
    await filled(bench)

    class Broken(CountingEmbedder):
        def embed_query(self, text: str) -> np.ndarray:
            raise ConnectionError("no route")

    bench.change(embedder=Broken())
    with pytest.raises(EmbedderError, match="no route"):
        await bench.ask("gamma")
    assert bench.diary.names() == ["retrieval_started", "retrieval_failed"]
    assert "no route" in bench.diary.data("retrieval_failed")[0]["reason"]


async def test_an_unknown_filter(bench: Bench) -> None:
    """An invalid filter is a UsageError."""
    await filled(bench)
    with pytest.raises(ValueError, match=r"unknown operator '\$like'"):
        await bench.ask("gamma", filters={"uri": {"$like": "x"}})


@pytest.mark.parametrize("strategy", ["similarity", "lexical", "hybrid", "mmr"])
async def test_lost_vectors_are_an_error(bench: Bench, strategy: str) -> None:
    """If the store lost vectors that the catalog lists, the error says how to restore them."""
    await filled(bench)
    (hit,) = await bench.ask("gamma", top_k=1)
    number = await _number(bench, hit.id)
    bench.index.store.delete(bench.entry.space, [number])
    for filters in ({}, {"uri": hit.metadata["uri"]}):
        with pytest.raises(StoreError, match=r"has lost 1 of the 6 .*knowledge ingest docs"):
            await bench.ask("gamma", strategy=strategy, filters=filters)
    bench.index.store.drop(bench.entry.space)
    for _ in range(2):
        with pytest.raises(StoreError, match="has lost"):
            await bench.ask("gamma", strategy=strategy)
    await bench.ingest()
    assert (await bench.ask("gamma", top_k=1)).matches == [hit]


async def _number(bench: Bench, name: str) -> int:
    """Return the number under which the store holds the vector of a chunk."""
    owner = bench.kb.namespace
    return await bridge.call(bench.index.read, owner, lambda view: view.named([name])[name].number)


async def test_a_search_that_a_reindex_overtakes(bench: Bench) -> None:
    """If an index is replaced during a search, the search reads its successor."""
    await filled(bench)
    old = bench.entry.key

    class Overtaken(CountingEmbedder):
        async def embed_query(self, text: str) -> Any:
            if bench.entry.key == old:
                bench.write("alpha.md", paragraph("omega"))
                await bench.ingest(strategy="replace")
            return super().embed_query(text)

    bench.change(embedder=Overtaken())
    result = await bench.ask("omega", top_k=1)
    assert bench.entry.key != old
    assert result.matches[0].text == paragraph("omega")


async def test_searches_at_once(bench: Bench) -> None:
    """Concurrent searches, from tasks and from sync callers, return what a single one returns."""
    await filled(bench)
    words = ["alpha", "beta", "gamma", "delta"] * 8
    results = await asyncio.gather(*(bench.ask(word, top_k=1) for word in words))
    assert [result.matches[0].text for result in results] == [paragraph(word) for word in words]
    ask = bridge.sync(bench.ask)
    blocking = await asyncio.gather(*(asyncio.to_thread(ask, word, top_k=1) for word in words[:8]))
    assert [result.matches for result in blocking] == [result.matches for result in results[:8]]


async def test_min_score(bench: Bench) -> None:
    """A threshold drops matches with lower scores, possibly all of them."""
    await filled(bench)
    every = (await bench.ask("gamma", top_k=6)).matches
    bar = round(every[0].scores["dense"], 6)
    assert (await bench.ask("gamma", top_k=6, min_score=bar)).matches == every[:1]
    assert (await bench.ask("unheard", top_k=6, min_score=0.99)).matches == []


# Verdicts.


@pytest.mark.parametrize(
    ("count", "best", "settings", "weak_below", "expected"),
    [
        (0, 0.0, {}, 0.4, "miss"),
        (1, 0.5, {}, 0.4, "hit"),
        (1, 0.4, {}, 0.4, "hit"),
        (2, 0.39, {}, 0.4, "weak"),
        (1, 0.1, {"min_score": 0.05}, 0.4, "weak"),
        (1, 0.0, {"min_score": 0}, 0, "hit"),
        (0, 0.9, {"min_score": 1}, 0.4, "miss"),
        (1, 0.01, {}, None, "hit"),
        (0, 0.0, {}, None, "miss"),
        (1, 0.9, {"min_results": 2}, 0.4, "miss"),
        (2, 0.9, {"min_results": 2}, 0.4, "hit"),
    ],
)
def test_verdicts(
    count: int, best: float, settings: dict[str, Any], weak_below: float | None, expected: str
) -> None:
    """A hit has enough matches, and its best candidate has the relevance that answers have."""
    judged = judge("'docs'", count, best, RetrievalDeclaration(**settings), weak_below)
    assert (judged.verdict, judged.shortfall == "") == (expected, expected == "hit")


async def test_a_weak_match_is_found(bench: Bench) -> None:
    """A result below the embedder's level has all its passages, and says that they are weak."""
    await filled(bench)
    bench.change(weak_levels=WeakLevels(0.99))
    hits = await bench.ask("gamma and more", top_k=6)
    assert (len(hits), hits.verdict) == (6, "weak")
    assert "'docs' has the relevance" in hits.shortfall
    assert bench.diary.data("retrieval_completed")[-1]["verdict"] == "weak"
    assert (await bench.ask("unheard", min_score=0.99)).verdict == "miss"


async def test_namespaces_in_one_store(bench: Bench) -> None:
    """Other tenants, projects, scopes and knowledge bases in the same file find nothing of this."""
    await filled(bench)
    mine = bench.kb
    for field in ("tenant", "project", "scope", "kb"):
        bench.kb = replace(mine, namespace=replace(mine.namespace, **{field: "other"}))
        with pytest.raises(NotFoundError):
            await bench.ask("gamma")
        report = await bench.ingest()
        assert (report.documents["added"], report.texts_embedded) == (6, 0)
        bench.write("alpha.md", paragraph(f"only{field}"))
        await bench.ingest()
        assert paragraph(f"only{field}") in await bench.texts()
        assert not {match.id for match in await bench.visible()} & {
            match.id for match in (await _visible(bench, mine)).matches
        }
        bench.write("alpha.md", paragraph("alpha"))
    bench.kb = mine
    assert await bench.texts() == sorted(
        paragraph(word) for word in ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")
    )


async def _visible(bench: Bench, kb: Any) -> QueryResult:
    usual, bench.kb = bench.kb, kb
    try:
        return await bench.ask("words", top_k=50)
    finally:
        bench.kb = usual


async def test_a_filter_on_a_key_that_is_nowhere(bench: Bench) -> None:
    """A notice appears once with the known keys, until a document has the key."""
    await filled(bench)
    result = await bench.ask("words", filters={"titel": "x", "uri": "docs/0.md"})
    assert result.matches == []
    (notice,) = result.notices
    assert notice.startswith(
        "no document of knowledge base 'docs' has the metadata key 'titel', which the filter "
        "names; did you mean 'title'; known: "
    )
    (notice,) = (await bench.ask("words", filters={"titel": {"$exists": True}})).notices
    assert "'titel', which the filter names; did you mean 'title'" in notice
    without = [{"old": {"$ne": "en"}}, {"$not": {"old": "en"}}, {"old": {"$exists": False}}]
    where = {"$or": [*without, {"lang": {"$in": ["en"]}}, {"titel": "x"}]}
    stages = [{"filters": where, "min_score": 1.0}, {"filters": where, "strategy": "lexical"}]
    result = await bench.ask("words", min_score=1.0, stages=stages)
    names = [notice.partition(",")[0].rpartition(" ")[2] for notice in result.notices]
    assert names == ["'lang'", "'titel'"]
    bench.change(metadata={"lang": "en"})
    await bench.ingest()
    assert (await bench.ask("words", filters={"lang": "en"})).notices == []
    assert (await bench.ask("words")).notices == []


@pytest.mark.parametrize(
    "excludes",
    [
        {"titel": {"$ne": "x"}},
        {"titel": {"$nin": ["x"]}},
        {"titel": {"$exists": False}},
        {"$not": {"titel": "x"}},
        {"$and": [{"$not": {"$or": [{"titel": {"$exists": True}}]}}]},
    ],
    ids=str,
)
async def test_a_misspelled_key_that_excludes(bench: Bench, excludes: dict[str, Any]) -> None:
    """An unknown key that excludes gets a notice only if it resembles a known key."""
    await filled(bench)
    result = await bench.ask("words", filters=excludes)
    assert result.matches
    (notice,) = result.notices
    assert notice.startswith(
        "no document of knowledge base 'docs' has the metadata key 'titel', which the filter "
        "names to exclude documents; did you mean 'title'; known: "
    )
