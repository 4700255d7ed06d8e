"""The order of a ranking."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lorebind_knowledge.cosines import best_first

figures = st.floats(0, 1) | st.sampled_from([0.0, -0.0, 0.25, 0.5])


@given(st.lists(st.tuples(figures, st.uuids().map(str)), max_size=20))
def test_ties_go_by_id(passages: list[tuple[float, str]]) -> None:
    """The best score comes first; ties are broken by id."""
    order = best_first(np.array([score for score, _ in passages]), [name for _, name in passages])
    assert order == sorted(
        range(len(passages)), key=lambda at: (-passages[at][0], passages[at][1], at)
    )
