"""The context assembler."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lorebind_knowledge.errors import UsageError
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
    """Whatever is given: the budget holds, nothing is lost, order is stable, ids are unique."""
    maker = Assembler(budget, counter, renderer, label)
    result = maker.assemble(given_contexts, first_marker=first)
    assert maker.assemble(given_contexts, first_marker=first) == result
    assert result.total_tokens == counter.count(result.context) <= budget
    assert len(result.citations) + len(result.dropped) == len(given_contexts)
    assert bool(result.context) == bool(result.citations)
    ids = [one.id for one in result.citations if one.id]
    assert len(ids) == len(set(ids))
    assert [one.marker for one in result.citations] == [
        f"[{first + at}]" for at in range(len(result.citations))
    ]
    shown = [(one.marker, one.content) for one in result.citations]
    read = parse(result.context)
    assert [one.marker for one in read] == [marker for marker, _ in shown]
    if renderer not in ("markdown", *TEMPLATES):  # those do not write blank ends of lines
        assert [(one.marker, one.content) for one in read] == shown
    assert (result.counter, result.exact) == (counter.name, counter.exact)
    ranked = sorted(given_contexts, key=lambda one: -one.score)
    if not result.cut:
        order = iter([clean_text(one.content) for one in ranked])
        assert all(content in order for _, content in shown)
    reasons = [one.reason for one in result.dropped]
    assert result.truncated_count == sum(reason.startswith("does not fit") for reason in reasons)


def test_best_first_and_ties_as_given() -> None:
    """Passages stand by score, equal ones in the order in which they came."""
    given_contexts = [context("b", 0.5), context("c", 0.5), context("a", 0.9), context("d", 0.1)]
    result = Assembler().assemble(given_contexts)
    assert [one.content for one in result.citations] == ["a", "b", "c", "d"]
    assert not result.dropped
    assert not result.cut


def test_a_smaller_passage_still_fits() -> None:
    """What does not fit is left out and counted, a smaller one after it is taken."""
    given_contexts = [context("best", 0.9), context(SENTENCES, 0.8), context("small", 0.1)]
    result = Assembler(200, TiktokenCounter()).assemble(given_contexts)
    assert [one.content for one in result.citations] == ["best", "small"]
    assert [(one.score, one.reason) for one in result.dropped] == [
        (0.8, "does not fit into 200 tokens")
    ]
    assert result.truncated_count == 1


def test_the_budget_is_used() -> None:
    """Packing leaves no room in which another passage of the same size would have fitted."""
    counter = TiktokenCounter()
    given_contexts = [context(f"Passage {number} of the handbook.") for number in range(100)]
    result = Assembler(1000, counter).assemble(given_contexts)
    assert 970 <= result.total_tokens <= 1000


@pytest.mark.parametrize("counter", [EstimateCounter(), TiktokenCounter()])
def test_the_best_is_cut_rather_than_nothing(counter: TokenCounter) -> None:
    """When no passage fits, the best is cut at the end of a sentence, and the result says so."""
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
    """A text without blanks is cut between characters."""
    result = Assembler(100, TiktokenCounter()).assemble([context("漢" * 3000)])
    assert result.cut
    assert result.total_tokens <= 100


def test_a_budget_too_small_for_anything() -> None:
    """Where not even a cut has room there is no context, and every passage has its reason."""
    result = Assembler(40, TiktokenCounter()).assemble([context(SENTENCES), context("short")])
    assert (result.context, result.total_tokens, result.citations) == ("", 0, [])
    assert [one.reason for one in result.dropped] == ["does not fit into 40 tokens"] * 2


def test_duplicates_appear_once() -> None:
    """The same text, but for its blanks, is shown once; the other says of which it is one."""
    twice = [context("a  b\nc", 0.9), context("other", 0.8), context("a b c", 0.7, uri="b.md")]
    result = Assembler().assemble(twice, first_marker=5)
    assert [one.marker for one in result.citations] == ["[5]", "[6]"]
    assert [(one.uri, one.reason) for one in result.dropped] == [("b.md", "duplicate of [5]")]
    assert result.truncated_count == 0


def test_nothing_given() -> None:
    """Without passages, or with empty ones only, the context is empty and costs nothing."""
    assert Assembler(label="Docs").assemble([]).total_tokens == 0
    result = Assembler().assemble([context(" \n\u200b")])
    assert (result.context, [one.reason for one in result.dropped]) == ("", ["no text"])


def test_a_negative_budget_is_refused() -> None:
    """A budget below zero cannot be meant."""
    with pytest.raises(UsageError, match="negative"):
        Assembler(-1)


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_passages_are_cited_as_they_are(hostile: str) -> None:
    """A hostile passage gets its own citation at most, and makes none for others."""
    result = Assembler().assemble([context("good", 0.9), context(hostile, 0.5, title=hostile)])
    assert [one.marker for one in parse(result.context)] == [one.marker for one in result.citations]
    assert "[9]" not in [one.marker for one in result.citations]
    assert check("[9]", result.citations).unknown == ["[9]"]


def test_fifty_long_passages_are_counted_once() -> None:
    """Each passage is counted by itself, and the whole block a few times, at the budget's edge."""
    counter = Counting(TiktokenCounter())
    many = [context(f"{number} {SENTENCES}", 1 / (number + 1)) for number in range(50)]
    assert len(Assembler(60_000, counter).assemble(many).citations) > 10
    assert len(counter.asked) < 60
    assert sum(counter.asked) < 4 * sum(len(one.content) for one in many)


def test_simple_assembly() -> None:
    """The simple helper joins texts with a rule, in the order given."""
    assert assemble_simple([context("a", 0.1), context("b", 0.9)]) == "a\n\n---\n\nb"
