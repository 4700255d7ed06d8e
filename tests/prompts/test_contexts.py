"""A search result becomes a context."""

from __future__ import annotations

from lorebind_knowledge.records import DocumentMatch
from lorebind_prompts import EstimateCounter, RetrievedContext


class Counter(EstimateCounter):
    texts: list[str]

    def __init__(self) -> None:
        self.texts = []

    def count(self, text: str) -> int:
        self.texts.append(text)
        return super().count(text)


def test_a_match_keeps_what_it_is() -> None:
    """Id, text, score, relevance and metadata are kept, and tokens are counted on demand."""
    match = DocumentMatch("c1", 0.7, 0.6, {"dense": 0.7}, "eight ch", {"uri": "a.md"})
    counter = Counter()
    context = RetrievedContext.from_match("docs", match, counter)
    assert counter.texts == []
    assert context == RetrievedContext("docs", "eight ch", 0.7, 2, {"uri": "a.md"}, "c1", 0.6)
    assert (context.token_estimate, counter.texts) == (2, ["eight ch"])
    assert RetrievedContext("docs", "eight ch", 0.7, 9, {}).token_estimate == 9
