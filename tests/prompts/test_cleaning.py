"""Text that others wrote, made harmless to show."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from lorebind_prompts.cleaning import clean_line, clean_text

from .helpers import texts
from .hostile import LINE_BREAKS


@pytest.mark.parametrize("line_break", LINE_BREAKS)
def test_every_line_break_is_one(line_break: str) -> None:
    """Whatever ends a line somewhere ends it as `\\n` here."""
    assert clean_text(f"a{line_break}b") == "a\nb"


@settings(deadline=None)
@given(texts)
def test_cleaning_twice_is_cleaning_once(text: str) -> None:
    """What is clean stays as it is, and a clean line is one line."""
    assert clean_text(clean_text(text)) == clean_text(text)
    line = clean_line(text)
    assert clean_line(line) == line
    assert len(line.splitlines()) <= 1
    assert len(line) <= 200


def test_joiners_stay_and_controls_go() -> None:
    """Emoji and Persian keep their joiners; direction, zero width and tags are taken out."""
    family = "\U0001f469\u200d\U0001f467 می\u200cخواهم"
    assert clean_text(family) == family
    assert clean_text("a\u202eb\u200bc\u2066d\ufeffe\U000e0041f\x00g\x1bh") == "abcdefgh"
    assert clean_line("a \u200d b") == "a b"


def test_indentation_of_the_first_line_stays() -> None:
    """Blank lines around a text go, the indentation of code does not."""
    assert clean_text("\n \n    x = 1\n      y\n\n") == "    x = 1\n      y"
