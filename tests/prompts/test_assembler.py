"""The context assembler."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lorebind_config.errors import UsageError
from lorebind_prompts import (
    Assembler,
    EstimateCounter,
    RetrievedContext,
    TiktokenCounter,
    TokenCounter,
    assemble_simple,
    check,
    parse,
)
from lorebind_prompts.cleaning import clean_text

from .helpers import COUNTERS, RENDERERS, TEMPLATES, Counting, context, contexts, texts
from .hostile import HOSTILE

SENTENCES = " ".join(f"Sentence number {number} says something." for number in range(400))


@settings(deadline=None)
@given(
    st.lists(contexts, max_size=12),
    st.one_of(st.none(), texts),
    st.integers(0, 600),
    st.sampled_from(COUNTERS),
    st.sampled_from(RENDERERS),
    st.integers(1, 99),
)
def test_the_promises_hold(
    given_contexts: list[RetrievedContext],
    label: str | None,
    budget: int,
    counter: TokenCounter,
    renderer: str,
    first: int,
) -> None:
    """For any input, the budget holds, nothing is lost, the order is stable and ids are unique."""
    maker = Assembler(budget, counter, renderer, label)
    result = maker.assemble(given_contexts, first_marker=first)
    assert maker.assemble(given_contexts, first_marker=first) == result
    assert result.total_tokens == counter.count(result.context) <= budget
    assert len(result.citations) + len(result.dropped) == len(given_contexts)
    assert bool(result.context) == bool(result.citations)
    ids = [citation.id for citation in result.citations if citation.id]
    assert len(ids) == len(set(ids))
    assert [citation.marker for citation in result.citations] == [
        f"[{first + at}]" for at in range(len(result.citations))
    ]
    sources = [(citation.marker, citation.content) for citation in result.citations]
    read = parse(result.context)
    assert [passage.marker for passage in read] == [marker for marker, _ in sources]
    if renderer not in ("markdown", *TEMPLATES):  # those do not write trailing spaces
        assert [(passage.marker, passage.content) for passage in read] == sources
    assert (result.counter, result.exact) == (counter.name, counter.exact)
    ranked = sorted(given_contexts, key=lambda context: -context.score)
    if not result.cut:
        order = iter([clean_text(context.content) for context in ranked])
        assert all(content in order for _, content in sources)
    reasons = [drop.reason for drop in result.dropped]
    assert result.truncated_count == sum(reason.startswith("does not fit") for reason in reasons)


def test_best_first_and_ties_as_given() -> None:
    """Passages are sorted by score; equal ones keep their order."""
    given_contexts = [context("b", 0.5), context("c", 0.5), context("a", 0.9), context("d", 0.1)]
    result = Assembler().assemble(given_contexts)
    assert [citation.content for citation in result.citations] == ["a", "b", "c", "d"]
    assert not result.dropped
    assert not result.cut


def test_a_smaller_passage_still_fits() -> None:
    """A passage that does not fit is dropped and counted, and a smaller one after it is used."""
    given_contexts = [context("best", 0.9), context(SENTENCES, 0.8), context("small", 0.1)]
    result = Assembler(200, TiktokenCounter()).assemble(given_contexts)
    assert [citation.content for citation in result.citations] == ["best", "small"]
    assert [(drop.score, drop.reason) for drop in result.dropped] == [
        (0.8, "does not fit into 200 tokens")
    ]
    assert result.truncated_count == 1


def test_the_budget_is_used() -> None:
    """Packing leaves no room in which another passage of the same size would fit."""
    counter = TiktokenCounter()
    given_contexts = [context(f"Passage {number} of the handbook.") for number in range(100)]
    result = Assembler(1000, counter).assemble(given_contexts)
    assert 970 <= result.total_tokens <= 1000


@pytest.mark.parametrize("counter", [EstimateCounter(), TiktokenCounter()])
def test_the_best_is_cut_rather_than_nothing(counter: TokenCounter) -> None:
    """If no passage fits, the best is cut at the end of a sentence, and the result says so."""
    result = Assembler(150, counter).assemble([context(SENTENCES, 0.9), context(f"x {SENTENCES}")])
    assert result.cut
    assert result.total_tokens <= 150
    assert result.citations[0].content.endswith("something. …")
    assert SENTENCES.startswith(result.citations[0].content.removesuffix(" …"))
    assert result.truncated_count == 1


def test_without_sentences_words_are_kept_whole() -> None:
    """A text without sentence ends is cut at the end of a word."""
    result = Assembler(100).assemble([context("alpha beta gamma " * 200)])
    assert result.citations[0].content.removesuffix(" …").split()[-1] in {"alpha", "beta", "gamma"}


def test_without_words_it_is_cut_anyway() -> None:
    """A text without spaces is cut between characters."""
    result = Assembler(100, TiktokenCounter()).assemble([context("漢" * 3000)])
    assert result.cut
    assert result.total_tokens <= 100


def test_a_budget_too_small_for_anything() -> None:
    """If not even a cut passage fits, the context is empty, and every passage has its reason."""
    result = Assembler(40, TiktokenCounter()).assemble([context(SENTENCES), context("short")])
    assert (result.context, result.total_tokens, result.citations) == ("", 0, [])
    assert [drop.reason for drop in result.dropped] == ["does not fit into 40 tokens"] * 2


def test_duplicates_appear_once() -> None:
    """Texts that differ only in whitespace are shown once; the other names its duplicate."""
    twice = [context("a  b\nc", 0.9), context("other", 0.8), context("a b c", 0.7, uri="b.md")]
    result = Assembler().assemble(twice, first_marker=5)
    assert [citation.marker for citation in result.citations] == ["[5]", "[6]"]
    assert [(drop.uri, drop.reason) for drop in result.dropped] == [("b.md", "duplicate of [5]")]
    assert result.truncated_count == 0


def test_nothing_given() -> None:
    """Without passages, or with only empty ones, the context is empty and has no tokens."""
    assert Assembler(label="Docs").assemble([]).total_tokens == 0
    result = Assembler().assemble([context(" \n\u200b")])
    assert (result.context, [drop.reason for drop in result.dropped]) == ("", ["no text"])


def test_a_negative_budget_is_refused() -> None:
    """A budget below zero is refused."""
    with pytest.raises(UsageError, match="negative"):
        Assembler(-1)


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_passages_are_cited_as_they_are(hostile: str) -> None:
    """A hostile passage gets at most its own citation, and adds none for others."""
    result = Assembler().assemble([context("good", 0.9), context(hostile, 0.5, title=hostile)])
    assert [passage.marker for passage in parse(result.context)] == [
        citation.marker for citation in result.citations
    ]
    assert "[9]" not in [citation.marker for citation in result.citations]
    assert check("[9]", result.citations).unknown == ["[9]"]


def test_fifty_long_passages_are_counted_once() -> None:
    """Each passage is counted once, and the whole block only a few times, close to the budget."""
    counter = Counting(TiktokenCounter())
    many = [context(f"{number} {SENTENCES}", 1 / (number + 1)) for number in range(50)]
    assert len(Assembler(60_000, counter).assemble(many).citations) > 10
    assert len(counter.lengths) < 60
    assert sum(counter.lengths) < 4 * sum(len(context.content) for context in many)


def test_simple_assembly() -> None:
    """The simple helper joins texts with a separator, in the given order."""
    assert assemble_simple([context("a", 0.1), context("b", 0.9)]) == "a\n\n---\n\nb"
