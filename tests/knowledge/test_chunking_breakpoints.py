"""The four rules that decide where a change of subject ends a chunk."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebind_knowledge.chunking.changes import Rule, breakpoints

RULES: list[Rule] = ["percentile", "standard_deviation", "interquartile", "gradient"]
SCORES = [0.1, 0.2, 0.15, 0.9, 0.1, 0.2, 0.5, 0.45, 0.1, 0.15, 0.2]
"""A peak at 3, and a lower one at 6 that continues at 7."""


@pytest.mark.parametrize(
    ("rule", "threshold", "expected"),
    [
        ("percentile", 90, {3, 6}),  # the second highest of eleven
        ("percentile", 95, {3}),
        ("percentile", 80, {3, 6, 7}),
        ("standard_deviation", 0.5, {3, 6, 7}),  # mean .277, deviation .236
        ("standard_deviation", 0.8, {3, 6}),
        ("standard_deviation", 1.5, {3}),
        ("standard_deviation", 3, set()),
        ("interquartile", 0, {3, 6, 7}),  # quartiles .125 and .325
        ("interquartile", 0.8, {3, 6}),
        ("interquartile", 1.5, {3}),
        ("gradient", 90, {3, 6}),  # rises of .75 and .3; 7 is high but lower than 6
        ("gradient", 95, {3}),
        ("gradient", 80, {1, 3, 5, 6}),
    ],
)
def test_rules(rule: Rule, threshold: float, expected: set[int]) -> None:
    """For the same scores, each rule chooses according to its definition."""
    assert breakpoints(SCORES, rule, threshold) == expected


def test_few_scores_have_no_quartiles() -> None:
    """With fewer than four scores, the interquartile rule takes the highest quarter."""
    assert breakpoints([0.1, 0.2, 0.9], "interquartile", 1.5) == {2}


def test_equal_peaks_are_all_chosen() -> None:
    """If a tenth of the gaps share the highest score, all of them reach the 90th percentile."""
    scores = [1.0 if index % 5 == 4 else 0.2 for index in range(50)]
    assert breakpoints(scores, "percentile", 90) == set(range(4, 50, 5))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("scores", [[], [0.4], [0.4] * 9])
def test_an_even_text_is_left_whole(rule: Rule, scores: list[float]) -> None:
    """If no gap is greater than another, there is no breakpoint at any threshold."""
    assert breakpoints(scores, rule, 0.0) == set()


@given(st.lists(st.floats(0, 1), max_size=40), st.sampled_from(RULES), st.floats(0, 100))
def test_breakpoints_are_gaps(scores: list[float], rule: Rule, threshold: float) -> None:
    """For any scores, the breakpoints are indices of the scores."""
    assert breakpoints(scores, rule, threshold) <= set(range(len(scores)))
