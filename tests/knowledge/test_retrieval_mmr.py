"""`mmr`: passages that repeat chosen ones come late."""

from __future__ import annotations

import numpy as np
import pytest

from lorebind_knowledge.records import DocumentMatch
from lorebind_knowledge.retrieval.strategies import scaled

from .bench import Bench

QUESTION = "rotate keys console"


async def filled(bench: Bench) -> Bench:
    """Add four nearly equal passages, and four different, less relevant ones."""
    for number in range(4):
        bench.write(f"same{number}.md", f"Rotate keys in the console today {number}")
    for number, word in enumerate(("orchard", "violin", "harbour", "glacier")):
        bench.write(f"own{number}.md", f"Rotate {word} {word}s where {number} {word}ly stands")
    bench.change(dedupe=False)
    await bench.ingest()
    return bench


def uris(matches: list[DocumentMatch]) -> list[str]:
    return [match.metadata["uri"].rpartition("/")[2][:-4] for match in matches]


async def test_near_duplicates_come_late(bench: Bench) -> None:
    """The best of them comes first, and the others follow the different passages."""
    await filled(bench)
    plain = (await bench.ask(QUESTION, strategy="hybrid", top_k=8)).matches
    assert uris(plain) == ["same"] * 4 + ["own"] * 4
    diverse = (await bench.ask(QUESTION, strategy="mmr", top_k=8, mmr_lambda=0.2)).matches
    assert diverse[0].id == plain[0].id
    assert uris(diverse)[:4] == ["same"] + ["own"] * 3
    assert {match.id for match in diverse} == {match.id for match in plain}


async def test_relevance_alone(bench: Bench) -> None:
    """With λ = 1, the order and the scores are those of `hybrid`."""
    await filled(bench)
    plain = (await bench.ask(QUESTION, strategy="hybrid", top_k=8)).matches
    alone = (await bench.ask(QUESTION, strategy="mmr", top_k=8, mmr_lambda=1)).matches
    assert [(m.id, m.score) for m in alone] == [(m.id, m.score) for m in plain]


@pytest.mark.parametrize("weight", [0.0, 0.3, 0.7, 1.0])
async def test_the_choice_by_hand(bench: Bench, weight: float) -> None:
    """Each choice follows the formula, which is implemented here again in a simple way."""
    await filled(bench)
    plain = (await bench.ask(QUESTION, strategy="hybrid", top_k=8)).matches
    vectors = [bench.embedder._inner.embed_query(_embedded(match)) for match in plain]
    relevance = scaled(np.array([match.score for match in plain]))
    chosen: list[int] = []
    figures: list[float] = []
    while len(chosen) < len(plain):
        gains = {}
        for at in range(len(plain)):
            if at not in chosen:
                likeness = max([0.0, *(float(np.dot(vectors[at], vectors[c])) for c in chosen)])
                gains[at] = weight * relevance[at] - (1 - weight) * likeness
        best = max(gains, key=lambda at: (round(gains[at], 6), -at))
        chosen.append(best)
        figures.append(gains[best])
    got = (await bench.ask(QUESTION, strategy="mmr", top_k=8, mmr_lambda=weight)).matches
    assert [match.scores["mmr"] for match in got] == pytest.approx(figures, abs=1e-5)
    if weight:  # without relevance, many gains differ only by rounding
        assert [match.id for match in got] == [plain[at].id for at in chosen]


def _embedded(match: DocumentMatch) -> str:
    """Return the text that is embedded for a passage, which includes its title."""
    return f"{match.metadata['title']}\n{match.text}"


async def test_nothing_to_choose_from(bench: Bench) -> None:
    """Without candidates there are no passages."""
    await filled(bench)
    assert (await bench.ask(QUESTION, strategy="mmr", filters={"uri": "none"})).matches == []
