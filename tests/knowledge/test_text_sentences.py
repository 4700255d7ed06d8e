"""Splitting texts into sentences."""

from __future__ import annotations

import pytest

from lorebind_knowledge.text.splitting import sentence_breaks, split_sentences


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("Use e.g. Redis. Then go.", ["Use e.g. Redis.", "Then go."]),
        ("Call `f. X()` now. **Bold** next.", ["Call `f. X()` now.", "**Bold** next."]),
        ("Version 3.11 is fine.", ["Version 3.11 is fine."]),
        ("使用它。然后继续。", ["使用它。", "然后继续。"]),
        ("...", []),
        ("Run it. `main` is next.", ["Run it.", "`main` is next."]),
        ("A \\` is no code. `Then` is.", ["A \\` is no code.", "`Then` is."]),
    ],
)
def test_sentences(text: str, sentences: list[str]) -> None:
    """Sentences end where a reader sees their end, not at every full stop."""
    assert split_sentences(text) == sentences


def test_white_space_belongs_to_no_sentence() -> None:
    """A break is where a sentence ends and where the next one begins."""
    text = "x. One.\n\n  Two! Three"
    assert list(sentence_breaks(text, 3, len(text))) == [(7, 11), (15, 16)]
