"""One budget for several blocks."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lorebind_config.errors import UsageError
from lorebind_prompts import (
    EstimateCounter,
    Portion,
    RetrievedContext,
    TokenCounter,
    assemble_together,
)

from .helpers import COUNTERS, RENDERERS, Counting, context, contexts

portions = st.builds(
    Portion,
    contexts=st.lists(contexts, max_size=6),
    max_tokens=st.one_of(st.none(), st.integers(1, 400)),
    renderer=st.sampled_from(RENDERERS),
    label=st.one_of(st.none(), st.just("Docs")),
)


def passages(name: str, count: int, words: int = 20) -> list[RetrievedContext]:
    """Return `count` distinct passages of about `words` words each."""
    return [
        context(f"{name}{number} " + "word " * words, 1 - number / 100) for number in range(count)
    ]


@settings(deadline=None)
@given(
    st.lists(portions, min_size=1, max_size=4),
    st.one_of(st.none(), st.integers(0, 800)),
    st.sampled_from(COUNTERS),
)
def test_the_promises_hold(
    given_portions: list[Portion], budget: int | None, counter: TokenCounter
) -> None:
    """For any input, no block and no sum exceeds its budget, and no passage disappears."""
    results = assemble_together(given_portions, counter=counter, max_tokens=budget)
    for portion, result in zip(given_portions, results, strict=True):
        assert result.total_tokens == counter.count(result.context)
        if portion.max_tokens is not None:
            assert result.total_tokens <= portion.max_tokens
    if budget is not None:
        assert sum(result.total_tokens for result in results) <= budget
        if counter.name != "wobbling":  # its counts of parts and of the whole differ
            whole = "\n\n".join(result.context for result in results if result.context)
            assert counter.count(whole) <= budget
    cited = [citation for result in results for citation in result.citations]
    assert [citation.marker for citation in cited] == [f"[{at}]" for at in range(1, len(cited) + 1)]
    dropped = sum(len(result.dropped) for result in results)
    assert len(cited) + dropped == sum(len(portion.contexts) for portion in given_portions)
    texts = [" ".join(citation.content.split()) for citation in cited]
    assert len(set(texts)) == len(texts)


def test_without_a_common_budget_each_block_has_its_own() -> None:
    """Blocks with their own budgets keep to them; all other blocks share 4096 tokens."""
    portions = [Portion(passages("a", 50), max_tokens=300), Portion(passages("b", 400))]
    portions.append(Portion(passages("c", 400)))
    first, two, three = (result.total_tokens for result in assemble_together(portions))
    assert 250 < first <= 300
    assert 4000 < two + three <= 4096
    assert abs(two - three) < 100


def test_a_fair_part_each() -> None:
    """The unused share of a block goes to those that need more, in equal parts."""
    portions = [Portion(passages("a", 1)), Portion(passages("b", 100)), Portion(passages("c", 100))]
    small, two, three = assemble_together(portions, max_tokens=2000)
    assert not small.dropped
    assert abs(two.total_tokens - three.total_tokens) < 60
    assert small.total_tokens + two.total_tokens + three.total_tokens > 1940


def test_what_is_left_by_chance_is_used() -> None:
    """The rest that a block cannot fill with its next passage is used by another block."""
    big = [context("x " * 500, 0.9), context("y " * 500, 0.8)]
    portions = [Portion(passages("a", 60, words=10)), Portion(big)]
    small, large = assemble_together(portions, max_tokens=900)
    assert len(large.citations) == 1
    assert small.total_tokens > 500
    assert small.total_tokens + large.total_tokens > 850


@pytest.mark.parametrize("budget", [1000, 4096, 20_000, 35_000])
def test_the_work_grows_with_the_passages(budget: int) -> None:
    """Each passage is counted a few times, however many blocks there are."""
    counter = Counting(EstimateCounter())
    many = [Portion(passages(f"{name} ", 20, words=80 + name)) for name in range(20)]
    results = assemble_together(many, counter=counter, max_tokens=budget)
    assert sum(result.truncated_count for result in results) > 0
    assert len(counter.lengths) < 6 * 20 * 20


def test_a_passage_in_two_blocks_is_shown_once() -> None:
    """A duplicate is shown where it scored best; its line and citation name both sources."""
    portions = [
        Portion([context("shared text", 0.4, uri="a.md", kb_id="a"), context("only a", 0.3)]),
        Portion([context("shared  text", 0.9, uri="b.md", kb_id="b")]),
    ]
    first, second = assemble_together(portions)
    assert [citation.content for citation in first.citations] == ["only a"]
    (shared,) = second.citations
    assert (shared.marker, shared.uri) == ("[2]", "b.md")
    assert [(source.uri, source.metadata["kb_id"]) for source in shared.also] == [("a.md", "a")]
    assert "- [2] b.md; also a.md" in second.context
    assert [(drop.uri, drop.reason) for drop in second.dropped] == [("a.md", "duplicate of [2]")]


def test_a_negative_budget_is_refused() -> None:
    """A budget below zero is refused."""
    with pytest.raises(UsageError, match="negative"):
        assemble_together([], max_tokens=-1)
