"""Passages to put into prompts, friendly and hostile."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from lorebind_prompts import RetrievedContext

from .hostile import HOSTILE

texts = st.one_of(
    st.text(max_size=200),
    st.sampled_from(HOSTILE),
    st.lists(st.sampled_from(["Word", "next.", "- [3] x", "\n", "…", "漢字。", "`c`"]), max_size=80)
    .map(" ".join),
)  # fmt: skip

contexts = st.builds(
    lambda content, score, number, source: RetrievedContext(
        binding_id="docs",
        content=content,
        score=score,
        token_estimate=0,
        metadata={"uri": source, "title": source, "line_start": 1, "line_end": 3},
        id=f"c{number}" if number else "",
    ),
    content=texts,
    score=st.sampled_from([0.0, 0.2, 0.5, 0.5, 0.9, 1.0]),
    number=st.integers(0, 12),
    source=st.one_of(st.sampled_from(["docs/cors.md", ""]), texts),
)


def context(content: str, score: float = 0.5, **metadata: Any) -> RetrievedContext:
    """A context whose id is its content."""
    return RetrievedContext("docs", content, score, 0, {"uri": "a.md", **metadata}, id=content[:40])
