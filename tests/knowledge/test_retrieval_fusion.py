"""Fusion: combining the two raw scores of a passage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebind_config.declarations.retrieval import (
    FusionDeclaration,
    RetrievalDeclaration,
    SignalsDeclaration,
)
from lorebind_knowledge.retrieval.query import Candidate, Candidates, weighed
from lorebind_knowledge.retrieval.strategies import fused, scaled

cosines = st.floats(-1, 1)
bm25s = st.just(0.0) | st.floats(0, 1e4)
signals = st.builds(SignalsDeclaration, dense=st.floats(0.1, 1), terms=st.floats(0, 1))
settings = st.builds(
    RetrievalDeclaration,
    signals=signals,
    fusion=st.builds(
        FusionDeclaration,
        method=st.sampled_from(["weighted", "rrf"]),
        rank_constant=st.integers(1, 1000),
    ),
)
figures = st.lists(st.tuples(cosines, bm25s), max_size=30)


def candidate(name: str, **scores: float) -> Candidate:
    return Candidate("docs", 7, name, 0.5, scores)


def candidates_of(pairs: list[tuple[float, float]]) -> list[Candidate]:
    return [
        candidate(f"{at:02}", dense=near, lexical=word) for at, (near, word) in enumerate(pairs)
    ]


def columns(candidates: list[Candidate]) -> Candidates:
    names = {"dense", "lexical"}.union(*(candidate.scores for candidate in candidates))
    return Candidates(
        [(candidate.kb_id, candidate.number, candidate.id) for candidate in candidates],
        np.array([candidate.score for candidate in candidates], float),
        {
            name: np.array([candidate.scores[name] for candidate in candidates], float)
            for name in names
        },
    )


def fuse(candidates: Candidates, *settings: Any) -> Candidates:
    return weighed(candidates, fused(candidates, *settings), name="fused")


EQUAL = {"dense": 0.5, "lexical": 0.35, "terms": 0.15}
"""Vectors count as much as words and terms together."""


def merging(signals: dict[str, float] | None = None, **fusion: Any) -> RetrievalDeclaration:
    return RetrievalDeclaration.model_validate({"signals": signals or EQUAL, "fusion": fusion})


def by_fusion(
    candidates: list[Candidate],
    full: tuple[float, float] = (0.0, 0.0),
    signals: dict[str, float] | None = None,
    **fusion: Any,
) -> list[tuple[str, float]]:
    ranked = fuse(columns(candidates), merging(signals, **fusion), full)
    return [(hit.id, hit.scores["fused"]) for hit in ranked]


def shares(dense: float) -> dict[str, float]:
    return {"dense": dense, "lexical": 1 - dense, "terms": 0}


CANDIDATES = [
    candidate("a", dense=0.9, lexical=0.0),
    candidate("b", dense=0.5, lexical=16.0),
    candidate("c", dense=0.7, lexical=4.0),
    candidate("d", dense=0.1, lexical=1.0),
]
# Scaled, the cosines are 1, 0.5, 0.75 and 0, the BM25 scores 0, 1, 0.25 and 0.0625.


def test_weighted_by_hand() -> None:
    """Each score is scaled over the candidates, then added by weight."""
    equal = [("b", 0.75), ("a", 0.5), ("c", 0.5), ("d", 0.03125)]
    assert by_fusion(CANDIDATES) == equal
    mostly_near = [("a", 0.7), ("b", 0.65), ("c", 0.6), ("d", 0.01875)]
    assert by_fusion(CANDIDATES, signals=shares(0.7)) == mostly_near
    assert by_fusion(CANDIDATES, signals=shares(1)) == [("a", 1), ("c", 0.75), ("b", 0.5), ("d", 0)]
    assert by_fusion(CANDIDATES, signals=shares(0)) == [
        ("b", 1),
        ("c", 0.25),
        ("d", 0.0625),
        ("a", 0),
    ]


def test_terms_by_hand() -> None:
    """The terms of a sparse embedder count by their share, scaled like the others."""
    terms = dict(zip("abcd", (0.0, 1.0, 3.0, 4.0), strict=True))
    all_three = [hit.scored(hit.score, terms=terms[hit.id]) for hit in CANDIDATES]
    # Scaled, the terms are 0, 0.25, 0.75 and 1.
    expected = [("b", 0.6375), ("c", 0.575), ("a", 0.5), ("d", 0.171875)]
    assert by_fusion(all_three) == expected
    alone = [("d", 1), ("c", 0.75), ("b", 0.25), ("a", 0)]
    assert by_fusion(all_three, signals={"dense": 0, "lexical": 0, "terms": 0.2}) == alone
    relative = {"dense": 1, "lexical": 0.7, "terms": 0.3}
    assert by_fusion(all_three, signals=relative) == expected
    most = 3 / 61
    ranks = dict(by_fusion(all_three, method="rrf"))
    assert ranks["b"] == pytest.approx((1 / 63 + 1 / 61 + 1 / 63) / most, abs=1e-6)


def test_without_terms_words_have_their_share() -> None:
    """Where there are no terms, words count for both."""
    signals = RetrievalDeclaration().signals
    assert signals.shares(terms=True) == (0.55, 0.3, 0.15)
    assert signals.shares(terms=False) == pytest.approx((0.55, 0.45, 0))
    assert signals.with_dense(0.7).shares(terms=True) == pytest.approx((0.7, 0.2, 0.1))
    only_dense = RetrievalDeclaration.model_validate({"signals": {"lexical": 0, "terms": 0}})
    assert only_dense.signals.with_dense(0.6).shares(terms=True) == pytest.approx((0.6, 0.4, 0))
    with pytest.raises(ValueError, match="no signal counts"):
        RetrievalDeclaration.model_validate({"signals": {"dense": 0, "lexical": 0, "terms": 0}})


def test_words_of_whole_documents() -> None:
    """By default, documents are half of the word score, which is then scaled."""
    whole = dict(zip("abcd", (8.0, 0.0, 20.0, 3.0), strict=True))
    both = [hit.scored(hit.score, document=whole[hit.id]) for hit in CANDIDATES]
    # Halves of both are 4, 8, 12 and 2; scaled 0.2, 0.6, 1 and 0.
    assert by_fusion(both) == [("c", 0.875), ("a", 0.6), ("b", 0.55), ("d", 0)]
    assert by_fusion(both, document_weight=0) == by_fusion(CANDIDATES, document_weight=0)
    alone = [("c", 1), ("a", 0.4), ("d", 0.15), ("b", 0)]
    assert by_fusion(both, document_weight=1, signals=shares(0)) == alone


def test_words_are_scaled_by_the_whole_question() -> None:
    """If no candidate has half of the score of all words, words count for less."""
    half = [("b", 0.5), ("c", 0.4375), ("a", 0.5), ("d", 0.015625)]
    whole = (64.0, 100.0)
    assert sorted(by_fusion(CANDIDATES, whole, document_weight=0)) == sorted(
        (name, round(figure, 6)) for name, figure in half
    )
    enough = (32.0, 100.0)
    assert by_fusion(CANDIDATES, enough, document_weight=0) == by_fusion(CANDIDATES)
    documents = [hit.scored(hit.score, document=hit.scores["lexical"]) for hit in CANDIDATES]
    assert by_fusion(documents, (0.0, 128.0)) == by_fusion(CANDIDATES, whole, document_weight=0)
    assert by_fusion(CANDIDATES, whole, method="rrf") == by_fusion(CANDIDATES, method="rrf")


@pytest.mark.parametrize(
    ("all_words", "moved"), [(20.0, 0), (16 / 0.9, 0), (16 / 0.95, 0.1), (16.0, 0.2), (1.0, 0.2)]
)
def test_nearly_all_words(all_words: float, moved: float) -> None:
    """If a passage has nearly all words of the question, words count more and vectors less."""
    got = by_fusion(CANDIDATES, (all_words, 0.0), document_weight=0)
    expected = by_fusion(CANDIDATES, signals=shares(0.5 - moved), document_weight=0)
    assert dict(got) == pytest.approx(dict(expected), abs=2e-6)
    few = {"dense": 0.1, "lexical": 0.9, "terms": 0}
    assert by_fusion(CANDIDATES, (16.0, 0.0), few) == by_fusion(CANDIDATES, signals=shares(0))
    only = shares(1)
    assert by_fusion(CANDIDATES, (16.0, 0.0), only) == by_fusion(CANDIDATES, signals=only)


def test_ranks_by_hand() -> None:
    """Each rank counts 1 / (k + rank); the sum is a share of being first in both lists."""
    most = 2 / 61
    expected = [
        ("b", (1 / 63 + 1 / 61) / most),
        ("c", (1 / 62 + 1 / 62) / most),
        ("d", (1 / 64 + 1 / 63) / most),
        ("a", (1 / 61) / most),  # no rank by words, since it has none of them
    ]
    got = by_fusion(CANDIDATES, method="rrf")
    assert [name for name, _ in got] == [name for name, _ in expected]
    assert [score for _, score in got] == pytest.approx([s for _, s in expected], abs=1e-6)


def test_ranks_that_are_shared() -> None:
    """Equal scores share a rank, and the next rank is as far behind as if they did not."""
    equal = columns(candidates_of([(0.9, 2.0), (0.9, 0.0), (0.8, 0.0)]))
    got = fuse(equal, merging(method="rrf", rank_constant=1))
    assert [hit.scores["fused"] for hit in got] == [1.0, 0.5, 0.25]


def test_the_rank_constant_counts() -> None:
    """A small constant favors a first rank in one list, a large one favors being in both."""
    pairs = [(0.9, 0.0), (0.8, 0.0), (0.7, 1.0), (0.0, 3.0), (0.0, 2.0)]
    small, large = (
        [name for name, _ in by_fusion(candidates_of(pairs), method="rrf", rank_constant=k)]
        for k in (1, 1000)
    )
    assert small == ["00", "02", "03", "01", "04"]
    assert large == ["02", "00", "03", "01", "04"]


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ([], []),
        ([3.0], [1.0]),
        ([0.0, 0.0], [0.0, 0.0]),
        ([-0.5, -0.5], [0.0, 0.0]),
        ([0.2, 0.2], [1.0, 1.0]),
        ([1.0, 3.0, 2.0], [0.0, 1.0, 0.5]),
        ([-1.0, 1.0, 0.0], [0.0, 1.0, 0.5]),
    ],
)
def test_scaled(raw: list[float], expected: list[float]) -> None:
    """The minimum becomes 0 and the maximum 1; if all values are equal, all become 1 or 0."""
    assert scaled(np.array(raw)).tolist() == expected


def test_scaled_to_more_than_the_maximum() -> None:
    """The value that becomes 1 may be higher than all values, but not lower."""
    assert scaled(np.array([1.0, 3.0]), 5.0).tolist() == [0.0, 0.5]
    assert scaled(np.array([1.0, 3.0]), 2.0).tolist() == [0.0, 1.0]
    assert scaled(np.array([2.0, 2.0]), 4.0).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("method", ["weighted", "rrf"])
def test_the_best_scores_the_nearest_cosine(method: str) -> None:
    """The best passage scores the cosine of the nearest candidate, the others a share of it."""
    ranked = fuse(columns(CANDIDATES), merging(method=method))
    best = ranked[0].scores["fused"]
    assert [hit.score for hit in ranked] == [
        pytest.approx(0.9 * hit.scores["fused"] / best) for hit in ranked
    ]
    assert ranked[0].score == 0.9
    far = columns(candidates_of([(0.03, 0.0), (-0.2, 9.0)]))
    assert max(hit.score for hit in fuse(far, merging(method=method))) <= 0.03


@pytest.mark.parametrize("method", ["weighted", "rrf"])
def test_ties_go_by_id(method: str) -> None:
    """Passages with equal scores are ordered by id."""
    same = [candidate(name, dense=0.4, lexical=1.0) for name in "cab"]
    assert [name for name, _ in by_fusion(same, method=method)] == ["a", "b", "c"]


@given(figures, settings)
def test_a_ranking(pairs: list[tuple[float, float]], settings: RetrievalDeclaration) -> None:
    """All candidates return with their raw scores, sorted by scores in 0 to 1, then by id."""
    candidates = candidates_of(pairs)
    ranked = fuse(columns(candidates), settings)
    assert sorted(hit.id for hit in ranked) == [candidate.id for candidate in candidates]
    assert all(0 <= hit.score <= 1 and 0 <= hit.scores["fused"] <= 1 for hit in ranked)
    order = [hit.id for hit in ranked]
    assert [m.id for m in sorted(ranked, key=lambda m: (-m.scores["fused"], m.id))] == order
    assert [m.id for m in sorted(ranked, key=lambda m: -m.score)] == order
    for hit in ranked:
        assert (hit.scores["dense"], hit.scores["lexical"]) == pairs[int(hit.id)]
        assert (hit.kb_id, hit.number) == ("docs", 7)


@given(figures, settings, st.randoms())
def test_the_order_of_candidates_does_not_matter(
    pairs: list[tuple[float, float]], settings: RetrievalDeclaration, random: Any
) -> None:
    """The same candidates in any order make the same ranking."""
    candidates = candidates_of(pairs)
    shuffled = list(candidates)
    random.shuffle(shuffled)
    assert list(fuse(columns(shuffled), settings)) == list(fuse(columns(candidates), settings))


@given(figures, settings)
def test_better_in_both_is_better(
    pairs: list[tuple[float, float]], settings: RetrievalDeclaration
) -> None:
    """A passage that is not worse by vectors and by words is not worse after fusion."""
    ranked = list(fuse(columns(candidates_of(pairs)), settings))
    for hit in ranked:
        for other in ranked:
            if all(hit.scores[kind] >= other.scores[kind] for kind in ("dense", "lexical")):
                assert hit.score >= other.score
