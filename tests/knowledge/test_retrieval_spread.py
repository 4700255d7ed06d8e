"""`max_per_document`: one document does not fill the list if others score nearly as high."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebind_knowledge.rerankers.base import Reranker
from lorebind_knowledge.retrieval.diversity import COMPARABLE, spread
from lorebind_knowledge.retrieval.query import Candidate

from .bench import Bench

STRATEGIES = ("similarity", "lexical", "hybrid", "mmr", "rerank")


class Words(Reranker):
    """Counts the words that question and passage share."""

    def rerank(self, question: str, texts: Sequence[str]) -> list[float]:
        words = set(question.split())
        return [len(words & set(text.split())) / len(words) for text in texts]


def order(passages: str, most: int | None) -> str:
    """Return the order of passages, each given as its document and its score in hundredths."""
    names = passages.split()
    ranked = [Candidate("docs", at, name, int(name[1:]) / 100, {}) for at, name in enumerate(names)]
    return " ".join(hit.id for hit in spread(ranked, [name[0] for name in names], most))


@pytest.mark.parametrize(
    ("most", "passages", "expected"),
    [
        (None, "a90 a90 a90 b90", "a90 a90 a90 b90"),
        (1, "a100 a95 a95 b90 b90 c90", "a100 b90 c90 a95 a95 b90"),
        (2, "a100 a95 a95 b90 b90 c90", "a100 a95 b90 b90 c90 a95"),
        (1, "a100 a99 a98 b85 c60", "a100 a99 a98 b85 c60"),  # the others are clearly worse
        (1, "a100 a95 a90 b85 c60", "a100 a95 b85 a90 c60"),  # b85 is nearly as good as a90
        (1, "a90 a80 a80", "a90 a80 a80"),  # one long document
        (1, "a0 a0 b0", "a0 b0 a0"),
        (1, "", ""),
    ],
)
def test_by_hand(most: int | None, passages: str, expected: str) -> None:
    """Surplus passages of a document move behind others that score nearly as high, not further."""
    assert order(passages, most) == expected


figures = st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 1)), max_size=20)


@given(figures, st.integers(1, 4))
def test_what_holds_of_every_ranking(passages: list[tuple[str, float]], most: int) -> None:
    """All passages stay, the best stays first, and documents keep the order of their best."""
    passages = sorted(passages, key=lambda passage: -passage[1])
    ranked = [Candidate("docs", at, str(at), score, {}) for at, (_, score) in enumerate(passages)]
    documents = [name for name, _ in passages]
    got = spread(ranked, documents, most)
    assert sorted(hit.number for hit in got) == list(range(len(ranked)))
    assert got[:1] == ranked[:1]
    after = [documents[hit.number] for hit in got]
    assert list(dict.fromkeys(after)) == list(dict.fromkeys(documents))
    for at, hit in enumerate(got):
        waited = [n for n in range(hit.number) if got.index(ranked[n]) > at]
        for n in waited:  # its document has reached its limit, and it is not far better
            assert after[:at].count(documents[n]) >= most
            assert hit.score >= COMPARABLE * ranked[n].score


QUESTION = "pump valve engine turbine motor"


async def long_and_short(bench: Bench) -> None:
    """Add a document with ten matching passages, six with one each, and some about other topics."""
    bench.write("long.md", *(f"{QUESTION} {QUESTION[:20]} long{n}" for n in range(10)))
    for n in range(6):
        bench.write(f"short{n}.md", f"{QUESTION} {QUESTION[:20]} short{n}")
        bench.write(f"else{n}.md", f"Lunch is served at {n} in the hall.")
    bench.change(dedupe=False, reranker=lambda declared: Words())
    await bench.ingest()


def settings(strategy: str) -> dict[str, Any]:
    more: dict[str, Any] = {"rerank": {"class": "a.b:C"}} if strategy == "rerank" else {}
    return {"strategy": strategy, **more}


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_every_strategy(bench: Bench, strategy: str) -> None:
    """A document's first passages precede others up to the limit; shorter lists are prefixes."""
    await long_and_short(bench)
    way = settings(strategy)
    every = await bench.ask(QUESTION, top_k=16, **way)
    assert len(every) == 16
    for most in (1, 2):
        limited = await bench.ask(QUESTION, top_k=16, max_per_document=most, **way)
        assert {hit.id for hit in limited} == {hit.id for hit in every}
        uris = [hit.metadata["uri"] for hit in limited]
        assert uris[: 6 + most].count("docs/long.md") == most
        assert len(set(uris[: 6 + most])) == 7
        for top_k in (1, 3, 7, 10):
            few = await bench.ask(QUESTION, top_k=top_k, max_per_document=most, **way)
            assert few.matches == limited.matches[:top_k]


async def test_with_repeats_and_neighbours(bench: Bench) -> None:
    """Duplicates, and passages within neighbors of others, make room as they do without it."""
    await long_and_short(bench)
    bench.change(dedupe=True)
    hits = await bench.ask(QUESTION, top_k=7, max_per_document=1, neighbours=1)
    uris = [hit.metadata["uri"] for hit in hits]
    assert uris.count("docs/long.md") == 1
    assert len(set(uris)) == len(uris) == 7


async def test_one_long_document_works_as_before(bench: Bench) -> None:
    """If there is no other document, one fills the list."""
    bench.write("long.md", *(f"pump valve number{n} " + "engine motor " * 3 for n in range(10)))
    await bench.ingest()
    for strategy in ("similarity", "lexical", "hybrid", "mmr"):
        before = await bench.ask("pump valve", strategy=strategy, top_k=6)
        after = await bench.ask("pump valve", strategy=strategy, top_k=6, max_per_document=1)
        assert len(before) == 6
        assert after.matches == before.matches


async def test_only_what_passes_counts(bench: Bench) -> None:
    """A passage below `min_score` takes no other passage's turn."""
    await long_and_short(bench)
    bar = {"min_score": 0.4, "min_score_on": "dense", "max_per_document": 2}
    above = await bench.ask(QUESTION, top_k=16, **bar)
    assert min(hit.scores["dense"] for hit in above) >= 0.4
    three = await bench.ask(QUESTION, top_k=3, **bar)
    assert three.matches == above.matches[:3]
