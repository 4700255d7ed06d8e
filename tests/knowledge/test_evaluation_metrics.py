"""The measures, compared with values worked out by hand."""

from __future__ import annotations

from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebind_knowledge.evaluation.metrics import ndcg, recall, reciprocal_rank

rankings = st.lists(st.sampled_from("abcdefgh"), unique=True)
judgements = st.sets(st.sampled_from("abcdefghxy"))


@pytest.mark.parametrize(
    ("ranked", "relevant", "k", "expected"),
    [
        ("abc", "a", 10, 1.0),
        ("bac", "a", 10, 1 / log2(3)),
        ("bca", "a", 10, 0.5),
        ("bca", "a", 2, 0.0),
        ("abc", "ac", 10, (1 + 0.5) / (1 + 1 / log2(3))),
        ("abc", "ax", 10, 1 / (1 + 1 / log2(3))),
        ("abc", "axyz", 1, 1.0),
        ("", "a", 10, 0.0),
        ("abc", "", 10, 0.0),
    ],
)
def test_ndcg(ranked: str, relevant: str, k: int, expected: float) -> None:
    """A relevant document counts 1 / log2(rank + 1), as a share of the best order's sum."""
    assert ndcg(list(ranked), set(relevant), k) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("ranked", "relevant", "k", "expected"),
    [("abc", "ac", 1, 0.5), ("abc", "ac", 3, 1), ("abc", "axyz", 3, 0.25), ("abc", "", 3, 0)],
)
def test_recall(ranked: str, relevant: str, k: int, expected: float) -> None:
    """Recall is the share of the relevant documents among the first k."""
    assert recall(list(ranked), set(relevant), k) == expected


@pytest.mark.parametrize(
    ("ranked", "relevant", "expected"),
    [("abc", "a", 1), ("abc", "c", 1 / 3), ("abc", "bc", 0.5), ("abc", "x", 0), ("", "x", 0)],
)
def test_reciprocal_rank(ranked: str, relevant: str, expected: float) -> None:
    """The measure is one over the rank of the first relevant document."""
    assert reciprocal_rank(list(ranked), set(relevant)) == expected


@given(rankings, judgements, st.integers(1, 9))
def test_all_measures(ranked: list[str], relevant: set[str], k: int) -> None:
    """All measures are in 0 to 1, and 1 if all relevant documents come first."""
    figures = [ndcg(ranked, relevant, k), recall(ranked, relevant, k)]
    assert all(0 <= figure <= 1 for figure in [*figures, reciprocal_rank(ranked, relevant)])
    if relevant:
        best = [*sorted(relevant), *(name for name in ranked if name not in relevant)]
        assert ndcg(best, relevant, k) == pytest.approx(1)
        assert recall(best, relevant, len(relevant)) == reciprocal_rank(best, relevant) == 1
