"""A search result becomes a context."""

from __future__ import annotations

from lorebind_knowledge.records import DocumentMatch
from lorebind_prompts import EstimateCounter, RetrievedContext


def test_a_match_keeps_what_it_is() -> None:
    """Id, text, score and metadata of a match survive, and its tokens are counted."""
    match = DocumentMatch("c1", 0.7, {"dense": 0.7}, "eight ch", {"uri": "a.md"})
    made = RetrievedContext.from_match("docs", match, EstimateCounter())
    assert made == RetrievedContext("docs", "eight ch", 0.7, 2, {"uri": "a.md"}, "c1")
