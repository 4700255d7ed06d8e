"""Choosing quotes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lorebind_prompts import Passage
from lorebind_prompts.quoting import choose

from .helpers import comes_to_an_end, texts


@pytest.mark.parametrize(
    ("question", "answer", "other"),
    [
        ("How do I declare queries?", "A query is declared so.", "The moon is round and cold."),
        (
            "What is max_tokens?",
            "The limit is `max_tokens`, in words of the model.",
            "The default is 5, and it is a maximum.",
        ),
        (
            "Wie wird das Haus beheizt?",
            "Die Häuser sind seit dem Jahr 1990 mit Gas beheizt.",
            "Das Dach ist aus Holz, und es wird nicht gestrichen.",
        ),
        ("東京へ行きましたか", "東京タワーへ行きました。", "猫が好きです。"),
    ],
)
def test_forms_of_a_word_are_one(question: str, answer: str, other: str) -> None:
    """A question and a passage share the words that the index of their language would find."""
    passages = [Passage("[1]", "a.md", f"{other} {answer}")]
    assert [quote.units[0].text for quote in choose(question, passages)] == [answer]


def test_passages_in_several_languages() -> None:
    """The words of the question are compared in the language of each passage."""
    passages = [
        Passage("[1]", "a.md", "The engines of the boats have been running all day, as they do."),
        Passage("[2]", "b.md", "Die Katze ist nicht in dem Haus, und sie wird auch nicht kommen."),
    ]
    for question, marker in (("When does the engine run?", "[1]"), ("Haus der Katze?", "[2]")):
        assert [quote.marker for quote in choose(question, passages)] == [marker]


def test_other_passages_only_if_comparably_good() -> None:
    """A clearly better passage is quoted alone, an equally good one next to the first."""
    good = Passage("[1]", "a.md", "Rotate the signing keys once in a week.")
    weak = Passage("[2]", "b.md", "The keys of the piano are mostly white in colour.")
    equal = Passage("[3]", "c.md", "To rotate signing keys, call the admin endpoint first.")
    question = "How do I rotate signing keys?"
    assert [quote.marker for quote in choose(question, [good, weak])] == ["[1]"]
    assert {quote.marker for quote in choose(question, [good, weak, equal])} == {"[1]", "[3]"}


def test_the_limits_hold() -> None:
    """Quotes and characters stay within their limits, but one long sentence is quoted in full."""
    text = " ".join(
        f"Keys are rotated on day {number} by hand number {number}." for number in range(20)
    )
    passages = [Passage("[1]", "keys.md", text)]
    quotes = choose("keys rotated", passages, max_quotes=3, max_characters=100)
    assert 1 <= len(quotes) <= 3
    assert sum(len(unit.text) for quote in quotes for unit in quote.units) <= 100
    long = [Passage("[1]", "keys.md", "Keys are rotated " + "very " * 300 + "often.")]
    assert len(choose("keys rotated", long)[0].units[0].text) > 600


@settings(deadline=None)
@given(texts, st.lists(texts, max_size=4))
def test_any_question_gets_an_answer(question: str, contents: list[str]) -> None:
    """Choosing never fails, and returns quotes of the given passages only."""
    passages = [Passage(f"[{at}]", "a.md", text) for at, text in enumerate(contents, 1)]
    assert {quote.marker for quote in choose(question, passages)} <= {
        passage.marker for passage in passages
    }


def test_hostile_markup_takes_linear_time() -> None:
    """A passage made to slow down a parser is split in linear time."""
    long = {
        "a": 200_000,
        "`": 200_000,
        "[": 200_000,
        "<a": 200_000,
        "| ": 100_000,
        ". ": 100_000,
        "![](": 100_000,
        "{ #": 100_000,
        "*_": 100_000,
        "` `` ": 40_000,
        "[a](": 100_000,
    }
    comes_to_an_end(
        "from lorebind_prompts import Passage\n"
        "from lorebind_prompts.quoting import choose\n"
        "for text, times in long.items():\n"
        "    choose('a', [Passage('[1]', 'a.md', text * times)])\n",
        long=long,
    )
