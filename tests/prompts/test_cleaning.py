"""Foreign text that is made safe to show."""

from __future__ import annotations

import re
import sys
import unicodedata

import pytest
from hypothesis import given, settings

from lorebind_prompts.cleaning import clean_line, clean_text

from .helpers import texts
from .hostile import INVISIBLE, LINE_BREAKS


@pytest.mark.parametrize("line_break", LINE_BREAKS)
def test_every_line_break_is_one(line_break: str) -> None:
    """Every kind of line break becomes `\\n`."""
    assert clean_text(f"a{line_break}b") == "a\nb"


@settings(deadline=None)
@given(texts)
def test_cleaning_twice_is_cleaning_once(text: str) -> None:
    """Cleaning a cleaned text changes nothing, and a cleaned line is one line."""
    assert clean_text(clean_text(text)) == clean_text(text)
    line = clean_line(text)
    assert clean_line(line) == line
    assert len(line.splitlines()) <= 1
    assert len(line) <= 200


def test_joiners_stay_and_controls_go() -> None:
    """Emoji and Persian keep their joiners; directions, zero widths and tags are removed."""
    family = "\U0001f469\u200d\U0001f467 می\u200cخواهم"
    assert clean_text(family) == family
    assert clean_text("a\u202eb\u200bc\u2066d\ufeffe\U000e0041f\x00g\x1bh") == "abcdefgh"
    assert clean_line("a \u200d b") == "a b"


def test_nothing_that_unicode_calls_invisible_stays() -> None:
    """Controls, formats and selectors are removed, except those that are drawn."""
    drawn = re.compile("ARABIC .*|SYRIAC .*|KAITHI .*|EGYPTIAN .*")
    for code in range(sys.maxunicode + 1):
        char = chr(code)
        name = unicodedata.name(char, "")
        hidden = unicodedata.category(char) in ("Cf", "Cc") and char not in "\t\n"
        hidden |= "VARIATION SELECTOR" in name or ("HANGUL" in name and "FILLER" in name)
        breaks = char in LINE_BREAKS
        if hidden and not breaks and (code == 0x61C or not drawn.fullmatch(name)):
            assert clean_text(f"a{char}b") == "ab", hex(code)
    for char in INVISIBLE:
        assert clean_text(f"a{char}b") == clean_line(f"a{char}b") == "ab"
        assert clean_text(f"<{char}|im{char}_start|>") == "< |im_start|>"


@pytest.mark.parametrize(
    "text",
    [
        "\u2764\ufe0f\u200d\U0001f525 \u2122\ufe0f 1\ufe0f\u20e3 #\ufe0f\u20e3 \u203c\ufe0f",
        "\U0001f469\U0001f3fd\u200d\U0001f9b0 \U0001f3f3\ufe0f\u200d\U0001f308 \u2194\ufe0f",
        "می\u200cخواهم ۱۰\u200cتایی",
        "क\u094d\u200dष \u0d28\u0d4d\u200d \u0dc1\u0dca\u200d\u0dbb\u0dd3",
    ],
)
def test_what_writing_needs_stays(text: str) -> None:
    """Emoji sequences, keycaps, and the joiners of Persian and Indic scripts stay."""
    assert clean_text(text) == text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("葛\U000e0100城", "葛城"),
        ("ab\ufe0f 1\ufe0f <\ufe0f \uff5c\u200d", "ab 1 < \uff5c"),
        ("\u2764\ufe0f\ufe0f\ufe0e\u200d\u200d\u200c!", "\u2764\ufe0f\u200d!"),
        ("م\u200b\u200c\u200cخ", "م\u200cخ"),
        ("\ufe0f\u200dstart", "start"),
    ],
)
def test_more_than_writing_needs_goes(text: str, left: str) -> None:
    """Selectors and joiners are removed after characters that take none, and if repeated."""
    assert clean_text(text) == left


def test_indentation_of_the_first_line_stays() -> None:
    """Blank lines around a text are removed, but the indentation of code stays."""
    assert clean_text("\n \n    x = 1\n      y\n\n") == "    x = 1\n      y"
